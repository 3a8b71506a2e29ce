"""Chunks: nothing lost, nothing over the budget, and cut where a reader would cut."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.web.documents.budget import estimate
from tidings.web.documents.chunk import SMALLEST, Strategy, chunk, pieces_of
from tidings.web.documents.markdown import blocks_of
from tidings.web.documents.model import Chunk

STRATEGIES: tuple[Strategy, ...] = ("headings_first", "balanced")
WORDS = st.sampled_from(
    ["word", "antidisestablishmentarianism", "12345", "漢字かな", "😀", "e\u0301", "x" * 200, "|", "."]
)
LINE = st.one_of(
    st.lists(WORDS, max_size=40).map(" ".join),
    st.sampled_from(["", "# One", "## Two", "### Three", "```", "- item", "| a | b |", "| - | - |", "> q", "    code"]),
)
CONTENT = st.one_of(
    st.lists(LINE, max_size=30).map("\n".join), st.text(max_size=300), WORDS.map(lambda word: word * 60)
)


def texts(chunks: list[Chunk]) -> list[str]:
    return [one["text"] for one in chunks]


@given(CONTENT, st.integers(SMALLEST, 200), st.sampled_from(STRATEGIES))
@example("## \n\n" * 30, 16, "headings_first")
@example("# a\n" * 30, 16, "balanced")
@example("a 1" * 60, 16, "balanced")
def test_joined_chunks_are_the_content_and_each_fits(content: str, budget: int, strategy: Strategy) -> None:
    chunks = chunk("s", content, max_tokens=budget, margin_ratio=0, strategy=strategy)
    assert "".join(texts(chunks)) == content
    end = 0
    for number, one in enumerate(chunks):
        assert one["chunk_id"] == f"s:c{number}"
        assert one["start_char"] == end
        end = one["end_char"]
        assert content[one["start_char"] : end] == one["text"]
        assert 0 < one["est_tokens"] == estimate(one["text"]) <= budget
    assert end == len(content)


@given(CONTENT, st.floats(1, 100))
def test_joined_pieces_are_the_content_and_only_a_character_is_too_heavy(content: str, heaviest: float) -> None:
    pieces = pieces_of(content, heaviest)
    assert "".join(content[one.start : one.end] for one in pieces) == content
    assert all(one.weight <= heaviest or one.end == one.start + 1 for one in pieces)


def test_the_margin_is_kept_free() -> None:
    content = "\n\n".join(f"Paragraph number {number} says a few words and ends." for number in range(300))
    full = chunk("s", content, max_tokens=500, margin_ratio=0)
    spare = chunk("s", content, max_tokens=500)
    assert max(one["est_tokens"] for one in spare) <= 450 < max(one["est_tokens"] for one in full) <= 500


SECTIONS = "\n\n".join(
    [
        *("Before.", "# Guide", "Opening words."),
        *("## Install", "Run it. " * 20, "### Linux", "Use the package. " * 10),
        *("## Use", "Call it. " * 20, "# Notes", "The end. " * 30),
    ]
)


def test_a_section_stays_together_where_it_fits() -> None:
    chunks = chunk("s", SECTIONS, max_tokens=95, margin_ratio=0)
    assert [one["text"].split("\n")[0] for one in chunks] == ["Before.", "## Install", "## Use", "# Notes"]
    assert [one["headings_path"] for one in chunks] == ["", "Guide > Install", "Guide > Use", "Notes"]


def test_small_sections_share_a_chunk_that_is_named_by_what_they_share() -> None:
    content = "# All\n\n" + "".join(f"## Part {number}\n\nA line.\n\n" for number in range(30))
    chunks = chunk("s", content, max_tokens=60, margin_ratio=0)
    assert 1 < len(chunks) < 20
    assert {one["headings_path"] for one in chunks[:-1]} == {"All"}
    assert all(one["text"].startswith(("# ", "## ")) for one in chunks)


def test_sections_that_share_no_heading_have_no_path() -> None:
    (one,) = chunk("s", "# A\n\nx\n\n# B\n\ny")
    assert one["headings_path"] == ""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_chunk_ends_with_a_heading(strategy: Strategy) -> None:
    content = "".join(f"## Part {number}\n\n{'Some words in it. ' * (number % 7 + 1)}\n\n" for number in range(60))
    for size in range(40, 120, 7):
        for one in chunk("s", content, max_tokens=size, margin_ratio=0, strategy=strategy)[:-1]:
            assert blocks_of(one["text"])[-1].kind != "heading"


def test_balanced_chunks_are_of_about_the_same_size() -> None:
    content = "\n\n".join("A sentence of some words stands here. " * (1 + number % 5) for number in range(100))
    chunks = chunk("s", content, max_tokens=700, strategy="balanced")
    sizes = [one["est_tokens"] for one in chunks]
    assert max(sizes) < 1.25 * min(sizes)
    assert len(chunks) <= -(-estimate(content) // 630) + 1


def test_balanced_chunks_begin_with_a_heading_where_one_is_near() -> None:
    content = "".join(f"# Part {number}\n\n{'Some words are in it. ' * 18}\n\n" for number in range(12))
    chunks = chunk("s", content, max_tokens=250, margin_ratio=0, strategy="balanced")
    assert all(one["text"].startswith("# ") for one in chunks)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_and_lines_of_code_stay_whole(strategy: Strategy) -> None:
    table = "| name | value |\n| --- | --- |\n" + "".join(f"| row {n} | {n * 7} |\n" for n in range(200))
    code = "```\n" + "".join(f"value_{n} = compute({n}, 'text')\n" for n in range(200)) + "```\n"
    lines = set((table + "\n" + code).split("\n"))
    for one in chunk("s", table + "\n" + code, max_tokens=100, strategy=strategy):
        assert set(one["text"].split("\n")) <= lines


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_words_stay_whole_in_a_line_that_is_too_long(strategy: Strategy) -> None:
    words = [f"word{chr(97 + n % 26)}" for n in range(5_000)]
    chunks = chunk("s", " ".join(words), max_tokens=100, strategy=strategy)
    assert [word for one in chunks for word in one["text"].split()] == words


def test_a_long_line_is_parted_between_sentences_if_it_can_be() -> None:
    content = "This is one sentence of a long line. " * 200
    assert all(one["text"].rstrip().endswith(".") for one in chunk("s", content, max_tokens=100))


def test_what_has_no_words_is_cut_but_never_between_a_letter_and_its_accent() -> None:
    chunks = chunk("s", "e\u0301" * 2_000, max_tokens=50)
    assert not any(one["text"].startswith("\u0301") for one in chunks)


@pytest.mark.parametrize(
    "unit", ["a", "\n", "a\n\n", "# a\n", " ", "a 1 ", "漢", "😀", "| a ", "```\n", "- a\n", "a\u0301"]
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_long_text_of_one_thing_is_cut_in_one_pass(unit: str, strategy: Strategy) -> None:
    content = unit * (60_000 // len(unit))
    assert "".join(texts(chunk("s", content, strategy=strategy))) == content


def test_nothing_has_no_chunks() -> None:
    assert chunk("s", "") == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_tokens": 10}, "max_tokens"),
        ({"max_tokens": 4000, "margin_ratio": 0.999}, "max_tokens"),
    ],
)
def test_a_budget_that_is_none_is_refused_with_what_to_give(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        chunk("s", "text", **options)  # type: ignore[arg-type]
