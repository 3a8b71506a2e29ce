"""Contents made to fit: nothing invented, nothing over the budget, and what is missing is told."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.web.documents import compact as compact_module
from tidings.web.documents.budget import estimate
from tidings.web.documents.chunk import chunk
from tidings.web.documents.compact import Mode, compact
from tidings.web.documents.model import Compacted

MODES: tuple[Mode, ...] = get_args(Mode)
SMALLEST = 50  # The fewest tokens that the tool takes.
SECTIONS = {
    "Harbour": [
        "The harbour of the town was dredged in spring so that larger boats can come in again.",
        "Work on the harbour basin began after the winter storms had filled it with sand.",
        "The harbour master, Edda Brandt, calls the harbour the heart of the town.",
    ],
    "Ferries": [
        "The ferry to the island leaves in the morning and again at noon.",
        "A ferry is a boat that carries people and goods across water on a fixed route.",
        "Tickets for the ferry are sold in the office on the quay beside the old crane.",
    ],
    "Fishing": [
        "Fishing boats land herring and cod on the northern quay before dawn.",
        "Last year they landed 4,210 tons of herring, the most since 1987.",
        "Buyers wait in the hall and bid for each crate with a nod.",
    ],
    "Weather": [
        "Fog is common in autumn and can keep the harbour closed for a day.",
        "The mast on the mole shows a red ball when no boat may leave.",
        "Storms come from the west and last two days as a rule.",
    ],
}
CONTENT = "# The town by the sea\n\n" + "\n\n".join(
    f"## {name}\n\n{' '.join(said)}\n\n- {name} item one of the list\n- {name} item two of the list"
    for name, said in SECTIONS.items()
)
LONG = (
    CONTENT + "\n\n" + "\n\n".join(f"## Extra {n}\n\n{'More words about nothing much here. ' * 5}" for n in range(30))
)
SENTENCES = [one for said in SECTIONS.values() for one in said]


def everything(one: Compacted) -> str:
    return "\n".join(
        [one["summary"], *one["key_points"], *(q["text"] for q in one["important_quotes"]), *one["omissions"]]
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [SMALLEST, 120, 300, 1_000])
def test_the_budget_is_kept_and_nothing_is_invented(mode: Mode, size: int) -> None:
    one = compact(LONG, max_tokens=size, mode=mode, question="When does the ferry leave?")
    assert estimate(everything(one)) == one["est_tokens"] <= size
    assert one["summary"]
    for line in one["summary"].split("\n\n"):
        assert all(part.strip() in LONG for part in line.replace(". ", ".\n").split("\n"))
    assert all(point in LONG for point in one["key_points"])
    for quote in one["important_quotes"]:
        assert LONG[quote["loc"]["start_char"] : quote["loc"]["end_char"]] == quote["text"]
        assert "chunk_id" not in quote


WORDS = st.sampled_from(
    ["# Head", "Words. ", "A long sentence of words.", "- item", "\n\n", "\n", "```", "| a |", "漢字。", "1"]
)


@given(st.lists(WORDS, max_size=60).map(" ".join), st.integers(SMALLEST, 300), st.sampled_from(MODES))
@settings(max_examples=150, deadline=None)
def test_any_content_fits_any_budget(content: str, size: int, mode: Mode) -> None:
    one = compact(content, max_tokens=size, mode=mode, question="words")
    assert estimate(everything(one)) <= size


@pytest.mark.parametrize("mode", ["structural", "salience"])
def test_what_fits_is_given_whole(mode: Mode) -> None:
    one = compact(CONTENT, max_tokens=5_000, mode=mode)
    assert one["summary"] == CONTENT
    assert one["omissions"] == one["warnings"] == []


def test_structural_keeps_the_headings_and_a_word_on_each() -> None:
    one = compact(CONTENT, max_tokens=300, mode="structural")
    for name, said in SECTIONS.items():
        assert f"## {name}" in one["summary"]
        assert any(sentence in one["summary"] for sentence in said)


def test_structural_keeps_fewer_levels_if_all_do_not_fit() -> None:
    content = "\n\n".join(
        f"# Part {n}\n\n" + "\n\n".join(f"## Sub {n}.{m} of it\n\nWords here." for m in range(40)) for n in range(4)
    )
    one = compact(content, max_tokens=120, mode="structural")
    assert "# Part 3" in one["summary"]
    assert "## Sub" not in one["summary"]


def test_a_question_is_answered_by_what_speaks_of_it() -> None:
    one = compact(CONTENT, max_tokens=130, mode="question_focused", question="How many tons of herring were landed?")
    assert "4,210 tons of herring" in one["summary"]
    assert "ferry" not in one["summary"].lower()


def test_what_follows_an_answer_may_come_with_it() -> None:
    one = compact(CONTENT, max_tokens=200, mode="question_focused", question="red ball")
    assert "red ball" in one["summary"]
    assert "Fog is common" in one["summary"] or "Storms come" in one["summary"]


def test_a_question_that_nothing_speaks_of_is_said_to_be_one() -> None:
    one = compact(CONTENT, max_tokens=200, mode="question_focused", question="quantum chromodynamics")
    assert one["summary"]
    assert "Nothing in the text matches the question" in one["warnings"][0]["message"]


def test_a_question_in_japanese_finds_its_sentence() -> None:
    content = "今日は天気がいい。港の船は八時に出ます。魚は市場で売られます。" + "別の話もたくさんあります。" * 40
    one = compact(content, max_tokens=120, mode="question_focused", question="船はいつ出ますか")
    assert "港の船は八時に出ます。" in one["summary"]


FILLER = [
    "The quay is lined with old houses, and the houses look at the water.",
    "Behind the houses a street leads from the quay up to the market.",
    "Boats lie along the quay, and gulls sit on the boats and wait.",
    "In the evening people walk along the quay and look at the boats.",
    "The market sells fish from the boats, bread from the street and wool.",
    "Gulls follow the fish from the boats to the market and back again.",
    "Children run down the street to the water when the boats come home.",
    "Old people sit in front of the houses and watch the market close.",
    "At night the water beats against the quay and the boats knock together.",
    "The street is wet from the fish, and the gulls clean it before dawn.",
]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("numbers", "The crane lifts 40 tons at low tide and 35 at high tide."),
        ("dates", "On 4 May 1998 the lock was opened by the mayor in the rain."),
        ("names", "Later that week Ada Lovelace came to see the engines at work."),
        ("definitions", "A mole is a wall of stone that keeps the waves away."),
        ("procedures", "First, untie the rope and then push the boat from the wall."),
    ],
)
def test_what_is_to_be_preserved_is_preserved(name: str, kept: str) -> None:
    content = "\n\n".join([*FILLER[:6], kept, *FILLER[6:]])
    without = compact(content, max_tokens=80, mode="salience")
    with_it = compact(content, max_tokens=80, mode="salience", preserve=[name])
    assert kept not in without["summary"]
    assert kept in with_it["summary"]


def test_omissions_are_counted_and_named() -> None:
    code = CONTENT + "\n\n## Code\n\n```\nx = 1\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n> Said so."
    one = compact(code, max_tokens=220, mode="question_focused", question="herring")
    assert one["omissions"][0].startswith("Left out: ")
    assert "1 code block," in one["omissions"][0]
    assert "2 table rows" in one["omissions"][0]
    assert any("“The town by the sea > " in line or "further section" in line for line in one["omissions"])


def test_each_unit_is_either_given_or_counted_as_left_out() -> None:
    one = compact("\n\n".join(SENTENCES), max_tokens=150, mode="salience")
    given_ = sum(sentence in one["summary"] or sentence in one["key_points"] for sentence in SENTENCES)
    assert f"Left out: {len(SENTENCES) - given_} sentences." in one["omissions"]
    assert "Parts are missing from 1 section." in one["omissions"]


def test_what_stands_above_the_first_heading_can_be_left_out_too() -> None:
    content = "Words before any heading at all.\n\n# Herring\n\n" + "Herring is landed here. " * 3 + "More of it. " * 30
    one = compact(content, max_tokens=400, mode="question_focused", question="herring landed")
    assert "Nothing above the first heading is kept." in one["omissions"]


def test_what_is_too_long_to_be_looked_at_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_module, "_MOST", 5)
    one = compact("\n\n".join(SENTENCES), max_tokens=90, mode="salience")
    unread = len("\n\n".join(SENTENCES)) - len("\n\n".join(SENTENCES[:5]))
    assert f"The last {unread} characters were beyond the limit, and not read." in one["omissions"]
    assert not any(sentence in one["summary"] for sentence in SENTENCES[5:])
    all_kept = compact("\n\n".join(SENTENCES), max_tokens=250, mode="question_focused", question="harbour ferry")
    assert any("beyond the limit" in line for line in all_kept["omissions"])


def test_nothing_is_made_of_nothing() -> None:
    for mode in MODES:
        one = compact(" \n", max_tokens=100, mode=mode, question="what?")
        assert (one["summary"], one["key_points"], one["important_quotes"], one["omissions"]) == ("", [], [], [])


def test_chunks_are_compacted_like_the_content_they_come_from() -> None:
    chunks = chunk("s", LONG, max_tokens=100)
    whole = compact(LONG, max_tokens=300, mode="salience")
    parts = compact(list(reversed(chunks)), max_tokens=300, mode="salience")
    assert parts["summary"] == whole["summary"]
    for quote in parts["important_quotes"]:
        assert LONG[quote["loc"]["start_char"] : quote["loc"]["end_char"]] == quote["text"]
        (home,) = [one for one in chunks if one["chunk_id"] == quote.get("chunk_id")]
        assert home["start_char"] <= quote["loc"]["start_char"] < home["end_char"]


def test_chunks_with_gaps_between_them_keep_their_places_and_headings() -> None:
    chunks = chunk("s", LONG, max_tokens=100)[1::2]
    one = compact(chunks, max_tokens=200, mode="salience")
    for quote in one["important_quotes"]:
        assert LONG[quote["loc"]["start_char"] : quote["loc"]["end_char"]] == quote["text"]
    assert compact([], max_tokens=100, mode="salience")


def test_a_chunk_in_the_middle_of_a_section_is_named_by_it() -> None:
    chunks = chunk("s", "# Soup\n\n" + "Cut the leeks and carrots. " * 60, max_tokens=100)[2:4]
    one = compact(chunks, max_tokens=60, mode="question_focused", question="carrots soup")
    assert one["summary"].startswith("Cut the leeks")


@pytest.mark.parametrize(
    "unit", ["a", "a. ", "\n", "- a\n", "# a\n\n", "Word one two three. ", "漢字。", "| a |\n", "[a](b) "]
)
@pytest.mark.parametrize("mode", ["structural", "salience", "question_focused"])
def test_a_long_text_of_one_thing_is_compacted_in_one_pass(unit: str, mode: Mode) -> None:
    one = compact(unit * (60_000 // len(unit)), max_tokens=200, mode=mode, question="word")
    assert one["est_tokens"] <= 200
