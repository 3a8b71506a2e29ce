"""Searches that would take too long, or too much."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.vault.searching import indexed
from tidings._kit.patterns import BadPattern, compiled
from tidings.vault.index.index import Index
from tidings.vault.search import search as module
from tidings.vault.search import text as texts
from tidings.vault.search.query import Phrase, Regex, Word
from tidings.vault.search.search import search
from tidings.vault.search.text import Candidate, Deadline, Finder, Occurrence, OutOfTime

EXPLODING = "/(x+)+$/"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    notes = {f"{n:03}.md": f"---\nkey: {'x' * 20_000}!\n---\n- [ ] {'x' * 20_000}!\nword {n}" for n in range(30)}
    index = indexed(tmp_path, notes)
    yield index
    index.close()


@pytest.mark.parametrize("query", [EXPLODING, f"word {EXPLODING}", f"line:{EXPLODING}", f"-{EXPLODING}"])
def test_a_regular_expression_that_explodes_is_given_up_and_said_so(index: Index, query: str) -> None:
    result = search(index.queries, query, timeout=0.6)
    assert not result.exact
    assert result.problem is not None
    assert "The regular expression was given up on" in result.problem
    assert "The search was ended after 0.6 s" in result.problem
    assert result.hits == ()  # Nor is a note said to be without a match.


@pytest.mark.parametrize("query", [f"[key:{EXPLODING}]", f"task:{EXPLODING}"])
def test_it_is_also_given_up_where_sql_asks(index: Index, query: str) -> None:
    result = search(index.queries, query, timeout=0.6)
    assert result.problem is not None
    assert "The regular expression was given up on" in result.problem
    assert not result.exact


@pytest.mark.parametrize("query", ["word", "/word/", '""', "[key]", "task:x"])
def test_without_time_nothing_is_found_and_the_reason_is_said(index: Index, query: str) -> None:
    result = search(index.queries, query, timeout=0)
    assert (result.hits, result.exact) == ((), False)
    assert result.problem is not None
    assert search(index.queries, query).problem is None


def test_a_first_search_without_time_fails_no_later_one(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEPS", 1)
    assert search(index.queries, "ord", timeout=0).problem is not None
    assert search(index.queries, "ord", limit=0, timeout=60).total == 30


def test_lines_that_there_is_no_time_for_are_left_out(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> object:
        raise sqlite3.OperationalError("interrupted")

    monkeypatch.setattr(module, "matching_lines", late)
    with pytest.raises(sqlite3.OperationalError):
        search(index.queries, "word")
    monkeypatch.setattr(Deadline, "passed", lambda *_: True)
    monkeypatch.setattr(module, "_STEPS", 10**9)
    hits = search(index.queries, "word", limit=1).hits
    assert [(hit.path, hit.matches, hit.lines) for hit in hits] == [("000.md", (), 0)]


def test_an_error_of_the_database_is_not_taken_for_a_lack_of_time(index: Index) -> None:
    index.queries.connection.execute("ALTER TABLE tags RENAME TO gone")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        search(index.queries, "tag:#a")


def test_what_was_found_in_time_is_returned(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"A.md": "xx", **{f"{n}.md": f"{'x' * 20_000}!" for n in range(9)}})
    result = search(index.queries, EXPLODING, timeout=0.6)
    assert ([hit.path for hit in result.hits], result.exact) == (["A.md"], False)
    index.close()


def test_python_is_not_asked_what_the_index_knows(index: Index) -> None:
    for query in (f"word OR {EXPLODING}", f"{EXPLODING} OR word", f"{EXPLODING} nowhere", f"{EXPLODING} tag:#none"):
        result = search(index.queries, query, timeout=60)
        assert (result.total, result.problem) == (30 if "OR" in query else 0, None)


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
        ("(", "missing )"),
        (")", "unbalanced"),
    ],
)
def test_a_pattern_that_is_none_or_could_not_be_run_safely_is_refused(pattern: str, cause: str) -> None:
    with pytest.raises(BadPattern, match=cause.replace(")", r"\)")):
        compiled(pattern, ignore_case=True, multiline=True, dotall=False)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\u{1F600}!", "a 😀!"),
        (r"(?<a>x)\k<a>", "xx"),
        ("(?i:A)b", "ab"),
        ("a{e<=3}", "a{e<=3}"),
        ("x{,}", "x{,}"),
        (r"[\]/]{2}", "]/"),
        (r"\d+", "12"),
        ("(?=a)(?!b)(?<=c)?(?<!d)a", "a"),
    ],
)
def test_patterns_are_understood_as_in_javascript(pattern: str, text: str) -> None:
    assert compiled(pattern, ignore_case=True, multiline=True, dotall=False).search(text)


@pytest.mark.parametrize("filler", ["x\n", "é\n", "İ\n"])
def test_the_places_of_a_term_are_those_of_the_text_itself(filler: str) -> None:
    text = "word\n" + filler * 30_000 + "Word\nwor"
    at = len(text)
    assert list(Finder(Word("word")).spans(text, Deadline(60))) == [(0, 4), (at - 8, at - 4)]
    assert list(Finder(Phrase("word\nwor")).spans(text, Deadline(60))) == [(at - 8, at)]
    assert list(Finder(Word("Word"), match_case=True).spans(text, Deadline(60))) == [(at - 8, at - 4)]
    assert not Finder(Word("absent")).found(text, Deadline(0))


def test_only_lines_that_a_regular_expression_matches_are_looked_at(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def place_test(*_: object, **__: object) -> Callable[[Candidate, Occurrence], bool]:
        return lambda _, place: bool(looked.append(place.text))

    monkeypatch.setattr(texts, "place_test", place_test)
    for query, lines in (
        (r"line:/[w-x]ord 7$/", ["word 7"]),
        (r"section:/(ord)+\. [0-9]{2}/", []),
        (r"line:(/^word \d$/ d)", [f"word {n}" for n in range(10)]),
    ):
        looked.clear()
        search(index.queries, query)
        assert sorted(looked) == lines, query


def test_a_connection_that_may_only_read_searches_in_a_transaction_and_still_only_reads(index: Index) -> None:
    with closing(index.reader()) as queries, queries.snapshot():
        assert search(queries, "line:(word 7)").total == 3
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            queries.connection.execute("DELETE FROM files")


def test_a_hundred_terms_are_not_too_many(index: Index) -> None:
    for joint in (" ", " OR ", " OR tag:#a "):
        assert search(index.queries, joint.join(["word"] * 50)).total == 30
    nested = "-(a OR b " * 6 + "word" + ")" * 6
    assert search(index.queries, nested).problem is None


def test_a_regular_expression_is_not_begun_without_time() -> None:
    with pytest.raises(OutOfTime):
        Finder(Regex("a")).found("a", Deadline(0))
    assert Finder(Word("a")).found("a", Deadline(0))
