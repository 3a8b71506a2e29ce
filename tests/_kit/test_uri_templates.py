"""URI templates."""

from typing import Any

import pytest

from tidings._kit.uri_templates import Variable, expand, matches, variables

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
