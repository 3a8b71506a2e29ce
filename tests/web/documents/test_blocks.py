"""Markdown cut into blocks: each where it stands, and nothing between them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.web.documents import markdown
from tidings.web.documents.markdown import blocks_of, heading_text

LINES = st.sampled_from(
    [
        *("# One", "## Two ##", "###### Six", "#no heading", "Title", "=====", "-----", "- - -", "***"),
        *("a paragraph", "  going on", "    indented", "\ttabbed", "", "   ", "\r", "é 漢字 😀 \u2028 x"),
        *("- item", "  - nested", "1. first", "2) second", "17. later", "-", "* star"),
        *("```", "```python", "~~~~", "````", "- ```", "  ```", "``` not `` a fence"),
        *("| a | b |", "| --- | :-: |", "a | b", "--- | ---", "|", "> quoted", ">", "> > deep"),
        *("---", "title: x", "...", "[label]: https://example.org", "<!-- a comment", "-->", "[x", "text |"),
    ]
)
MARKDOWN = st.one_of(st.lists(LINES, max_size=25).map("\n".join), st.text(max_size=200))


def parts(content: str) -> list[tuple[str, str]]:
    return [(span.kind, content[span.start : span.end]) for span in blocks_of(content)]


@given(MARKDOWN)
@example("---\na: b\n---\n\n# T")
@example("- a\n\n```\nx")
def test_blocks_stand_in_order_and_leave_out_only_space_and_rules(content: str) -> None:
    end = 0
    for span in blocks_of(content):
        assert end <= span.start < span.end <= len(content)
        _only_space_and_rules(content[end : span.start])
        text = content[span.start : span.end]
        assert text == text.rstrip()
        assert (span.kind == "heading") == (span.level > 0)
        end = span.end
    _only_space_and_rules(content[end:])


def _only_space_and_rules(between: str) -> None:
    for line in between.split("\n"):
        bare = line.replace(" ", "").replace("\t", "").strip()
        assert not bare or (len(bare) >= 3 and set(bare) in ({"-"}, {"*"}, {"_"}))


def test_every_kind_is_known_by_its_marks() -> None:
    content = (
        "---\ntitle: T\n---\n\n# Head\n\nText of\ntwo lines\n\n- one\n- two\n\n  more\n\n"
        "```py\n# no heading\n\nx\n```\n"
        "> said\n> so\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n[a]: https://example.org\n\n<!-- aside\nend -->\n\n    code"
    )
    assert parts(content) == [
        ("meta", "---\ntitle: T\n---"),
        ("heading", "# Head"),
        ("paragraph", "Text of\ntwo lines"),
        ("list", "- one\n- two\n\n  more"),
        ("code", "```py\n# no heading\n\nx\n```"),
        ("quote", "> said\n> so"),
        ("table", "| a | b |\n| - | - |\n| 1 | 2 |"),
        ("meta", "[a]: https://example.org"),
        ("meta", "<!-- aside\nend -->"),
        ("code", "    code"),
    ]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ("Title\n=====\ntext", ["heading", "paragraph"]),
        ("Title\n-----\ntext", ["heading", "paragraph"]),
        ("a\nb\nc\nd\n---\ne", ["paragraph", "paragraph"]),
        ("text\n# Head\ntext", ["paragraph", "heading", "paragraph"]),
        ("text\n- item", ["paragraph", "list"]),
        ("in the year\n1984. It was", ["paragraph"]),
        ("steps\n1. first", ["paragraph", "list"]),
        ("text\n> quote", ["paragraph", "quote"]),
        ("text\n```\ncode\n```", ["paragraph", "code"]),
        ("text\na | b\n--|--\n1 | 2\nbehind", ["paragraph", "table", "paragraph"]),
        ("a | b is no table\n\n-- | alone", ["paragraph", "paragraph"]),
        ("- item\nlazy\n\nafter", ["list", "paragraph"]),
        ("- item\n# Head", ["list", "heading"]),
        ("- ```\n  # in code\n  ```\n- b", ["list"]),
        ("1. a\n   ~~~\n# in code\n   ~~~\n2. b", ["list"]),
        ("- a\n- b\n\n---\n\n- c", ["list", "list"]),
        ("```\nnever closed\n\n# not a heading", ["code"]),
        ("``` `inline` ``` text", ["paragraph"]),
        ("---\n\ntext", ["paragraph"]),
        ("---\n---", []),
        ("---\nkey: value", ["paragraph"]),
        ("#hashtag", ["paragraph"]),
        ("#", ["heading"]),
        ("<!-- never\nclosed\n\ntext", ["meta", "paragraph"]),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_blocks_are_told_apart_without_blank_lines(content: str, kinds: list[str]) -> None:
    assert [span.kind for span in blocks_of(content)] == kinds


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ("# One", "One"),
        ("##  Two   words ##", "Two words"),
        ("# C#", "C#"),
        ("# ##", ""),
        ("#", ""),
        ("Under\nlined\n===", "Under lined"),
    ],
)
def test_a_heading_says_its_words(block: str, text: str) -> None:
    assert heading_text(block) == text


@pytest.mark.parametrize(
    "unit",
    [
        *("\n", "a\n\n", "- a\n", "```\n", "- ```\n\n", "> ", "| a |\n", "#", "# \n"),
        *(" ", "---\n", "a\n---\n", "<!--\n", "[a]: b\n", "*", "-- |\n"),
    ],
)
def test_a_long_text_of_one_thing_is_read_in_one_pass(unit: str) -> None:
    content = unit * (300_000 // len(unit))
    assert all(span.end <= len(content) for span in blocks_of(content))


def test_of_too_many_blocks_the_last_one_is_all_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "MOST", 3)
    assert parts("# a\n\nb\n\n- c\n\n# d\n\n```\ne\n```\n") == [
        ("heading", "# a"),
        ("paragraph", "b"),
        ("list", "- c"),
        ("paragraph", "# d\n\n```\ne\n```"),
    ]
    assert len(blocks_of("a\n\n" * 3)) == 3
    assert len(blocks_of("a\n\n" * 3 + " ")) == 3
