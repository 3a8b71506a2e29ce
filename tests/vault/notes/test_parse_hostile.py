"""No text makes the parser raise, or take longer than the text is long. (A test may take a minute: what is not in
proportion takes hours.)"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.parse import parse

MANY = 10_000
UNCLOSED = [
    *(
        "[[",
        "[",
        "](",
        "](a",
        "[a](",
        "[a](b",
        "[[a[b]",
        "[[$",
        "[[a`",
        "](`",
        '[a](b "',
        "[a](<b",
        "[a](b (c ",
        "[^1](a",
    ),
    *(
        "` ",
        "x```",
        "$a ",
        "$$a ",
        "%%",
        "a %% b\n\n",
        "<",
        "<a ",
        '<a b="',
        "a <!-- ",
        "a <!--\n\n",
        "\\",
        "#a",
        "_#a",
    ),
    *(
        "|#a",
        ">#a",
        "==#a",
        "#",
        "# x\n",
        "^a\n",
        "x ^a\n",
        "^a\n\n",
        "- x ^a\n",
        "> x ^a\n",
        "- ",
        "- [ ] x\n",
        ">",
        "1. ",
    ),
    *(
        "a\n===\n",
        "---\n",
        "- x\n---\n",
        "\n    x\n",
        "\n\t- x\n",
        "```a\n",
        "> ```a\n\n",
        "~~~\n\n~~~a\n",
        "<div\n",
        " \n",
    ),
    *(
        "<pre>\n</pre\n",
        "<span>\n\n",
        "`x\n\n",
        "$x\n\n",
        "| a | #b | [[c\\|d]] |\n",
        "[x\n\n](a.md)",
        "\0",
        "\r",
        "\ufeff",
    ),
]
HOSTILE = {
    "images within images": "![" * MANY + "](a)" * MANY,
    "brackets around one link": "[" * MANY + "](a)" * MANY,
    "backticks of all lengths": "".join("`" * length + "a" for length in range(1, 800)),
    "a quote that ends in code": ">" * MANY + "```a" * MANY,
    "an endless tag": "#" + "a" * MANY * 10,
    "a block far below": "a\n" + "\n" * MANY + "^b\n" + "\n" * MANY + "^c",
    "properties without an end": "---\n" + "a: b\n" * MANY,
    "many properties": "---\n" + "".join(f"k{number}: [[x]]\n" for number in range(5000)) + "---\n",
    "many tags in properties": "---\ntags: [" + ", ".join(f"t{number}" for number in range(5000)) + "]\n---\n",
    "levels of lists": "---\na: " + "[" * MANY + "\n---\n",
    "levels of dashes": "---\n" + "- " * MANY + "\n---\n",
    "values in values": "---\na0: &a0 [x, x]\n"
    + "".join(f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 40))
    + "---\n",
    "a value within itself": "---\na: &a [*a]\n---\n",
    "half a character": "---\na: \ud800\n---\n#\ud800 [[\udfff]]",
    "a million lines": ("- a b c\n" * 9 + "a #b [[c]]\n") * 100_000,
    "one long line": "word #tag [[link]] `code` " * 80_000,
}


@pytest.mark.parametrize("part", UNCLOSED)
def test_what_is_opened_often_and_never_closed_is_read_in_time(part: str) -> None:
    assert parse(part * MANY, "n.md").title == "n"
    assert parse("- " + part * MANY + "\n\n#end", "n.md").title == "n"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_time(name: str) -> None:
    assert parse(HOSTILE[name], "n.md").title == "n"


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert parse(text, "n.md").title == "n"


@given(st.lists(st.sampled_from([*UNCLOSED, "a", " ", "\n", "\n\n", "]]", ")", "```\n", "-->", "$", "`"]), max_size=25))
def test_any_mixture_of_marks_can_be_read(parts: list[str]) -> None:
    text = "".join(parts)
    note = parse(text, "n.md")
    for tag in note.tags:
        assert text[tag.start : tag.end] == tag.name
    for link in note.links:
        assert text[link.start : link.end].startswith(("[", "!["))
    for block in note.blocks:
        assert 0 <= block.start <= block.end <= len(text)


@given(
    st.lists(
        st.sampled_from(["a: ", "b", "- ", "\n", "  ", "[", "]", "{", "}", "'", '"', "&x ", "*x", "|", "#", "\t", ": "])
    )
)
def test_any_block_of_properties_can_be_read(parts: list[str]) -> None:
    note = parse("---\n" + "".join(parts) + "\n---\n#tag", "n.md")
    assert note.problem is None or note.problem.startswith("Not all properties can be read")
