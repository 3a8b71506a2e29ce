"""How much of a text fits into an answer, and where it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.web.documents.budget import estimate, fit, shares

TEXT = "\n\n".join(f"Paragraph {number}. It has some words. It ends here." for number in range(50))


def test_a_text_that_fits_is_not_cut() -> None:
    part = fit(TEXT, 100_000)
    assert (part.text, part.start, part.end, part.left) == (TEXT, 0, len(TEXT), 0)


def test_a_text_that_does_not_fit_is_cut_after_a_paragraph() -> None:
    part = fit(TEXT, 100)
    assert estimate(part.text) <= 100
    assert part.text.endswith("ends here.\n\n")
    assert part.left == len(TEXT) - part.end > 0


def test_a_text_without_places_to_cut_is_cut_anyway() -> None:
    part = fit("x" * 10_000, 10)
    assert 0 < len(part.text) < 100
    assert fit("word " * 1000, 10).text.endswith(" ")


@given(st.text(max_size=2000), st.integers(1, 300))
def test_parts_that_follow_each_other_are_the_whole_text(text: str, room: int) -> None:
    parts, start = [], 0
    for _ in range(len(text) + 1):
        part = fit(text, room, start)
        parts.append(part.text)
        start = part.end
        if not part.left:
            break
    assert "".join(parts) == text


def test_a_start_behind_the_end_is_the_end() -> None:
    assert fit("abc", 10, 99) == ("", 3, 3, 3)
    assert fit("abc", 10, -5).text == "abc"


def test_what_a_short_text_does_not_need_is_the_others() -> None:
    assert shares([10, 1000, 1000], 300) == [10, 145, 145]
    assert shares([10, 20], 300) == [10, 20]
    assert shares([], 300) == []


@given(st.lists(st.integers(0, 10_000), max_size=20), st.integers(0, 20_000))
def test_no_more_is_shared_than_there_is(sizes: list[int], room: int) -> None:
    given = shares(sizes, room)
    assert sum(given) <= room
    assert all(share <= size for share, size in zip(given, sizes, strict=True))
