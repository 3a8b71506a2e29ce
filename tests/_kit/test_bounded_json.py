"""JSON that nobody has checked."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.bounded_json import (
    NotJson,
    as_dict,
    as_dict_or_none,
    as_dicts,
    as_float,
    as_int,
    as_list,
    as_size,
    as_text,
    as_texts,
    cut,
    dumps,
    head_of,
    in_order,
    is_cut,
    is_number,
    parse_with_comments,
    plain,
    shown,
    weigh,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def deep(levels: int = 100_000) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", ["a", {}, 1], {"a": 1}])
def test_a_value_of_another_type_counts_as_missing(value: Any) -> None:
    assert as_dict(value) == (value if isinstance(value, dict) else {})
    assert as_dict_or_none(value) == (value if isinstance(value, dict) else None)
    assert as_list(value) == (value if isinstance(value, list) else [])
    assert as_text(value) == (value if isinstance(value, str) else None)
    assert as_int(value) == (1 if type(value) is int else None)
    assert as_float(value) == (value if type(value) in (int, float) else None)
    assert is_number(value) is (type(value) in (int, float))


def test_items_of_another_type_are_left_out() -> None:
    assert as_dicts([{"a": 1}, 1, "b", {}]) == [{"a": 1}, {}]
    assert as_texts(["a", 1, None, "b"]) == ["a", "b"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_a_number_that_is_not_finite_is_none(value: float) -> None:
    assert as_float(value) is None


def test_a_size_is_never_negative_nor_too_large_to_add_up() -> None:
    assert [as_size(each) for each in (5, -5, True, 2.0, "5", None, 10**30)] == [5, 0, 0, 0, 0, 0, 2**53]


@given(values)
def test_the_head_is_short_the_weight_is_bounded_and_order_changes_nothing(value: Any) -> None:
    assert len(head_of(value, 10)) <= 11
    assert weigh(value) >= 0
    assert repr(in_order(value)) == repr(value) or in_order(value) == value or "nan" in repr(value)


@given(values)
def test_every_value_is_one_line_of_ascii_json(value: Any) -> None:
    line = dumps(value)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line) == plain(value)


def test_a_value_that_json_cannot_express_is_written_nevertheless() -> None:
    assert dumps({1: math.nan, "a": {2}, "b": 10**5_000}) == '{"1":"nan","a":"{2}","b":"a number of 16610 bits"}'
    assert dumps(deep()).endswith("]")
    assert shown(deep()) == "nested too deeply to be shown"
    assert head_of(deep(), 500).startswith("[[")
    assert weigh(deep()) > 100_000


def test_a_value_is_shown_in_a_limited_line() -> None:
    assert shown({"é": [1]}) == '{"é": [1]}'
    assert shown(["abc"], 5) == '["ab…'


def test_a_large_value_is_not_read_to_its_end() -> None:
    assert 1_000 < weigh(["x" * 600] * 1_000, 1_000) < 3_000
    assert len(head_of({str(number): "x" for number in range(10**5)}, 100)) == 100


def test_a_cut_value_is_recognised() -> None:
    kept = cut({"text": "x" * 100}, 111, head=8)
    assert kept == {"cut": True, "size": 111, "head": '{"text":'}
    assert is_cut(kept)
    assert not is_cut({"cut": True})
    assert not is_cut([])
    assert not is_cut({"cut": 1, "head": ""})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": [1, 2,], // one\n /* two */}', {"a": [1, 2]}),
        ('{"a": "// no, /* comment */ ,]"}', {"a": "// no, /* comment */ ,]"}),
        ("[1, /* x */ // y\n]", [1]),
        (r'["\",]"]', ['",]']),
    ],
)
def test_comments_and_last_commas_are_allowed(text: str, value: Any) -> None:
    assert parse_with_comments(text) == (value, text in ('{"a": 1}', r'["\",]"]') or "no, /*" in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("// x\n{a}", "line 2, column 2"), ("[" * 10**6, "too deeply"), ("1" * 10**5, "too long"), ("/* x", "line 1")],
)
def test_a_text_that_is_not_json_says_where(text: str, message: str) -> None:
    with pytest.raises(NotJson, match=message):
        parse_with_comments(text)
