"""Sentences: where they begin and end, and how much they say."""

# ruff: noqa: RUF001 - texts in many scripts

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.documents.markdown import Sections, blocks_of
from tidings.web.documents.sentences import PRESERVED, Salience, Sentence, sentences_of, stem, terms


def sentences(content: str) -> list[Sentence]:
    blocks = blocks_of(content)
    return list(sentences_of(content, blocks, Sections(content, blocks)))


def texts(content: str) -> list[str]:
    return [content[one.start : one.end] for one in sentences(content)]


@given(st.text(st.characters() | st.sampled_from(".!?。 \n-|#>[]ab"), max_size=200))
def test_sentences_stand_in_order_within_their_blocks(content: str) -> None:
    blocks = blocks_of(content)
    end = 0
    for one in sentences(content):
        assert end <= one.start < one.end
        assert blocks[one.block].start <= one.start
        assert one.end <= blocks[one.block].end
        end = one.end


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("Dr. Smith met J. R. Jones e.g. in No. 5.", ["Dr. Smith met J. R. Jones e.g. in No. 5."]),
        ("It cost 3.5 crowns. then more", ["It cost 3.5 crowns. then more"]),
        ('He said "Stop." And left.', ['He said "Stop."', "And left."]),
        ("See [the page. Now](https://e.org). End", ["See [the page. Now](https://e.org).", "End"]),
        ("第一句。第二句！「第三句？」完", ["第一句。", "第二句！", "「第三句？」", "完"]),
        ("- one. two\n  more\n- three\n\n1. four", ["- one. two\n  more", "- three", "1. four"]),
        ("| a | b |\n| - | - |\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        ("```\na. B\nc\n```", ["```\na. B\nc\n```"]),
        ("# Head. Line\n\n[x]: https://e.org", []),
        ("...... and so on", ["...... and so on"]),
    ],
)
def test_a_text_is_parted_into_what_it_says(content: str, found: list[str]) -> None:
    assert texts(content) == found


def test_what_never_ends_is_cut_between_words() -> None:
    content = "word " * 2_000
    assert all(len(one) <= 1_200 and set(one.split()) == {"word"} for one in texts(content))
    assert sum(len(one.split()) for one in texts(content)) == 2_000
    assert "".join(texts("x" * 5_000)) == "x" * 5_000


@pytest.mark.parametrize("unit", [".", "a. ", "[. ", "。", "- a\n", "? ", "a\n"])
def test_a_long_text_of_one_thing_is_parted_in_one_pass(unit: str) -> None:
    assert sentences(unit * (100_000 // len(unit)))


def test_forms_of_a_word_are_one_term() -> None:
    assert stem("booking") == stem("booked") == stem("books") == "book"
    assert terms("The 42 harbours 漢字文 été") == ["the", "42", "harbour", "漢字", "字文", "été"]


def test_what_the_text_speaks_of_says_more_than_what_it_does_not() -> None:
    content = (
        "The harbour basin is deep. Many boats lie in the harbour basin. My aunt likes strong black tea. "
        "The harbour office counts the boats. Boats pay the harbour office."
    )
    units = sentences(content)
    scores = Salience(content, units).scores
    assert content[units[2].start :].startswith("My aunt")
    assert min(scores) == scores[2]


@pytest.mark.parametrize(
    ("name", "kept", "other"),
    [
        ("numbers", "It weighs 40 tons.", "It is rather heavy."),
        ("numbers", "1. Take 3 of them", "1. Take some of them"),
        ("dates", "It opened on 4 May 1998.", "It opened a while ago."),
        ("dates", "Es öffnete am 3. März.", "Es ist schon offen."),
        ("dates", "2024年开始。", "已经开始。"),
        ("names", "Then Ada Lovelace wrote it.", "Then somebody wrote it."),
        ("definitions", "A quay is a wall of stone.", "We walked along it."),
        ("definitions", "**Quay** – where boats lie", "Where boats lie"),
        ("procedures", "1. Open the valve", "The valve is old"),
        ("procedures", "Click the button.", "It has a button."),
    ],
)
def test_what_is_to_be_preserved_is_known(name: str, kept: str, other: str) -> None:
    assert PRESERVED[name].search(kept)
    assert not PRESERVED[name].search(other)


@pytest.mark.parametrize("unit", ["1", "A", "Aa ", "**", "a ", "\n", "1. "])
def test_preserved_kinds_are_looked_for_in_one_pass(unit: str) -> None:
    for pattern in PRESERVED.values():
        pattern.search(unit * (1_200 // len(unit)))
