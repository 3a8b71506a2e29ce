"""What a tool returned is held against its schema, and never for longer than a moment."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.client.schema import complaint
from tidings.inspector.forms.check import check


def test_what_fits_is_not_complained_about() -> None:
    assert complaint({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1}) == ""


def test_a_complaint_says_where_and_what_in_few_words() -> None:
    schema = {"properties": {"list": {"items": {"type": "integer"}}}}
    assert complaint(schema, {"list": [1, "x" * 10_000]}).startswith(
        "what it returned does not fit its output schema: $.list[1]: 'xxx"
    )
    assert len(complaint(schema, {"list": [1, "x" * 10_000]})) < 400


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
def test_a_schema_that_doubles_at_each_step_is_given_up_and_lets_through(keyword: str) -> None:
    steps: dict[str, Any] = {"s0": {"type": "string"}}
    for number in range(40):
        inner = {"$ref": f"#/$defs/s{number}"}
        steps[f"s{number + 1}"] = {keyword: [inner, inner]}
    assert complaint({"$defs": steps, "$ref": "#/$defs/s40"}, 5) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *(({"$schema": odd}, 1) for odd in ([], {}, 5, "http://[")),
        ({"enum": [1], "$ref": "#/enum/x"}, 1),
        ({"const": 5, "$ref": "#/const"}, 5),
        ({"multipleOf": 0.01}, 1e400),
        ({"multipleOf": 0.01}, 10**400),
    ],
    ids=str,
)
def test_what_nobody_can_judge_is_let_through_and_said_where_somebody_looks(schema: dict[str, Any], value: Any) -> None:
    assert complaint(schema, value) == ""
    (problem,) = check(schema, value)
    assert problem.fault == "schema"
    assert problem.message.startswith("The value could not be checked")


def test_a_schema_that_was_used_before_is_judged_at_once() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert complaint(schema, {"n": "x"}, quick=True) is None
    assert "'x' is not of type 'integer'" in str(complaint(schema, {"n": "x"}))
    assert complaint(schema, {"n": "x"}, quick=True) == complaint(schema, {"n": "x"})
    assert complaint(schema, {"n": 1}, quick=True) == ""
    assert complaint({**schema}, {"n": 1}, quick=True) is None


_PLAIN = st.recursive(
    st.sampled_from(["string", "integer", "boolean", "number"]).map(lambda kind: {"type": kind}) | st.just(True),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(
            lambda known, needed: {"type": "object", "title": "T", "properties": known, "required": needed},
            st.dictionaries(st.sampled_from("ab"), inner),
            st.lists(st.sampled_from("abc"), unique=True),
        )
    ),
    max_leaves=4,
)
_VALUES = st.recursive(
    st.sampled_from(["x", 1, 1.0, 0.5, True, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


@given(_PLAIN, _VALUES)
def test_a_plain_schema_is_judged_as_the_library_judges_it(schema: Any, value: Any) -> None:
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (complaint({"allOf": [schema]}, value) == "") == fits
    if isinstance(schema, dict):
        assert (complaint(schema, value) == "") == fits


def test_a_very_large_schema_lets_through() -> None:
    assert complaint({"properties": {f"p{number}": {"type": "string"} for number in range(20_000)}}, {"p1": 1}) is None


@pytest.mark.parametrize("depth", [0, 40, 80, 120, 160, 200])
def test_a_schema_that_refers_to_itself_is_said_to_wherever_the_stack_ends(depth: int) -> None:
    def deeper(left: int) -> str:
        return deeper(left - 1) if left else str(complaint({"$ref": "#"}, 1))

    assert "refers to itself without end" in deeper(depth)
