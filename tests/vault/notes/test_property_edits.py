"""Changing one property leaves every other byte of the note as it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.properties import load, split
from tidings.vault.notes.property_edits import BadProperties, remove_property, set_property

BLOCK = """\
# above
title: "Old"   # beside
tags:
  - "a" # first
  # between
  - b
# below
nums: [1, 2]
quoted: ['x', 'y']
none:
text: |
  line
  # no comment

# end of text
map: {a: 1}
deep:
  a:
    - x
last: it's
"""

SET = [
    ("title", "New: x", 'title: "Old"', 'title: "New: x"'),
    ("TITLE", "New", 'title: "Old"', 'title: "New"'),
    ("title", 7, 'title: "Old"', "title: 7"),
    ("title", None, 'title: "Old"', "title:"),
    ("title", ["a"], 'title: "Old"', "title:\n  - a"),
    ("tags", ["a", "b", "c d"], "  - b\n", "  - b\n  - c d\n"),
    ("tags", ["b", "a"], '  - "a" # first\n  # between\n  - b\n', '  - b\n  - "a" # first\n  # between\n'),
    ("tags", ["b"], '  - "a" # first\n  # between\n', ""),
    ("tags", ["a", "x", "b"], "  - b\n", "  - x\n  - b\n"),
    ("tags", [], ':\n  - "a" # first\n  # between\n  - b\n', ": []\n"),
    ("tags", "x", ':\n  - "a" # first\n  # between\n  - b\n', ": x\n"),
    ("nums", [1, 2, "x, y"], "[1, 2]", '[1, 2, "x, y"]'),
    ("nums", [2], "[1, 2]", "[2]"),
    ("nums", {"a": 1}, "[1, 2]", "{a: 1}"),
    ("quoted", ["x", "it's"], "['x', 'y']", "['x', 'it''s']"),
    ("none", 5, "none:", "none: 5"),
    ("none", ["q", None], "none:", "none:\n  - q\n  - null"),
    ("none", {"a": {"b": []}}, "none:", "none:\n  a:\n    b: []"),
    ("text", "short", "|\n  line\n  # no comment", "short"),
    ("text", "a\nb\t", "|\n  line\n  # no comment", '"a\\nb\\t"'),
    ("map", {"a": 2, "b": "c: d"}, "{a: 1}", '{a: 2, b: "c: d"}'),
    ("deep", {"a": ["y"]}, "- x", "- y"),
    ("last", True, "it's", "true"),
    ("last", "true", "it's", '"true"'),
    ("last", "", "it's", '""'),
    ("last", "2024-01-31", "it's", "2024-01-31"),
    ("last", "[[N]]", "it's", '"[[N]]"'),
    ("last", 1.5, "it's", "1.5"),
    ("new", "x", "last: it's\n", "last: it's\nnew: x\n"),
    ("new", None, "last: it's\n", "last: it's\nnew:\n"),
    ("a: b", ["x", {"c": [1]}], "last: it's\n", 'last: it\'s\n"a: b":\n  - x\n  - {c: [1]}\n'),
]

REMOVED = {
    "title": 'title: "Old"   # beside\n',
    "tags": 'tags:\n  - "a" # first\n  # between\n  - b\n',
    "none": "none:\n",
    "text": "text: |\n  line\n  # no comment\n",
    "deep": "deep:\n  a:\n    - x\n",
    "LAST": "last: it's\n",
    "unknown": "",
}

OTHER = [
    ("", "---\na: 2\n---\n", None),
    ("hello\r\nworld", "---\r\na: 2\r\n---\r\nhello\r\nworld", None),
    ("\ufeffhello", "\ufeff---\na: 2\n---\nhello", None),
    ("---\n---\nx", "---\na: 2\n---\nx", "---\n---\nx"),
    ("---\n# c\n---\nx", "---\n# c\na: 2\n---\nx", "---\n# c\n---\nx"),
    ("---\n  b: 1\n---\n", "---\n  b: 1\n  a: 2\n---\n", "---\n  b: 1\n---\n"),
    ("---\na: 1 # c\n---", "---\na: 2 # c\n---", "---\n---"),
    ("---\na: # c\n  - 1\n---\n", "---\na: 2 # c\n---\n", "---\n---\n"),
    ("---\nb: &x 1\na: *x\n---\n", "---\nb: &x 1\na: 2\n---\n", "---\nb: &x 1\n---\n"),
    ("---\na: &x 1\n---\n", "---\na: 2\n---\n", "---\n---\n"),
    ("---\na: 'multi\n  line'\nb: c\n---\n", "---\na: 2\nb: c\n---\n", "---\nb: c\n---\n"),
    ("---\na:\n  - |\n    x\n    # y\n# c\nb: 1\n---\n", "---\na: 2\n# c\nb: 1\n---\n", "---\n# c\nb: 1\n---\n"),
    ("---\na: |2\n    x\n  y\n# c\n---\n", "---\na: 2\n# c\n---\n", "---\n# c\n---\n"),
    ("---\na: >\n\n# c\n---\n", "---\na: 2\n\n# c\n---\n", "---\n\n# c\n---\n"),
    ("---\na:\n  - &x 1\n  - *x\n# c\nb: 1\n---\n", "---\na: 2\n# c\nb: 1\n---\n", "---\n# c\nb: 1\n---\n"),
    ('---\n{"a": 1, "b": 2}\n---\n', "---\na: 2\nb: 2\n---\n", "---\nb: 2\n---\n"),
    ('---\n{"a": 1}\n---\n', "---\na: 2\n---\n", "---\n---\n"),
    ("---\n{}\n---\n", "---\na: 2\n---\n", "---\n{}\n---\n"),
    (
        '---\n{\n\t"b": ["\\ud83d\\ude00", {"c": 1}]\n}\n---\nx',
        "---\nb:\n  - 😀\n  - {c: 1}\na: 2\n---\nx",
        '---\n{\n\t"b": ["\\ud83d\\ude00", {"c": 1}]\n}\n---\nx',
    ),
    ("---\n# c\n{b: x, a: 1}\n---\n", "---\nb: x\na: 2\n---\n", "---\nb: x\n---\n"),
    ("---\n{b, a}\n---\n", "---\nb:\na: 2\n---\n", "---\nb:\n---\n"),
    ("---\r\n{a: , b: 1}\r\n---\r\n", "---\r\na: 2\r\nb: 1\r\n---\r\n", "---\r\nb: 1\r\n---\r\n"),
]


def note(block: str, newline: str = "\n") -> str:
    return f"---\n{block}---\n\n# Body\nwithout an end".replace("\n", newline)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("key", "value", "before", "after"), SET)
def test_a_property_is_set_in_its_own_style(key: str, value: Any, before: str, after: str, newline: str) -> None:
    assert BLOCK.count(before) == 1
    assert set_property(note(BLOCK, newline), key, value) == note(BLOCK.replace(before, after), newline)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("key", REMOVED)
def test_a_property_is_removed_with_its_lines(key: str, newline: str) -> None:
    expected = note(BLOCK.replace(REMOVED[key], ""), newline)
    assert remove_property(note(BLOCK, newline), key) == expected


@pytest.mark.parametrize(("text", "with_two", "without"), OTHER)
def test_blocks_of_other_kinds_are_changed_too(text: str, with_two: str, without: str | None) -> None:
    assert set_property(text, "a", 2) == with_two
    assert remove_property(text, "a") == (text if without is None else without)


def test_lists_are_indented_as_the_others_are() -> None:
    assert set_property("---\nx:\n- a\n---\n", "y", ["b"]) == "---\nx:\n- a\ny:\n- b\n---\n"
    assert set_property("---\nx:\n    - a\n---\n", "y", ["b"]) == "---\nx:\n    - a\ny:\n    - b\n---\n"


def test_an_unclear_list_is_written_anew() -> None:
    """With an alias, or with a line that only looks like an item's, it is not known which text is which item's."""
    assert set_property("---\nb: &x 1\na: [2, *x]\n---\n", "a", [1]) == "---\nb: &x 1\na: [1]\n---\n"
    assert set_property('---\na:\n- "x\n\n- y"\n- z\n---\n', "a", ["z"]) == "---\na:\n- z\n---\n"


def test_a_comment_after_the_name_stays() -> None:
    assert set_property("---\na: # c\n  b: 1\n---\n", "a", ["x"]) == "---\na: # c\n  - x\n---\n"


def test_what_has_the_value_already_stays_as_it_is() -> None:
    text = "---\na:   'x'  # c\nb: [ 1,2 ]\n---\n"
    assert set_property(set_property(text, "a", "x"), "b", [1, 2]) == text


@pytest.mark.parametrize(
    ("text", "key", "value", "cause"),
    [
        ("---\na: [\n---\n", "b", 1, "line 3"),
        ("---\na: 1\na: 2\n---\n", "b", 1, "twice"),
        ("---\n- a\n---\n", "b", 1, "name: value"),
        ("---\na: &x 1\nb: *x\n---\n", "a", 2, "undefined alias"),
        ("---\n? a\n: b\n---\n", "c", 1, "changed alone"),
        ("---\na: 1\n...\n---\n", "b", 1, "changed alone"),
        ("", "a", float("nan"), "cannot be a property"),
        ("", "a", {1, 2}, "cannot be a property"),
        ("", "a", "\ud800", "changed alone"),
        ("", "k" * 2000, 1, "changed alone"),
    ],
)
def test_what_would_do_harm_is_refused(text: str, key: str, value: Any, cause: str) -> None:
    with pytest.raises(BadProperties, match=cause):
        set_property(text, key, value)


def test_a_property_that_another_needs_is_not_removed() -> None:
    with pytest.raises(BadProperties, match="undefined alias"):
        remove_property("---\na: &x 1\nb: *x\n---\n", "a")


# Any block, built from properties in any style with comments and empty lines around them.
names = st.sampled_from(["a", "b", "Due date", '"x: y"', "'q'", "日本", "1"])
written = st.sampled_from(
    [
        *(
            "",
            " x",
            " 'it''s'",
            ' "a \\" b"   # c',
            " 7",
            " true # c",
            " 2024-01-31",
            " [a, 'b', \"c\"]",
            " [ ]",
            " {a: b}",
        ),
        *("\n  - x\n  - 'y' # c", "\n- x\n- y", "\n  # c\n  - x\n\n  - y", "\n  a: 1\n  b:\n    - c", " # c\n  - x"),
        *(
            " |\n  x\n   y\n\n  # z",
            " >-\n  x\n  y",
            " 'multi\n  line'",
            " plain\n  goes on",
            " [a,\n  b]",
            " -x",
            " !!str 7",
        ),
    ]
)
noise = st.sampled_from(["", "# c\n", "\n", " # c\n", "\n# c\n\n"])
entries = st.lists(
    st.tuples(noise, names, written), min_size=1, max_size=5, unique_by=lambda entry: entry[1].strip("'\"")
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
around = st.tuples(st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "body", "\n# H\n---\nx\n"]))
"""The line end, and the note's text."""


