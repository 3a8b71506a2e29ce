"""URI templates, and patterns of URIs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate

from tidings._kit.uri_templates import UriPattern, Variable, expand, matches, variables

VALUES: dict[str, Any] = {"var": "value", "path": "/foo/bar", "empty": "", "list": ["red", "green"], "half": "50%"}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("x:{var}", "x:value"),
        ("x:{+path}/here", "x:/foo/bar/here"),
        ("x:{path}", "x:%2Ffoo%2Fbar"),
        ("x:{half}{+half}", "x:50%2550%"),
        ("x:y{#path}", "x:y#/foo/bar"),
        ("x:y{.var,list*}", "x:y.value.red.green"),
        ("x:y{/list*}{/var:1}", "x:y/red/green/v"),
        ("x:y{;list}{;var}", "x:y;list=red,green;var=value"),
        ("x:y{?var,list*}", "x:y?var=value&list=red&list=green"),
        ("x:y?a=b{&var,missing}", "x:y?a=b&var=value"),
        ("x:y{?missing,empty}", "x:y"),
        ("x:{list}", "x:red,green"),
        ("x:{=var}", "x:{=var}"),
    ],
)
def test_values_make_a_uri_that_matches_its_template(template: str, uri: str) -> None:
    assert expand(template, VALUES) == uri
    assert matches(template, uri)


def test_another_uri_does_not_match() -> None:
    assert not matches("note://{name}", "note://a/b")
    assert not matches("note://{name}.md", "note://a")
    assert not matches("note://a.b", "note://axb")


def test_a_template_from_outside_costs_little() -> None:
    assert not matches("a://" + "{+x}" * 40 + "!", "b://" + "a" * 1900)
    assert not matches("a://{+a}{+b}{+c}{+d}!", "a://" + "a" * 200)
    assert matches("a://{x}", "a://" + "/" * 10_000)


def test_variables_are_named_with_what_their_expression_says() -> None:
    found = list(variables("x:{a}{/b*}{?c:3, d}{+e}{}{a b}"))
    assert found == [
        Variable("a", "", None, False),
        Variable("b", "/", None, True),
        Variable("c", "?", 3, False),
        Variable("d", "?", None, False),
        Variable("e", "+", None, False),
    ]
    assert [each.name for each in found if each.optional] == ["c", "d"]


class Refused(ValueError):
    pass


def _check(text: str) -> None:
    if ":" not in text and text != "*":
        raise Refused(text)


def pattern(text: object) -> UriPattern:
    return UriPattern(text, parse_template=UriTemplate.parse, check=_check)


@pytest.mark.parametrize(
    ("text", "uri", "found"),
    [
        ("note://a", "note://a", {}),
        ("note://a", "note://ab", None),
        ("note://*", "note://a/b", {}),
        ("note://*", "note://*", {}),
        ("note://*", "note:/", None),
        ("*", "x:y", {}),
        ("feed://{id}", "feed://7", {"id": "7"}),
        ("feed://{id}", "feed://*", {"id": "*"}),
        ("feed://{id}", "feed://a/b", None),
        ("feed://{+path}", "feed://a/b", {"path": "a/b"}),
        ("feed://{id}", "feed://%C3%A6", {"id": "æ"}),
    ],
)
def test_a_pattern_matches_and_gives_the_variables(text: str, uri: str, found: dict[str, str] | None) -> None:
    assert pattern(text).match(uri) == found


def test_a_pattern_names_its_variables() -> None:
    assert pattern("x:{a}/{b}{?c}").variables == ["a", "b", "c"]
    assert pattern("x:{a}/{b}{?c}").optional == {"c"}
    assert pattern("x:*").variables == []
    assert pattern("x:*").optional == frozenset()
    assert repr(pattern("x:*")) == "UriPattern('x:*')"


def test_a_text_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(Refused):
        pattern("note")
    with pytest.raises(TypeError, match="not int"):
        pattern(7)
    for text in ("feed://{id", "feed://{}", "feed://{a b}"):
        with pytest.raises(ValueError, match="is not a URI template") as refusal:
            pattern(text)
        assert repr(text) in str(refusal.value)


def test_a_prefix_is_covered_only_by_a_prefix() -> None:
    assert pattern("feed://{id}").covers("feed://a")
    assert not pattern("feed://{id}").covers("feed://*")
    assert pattern("feed://*").covers("feed://a*")
    assert not pattern("feed://a*").covers("feed://*")


@given(st.text("abc/:*", max_size=6), st.text("abc/:*", max_size=6))
def test_a_prefix_matches_what_begins_with_it(text: str, uri: str) -> None:
    text, uri = "x:" + text, "x:" + uri
    wanted = uri == text or (text.endswith("*") and uri.startswith(text[:-1]))
    assert (pattern(text).match(uri) is not None) is wanted
