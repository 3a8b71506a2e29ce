"""What is said about a value that is not what a schema asks for; and about a schema that is none."""

from typing import Any

import pytest

from tidings.inspector.forms.check import check, check_result

CIRCLE: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["kind", "r"],
}
SQUARE: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "a": {"type": "number"}},
    "required": ["kind", "a"],
}
SCHEMA: dict[str, Any] = {
    "$defs": {"Circle": CIRCLE, "Square": SQUARE},
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "shape": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "color": {"enum": ["red", "green"]},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "password": {"type": "string", "minLength": 8},
        "when": {"type": "string", "format": "date"},
    },
    "dependentRequired": {"name": ["limit"]},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"limit": "many"}, 'limit: expected an integer of at least 1, got "many"'),
        ({"limit": 0}, "limit: expected an integer of at least 1, got 0"),
        (
            {"limit": 1, "name": "x"},
            'name: expected a string of at least 2 characters and at most 5 characters, got "x"',
        ),
        ({"name": "xyz"}, 'breaks the rule \'dependentRequired\' of the schema: {"name": ["limit"]}'),
        ({"tags": ["a", 5]}, "tags[1]: expected a string, got 5"),
        ({"tags": "a"}, 'tags: expected a list of strings, got "a"'),
        ({"tags": ["a", "a"]}, 'tags: expected a list with no entry twice, got ["a", "a"]'),
        ({"shape": {"kind": "circle", "r": 0}}, "shape.r: expected a number of more than 0, got 0"),
        ({"shape": {"kind": "square"}}, "shape.a: expected a number, got nothing"),
        ({"shape": {"kind": "oval"}}, 'shape.kind: expected one of "circle", "square", got "oval"'),
        ({"shape": 5}, "shape: expected an object, got 5"),
        ({"maybe": "x"}, 'maybe: expected an integer or null, got "x"'),
        ({"color": "blue"}, 'color: expected one of "red", "green", got "blue"'),
        ({"code": "A1"}, 'code: expected a string that matches ^[a-z]+$, got "A1"'),
        ({"limt": 5}, "limt: is not known. Did you mean limit?"),
        (
            {"password": "hunter2"},
            "password: expected a string of at least 8 characters, got a string that is not shown",
        ),
        ([], "expected an object, got []"),
    ],
)
def test_a_mistake_is_told_with_its_place_what_was_expected_and_what_was_got(value: Any, message: str) -> None:
    assert [problem.message for problem in check(SCHEMA, value)] == [message]


def test_of_many_names_that_are_not_known_only_some_are_asked_what_was_meant() -> None:
    messages = [problem.message for problem in check(SCHEMA, {f"limit{number}": 1 for number in range(50)})]
    assert len(messages) == 50
    assert sum("Did you mean limit?" in message for message in messages) == 20


def test_what_is_right_has_no_problems() -> None:
    assert check(SCHEMA, {"limit": 3, "name": "Oslo", "shape": {"kind": "circle", "r": 1}, "maybe": None}) == []
    assert check(True, 5) == []
    assert check({}, {"a": [1]}) == []


def test_all_that_is_missing_is_told_at_once() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    assert [problem.message for problem in check(schema, {})] == [
        "a: expected a string, got nothing",
        "b: expected an integer, got nothing",
    ]


def test_one_of_several_needs_is_told_as_such() -> None:
    schema = {"type": "object", "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
    assert [problem.message for problem in check(schema, {})] == ["needs id or name"]


def test_what_fits_too_many_alternatives_is_told() -> None:
    (problem,) = check({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 5)
    assert problem.message.startswith("fits more than one of: an integer or ")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            {"properties": {"a": {"type": "strng"}}},
            'The server\'s schema is wrong at properties.a.type: there is no type "strng".',
        ),
        ({"required": "a"}, "The server's schema is wrong at required: expected a list of strings"),
        ({"$ref": "https://example.com/schema"}, "nothing is fetched"),
        ({"$ref": "#/$defs/gone"}, 'it refers to "#/$defs/gone"'),
        ({"$ref": "#"}, "refers to itself without end"),
        ([], "it must be an object, not []"),
        (5, "it must be an object, not 5"),
        (False, "it allows no value at all"),
    ],
)
def test_a_schema_that_is_wrong_is_the_servers_fault(schema: object, words: str) -> None:
    (problem,) = check(schema, {"a": 1})
    assert problem.fault == "schema"
    assert words in problem.message


