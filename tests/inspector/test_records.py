"""A record is one line of JSON and back, whatever is in it."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given

from tests.inspector.recorded import sessions, values
from tidings._kit.bounded_json import cut, dumps, head_of, in_order, is_cut, weigh
from tidings.inspector.records import Record


@given(sessions())
def test_a_record_is_the_same_after_it_was_a_line(records: list[Record]) -> None:
    for record in records:
        line = record.to_line()
        assert line.isascii()
        assert "\n" not in line
        assert Record.from_line(line) == record


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON"),
        ("[]", "a JSON object, not a list"),
        ("{}", "`seq` is a number"),
        ('{"seq": true, "at": 1, "server": "", "kind": "", "data": {}}', "`seq` is a number"),
        ('{"seq": 1, "at": "now", "server": "", "kind": "", "data": {}}', "`at` is a time"),
        ('{"seq": 1, "at": 1, "server": 1, "kind": "", "data": {}}', "are strings"),
        ('{"seq": 1, "at": 1, "server": "", "kind": "", "data": null}', "`data` is a JSON object, not null"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Record.from_line(line)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [math.nan, {"a": math.inf}, {1: object()}, 10**5000, deep(100_000)], ids=type)
def test_what_json_cannot_say_is_said_as_a_text(value: Any) -> None:
    assert json.loads(dumps({"value": value}))


@given(values)
def test_the_head_of_a_value_is_short_and_its_weight_bounded(value: Any) -> None:
    assert len(head_of(value, 10)) <= 11
    assert weigh(value) >= 0
    kept = cut(value, 99)
    assert is_cut(kept)
    assert kept["size"] == 99
    assert in_order(value) == value


def test_the_weight_of_a_large_value_is_not_looked_at_to_its_end() -> None:
    assert 1_000 < weigh(["x" * 600] * 1_000, 1_000) < 3_000


def test_records_and_views_do_not_import_the_sdk() -> None:
    script = (
        "import sys, tidings.inspector.view.view, tidings.inspector.sessions.saved, "
        "tidings.inspector.http.api.saved_sessions, tidings.inspector.sessions.journal\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'pydantic')])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
