"""Headings, blocks and tasks, the title and the words of a note: a line of a table for each rule."""

import pytest

from tidings.vault.notes.parse import parse

HEADINGS = {
    "# A": [(1, "A", 1)],
    "## A ##\n### B # c\n#### D #": [(2, "A", 1), (3, "B # c", 2), (4, "D", 3)],
    "###### A\n####### B": [(6, "A", 1)],
    "#\tA\r\n#  B  \r\n": [(1, "A", 1), (1, "B", 2)],
    "#": [(1, "", 1)],
    "# #": [(1, "", 1)],
    "#A\na # B": [],
    "   # A\n\n    # B": [(1, "A", 1)],
    "> # A\n- # B": [],
    "```\n# A\n```\n# B": [(1, "B", 4)],
    "%%\n# A\n%%\n# B": [(1, "B", 4)],
    r"\# A": [],
    "# A `#` [[B]]": [(1, "A `#` [[B]]", 1)],
    "A\n===\nB\n---\nC\n=\nD\n-": [(1, "A", 1), (2, "B", 3), (1, "C", 5), (2, "D", 7)],
    "A\r\n===\r\n": [(1, "A", 1)],
    "\n---\n\n===": [],
    "- a\n---\n> b\n---\n| c |\n---\n# d\n---\n---\n---\n```\n```\n---": [(1, "d", 7)],
    "    a\n---": [],
    "a\n--- b\na\n==-": [],
    "---\na: b\n---\n# A": [(1, "A", 4)],
}

TASKS = {
    "- [ ] a\n* [x] b\n+ [X] c\n1. [/] d\n2) [-] e": [
        (" ", "a", 1),
        ("x", "b", 2),
        ("X", "c", 3),
        ("/", "d", 4),
        ("-", "e", 5),
    ],
    "- a\n\t- [ ] b\n    * [x] c": [(" ", "b", 2), ("x", "c", 3)],
    "> - [ ] a\n> > 1. [x] b": [(" ", "a", 1), ("x", "b", 2)],
    "- - [ ] a": [(" ", "a", 1)],
    "- [ ] a #b [[c]] `d` ^e\r\n": [(" ", "a #b [[c]] `d` ^e", 1)],
    "- [ ]\n- [x]\r\n- [?]  ": [(" ", "", 1), ("x", "", 2), ("?", "", 3)],
    "- [ ]a\n- []\n- [ab] c\n-[ ] d\n[ ] e\n- [x](y.md)": [],
    "```\n- [ ] a\n```": [],
    "- [é] a": [("é", "a", 1)],
    "---\na: b\n---\n- [ ] c": [(" ", "c", 4)],
}

BLOCKS = {
    "a b ^x": [("x", 1, "a b")],
    "a\nb ^x\n\nc": [("x", 2, "a\nb")],
    "a ^x\nb": [],
    "z\n\na\r\nb ^x-1  \r\n\r\nc": [("x-1", 4, "a\r\nb")],
    "- a ^x\n- b\n  c ^y": [("x", 1, "- a"), ("y", 3, "- b\n  c")],
    "# A ^x": [("x", 1, "# A")],
    "# A\nb ^x": [("x", 2, "b")],
    "- a\n- b\n\n^x": [("x", 4, "- a\n- b")],
    "- a\n- b\n^x": [("x", 3, "- a\n- b")],
    "| a |\n|---|\n\n^x\n": [("x", 4, "| a |\n|---|")],
    "> a\n> b\n\n^x": [("x", 4, "> a\n> b")],
    "> a ^x": [("x", 1, "> a")],
    "z\n\n```\na\n\nb\n```\n^x": [("x", 8, "```\na\n\nb\n```")],
    "~~~\na\n~~~\n\n^x": [("x", 5, "~~~\na\n~~~")],
    "^x": [("x", 1, "")],
    "\n\n^x": [("x", 3, "")],
    "a^x\na ^x!\na ^ü\na ^\n`a ^x`": [],
    "```\na ^x\n```": [],
    "[[N#^x]]": [],
    "a ^x\n# H": [("x", 1, "a")],
    "a ^x\n- b": [("x", 1, "a")],
    "---\na: b\n---\nc ^x": [("x", 4, "c")],
}


@pytest.mark.parametrize("text", HEADINGS)
def test_these_are_the_headings_of_a_text(text: str) -> None:
    headings = parse(text, "n.md").headings
    assert [(heading.level, heading.text, heading.line) for heading in headings] == HEADINGS[text]
    for heading in headings:
        assert text.count("\n", 0, heading.start) + 1 == heading.line
        assert not heading.start or text[heading.start - 1] == "\n"


@pytest.mark.parametrize("text", TASKS)
def test_these_are_the_tasks_of_a_text(text: str) -> None:
    assert [(task.status, task.text, task.line) for task in parse(text, "n.md").tasks] == TASKS[text]


@pytest.mark.parametrize("text", BLOCKS)
def test_these_are_the_blocks_of_a_text(text: str) -> None:
    blocks = parse(text, "n.md").blocks
    assert [(block.id, block.line, text[block.start : block.end]) for block in blocks] == BLOCKS[text]


@pytest.mark.parametrize(
    ("name", "title"),
    [("N.md", "N"), ("N", "N"), ("a/b/N.MD", "N"), ("N.v2.md", "N.v2"), ("N.canvas", "N.canvas"), (".md", "")],
)
def test_the_title_is_the_name_of_the_file(name: str, title: str) -> None:
    assert parse("# Another", name).title == title


def test_words_are_counted_without_the_properties() -> None:
    assert parse("---\na: b c\n---\none two\n\nthree", "n").words == 3


@pytest.mark.parametrize(
    ("block", "aliases"),
    [
        ("aliases: [A, B b]", ("A", "B b")),
        ("aliases:\n  - A\n  - 7\n  - ''\n  - [x]", ("A", "7")),
        ("aliases: A, B b", ("A", "B b")),
        ("Aliases: A", ("A",)),
        ("aliases:", ()),
        ("alias: A", ()),
        ("aliases: {a: b}", ()),
    ],
)
def test_these_are_the_aliases_of_a_note(block: str, aliases: tuple[str, ...]) -> None:
    assert parse(f"---\n{block}\n---\n", "n").aliases == aliases


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("---\na: b\n---\nc", "c"),
        ("\ufeff---\r\na: b\r\n---\r\nc", "c"),
        ("---  \na: b\n---\t\nc", "c"),
        ("---\n---\nc", "c"),
        ("---\na: b\n---", ""),
        ("---\na: b\n----\nc", "---\na: b\n----\nc"),
        ("----\na: b\n---\nc", "----\na: b\n---\nc"),
        ("\n---\na: b\n---\nc", "\n---\na: b\n---\nc"),
        ("---\na: b", "---\na: b"),
        ("---", "---"),
        ("\ufeffc", "c"),
        ("\ufeff---\nc", "---\nc"),
    ],
)
def test_the_body_begins_after_the_properties(text: str, body: str) -> None:
    assert text[parse(text, "n").body_start :] == body
