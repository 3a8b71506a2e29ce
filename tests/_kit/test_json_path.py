"""Paths in JSON values."""

import copy
from typing import Any

import pytest

from tidings._kit.json_path import BadJsonPath, JsonPath

VALUE = {"items": [{"name": "a", "price": 1}, {"name": "b"}], "name": "top", "odd key": {"name": "c"}}


@pytest.mark.parametrize("path", ["$.items[", "$.items[x]", "$['open", "$.items[?(@.price)]"])
def test_what_is_no_path_is_refused_with_what_is_known(path: str) -> None:
    with pytest.raises(BadJsonPath):
        JsonPath(path)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.name", ["top"]),
        ("$.items[0].name", ["a"]),
        ("$.items[*].name", ["a", "b"]),
        ("$['odd key'].name", ["c"]),
        ("$.items[7].name", []),
        ("$.nothing", []),
        ("$.name[0]", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(VALUE, 9) == found


def test_two_dots_lead_to_every_depth() -> None:
    assert JsonPath("$..name").find(VALUE, 9) == ["top", "a", "b", "c"]
    assert JsonPath("$..name").find(VALUE, 2) == ["top", "a"]
    deep: Any = {"name": "deep"}
    for _ in range(5_000):
        deep = [deep]
    assert JsonPath("$..name").find(deep, 9) == ["deep"]


def test_parts_are_removed() -> None:
    value = copy.deepcopy(VALUE)
    for path in ("$.items[*].price", "$['odd key']", "$.items[-1]", "$"):
        JsonPath(path).remove(value, 9)
    assert value == {"items": [{"name": "a"}], "name": "top"}
