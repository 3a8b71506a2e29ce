"""Ignore rules leave out what they name, and nothing else; a bad one is refused, a slow one skipped."""

import json
from typing import Any

import pytest

from tidings.bridge.settings import Ignored


def left(value: Any, *rules: str) -> Any:
    """What is compared of a JSON value."""
    (content,) = Ignored(rules).compared([{"uri": "a://b", "text": json.dumps(value)}])
    return json.loads(content["text"])


@pytest.mark.parametrize(
    ("rule", "rest"),
    [
        ("$.at", {"runs": [{"id": 1, "at": 2}, {"id": 2, "at": 3}], "a b": 4}),
        ("$.runs[0]", {"at": 1, "runs": [{"id": 2, "at": 3}], "a b": 4}),
        ("$.runs[-1].at", {"at": 1, "runs": [{"id": 1, "at": 2}, {"id": 2}], "a b": 4}),
        ("$.runs[*].at", {"at": 1, "runs": [{"id": 1}, {"id": 2}], "a b": 4}),
        ("$..at", {"runs": [{"id": 1}, {"id": 2}], "a b": 4}),
        ("$.runs[*]", {"at": 1, "runs": [], "a b": 4}),
        ("$['a b']", {"at": 1, "runs": [{"id": 1, "at": 2}, {"id": 2, "at": 3}]}),
        ("$.no.such[7].thing", {"at": 1, "runs": [{"id": 1, "at": 2}, {"id": 2, "at": 3}], "a b": 4}),
        ("$", {"at": 1, "runs": [{"id": 1, "at": 2}, {"id": 2, "at": 3}], "a b": 4}),
    ],
)
def test_a_path_leaves_out_what_it_names(rule: str, rest: Any) -> None:
    assert left({"at": 1, "runs": [{"id": 1, "at": 2}, {"id": 2, "at": 3}], "a b": 4}, rule) == rest


def test_a_pattern_leaves_out_what_it_matches() -> None:
    contents = [{"uri": "a://b", "text": "12 views\nNews"}, {"uri": "a://c", "blob": "QQ=="}]
    assert Ignored([r"^\d+ views$", "$.at"]).compared(contents) == [{"uri": "a://b", "text": "\nNews"}, contents[1]]


@pytest.mark.parametrize("rule", ["$[", "$.a[b]", "(", "a{1000000000}"])
def test_a_bad_rule_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="ignore rule"):
        Ignored([rule])


def test_a_rule_that_takes_too_long_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    contents = [{"uri": "a://b", "text": "a" * 40 + "!"}]
    assert Ignored(["(a|aa)+$"]).compared(contents) == contents
    assert "takes too long" in caplog.text


def test_what_is_nested_deeply_is_compared_as_it_is() -> None:
    contents = [{"uri": "a://b", "text": "[" * 900 + "]" * 900}]
    assert Ignored(["$..at"]).compared(contents)[0]["text"]
