"""Regular expressions from outside."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.patterns import BadPattern, compiled, found_in, translated


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("a{1000000000}", "repetitions"),
        ("((a{100}){100}){100}", "repetitions"),
        ("(?:[ab]{1,100}c?){100}", "repetitions"),
        ("a" * 1001, "more than 1,000 characters"),
        ("(" * 51 + ")" * 51, "too deeply nested"),
        ("(?R)", "nothing that JavaScript knows"),
        ("(?P<a>b)", "nothing that JavaScript knows"),
        ("(*FAIL)", "nothing that JavaScript knows"),
        (r"\L<a>", "not known in JavaScript"),
        (r"\u{110000}", "no character"),
        (r"\u{d800}", "no character"),
        ("[z-a]", "bad character range"),
        ("a**", "multiple repeat"),
        (r"\p{Foo}", "unknown property"),
        ("(", r"missing \)"),
        (")", "unbalanced"),
    ],
)
def test_a_pattern_that_is_none_or_could_not_be_run_safely_is_refused(pattern: str, cause: str) -> None:
    with pytest.raises(BadPattern, match=cause):
        compiled(pattern)
    assert found_in(pattern, "a") is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\u{1F600}!", "a 😀!"),
        (r"(?<a>x)\k<a>", "xx"),
        ("(?i:A)b", "ab"),
        ("a{e<=3}", "a{e<=3}"),
        ("x{,}", "x{,}"),
        (r"[\]/]{2}", "]/"),
        ("^[^]$", "\n"),
        ("^[[:a]+$", "[:a"),
        ("^[[:alpha:]]$", "a]"),
        (r"^[\[\\[]$", "["),
        ("(?=a)(?!b)(?<=c)?(?<!d)a", "a"),
        (r"^\p{L}\P{L}$", "é1"),
        (r"(a)\1", "aa"),
    ],
)
def test_patterns_are_understood_as_in_javascript(pattern: str, text: str) -> None:
    assert compiled(pattern).search(text, timeout=1)


@pytest.mark.parametrize("pattern", ["[[a]", "[a||b]", "[a&&b]", "[a~~b]", r"x[^\]||]", "[[:alpha:]]", "[]"])
def test_nobody_is_warned_of_sets_that_python_might_read_otherwise(pattern: str) -> None:
    assert found_in(pattern, "") is False


def test_flags_are_the_callers() -> None:
    text = "one\nTWO"
    assert not compiled("^two").search(text)
    assert not compiled("^two", multiline=True).search(text)
    assert compiled("^two", multiline=True, ignore_case=True).search(text)
    assert not compiled("e.T").search(text)
    assert compiled("e.T", dotall=True).search(text)


def test_limits_are_the_callers() -> None:
    with pytest.raises(BadPattern, match="more than 5 characters"):
        compiled("abcdef", longest=5)
    with pytest.raises(BadPattern, match="more than 10 characters"):
        compiled("a{11}", most_repeated=10)


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("(", "not a regular expression"),
        ("(?R)", "not a regular expression"),
        ("a" * 501, "shorter"),
        ("a{1000000000}", "repeats too often"),
        ("((a{1,50}){1,50}){1,50}", "repeats too often"),
        ("(?x)(a{50}) {50}", "repeats too often"),
    ],
)
def test_pythons_syntax_is_checked_by_python_first(pattern: str, cause: str) -> None:
    with pytest.raises(BadPattern, match=cause):
        compiled(pattern, syntax="python", longest=500, most_repeated=2_000)


def test_pythons_syntax_is_run_as_it_is() -> None:
    assert compiled(r"(?P<n>a)(?P=n)\Z", syntax="python").search("aa")


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("foo bar baz", "foo bar baz"),
        (r"\bFoo\b", "Foo"),
        ("foo", "foo"),
        (r"\s+foo\s+", "foo"),
        (r"\s*foo\s*", "foo"),
        ("-ab-c?d", "-ab-"),
        (" a|b ", ""),
        (" (a) b ", " b "),
        (" [a]b ", ""),
        (" ab+ ", ""),
        (r" a\. ", " a. "),
        ("(?i) ab ", " ab "),
        ("é ab é", " ab "),
        ("ab.cde", "cde"),
    ],
)
def test_a_text_of_every_match_is_known(pattern: str, literal: str) -> None:
    assert translated(pattern).literal == literal


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
        (r"^\p{Lu}", "Éa", True),
    ],
)
def test_ordinary_patterns_are_answered(pattern: str, text: str, *, found: bool) -> None:
    assert found_in(pattern, text, seconds=5) is found


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", r"(\w+\s?)+$", "(a|a)" * 30 + "$", "(a*)*$"])
def test_a_pattern_that_would_not_end_is_stopped(pattern: str) -> None:
    began = time.process_time()
    assert found_in(pattern, "a" * 500 + "!") is None
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "pattern",
    [
        "(a*){1000000000}",
        "(?:" * 150 + "a" + ")+" * 150,
        "(?i)" + "[\x00-\U0010ffff]" * 40,
        "[\x00-\uffff]" * 190,
        "(?:(?:a?)?)" * 40,
        "(a{0,9}){1000}",
    ],
    ids=lambda pattern: ascii(pattern)[:20],
)
def test_a_pattern_made_to_be_slow_to_compile_is_not(pattern: str) -> None:
    began = time.process_time()
    found_in(pattern, "a")
    assert time.process_time() - began < 5


@given(st.text("ab()[]{}|?*+^$.\\-,:=!<>1 kuP&", max_size=20), st.text("ab ", max_size=10))
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    assert found_in(pattern, text) in (True, False, None)