def test_older_drafts_are_understood_as_they_were_meant() -> None:
    draft4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "minimum": 1,
        "exclusiveMinimum": True,
        "type": "integer",
    }
    assert [problem.message for problem in check(draft4, 1)] == ["expected an integer of at least 1, got 1"]
    draft7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert check(draft7, ["a"]) == []
    assert len(check(draft7, ["a", "b"])) == 1


def test_a_check_that_would_take_too_long_is_given_up_and_said_to_be() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 60):
        ref = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"allOf": [ref, ref]}
    (problem,) = check({"$defs": definitions, "$ref": "#/$defs/d59"}, "x", seconds=0.2)
    assert problem.fault == "schema"
    assert "stopped after 0.2 s" in problem.message


def test_a_great_depth_is_told_rather_than_raised() -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    for _ in range(2_000):
        schema, value = {"properties": {"a": schema}}, {"a": value}
    assert all(problem.fault == "schema" for problem in check(schema, value))


def test_a_pattern_that_might_not_end_is_not_run() -> None:
    assert check({"type": "string", "pattern": "(a+)+$"}, "a" * 500 + "!") == []


def test_keys_whose_patterns_take_too_long_are_not_refused() -> None:
    schema = {"type": "object", "patternProperties": {"^(a|aa)+$": {"type": "string"}}, "additionalProperties": False}
    assert check(schema, {"aab": 1})[0].path == "aab"
    assert check(schema, {"a" * 60 + "!": 1}) == []
    assert check({"items": schema}, [{"a" * 60 + "!": 1}]) == []


def test_a_result_is_measured_by_the_output_schema() -> None:
    tool = {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    assert check_result(tool, {"structuredContent": {"n": 1}}) == []
    (wrong,) = check_result(tool, {"structuredContent": {"n": "1"}}) or ()
    assert wrong.message == 'n: expected an integer, got "1"'
    (missing,) = check_result(tool, {"content": []}) or ()
    assert "no structured content" in missing.message


@pytest.mark.parametrize("result", [None, {"isError": True, "content": []}, {"cut": True, "size": 9, "head": "{"}])
def test_a_result_that_failed_or_was_cut_is_not_measured(result: Any) -> None:
    assert check_result({"outputSchema": {"type": "object"}}, result) is None


def test_a_result_of_a_tool_without_an_output_schema_is_not_measured() -> None:
    assert check_result({}, {"structuredContent": {}}) is None


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"not": {"type": "string"}}, "x", 'breaks the rule \'not\' of the schema: {"type": "string"}'),
        ({"contains": {"type": "integer"}}, ["a"], 'breaks the rule \'contains\' of the schema: {"type": "integer"}'),
        ({"properties": {"a": False}}, {"a": 1}, "a: expected nothing here, got 1"),
        ({"const": 5}, 6, "expected 5, got 6"),
        ({"multipleOf": 5, "type": "integer"}, 6, "expected an integer, a multiple of 5, got 6"),
        ({"type": ["integer", "null"]}, "x", 'expected an integer or null, got "x"'),
        ({"type": "object", "minProperties": 1}, {}, "expected an object of at least 1 key, got {}"),
        ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, 'a: expected an integer, got "x"'),
        ({"additionalProperties": False}, {"a": "x"}, "a: is not known."),
        (
            {"properties": {"abc": {}, "def": {}}, "additionalProperties": False},
            {"zz": 1},
            "zz: is not known. There are: abc, def.",
        ),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1, "y": 1}, "y: is not known."),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "b: expected any value, got nothing"),
        ({"enum": list(range(20))}, 99, "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more, got 99"),
        (
            {"type": "string", "format": "date", "maxLength": 1},
            "xx",
            'expected a date, such as 2026-07-28 of at most 1 character, got "xx"',
        ),
        (
            {"type": "string", "maxLength": 1},
            "x" * 100,
            'expected a string of at most 1 character, got "' + "x" * 58 + "…",
        ),
    ],
)
def test_each_keyword_has_its_words(schema: dict[str, Any], value: Any, message: str) -> None:
    assert [problem.message for problem in check(schema, value)] == [message]


def test_of_several_alternatives_that_might_be_meant_the_nearest_is_told() -> None:
    near = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    far = {"type": "object", "required": ["x", "y", "z"]}
    assert [problem.message for problem in check({"anyOf": [far, near]}, {"a": "1"})] == [
        'a: expected an integer, got "1"'
    ]


def test_at_most_fifty_problems_are_told() -> None:
    assert len(check({"items": {"type": "integer"}}, ["x"] * 1_000)) == 50


def test_a_very_large_schema_is_used_without_a_look_at_all_of_it() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(10_000)}}
    assert [problem.message for problem in check(schema, {"p9": 5}, seconds=60)] == ["p9: expected a string, got 5"]