def built(parts: list[tuple[str, str, str]], end: str) -> str:
    return "".join(f"{before}{name}:{value}\n" for before, name, value in parts) + end


@given(entries, noise, values, around, st.data())
def test_setting_a_property_touches_nothing_else(
    parts: list[tuple[str, str, str]], end: str, value: Any, about: tuple[str, str], data: st.DataObject
) -> None:
    newline, body = about
    at = data.draw(st.integers(0, len(parts) - 1))
    above, (before, name, _), below = parts[:at], parts[at], parts[at + 1 :]
    text = f"---\n{built(parts, end)}---\n{body}".replace("\n", newline)
    old, problem = load(split(text))
    assert problem is None
    key = list(old)[at]
    new = set_property(text, key, value)
    assert load(split(new)) == ({**old, key: value}, None)
    assert new.startswith(f"---\n{built(above, before)}{name}:".replace("\n", newline))
    assert new.endswith(f"\n{built(below, end)}---\n{body}".replace("\n", newline))
    assert new.count("\n") == new.count(newline)


@given(entries, noise, around, st.data())
def test_removing_a_property_touches_nothing_else(
    parts: list[tuple[str, str, str]], end: str, about: tuple[str, str], data: st.DataObject
) -> None:
    newline, body = about
    at = data.draw(st.integers(0, len(parts) - 1))
    text = f"---\n{built(parts, end)}---\n{body}".replace("\n", newline)
    key = list(load(split(text))[0])[at]
    left = built(parts[:at], parts[at][0]) + built(parts[at + 1 :], end)
    assert remove_property(text, key) == f"---\n{left}---\n{body}".replace("\n", newline)


