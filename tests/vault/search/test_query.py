"""The language of searches."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vault.searching import written
from tidings.vault.search import query
from tidings.vault.search.query import (
    And,
    BadQuery,
    Case,
    Compared,
    Empty,
    Fact,
    Not,
    Or,
    Phrase,
    Property,
    Query,
    Regex,
    TagTerm,
    Within,
    Word,
    parse_query,
)

a, b, c = Word("a"), Word("b"), Word("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", a),
        ("a b", And((a, b))),
        ("a  AND\tb", And((a, b))),
        ("a OR b", Or((a, b))),
        ("a b OR c", Or((And((a, b)), c))),
        ("a (b OR c)", And((a, Or((b, c))))),
        ("(a b) c", And((a, b, c))),
        ("((a))", a),
        ("a or b", And((a, Word("or"), b))),
        ("ORB", Word("ORB")),
        ("-a", Not(a)),
        ("NOT a b", And((Not(a), b))),
        ("--a", Not(Not(a))),
        ("-(a b)", Not(And((a, b)))),
        ("a-b", Word("a-b")),
        (r"\-a", Word("-a")),
        ('"a b"', Phrase("a b")),
        (r'"a \"b\" \c"', Phrase(r'a "b" \c')),
        ('a"b"c', And((a, Phrase("b"), c))),
        ('""', Phrase("")),
        ("/a b/", Regex("a b")),
        (r"/a\/[/]/", Regex(r"a\/[/]")),
        ("/a/is", Regex("a", dotall=True)),
        ("a/b", Word("a/b")),
        ("#work", Word("#work")),
        ("#2024", Word("#2024")),
        (r"\#work", Word("#work")),
        ("tag:#a", TagTerm("a")),
        ("tag:a", TagTerm("a")),
        ('tag:"#a b"', TagTerm("a b")),
        ("tag:(#a OR b)", Or((TagTerm("a"), TagTerm("b")))),
        ("-tag:(#a b)", Not(And((TagTerm("a"), TagTerm("b"))))),
        ("file:a", Within("file", a)),
        ("FILE:a", Within("file", a)),
        ("path:#a", Within("path", Word("#a"))),
        ('path:"a b"', Within("path", Phrase("a b"))),
        ("line:(a OR -tag:#b)", Within("line", Or((a, Not(TagTerm("b")))))),
        ("content:-a", Within("content", Not(a))),
        ('task-todo:""', Within("task-todo", Phrase(""))),
        ("match-case:(a file:b)", Case(match=True, part=And((a, Within("file", b))))),
        ("line:ignore-case:a", Within("line", Case(match=False, part=a))),
        ("[a]", Property("a")),
        ('["a b": c ]', Property("a b", c)),
        ("[ a :b c]", Property("a", And((b, c)))),
        ("[(a OR b):c]", Property(Or((a, b)), c)),
        ("[/a/]", Property(Regex("a"))),
        ("[a:>5]", Property("a", Compared(">", "5"))),
        ("[a:<=2024-01-01 OR null]", Property("a", Or((Compared("<=", "2024-01-01"), Empty())))),
        ("[a:(b OR c)]", Property("a", Or((b, c)))),
        ("[a:[[b]]]", Property("a", Phrase("[[b]]"))),
        ("[[a b]]", Phrase("[[a b]]")),
        ("[[", Word("[[")),
        ("[[a b", And((Word("[[a"), b))),
        ("a]", Word("a]")),
        ("modified:>2024-05", Fact("modified", ">2024-05")),
        ("size:>=10KB", Fact("size", ">=10KB")),
        ("has:Tasks", Fact("has", "task")),
        ("kind:canvas", Fact("kind", "canvas")),
        ('in:"My notes/"', Fact("in", "My notes")),
        ("https://a.b", Word("https://a.b")),
        ("12:30", Word("12:30")),
        ("std::vector", Word("std::vector")),
        ("Re:Zero", Word("Re:Zero")),
        ("foo: a", And((Word("foo:"), a))),
        (r"foo\:a", Word("foo:a")),
        (r"C:\foo\(", Word(r"C:\foo(")),
    ],
)
def test_a_query_is_read_as_a_tree_and_written_as_one_that_is_equal(text: str, tree: Query) -> None:
    assert parse_query(text) == tree
    assert parse_query(written(tree)) == tree


@pytest.mark.parametrize(
    ("text", "position", "cause"),
    [
        ("", 1, "The query is empty"),
        (" \n", 1, "The query is empty"),
        ("a b\0", 4, "The character at 4 cannot be part of a text"),
        ("a \ud800", 3, "The character at 3 cannot be part of a text"),
        ("a" * 10_001, 10_000, "more than 10,000 characters"),
        ("word " * 101, 501, "more than 100 terms"),
        ("(" * 100, 61, "too much is nested"),
        ("-" * 40 + "a", 1, "nested more than 20 deep"),
        ('a b "c', 5, "The quotation mark at 5 is never closed"),
        ("a (b", 3, "The parenthesis at 3 is never closed"),
        ("a) b", 2, "The parenthesis at 2 closes nothing"),
        ("a ()", 4, "nothing to search for at 4, beside the parenthesis"),
        ("OR a", 1, "nothing to search for at 1, beside the OR"),
        ("a OR", 5, "nothing to search for at 5, beside the OR"),
        ("a OR OR b", 6, "nothing to search for at 6, beside the OR"),
        ("AND a", 4, "The AND before 4 has nothing on one side"),
        ("a AND", 6, "The AND before 6 has nothing on one side"),
        ("a - b", 3, "The minus at 3 has nothing after it"),
        ("(a -)", 4, "The minus at 4 has nothing after it"),
        ("a NOT", 3, "The NOT at 3 has nothing after it"),
        ("NOT OR", 5, "There is OR or AND at 5"),
        ("/a", 1, "The slash at 1 begins a regular expression that is never closed"),
        ("/usr/bin", 1, "The letters after the regular expression at 1 mean nothing"),
        ("x /a(/", 3, "The regular expression at 3 cannot be run"),
        ("tga:#a", 1, "There is no operator tga: (at 1)"),
        ("file:", 1, "The file: at 1 has nothing after it"),
        ("(tag: )", 2, "The tag: at 2 has nothing after it"),
        ("tag:#", 1, "The tag: at 1 names no tag"),
        ("line:OR", 6, "There is OR or AND at 6"),
        ("line:(a block:b)", 9, "block (at 9) cannot stand inside line:"),
        ("file:(a tag:b)", 9, "tag (at 9) cannot stand inside file:"),
        ("[a:file:b]", 4, "file (at 4) cannot stand inside the brackets of a property"),
        ("line:[a]", 6, "[property] (at 6) cannot stand inside line:"),
        ("line:size:>1", 6, "size (at 6) cannot stand inside line:"),
        ("[a", 1, "The bracket at 1 is never closed"),
        ("[a:b", 1, "The bracket at 1 is never closed"),
        ("- [ ]", 1, "The minus at 1"),
        ("[ ]", 1, "The brackets at 1 name no property"),
        ("[a:]", 4, "nothing to search for at 4"),
        ("[a:>]", 4, "The > at 4 compares with nothing"),
        ("modified:soon", 1, "soon is not a date"),
        ("modified:", 1, "has nothing after it"),
        ('modified:""', 1, "is not a date"),
        ("modified:>7d", 1, "7d is the time until now"),
        ("modified:2024-13", 1, "there is no day 2024-13"),
        ("modified:9999-12", 1, "there is no day 9999-12"),
        ("size:10kb", 1, "10kb is not a size"),
        ("size:>1x", 1, ">1x is not a size"),
        ("has:fun", 1, "fun is not known here"),
        ("kind:fun", 1, "fun is not known here"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_a_cure(text: str, position: int, cause: str) -> None:
    with pytest.raises(BadQuery) as refusal:
        parse_query(text)
    assert refusal.value.position == position
    assert cause in refusal.value.cause
    assert refusal.value.cure
    assert str(refusal.value) == f"{refusal.value.cause}; {refusal.value.cure}"


PIECES = [
    "a",
    "B-c",
    "é",
    "\\",
    "OR",
    "AND",
    "NOT",
    "-",
    "(",
    ")",
    '"',
    "[",
    "]",
    "[[x]]",
    "[k:",
    "null",
    ":",
    "/",
    "#",
    "#a",
    "<",
    ">",
    "file:",
    "line:",
    "tag:",
    "task-todo:",
    "match-case:",
    "modified:7d",
    "size:>1kb",
    "in:A/b",
    '""',
    '"x',
]
pieces = st.sampled_from([*PIECES, " "])


@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join), st.lists(pieces, max_size=12).map(" ".join)))
def test_any_text_is_a_query_that_can_be_written_again_or_a_bad_one(text: str) -> None:
    try:
        tree = parse_query(text)
    except BadQuery as bad:
        refusal = bad
    else:
        assert parse_query(written(tree)) == tree
        return
    assert 1 <= refusal.position <= len(text) + 1


NOW = datetime(2024, 5, 31, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2024-05-31", "2024-06-01"),
        ("yesterday", "2024-05-30", "2024-05-31"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2023", "2023-01-01", "2024-01-01"),
        ("2024", "2024-01-01", "2025-01-01"),
        (">2024-05", "2024-06-01", None),
        (">=2024-05", "2024-05-01", None),
        ("<2024-05", None, "2024-05-01"),
        ("<=2024-05", None, "2024-06-01"),
        ("7d", "2024-05-24T12:30", None),
        ("2w", "2024-05-17T12:30", None),
        ("3h", "2024-05-31T09:30", None),
    ],
)
def test_a_time_is_a_day_a_month_a_year_or_until_now(text: str, start: str | None, end: str | None) -> None:
    expected = [datetime.fromisoformat(one).replace(tzinfo=UTC) if one else None for one in (start, end)]
    assert list(query.times(text, NOW)) == expected


def test_a_size_has_a_unit_or_is_in_bytes() -> None:
    assert query.sizes(">1.5kb") == (">", 1500)
    assert query.sizes("<=2MB") == ("<=", 2_000_000)
    assert query.sizes("<500") == ("<", 500)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("statuss:done", r"write [statuss:done] if it is a property, or statuss\: if the text itself is searched for"),
        ('a author:"Jane Roe" b', 'write [author:"Jane Roe"] if it is a property, or'),
        ("status:(a OR b)", "write [status:(a OR b)] if"),
        ("created:>2024-05-01", "write [created:>2024-05-01] if"),
        ("(due:2024)", "write [due:2024] if"),
        (f"status:{'x' * 50}", "write [status:…] if"),
        ("tga:#a", "write tag:, or [tga:#a] if it is a property, or"),
        ("title:a", "write file:, or [title:a] if"),
        ("line:(statuss:a)", r"write statuss\: if"),
    ],
)
def test_an_unknown_operator_is_answered_with_the_nearest_one_and_as_a_property(text: str, cure: str) -> None:
    with pytest.raises(BadQuery) as refusal:
        parse_query(text)
    assert refusal.value.cure.startswith(cure)
