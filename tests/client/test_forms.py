"""What a person fills in is made complete, and checked as JSON Schema says."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tidings.client.schema import fill_in


def form(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


def test_each_field_that_is_left_out_gets_its_default() -> None:
    schema = form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive"], "default": "active"},
        verified={"type": "boolean", "default": False},
        tags={"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        nickname={"type": "string"},
        motto={"type": "string", "default": None},
    )
    all_defaults = {
        "name": "John Doe",
        "age": 30,
        "score": 95.5,
        "status": "active",
        "verified": False,
        "tags": ["a"],
    }
    assert fill_in(schema, {}) == all_defaults
    assert fill_in(schema, {"age": 0, "name": None}) == all_defaults | {"age": 0}
    assert list(fill_in(schema, {"nickname": "Jo", "age": 1})) == [*all_defaults, "nickname"]
    fill_in(schema, {})["tags"].append("b")  # type: ignore[union-attr]
    assert fill_in(schema, {}) == all_defaults


def test_a_default_satisfies_what_is_required() -> None:
    assert fill_in(form(["name"], name={"type": "string", "default": "Ada"}), {}) == {"name": "Ada"}


TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


@pytest.mark.parametrize(
    ("field", "good", "bad", "words"),
    [
        ({"type": "string"}, ["", "x"], [1, True, ["x"]], "must be a string"),
        ({"type": "integer"}, [0, -5, 3.0], [1.5, "1", True, math.inf], "must be a whole number"),
        ({"type": "number"}, [0, 1.5], ["1", False, math.nan, math.inf], "must be a number"),
        ({"type": "boolean"}, [True, False], [0, 1, "true"], "must be true or false"),
        ({"type": "array", "items": {"type": "string"}}, [[], ["x"]], ["x", [1], [["x"]]], "must be a list of strings"),
        ({}, ["x", 1, True, ["x"]], [{"x": 1}, [1], object()], "must be a string, a number, true or false, or a list"),
        ({"type": "string", "enum": ["r", "g"]}, ["r"], ["b", ""], "must be one of 'r', 'g'"),
        ({"type": "string", "oneOf": TITLED}, ["g"], ["Green"], "must be one of 'r', 'g'"),
        ({"enum": [1]}, [1], [True], "must be one of 1"),
        ({"type": "array", "items": {"enum": ["r", "g"]}}, [["r", "g"]], [["r", "b"]], "out of 'r', 'g'"),
        ({"type": "array", "items": {"anyOf": TITLED}}, [["r"]], [["Red"]], "out of 'r', 'g'"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [["a"]], [[]], "needs at least 1 entries"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [["a"]], [["a", "b", "c"]], "may have at most 2 entries"),
        ({"type": "string", "minLength": 2}, ["ab"], ["a"], "needs at least 2 characters"),
        ({"type": "string", "maxLength": 2}, ["ab"], ["abc"], "may have at most 2 characters"),
        ({"type": "integer", "minimum": 18}, [18], [17], "must be 18 or more"),
        ({"type": "number", "maximum": 0.5}, [0.5], [0.6], "must be 0.5 or less"),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a", "@", "a b@c", "a@b@c"], "must be an e-mail address"),
        (
            {"type": "string", "format": "uri"},
            ["https://a", "urn:x:y"],
            ["a", "a b:c", "http://[", ""],
            "must be a URI",
        ),
        (
            {"type": "string", "format": "date"},
            ["2026-07-28"],
            ["2026-02-30", "20260728", "28.7.26"],
            "must be a date,",
        ),
        (
            {"type": "string", "format": "date-time"},
            ["2026-07-28T12:00:00Z", "2026-07-28T12:00:00.5+02:00", "2026-07-28t12:00:00z"],
            ["2026-07-28", "2026-07-28T12:00:00", "2026-07-28T25:00:00Z"],
            "must be a date and time with its offset",
        ),
    ],
)
def test_a_value_must_be_what_the_field_allows(
    field: dict[str, Any], good: list[Any], bad: list[Any], words: str
) -> None:
    for value in good:
        assert fill_in(form(it=field), {"it": value}) == {"it": value}
    for value in bad:
        with pytest.raises(ValueError, match=rf"^Field 'it' .*{words}"):
            fill_in(form(it=field), {"it": value})


def test_missing_and_unknown_fields_are_named() -> None:
    schema = form(["name", "age"], name={"type": "string"}, age={"type": "integer"})
    with pytest.raises(ValueError, match="needs 'name', 'age' as well"):
        fill_in(schema, {"name": None})
    with pytest.raises(ValueError, match=r"no field 'nmae'\. Its fields: 'name', 'age'\."):
        fill_in(schema, {"nmae": "Ada"})
    with pytest.raises(ValueError, match="Its fields: none"):
        fill_in({"type": "object"}, {"name": "Ada"})


def test_a_value_is_never_repeated() -> None:
    with pytest.raises(ValueError, match="must be a whole number") as caught:
        fill_in(form(pin={"type": "integer"}), {"pin": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "field",
    [
        7,
        {"type": ["string", "null"]},
        {"type": "strange"},
        {"minLength": "x", "format": 7, "enum": "x", "oneOf": [7], "items": 7},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"pattern": "(a+)+$"},
        {"$ref": "https://example.com/schema"},
    ],
)
def test_what_no_form_may_have_is_left_to_the_server_to_judge(field: object) -> None:
    text = "a" * 40 + "!"
    assert fill_in({"properties": {"it": field}, "required": "it"}, {"it": text}) == {"it": text}


letters = st.text("abc", max_size=3)
numbers = st.integers(-3, 3) | st.floats(-3, 3).map(lambda number: round(number, 1))
values = letters | numbers | st.booleans() | st.lists(letters, max_size=3)


def limits(lower: str, upper: str, kind: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={lower: kind, upper: kind})


def of_type(name: str, *more: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    merged = st.tuples(*more).map(lambda parts: {key: value for part in parts for key, value in part.items()})
    return merged.map(lambda rest: {"type": name, **rest})


sizes = st.integers(0, 3)
options = st.lists(letters, min_size=1, max_size=3, unique=True)
titled = options.map(lambda names: [{"const": name, "title": name.upper()} for name in names])
choices = options.map(lambda names: {"enum": names})
fields = st.one_of(
    of_type("string", limits("minLength", "maxLength", sizes)),
    of_type("string", choices),
    of_type("string", titled.map(lambda each: {"oneOf": each})),
    of_type("integer", limits("minimum", "maximum", numbers)),
    of_type("number", limits("minimum", "maximum", numbers)),
    of_type("boolean"),
    of_type(
        "array",
        limits("minItems", "maxItems", sizes),
        (choices | titled.map(lambda each: {"anyOf": each})).map(lambda items: {"items": {"type": "string", **items}}),
    ),
)
forms = st.builds(
    lambda properties, required: form([name for name in required if name in properties], **properties),
    st.dictionaries(st.sampled_from("xyz"), fields),
    st.lists(st.sampled_from("xyz"), unique=True),
)


@given(schema=forms, content=st.dictionaries(st.sampled_from("xyz"), values))
@example(schema=form(x={"type": "integer"}), content={"x": True})
@example(schema=form(x={"type": "integer"}), content={"x": 1.0})
def test_the_checks_agree_with_json_schema(schema: dict[str, Any], content: dict[str, Any]) -> None:
    valid = Draft202012Validator(schema | {"additionalProperties": False}).is_valid(content)
    try:
        filled = fill_in(schema, content)
    except ValueError:
        assert not valid
    else:
        assert valid
        assert filled == content
