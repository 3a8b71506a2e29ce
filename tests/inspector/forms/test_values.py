"""From what was typed to a value, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.inspector.forms.build import form
from tidings.inspector.forms.values import from_texts, initial, to_texts

SHAPE: dict[str, Any] = {"type": "object", "properties": {"r": {"type": "number"}}, "required": ["r"]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "default": 10},
        "ratio": {"type": "number"},
        "exact": {"type": "boolean"},
        "color": {"oneOf": [{"const": "r", "title": "Red"}, {"const": 2, "title": "Two"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "days": {"type": "array", "items": {"enum": ["mon", "tue"]}},
        "maybe": {"type": ["integer", "null"]},
        "shape": {"anyOf": [{"type": "string"}, SHAPE, {"type": "integer"}]},
        "any": {},
        "deep": {"type": "object", "properties": {"list": {"type": "array", "items": SHAPE}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["query"],
}
FORM = form(SCHEMA)


def test_texts_become_values_of_the_kind_that_each_field_has() -> None:
    typed = {
        "query": "tea", "limit": "5", "ratio": "1.5e2", "exact": "yes", "color": "Red", "tags": ["a", "b"],
        "days": ["mon"], "maybe": None, "shape": {"$choice": 1, "value": {"r": "2"}}, "any": '{"x": [1]}',
        "deep": {"list": [{"r": "1"}]}, "map": {"a": "1", "b": "2"},
    }  # fmt: skip
    assert from_texts(FORM, typed).value == {
        "query": "tea", "limit": 5, "ratio": 150.0, "exact": True, "color": "r", "tags": ["a", "b"], "days": ["mon"],
        "maybe": None, "shape": {"r": 2}, "any": {"x": [1]}, "deep": {"list": [{"r": 1}]}, "map": {"a": 1, "b": 2},
    }  # fmt: skip
    assert not from_texts(FORM, typed).problems


def test_what_is_empty_is_left_out_and_two_quotes_are_the_empty_text() -> None:
    filled = from_texts(FORM, {"query": '""', "limit": "", "tags": "", "any": " "})
    assert (filled.value, filled.problems) == ({"query": ""}, ())


def test_what_is_needed_is_missed_by_name() -> None:
    (problem,) = from_texts(FORM, {"query": ""}).problems
    assert (problem.path, problem.message) == ("query", "query: is needed")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"limit": "many"}, 'limit: expected an integer (at least 1), got "many"'),
        ({"limit": "1.5"}, 'limit: expected an integer (at least 1), got "1.5"'),
        ({"ratio": "NaN"}, 'ratio: expected a number, got "NaN"'),
        ({"exact": "maybe"}, 'exact: expected true or false, got "maybe"'),
        ({"color": "blue"}, 'color: expected one of "r", 2, got "blue"'),
        ({"days": ["sun"]}, 'days[0]: expected one of "mon", "tue", got "sun"'),
        ({"any": "{"}, "any: is not JSON (line 1, column 2: "),
        ({"deep": {"list": [{"r": "x"}]}}, 'deep.list[0].r: expected a number, got "x"'),
        ({"shape": {"$choice": 9}}, "shape: expected a choice of text, object with r or integer, got 9"),
        ({"deep": "[1"}, "deep: is not JSON"),
    ],
)
def test_each_text_that_is_no_value_is_told_with_its_place(typed: dict[str, Any], message: str) -> None:
    (problem,) = from_texts(FORM, {"query": "x", **typed}).problems
    assert problem.message.startswith(message)


def test_a_list_may_be_typed_as_lines_or_as_json() -> None:
    assert from_texts(FORM, {"query": "x", "tags": "a\nb"}).value["tags"] == ["a", "b"]
    assert from_texts(FORM, {"query": "x", "tags": '["a", "b"]'}).value["tags"] == ["a", "b"]


def test_without_a_choice_the_first_alternative_that_takes_the_text_is_chosen() -> None:
    assert from_texts(FORM, {"query": "x", "shape": "5"}).value["shape"] == 5
    assert from_texts(FORM, {"query": "x", "shape": "five"}).value["shape"] == "five"
    assert from_texts(FORM, {"query": "x", "shape": {"r": 5}}).value["shape"] == {"r": 5}


def test_a_form_starts_with_defaults_and_examples() -> None:
    made = form(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 3},
                "b": {"type": "string", "examples": ["Oslo"]},
                "c": {"type": "string", "examples": ["not needed"]},
                "d": {"const": "x"},
                "e": {"type": "object", "properties": {"f": {"type": "boolean"}}, "required": ["f"]},
                "g": {"type": "number"},
                "h": {"type": "array", "items": {}},
                "i": {"anyOf": [{"const": 1}, {"type": "string"}]},
            },
            "required": ["b", "d", "e", "g", "h", "i"],
        }
    )
    assert initial(made) == {"a": 3, "b": "Oslo", "d": "x", "e": {"f": False}, "h": [], "i": 1}


VALUES = st.fixed_dictionaries(
    {"query": st.text(min_size=1).filter(lambda text: text != '""')},
    optional={
        "limit": st.integers(),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "exact": st.booleans(),
        "color": st.sampled_from(["r", 2]),
        "tags": st.lists(st.text(min_size=1).filter(lambda text: text != '""')),
        "days": st.lists(st.sampled_from(["mon", "tue"])),
        "maybe": st.none() | st.integers(),
        "shape": st.integers() | st.fixed_dictionaries({"r": st.integers()}) | st.text(min_size=1, alphabet="abc"),
        "any": st.recursive(st.integers() | st.text(), st.lists, max_leaves=4),
        "map": st.dictionaries(st.text(), st.integers()),
        "unknown": st.integers(),
    },
)


@given(VALUES)
def test_a_value_put_into_the_form_comes_out_of_it_again(value: dict[str, Any]) -> None:
    filled = from_texts(FORM, to_texts(FORM, value))
    assert not filled.problems
    assert filled.value == value


def test_a_list_within_itself_can_be_filled_in_at_any_depth() -> None:
    node = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#"}}},
    }
    typed: dict[str, Any] = {"n": "1"}
    for _ in range(20):
        typed = {"n": "1", "below": [typed]}
    value = from_texts(form(node), typed).value
    while "below" in value:
        assert value["n"] == 1
        (value,) = value["below"]


@pytest.mark.parametrize(
    ("branch", "value"),
    [
        ({"type": "boolean"}, True),
        ({"const": 5}, 5),
        ({"enum": ["a", "b"]}, "b"),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": ["integer", "null"]}, None),
        ({"anyOf": [{"type": "number"}, {"type": "boolean"}]}, 1.5),
        (
            {"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"], "additionalProperties": False},
            {"k": "x"},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            {"xy": 1},
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["a", 1, "rest"]),
    ],
)
def test_a_value_finds_its_alternative_and_comes_out_again(branch: dict[str, Any], value: Any) -> None:
    other = {"type": "object", "properties": {"k": {"const": "other"}}, "required": ["k", "more"]}
    made = form({"anyOf": [other, branch, {"type": "string", "pattern": "never"}]})
    texts = to_texts(made, value)
    assert from_texts(made, texts).value == value


def test_what_does_not_fit_is_kept_for_the_check_to_judge() -> None:
    odd = {"query": 5, "limit": "x", "tags": 7, "deep": [], "exact": {}}
    filled = from_texts(FORM, odd)
    assert filled.value == {"query": 5, "tags": 7, "deep": [], "exact": {}}
    assert [problem.path for problem in filled.problems] == ["limit"]
    assert to_texts(FORM, odd) == odd


def test_what_is_left_out_of_what_is_needed_is_made_where_there_is_only_one_way() -> None:
    made = form(
        {
            "type": "object",
            "properties": {
                "const": {"const": 1},
                "list": {"type": "array", "items": {}},
                "null": {"type": ["integer", "null"]},
                "object": {"type": "object", "properties": {"x": {"const": 2}}, "required": ["x"]},
            },
            "required": ["const", "list", "null", "object"],
        }
    )
    assert from_texts(made, {}).value == {"const": 1, "list": [], "null": None, "object": {"x": 2}}


def test_a_text_that_no_alternative_takes_is_told() -> None:
    made = form({"anyOf": [{"type": "integer"}, {"type": "boolean"}]})
    assert [problem.message for problem in from_texts(made, "x").problems] == ['expected an integer, got "x"']
    assert [problem.message for problem in from_texts(made, [1]).problems] == [
        "expected integer or true or false, got [1]"
    ]


def test_problems_and_places_are_readable() -> None:
    made = form({"type": "object", "properties": {"a.b": {"type": "array", "items": {"type": "integer"}}}})
    (problem,) = from_texts(made, {"a.b": ["x"]}).problems
    assert problem.path == '["a.b"][0]'
    assert problem.message == '["a.b"][0]: expected an integer, got "x"'
    assert (problem.keys, problem.fault) == (("a.b", 0), "value")


def test_what_is_nested_without_end_is_told() -> None:
    typed: Any = []
    for _ in range(5_000):
        typed = [typed]
    made = form({"type": "array", "items": {"$ref": "#"}})
    assert [problem.message for problem in from_texts(made, typed).problems] == ["is nested too deeply"]