@given(entries, noise, texts, values, around)
def test_a_new_property_goes_to_the_end(
    parts: list[tuple[str, str, str]], end: str, key: str, value: Any, about: tuple[str, str]
) -> None:
    newline, body = about
    text = f"---\n{built(parts, end)}---\n{body}".replace("\n", newline)
    old, _ = load(split(text))
    if key.casefold() in {name.casefold() for name in old} or len(key) > 100:
        return
    new = set_property(text, key, value)
    assert load(split(new)) == ({**old, key: value}, None)
    assert new.startswith(f"---\n{built(parts, end)}".replace("\n", newline))
    assert new.endswith(f"---\n{body}".replace("\n", newline))
    assert remove_property(new, key) == text


def test_the_comments_of_a_list_in_brackets_stay_when_it_grows() -> None:
    note = "---\nparts: [\n  a, # the first\n  b # the last\n]\n---\n"
    grown = "---\nparts: [\n  a, # the first\n  b, c # the last\n]\n---\n"
    assert set_property(note, "parts", ["a", "b", "c"]) == grown


@given(st.lists(texts, max_size=6), st.lists(texts, max_size=6), st.sampled_from(["flow", "block"]))
def test_the_items_of_a_list_that_stay_are_not_written_anew(old: list[str], new: list[str], style: str) -> None:
    """Each is in single quotes, which nothing would be written in anew without need."""
    plain = [item for item in [*old, *new] if item.isprintable() and "\x85" not in item]
    old, new = [item for item in old if item in plain], [item for item in new if item in plain]
    items = ["'" + item.replace("'", "''") + "'" for item in old]
    block = "[" + ", ".join(items) + "]" if style == "flow" or not old else "\n" + "\n".join(f"  - {i}" for i in items)
    text = set_property(
        f"---\na: {block}\nb: 1\n---\n" if block[0] == "[" else f"---\na:{block}\nb: 1\n---\n", "a", new
    )
    assert load(split(text))[0] == {"a": new, "b": 1}
    for item in set(old) & set(new):
        assert "'" + item.replace("'", "''") + "'" in text
