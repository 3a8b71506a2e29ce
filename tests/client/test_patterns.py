"""A pattern of a server's is run only where that cannot take long."""

import pytest

from tidings.client.patterns import found_in

NEVER = [
    *("(a+)+$", "(a|aa)+$", "(.*)*x", r"(\w+\s?)+$", "[", r"\p{L}", r"(a)\1", "(?i)a", "(?s:.)"),
    *("^(a{0,16}){0,16}$", "^(a*){10}$", "a?" * 40 + "a" * 40, "^(a?){40}$", "(a|a)" * 30 + "$"),
    *(
        "(a*){1000000000}",
        "(^){1000000000}",
        "(a{0,9}){1000000000}",
        "(|a){30}b",
        "(|a)" * 40 + "b",
        "(?:(?:a?)?)" * 40,
    ),
    *("^(a*a*a*)*$", "(x)?(?(1)y|^(a*a*a*a*a*a*a*a*)*$)", "((?=a*b)a)*c", "(?:" * 150 + "a" + ")+" * 150),
    *("(?i)" + "[\x00-\U0010ffff]" * 40, "[\x00-\uffff]" * 200),
]
"""What is not run on any text, however short."""


@pytest.mark.parametrize("length", [0, 8, 12, 19, 500])
@pytest.mark.parametrize("pattern", NEVER, ids=lambda pattern: ascii(pattern)[:30])
def test_a_pattern_that_might_not_end_or_is_none_is_not_run(pattern: str, length: int) -> None:
    assert found_in(pattern, "a" * length + "!" * bool(length)) is None


@pytest.mark.parametrize("pattern", ["a*a*a*a*a*a*a*a*b", "a{0,16}" * 9 + "$", "(a+){12}b"])
def test_a_pattern_that_takes_longer_the_longer_the_text_is_run_on_short_ones_only(pattern: str) -> None:
    assert found_in(pattern, "") is not None
    assert [found_in(pattern, "a" * length + "!") for length in (12, 19, 500)] == [None] * 3


@pytest.mark.parametrize("pattern", ["[[a]", "[a--b]", "[a||b]", "[a&&b]", "[]~~b]", r"x[^\]||]"])
def test_what_python_warns_of_is_not_run_and_nobody_is_warned(pattern: str) -> None:
    assert found_in(pattern, "a") is None


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z0-9]+(?:-[a-z0-9]+)*$", "a-slug", True),
        ("^[a-z0-9]+(?:-[a-z0-9]+)*$", "No Slug", False),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-07-28", True),
        (r"^[^@\s]+@[^@\s]+\.[a-z]+$", "me@example.com", True),
        ("^(?:GET|POST)$", "PUT", False),
        ("^--[a-z]+$", "--verbose", True),
        (r"^/[^/]+(/[^/]+)*/?$", "/a/b/", True),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Passw0rds", True),
        (r"^(?!x-)[a-z-]+$", "x-a", False),
        (r"^#([0-9a-f]{3}|[0-9a-f]{6})$", "#12345", False),
        (r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", "00:11:22:33:44:5f", True),
        ("^[^\u00e9]+\u00e9$", "caf\u00e9", True),
        (r"^\d+[.\u20ac]\D\W\S\w$", "12.x.xx", True),
        ("a$", "a\n", True),
        (r"\S", "x" * 100_000, True),
        ("^[a-z]+$", "x" * 100_000, True),
    ],
)
def test_ordinary_patterns_are_run(pattern: str, text: str, *, found: bool) -> None:
    assert found_in(pattern, text) is found
