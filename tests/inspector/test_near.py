"""What was meant by a name that there is not."""

from tidings.inspector.near import near


def test_the_nearest_come_first_and_no_more_than_were_asked_for() -> None:
    names = ["notes", "vault", "note", "web"]
    assert near("noets", names) == ["notes"]
    assert near("noets", names, most=2) == ["notes", "note"]
    assert near("nothing of this", names) == []


def test_a_name_in_other_letters_is_near() -> None:
    assert near("WEB", ["vault", "web"]) == ["web"]


def test_names_without_end_are_not_looked_at() -> None:
    assert near("a" * 10**6, ["a" * 10**6, "b"]) == []
    assert near("note", [*["x"] * 2_000, "notes"]) == []
