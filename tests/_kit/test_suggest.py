"""The closest known names."""

from tidings._kit.suggest import closest, did_you_mean, letters, question, there_are


def test_the_closest_come_first_and_no_more_than_were_asked_for() -> None:
    names = ["notes", "vault", "note", "web"]
    assert closest("noets", names) == ["notes"]
    assert closest("noets", names, most=2) == ["notes", "note"]
    assert closest("nothing of this", names) == []


def test_case_does_not_matter_unless_the_key_says_so() -> None:
    assert closest("WEB", ["vault", "web"]) == ["web"]
    assert closest("WEB", ["vault", "web"], key=str) == []


def test_letters_ignore_the_way_in_which_words_are_joined() -> None:
    assert closest("ifMatch", ["if_match", "none"], key=letters, cutoff=1) == ["if_match"]


def test_names_without_end_are_not_compared() -> None:
    assert closest("a" * 10**6, ["a" * 10**6, "b"]) == []
    assert closest("note", [*["x"] * 2_000, "notes"]) == []
    assert closest("note", [*["x"] * 2_000, "notes"], among=3_000) == ["notes"]


def test_sentences_follow_another() -> None:
    assert did_you_mean("noets", ["notes", "note"], most=2) == " Did you mean 'notes' or 'note'?"
    assert did_you_mean("noets", ["notes"], show=str) == " Did you mean notes?"
    assert did_you_mean("zzz", ["notes"]) == question([]) == ""
    assert question(["a", "b", "c"]) == " Did you mean 'a', 'b' or 'c'?"


def test_all_names_are_listed_up_to_a_limit() -> None:
    assert there_are(["a", "b"]) == " There are: a, b."
    assert there_are("abcd", most=2) == " There are: a, b and 2 more."
    assert there_are(map(str, range(20)), most=None).endswith(", 19.")
    assert there_are([]) == " There are none."
