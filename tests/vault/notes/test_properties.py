"""What a note's properties are: a line of a table for each rule."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.properties import load, split

VALUES = {
    "a: b": {"a": "b"},
    "a: b\nc: d": {"a": "b", "c": "d"},
    "a:": {"a": None},
    "a: ~\nb: null\nc: Null": {"a": None, "b": None, "c": None},
    "a: true\nb: False\nc: TRUE": {"a": True, "b": False, "c": True},
    "a: yes\nb: no\nc: on\nd: Off\ne: y": {"a": "yes", "b": "no", "c": "on", "d": "Off", "e": "y"},
    "a: 7\nb: -7\nc: +7\nd: 007\ne: 0x1F\nf: 0o17": {"a": 7, "b": -7, "c": 7, "d": 7, "e": 31, "f": 15},
    "a: 1.5\nb: -.5\nc: 1e3\nd: 1.\ne: 1_000": {"a": 1.5, "b": -0.5, "c": 1000.0, "d": 1.0, "e": "1_000"},
    "a: .inf\nb: .nan\nc: 1e999": {"a": ".inf", "b": ".nan", "c": "1e999"},
    "a: 2024-01-31\nb: 2024-01-31T10:30:00\nc: 10:30": {"a": "2024-01-31", "b": "2024-01-31T10:30:00", "c": "10:30"},
    "a: '7'\nb: \"true\"": {"a": "7", "b": "true"},
    "a: !!str 7\nb: !!int '7'\nc: !x y\nd: !!timestamp 2024-01-31": {"a": "7", "b": 7, "c": "y", "d": "2024-01-31"},
    "a: [b, 1, null]\nc:\n  - d\n  - true": {"a": ["b", 1, None], "c": ["d", True]},
    "a:\n- b\n-": {"a": ["b", None]},
    "a:\n  b: {c: 1}": {"a": {"b": {"c": 1}}},
    "a: |\n  x\n  y\nb: >\n  x\n  y": {"a": "x\ny\n", "b": "x y\n"},
    "a: &x [1]\nb: *x": {"a": [1], "b": [1]},
    "1: a\ntrue: b\nDue date: c": {"1": "a", "true": "b", "Due date": "c"},
    "<<: {a: 1}": {"<<": {"a": 1}},
    "# only a comment": {},
    "": {},
    "   ": {},
    "a: b # comment\n# comment": {"a": "b"},
    "a: 'x: y # z'": {"a": "x: y # z"},
    "é: 日本 🎉": {"é": "日本 🎉"},
    "a: [b, 'c']\nd:\n  - e\n  - 7\n\nf:": {"a": ["b", "c"], "d": ["e", 7], "f": None},
    'up: "[[N]]"\ncreated: 2024-01-31T10:30': {"up": "[[N]]", "created": "2024-01-31T10:30"},
    '{"a": [1, {"b": null}]}': {"a": [1, {"b": None}]},
    '{\n\t"a": "\\ud83d\\ude00"\n}': {"a": "😀"},
    "{a: 1, b: [x]}": {"a": 1, "b": ["x"]},
    "a: " + "9" * 400: {"a": "9" * 400},
    # As the npm package `yaml` reads them: a name that is not a text is its text.
    "created: {{date}}\nup: '[[N]]'": {"created": {"{ date }": None}, "up": "[[N]]"},
    "a: {{date:YYYY-MM-DD}}\nb: [{{x}}, c]": {"a": {"{ date:YYYY-MM-DD }": None}, "b": [{"{ x }": None}, "c"]},
    "a: {{}}\nb: {[]}\n? [c, d]\n: e": {"a": {"{}": None}, "b": {"[]": None}, "[ c, d ]": "e"},
    "a: {? {b: c} : d}": {"a": {"{ b: c }": "d"}},
    "a: <% tp.date.now() %>\nb: 1": {"a": "<% tp.date.now() %>", "b": 1},
}

READ = {
    "a: b: c": {"a": "b: c"},
    "x: 1\na: [": {"x": 1, "a": "["},
    "x: 1\n\ta: b": {"x": 1},
    "a: *x": {"a": "*x"},
    "x: 1\na: \0": {"x": 1, "a": "\ufffd"},
    "a: \ud800": {"a": "\ufffd"},
    "a: &a [*a]": {"a": "&a [*a]"},
    "a: " + "[" * 2000: {"a": "[" * 2000},
    "a: b\n" * 300_000: {"a": "b"},
    "a: @b": {"a": "@b"},
    "\ta: b": {"a": "b"},
}

SALVAGED = {
    "tags:\n  - good\n  - @bad\n  - fine\nx: y": {"tags": ["good", "@bad", "fine"], "x": "y"},
    'title: "foo\nother: "bar"\nup: "[[N]]"': {"title": '"foo', "other": "bar", "up": "[[N]]"},
    "x: 1\njust text\ny: 2": {"x": 1, "y": 2},
    "y:\n\t- a\n\t- b\nz: @": {"y": ["a", "b"], "z": "@"},
    "a: %x\nb: {{a}} c # why\nd: `x`\ne: 'f": {"a": "%x", "b": "{{a}} c", "d": "`x`", "e": "'f"},
    "a: [x,\n  y]\nb: [x, y\nc: {q": {"a": ["x", "y"], "b": "[x, y", "c": "{q"},
    "n:\n  b: c: d\n  e: f\nq: |\n  lit: x: y\nz: @": {"n": {"b": "c: d", "e": "f"}, "q": "lit: x: y\n", "z": "@"},
    "'a b': @\n\"c\": 'it''s'": {"a b": "@", "c": "it's"},
    "a: 1\n...\nb: 2": {"a": 1, "b": 2},
    "  a: @\n  b: 2": {"a": "@", "b": 2},
    "a: 1\n]\nb: 2": {"a": 1, "b": 2},
}

PROBLEMS = {
    "a: b: c": "mapping values are not allowed in this context (line 2)",
    "x: 1\na: [": "did not find expected node content (line 4)",
    "x: 1\n\ta: b": "(line 3)",
    "\ta: b": "YAML does not allow a tab there, only spaces (line 2)",
    "a: 1\nb: 2\na: 3": "'a' occurs twice (line 4)",
    '{"a": 1, "a": 2}': "'a' occurs twice (line 2)",
    "- a": "properties are lines of 'name: value' (line 2)",
    "text": "properties are lines of 'name: value' (line 2)",
    "a: *x": "found undefined alias (line 2)",
    "x: 1\na: \0": "control characters are not allowed (line 3)",
    "a: \ud800": "surrogates not allowed",
    "a: &a [*a]": "too many levels",
    "a: " + "[" * 2000: "too many levels (line 2)",
    "a: b\n" * 300_000: "longer than",
    "a: @b": "(line 2)",
}


@pytest.mark.parametrize("block", VALUES)
def test_these_are_the_values_of_a_block(block: str) -> None:
    for newline in ("\n", "\r\n"):
        properties, problem = load(split(f"---\n{block}\n---\n".replace("\n", newline)))
        assert (properties, problem) == (VALUES[block], None)
        assert json.dumps(properties) == json.dumps(VALUES[block])


@pytest.mark.parametrize("block", SALVAGED)
def test_a_bad_line_loses_at_most_its_own_value(block: str) -> None:
    for newline in ("\n", "\r\n"):
        properties, problem = load(split(f"---\n{block}\n---\n".replace("\n", newline)))
        assert problem is not None
        assert properties == SALVAGED[block]


@pytest.mark.parametrize("bad", ["{{a}} b", "@x", "b: c", '"open', "[open", "*nowhere", "%", "`", "- - x: y: z", "\t@"])
@pytest.mark.parametrize("at", range(4))
def test_the_other_lines_are_read_wherever_the_bad_one_is(bad: str, at: int) -> None:
    good = ["one: 1", "two:\n  - a\n  - 'b'", "three: {x: [y]}", 'four: "[[N]]"']
    block = "\n".join([*good[:at], f"bad: {bad}", *good[at:]])
    properties, _ = load(split(f"---\n{block}\n---\n"))
    properties.pop("bad", None)
    assert properties == {"one": 1, "two": ["a", "b"], "three": {"x": ["y"]}, "four": "[[N]]"}


@pytest.mark.parametrize("block", PROBLEMS, ids=lambda block: block[:20])
def test_what_cannot_be_read_is_told_with_its_line(block: str) -> None:
    properties, problem = load(split(f"---\n{block}\n---\n"))
    assert properties == READ.get(block, {}) or "twice" in PROBLEMS[block]
    assert problem is not None
    assert problem.startswith("Not all properties can be read: ")
    assert PROBLEMS[block] in problem


def test_a_block_says_where_it_stands() -> None:
    text = "\ufeff---\r\na: b\r\n---\r\nbody"
    block = split(text)
    assert (block.text, block.kind, text[block.body_start :]) == ("a: b\r\n", "yaml", "body")
    assert text[block.start : block.end] == block.text
    assert split('---\n {"a": 1}\n---\n').kind == "json"
    assert split("no").kind is None


@given(st.text(max_size=60))
def test_any_block_is_read_or_told(text: str) -> None:
    properties, problem = load(split(f"---\n{text}\n---\n"))
    assert json.loads(json.dumps(properties)) == properties
    assert problem is None or problem.startswith("Not all properties can be read: ")


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
    )
)
def test_a_block_of_json_is_read_as_json(properties: dict[str, object]) -> None:
    assert load(split(f"---\n{json.dumps(properties)}\n---\n")) == (properties, None)


names = st.sampled_from(["a", "b", "Due date", "é", "x-1", "_", "true", "1", "a b c d e f", "\xa0", "a\xa0b", "-", "?"])
plain = st.sampled_from(
    [
        *(
            "x",
            "x y",
            "x  ",
            "7",
            "-7",
            "1.5",
            "true",
            "null",
            "~",
            "yes",
            "2024-01-31",
            "10:30",
            "http://x.org/a?b=c&d",
        ),
        *(
            "a:",
            "a: b",
            "a #b",
            "a#b",
            "it's",
            "'",
            '"',
            "'x'",
            "'x' ",
            '"x"',
            '"x\\n"',
            "'x''y'",
            "[x]",
            "{x}",
            "*x",
            "&x",
            "!x",
            "|",
            ">",
        ),
        *(
            "[]",
            "[ ]",
            "[a, b]",
            "[ a ,b ]",
            "[a,, b]",
            "[a, ]",
            "['a, b', \"c\"]",
            "[a: b]",
            "[a:b]",
            "[-]",
            "[ -a]",
            "[a - b]",
            "[1, true]",
            "[[x]]",
        ),
        *(
            "-",
            "- x",
            "--x",
            "...",
            "%x",
            "@x",
            "`x",
            "é",
            "😀 x",
            "x\xa0",
            "\xa0",
            "\x85",
            "\u2028",
            "\ufeff",
            "\ufffe",
            "\x7f",
            "\t",
            "x\ty",
            "a, b",
            "(x)",
            "a - b",
            "x -",
        ),
    ]
)
spaces = st.sampled_from(["", " ", " ", " ", "  ", "\t"])
lines = st.one_of(
    st.builds(
        lambda name, space, value, after: f"{name}:{space}{value}{after}", names, spaces, plain | st.just(""), spaces
    ),
    st.builds(
        lambda before, space, value: f"{before}-{space}{value}",
        st.sampled_from(["", "  ", "  ", " "]),
        spaces,
        plain | st.just(""),
    ),
    st.builds("{}{}".format, spaces, plain),
    st.sampled_from(["", " ", "# c", "  # c", "\r"]),
    st.text(max_size=5),
)


@given(st.lists(lines, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_any_lines_are_read_or_told(written: list[str], newline: str) -> None:
    properties, problem = load(split(newline.join(["---", *written, "---", ""])))
    assert json.loads(json.dumps(properties)) == properties
    assert problem is None or problem.startswith("Not all properties can be read: ")
