"""A value is held against a schema within bounds: whatever the schema says, and wherever in it that is."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tidings._kit.patterns import DeadlineExceeded
from tidings.client import schema as schema_module
from tidings.client.schema import complaint, schema_error, time_limit, value_errors

EVIL = {"patternProperties": {"^(a|aa)+$": False}, "additionalProperties": False}
DRAFTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-03/schema#",
]


def told(schema: dict[str, Any], value: object) -> list[str]:
    with time_limit(60):
        return [error.json_path for error in value_errors(schema, value)]


@contextmanager
def a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch, looks: int) -> Iterator[None]:
    """A minute has gone by when the clock was looked at so often."""
    ticks = iter(range(10**9))
    clock = SimpleNamespace(monotonic=lambda: 0.0 if next(ticks) <= looks else 60.0)
    monkeypatch.setattr(schema_module, "time", clock)
    with time_limit(1):
        yield


@pytest.mark.parametrize("name", ["default", "enum", "const", "examples", "properties", "definitions"])
def test_a_property_may_be_called_like_a_keyword(name: str) -> None:
    assert told({"properties": {name: EVIL}}, {name: {"a" * 60 + "!": 1}}) == []
    assert told({"properties": {name: {"type": "string"}}}, {name: 1}) == [f"$.{name}"]
    assert told({"properties": {name: {"type": "array", "uniqueItems": False}}}, {name: [1, 1]}) == []
    assert told({"properties": {name: False}}, {name: 1}) == [f"$.{name}"]


@pytest.mark.parametrize("keyword", ["default", "enum", "const", "examples", "x-own"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_reference_to_anything_does_not_lead_out_of_the_bounds(keyword: str, draft: str) -> None:
    long = "a" * 60 + "!"
    for inner, value in (({"$schema": draft, **EVIL}, {long: 1}), ({"$schema": draft, "pattern": "^(a|aa)+$"}, long)):
        schema = {"$defs": {"x": {keyword: [inner]}}, "$ref": f"#/$defs/x/{keyword}/0"}
        assert told(schema, value) == []


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_is_bounded(draft: str) -> None:
    assert told({"$schema": draft, **EVIL}, {"a" * 60 + "!": 1}) == []
    assert told({"$schema": draft, "patternProperties": {"^x": {"type": "string"}}}, {"x1": 1, "y": 1}) == ["$.x1"]
    assert told({"$schema": draft, "additionalProperties": {"type": "string"}}, {"a": 1}) == ["$.a"]
    assert told({"$schema": draft, "uniqueItems": True}, [1, 1.0]) == ["$"]
    assert schema_error({"$schema": draft, "type": "object"}) is None
    assert schema_error({"$schema": draft, "type": 5}) is not None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"^x": True}}, {f"k{number}": 1 for number in range(300)}),
        (
            {"patternProperties": {"^x": True}, "additionalProperties": False},
            {f"x{number}": 1 for number in range(300)},
        ),
        ({"patternProperties": {"^x": True}, "unevaluatedProperties": True}, {f"x{n}": 1 for n in range(300)}),
        ({"uniqueItems": True}, [{"a": number} for number in range(300)]),
        ({"items": {}}, [1] * 300),
        ({"items": {"title": "anything"}}, [1] * 300),
        ({"not": {"contains": False}}, [1] * 300),
        ({"unevaluatedItems": {}}, [1] * 300),
    ],
    ids=str,
)
def test_the_clock_is_looked_at_for_each_key_and_entry(
    schema: dict[str, Any], value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeadlineExceeded), a_clock_that_jumps(monkeypatch, looks=250):
        list(value_errors(schema, value))


def test_what_doubles_at_each_step_is_given_up_even_if_no_keyword_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, Any] = {"s0": {}}
    for number in range(40):
        inner = {"$ref": f"#/$defs/s{number}"}
        steps[f"s{number + 1}"] = {"dependentSchemas": {"a": inner, "b": inner}}
    with pytest.raises(DeadlineExceeded), a_clock_that_jumps(monkeypatch, looks=10_000):
        list(value_errors({"$defs": steps, "$ref": "#/$defs/s40", "unevaluatedProperties": False}, {"a": 1, "b": 1}))


def test_a_limit_within_a_limit_is_not_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeadlineExceeded), a_clock_that_jumps(monkeypatch, looks=2), time_limit(600):
        list(value_errors({"items": {"type": "integer"}}, [1] * 10))


@pytest.mark.parametrize(
    ("value", "unique"),
    [
        ([1, True, 0, False, "1", None, "null", [1], [True], {}, {"a": 1}, {"b": 1}], True),
        ([number * (2**61 - 1) for number in range(3_000)], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([10**22, 1e22], False),
        (["x"] * 3_000, False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_entries_are_the_same_if_json_says_so(value: list[Any], *, unique: bool) -> None:
    assert told({"uniqueItems": True}, value) == ([] if unique else ["$"])


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"allOf": [{"properties": {"a": True}}]}, {"a": 1}, True),
        ({"allOf": [{"properties": {"a": True}}]}, {"a": 1, "b": 1}, False),
        ({"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": True}}]}, {"a": 1}, False),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"patternProperties": {"^a": True}}}}, {"ab": 1}, True),
        # The library would run the patterns without a limit, so this is not judged.
        ({"$ref": "#/$defs/x", "$defs": {"x": {"patternProperties": {"^a": True}}}}, {"ba": 1}, True),
        ({}, {f"k{number}": 1 for number in range(1_000)}, False),
        ({}, {f"k{number}": 1 for number in range(1_001)}, True),
        ({"$ref": "#/$defs/x", "$defs": {"x": EVIL}}, {"a" * 60 + "!": 1}, True),
        ({"if": {"required": ["a"]}, "then": {"properties": {"a": True}}}, {"a": 1}, True),
        ({"if": {"required": ["b"]}, "else": {"properties": {"a": True}}}, {"a": 1}, True),
        ({"if": {"required": ["b"]}, "then": {"properties": {"a": True}}}, {"a": 1}, False),
        ({"dependentSchemas": {"a": {"properties": {"a": True, "b": True}}}}, {"a": 1, "b": 1}, True),
        ({"dependentSchemas": {"c": {"properties": {"a": True}}}}, {"a": 1}, False),
        ({"allOf": [{"additionalProperties": True}]}, {"a": 1}, True),
        ({}, 5, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("draft", DRAFTS[:2])
def test_keys_that_nothing_else_speaks_of_are_found(draft: str, schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert (told({"$schema": draft, **schema, "unevaluatedProperties": False}, value) == []) is fits


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"prefixItems": [True]}, [1], True),
        ({"prefixItems": [True]}, [1, 2], False),
        ({"allOf": [{"items": True}]}, [1, 2], True),
        ({"contains": {"type": "integer"}}, [1, 2], True),
        ({"contains": {"type": "integer"}}, [1, "x"], False),
        ({"$schema": DRAFTS[1], "items": [True], "$recursiveAnchor": True}, [1, 2], False),
        ({"$schema": DRAFTS[1], "items": [True], "additionalItems": True}, [1, 2], True),
        ({}, {"a": 1}, True),
    ],
    ids=str,
)
def test_entries_that_nothing_else_speaks_of_are_found(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert (told({**schema, "unevaluatedItems": False}, value) == []) is fits


def test_a_tree_of_the_older_kind_is_followed() -> None:
    node = {"$schema": DRAFTS[1], "$recursiveAnchor": True, "properties": {"next": {"$recursiveRef": "#"}}}
    strict = {**node, "unevaluatedProperties": False}
    assert told(strict, {"next": {"next": {}}}) == []
    assert told(strict, {"next": {"nxt": {}}}) == ["$.next"]


def test_a_schema_that_is_right_is_looked_at_once_and_its_text_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "_REMEMBERED", 3)
    for number in range(10):
        assert schema_error({"title": str(number)}) is None
    assert len(schema_module._valid_digests) == 3
    assert all(len(each) == 32 for each in schema_module._valid_digests)
    with a_clock_that_jumps(monkeypatch, looks=0):
        assert schema_error({"title": "9"}) is None


def test_the_best_of_several_errors_is_told() -> None:
    told = complaint({"properties": {"a": {"type": "string"}}, "required": ["b"]}, {"a": 1})
    assert told == "what it returned does not fit its output schema: 'b' is a required property"
