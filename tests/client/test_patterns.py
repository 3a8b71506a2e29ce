"""A pattern of a server's is run only where that cannot take long."""

import pytest

from tidings.client.patterns import found_in


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "(a|aa)+$", "(.*)*x", "a*a*a*a*a*a*a*a*b", r"(\w+\s?)+$", "[", r"\p{L}"),
        *(
            "^(a{0,16}){0,16}$",
            "^(a*){10}$",
            "a?" * 40 + "a" * 40,
            "^(a?){40}$",
            "(a|a)" * 30 + "$",
            "a{0,16}" * 9 + "$",
        ),
    ],
)
def test_a_pattern_that_might_not_end_or_is_none_is_not_run(pattern: str) -> None:
    assert found_in(pattern, "a" * 500 + "!") is None


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z0-9]+(?:-[a-z0-9]+)*$", "a-slug", True),
        ("^[a-z0-9]+(?:-[a-z0-9]+)*$", "No Slug", False),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-07-28", True),
        (r"^[^@\s]+@[^@\s]+\.[a-z]+$", "me@example.com", True),
        ("^(?:GET|POST)$", "PUT", False),
    ],
)
def test_ordinary_patterns_are_run(pattern: str, text: str, *, found: bool) -> None:
    assert found_in(pattern, text) is found
