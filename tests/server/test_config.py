"""Settings are values, and bad ones are refused where they are made."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.changes import Filter, ResourceUpdated
from tidings.errors import InvalidUri
from tidings.server.config import Coalesce, Limits, UriPattern

LIMITS = [field.name for field in dataclasses.fields(Limits)]


@pytest.mark.parametrize(
    ("window", "max_wait"),
    [(-0.1, 1), (2, 1), (0, -1), (math.nan, 1), (0, math.nan), (1, math.inf), (math.inf, math.inf)],
)
def test_a_window_is_not_negative_not_longer_than_the_longest_wait_and_ends(window: float, max_wait: float) -> None:
    with pytest.raises(ValueError, match=r"0 <= window <= max_wait .*, not window="):
        Coalesce(window=window, max_wait=max_wait)


@pytest.mark.parametrize(("window", "max_wait"), [(0, 0), (0, 1), (1, 1), (0.01, 0.1)])
def test_a_window_may_be_as_long_as_the_longest_wait_and_may_be_none(window: float, max_wait: float) -> None:
    rule = Coalesce(window=window, max_wait=max_wait)
    assert (rule.window, rule.max_wait) == (window, max_wait)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_limit_is_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"Limits needs {name} > 0, not {value}"):
        Limits(**{name: value})


def test_a_window_that_is_longer_than_a_wait_nobody_gave_is_refused_with_the_wait() -> None:
    with pytest.raises(ValueError, match=r"max_wait=0\.1 \(max_wait is 0\.1 unless given: pass a longer one too\)"):
        Coalesce(window=0.5)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(("value", "named"), [("4", "str '4'"), (None, "NoneType None"), (True, "bool True")])
def test_a_limit_is_a_number(name: str, value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"Limits needs a number for {name}, not {named}"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["window", "max_wait"])
@pytest.mark.parametrize(("value", "named"), [("1", "str '1'"), (True, "bool True")])
def test_a_window_is_a_number(name: str, value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"Coalesce needs a number for {name}, not {named}"):
        Coalesce(**{name: value})


@pytest.mark.parametrize("value", [Coalesce(), Limits()], ids=repr)
def test_settings_cannot_be_changed_behind_the_servers_back(value: Coalesce | Limits) -> None:
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, 1)
    assert value == dataclasses.replace(value)


words = st.text("abc/:*", max_size=6)


@given(words, words)
def test_a_pattern_matches_what_a_filter_for_it_wants(pattern: str, uri: str) -> None:
    pattern, uri = "x:" + pattern, "x:" + uri
    wanted = Filter.of([pattern]).wants(ResourceUpdated(uri))
    assert (UriPattern(pattern).match(uri) is not None) is wanted


def test_a_pattern_is_a_template_of_the_sdk_or_a_subscription() -> None:
    assert UriPattern("feed://{id}").match("feed://%C3%A6") == {"id": "æ"}
    for text in ("", "note", "two words:x", "not a scheme*", "note://a b"):
        with pytest.raises(InvalidUri):
            UriPattern(text)
    for text in ("feed://{id", "feed://{}", "feed://{a}{", "feed://{a b}"):
        with pytest.raises(ValueError, match="is not a URI template"):
            UriPattern(text)


@pytest.mark.parametrize(
    ("text", "uri", "found"),
    [
        ("note://a", "note://a", {}),
        ("note://a", "note://ab", None),
        ("note://*", "note://a/b", {}),
        ("note://*", "note://*", {}),
        ("note://*", "note:/", None),
        ("feed://{id}", "feed://7", {"id": "7"}),
        ("feed://{id}", "feed://*", {"id": "*"}),
        ("feed://{id}", "feed://a/b", None),
        ("feed://{+path}", "feed://a/b", {"path": "a/b"}),
        ("feed://{id}", "feed://%C3%A6", {"id": "æ"}),
    ],
)
def test_a_pattern_matches_and_gives_the_variables(text: str, uri: str, found: dict[str, str] | None) -> None:
    assert UriPattern(text).match(uri) == found


def test_a_pattern_names_its_variables() -> None:
    assert UriPattern("x:{a}/{b}{?c}").variables == ["a", "b", "c"]
    assert UriPattern("x:{a}/{b}{?c}").optional == {"c"}
    assert UriPattern("x:*").variables == []
    assert UriPattern("x:*").optional == frozenset()


def test_a_text_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(InvalidUri):
        UriPattern("note")
    with pytest.raises(TypeError, match="not int"):
        UriPattern(7)
    for text in ("feed://{id", "feed://{}", "feed://{a b}"):
        with pytest.raises(ValueError, match="is not a URI template") as refusal:
            UriPattern(text)
        assert repr(text) in str(refusal.value)


def test_a_prefix_is_covered_only_by_a_prefix() -> None:
    assert UriPattern("feed://{id}").covers("feed://a")
    assert not UriPattern("feed://{id}").covers("feed://*")
    assert UriPattern("feed://*").covers("feed://a*")
    assert not UriPattern("feed://a*").covers("feed://*")


@given(st.text("abc/:*", max_size=6), st.text("abc/:*", max_size=6))
def test_a_prefix_matches_what_begins_with_it(text: str, uri: str) -> None:
    text, uri = "x:" + text, "x:" + uri
    wanted = uri == text or (text.endswith("*") and uri.startswith(text[:-1]))
    assert (UriPattern(text).match(uri) is not None) is wanted
