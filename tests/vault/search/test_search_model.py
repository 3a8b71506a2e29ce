"""Searches against the plainest way to decide them: read every note, look at every place of it."""

import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vault.searching import found, indexed, written
from tidings.vault.notes.model import Note, key
from tidings.vault.notes.parse import parse
from tidings.vault.search.query import (
    And,
    Case,
    Empty,
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

WORDS = [
    "ab",
    "abc",
    "Ab",
    "b",
    "äb",
    "a\u0308b",
    "a-b",
    "C++",
    "b_c",
    "日本",
    "日",
    "ж",
    "Ж",
    "🎉",
    "a.b",
    "'b",
    "ab日",
]
SEPARATORS = [
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    ", ",
    "\n- ",
    "\n- [ ] ",
    "\n- [x] ",
    "\n# ",
    " #t ",
    " #t/u ",
    "\n```\n",
    "-",
    "日",
    "_",
]

texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SEPARATORS)), max_size=12).map(
    lambda pairs: "".join(word + separator for word, separator in pairs)
)
values = st.sampled_from(["", "ab", "[ab, äb c]", "5", "2024-05-01", "null"])
notes = st.builds(lambda value, text: f"---\nk: {value}\n---\n{text}" if value else text, values, texts)
vaults = st.dictionaries(st.sampled_from(["ab.md", "F/b c.md", "F/G/Äb.md", "日本.md", "F/x.md"]), notes, min_size=1)

words = st.sampled_from([*WORDS, "a", "c", "本", "+", "-"]).map(Word)
phrases = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join).map(Phrase)
regexes = st.sampled_from(["a.?b", "^b", r"\bab\b", " ab ", "b$", "abc|日", "C\\+", "[^a]b", "b.+b"]).map(Regex)
terms = st.one_of(words, phrases, regexes)
tags = st.sampled_from(["t", "T/u", "v"]).map(TagTerm)


def trees(leaves: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    """All that can be made of some leaves."""

    def more(inner: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        cases = st.builds(Case, st.booleans(), inner)
        return st.one_of(several.map(And), several.map(Or), inner.map(Not), cases)

    return st.recursive(leaves, more, max_leaves=4)


scopes = st.builds(
    Within,
    st.sampled_from(["content", "line", "block", "section", "task", "task-todo", "task-done"]),
    trees(terms | tags),
)
names = st.builds(Within, st.sampled_from(["file", "path"]), trees(terms))
properties = st.builds(Property, st.sampled_from(["k", "K", "j"]), st.none() | trees(terms | st.just(Empty())))
queries = st.one_of(trees(st.one_of(terms, terms, tags, scopes, names, properties)), scopes, names, properties)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(vaults, queries)
def test_the_index_finds_exactly_what_reading_everything_finds(
    tmp_path: Path, vault: dict[str, str], query: Query
) -> None:
    query = parse_query(written(query))
    index = indexed(tmp_path, vault)
    try:
        expected = {path for path, text in vault.items() if File(path, text).fulfils(query)}
        assert found(index.queries, written(query)) == expected
    finally:
        index.close()


Looks = Callable[[Word | Phrase | Regex, bool], bool]


class File:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.title = self.name.removesuffix(".md")
        self.text = text
        self.note: Note = parse(text, self.title)

    def fulfils(  # noqa: C901, PLR0911 - the plainest way
        self, query: Query, match_case: bool = False, body: bool = False
    ) -> bool:
        match query:
            case Within("content", part):
                return self.fulfils(part, match_case, body=True)
            case Within("file" | "path" as scope, part):
                whole = self.name if scope == "file" else self.path
                return decided(part, match_case, lambda term, case: stands(term, whole, case))
            case Within(scope, part):
                places = getattr(self, scope.replace("-", "_"))()
                return any(self.fulfilled_in(part, match_case, *place) for place in places)
            case Property(name, value):
                return self.has(name, value, match_case)
            case And(parts):
                return all(self.fulfils(part, match_case, body) for part in parts)
            case Or(parts):
                return any(self.fulfils(part, match_case, body) for part in parts)
            case Not(part):
                return not self.fulfils(part, match_case, body)
            case Case(match, part):
                return self.fulfils(part, match, body)
            case TagTerm(name):
                return any(below(tag.name, name) for tag in self.note.tags)
            case Word() | Phrase() | Regex():
                return any(stands(query, text, match_case) for text in [self.text] + [self.title] * (not body))
            case _:
                raise AssertionError(query)

    def fulfilled_in(self, query: Query, match_case: bool, text: str, first: int, last: int) -> bool:
        here = [tag.name for tag in self.note.tags if first <= tag.line <= last]
        return decided(query, match_case, lambda term, case: stands(term, text, case), here)

    def has(self, name: str, value: Query | None, match_case: bool) -> bool:
        rows = {key(one): item for one, item in self.note.properties.items()}
        if key(name) not in rows:
            return False
        item: Any = rows[key(name)]
        items: list[Any] = item if isinstance(item, list) else [item]
        if value is None:
            return True
        shown = [str(one) for one in items if one is not None]
        empty = any(one in {None, ""} for one in items) or not items

        def looks(term: Word | Phrase | Regex, case: bool) -> bool:
            if isinstance(term, Phrase):  # In quotation marks it is all of the value.
                return any(stands(term, one, case) and len(one) == len(term.text) for one in shown)
            return any(stands(term, one, case) for one in shown)

        return decided(value, match_case, looks, empty=empty)

    def line(self) -> list[tuple[str, int, int]]:
        return [(line, n, n) for n, line in enumerate(self.text.split("\n"), 1)]

    def section(self) -> list[tuple[str, int, int]]:
        return self.cut({heading.line for heading in self.note.headings})

    def block(self) -> list[tuple[str, int, int]]:
        firsts: set[int] = set()
        code = after = False
        for n, line in enumerate(self.text.split("\n"), 1):
            fence = line.startswith("```")
            if not code and (after or fence or line.startswith(("- ", "# "))):
                firsts.add(n)
            after = fence if code else (not line.strip() or line.startswith("# "))
            code = code != fence
        return self.cut(firsts)

    def cut(self, firsts: set[int]) -> list[tuple[str, int, int]]:
        lines = self.text.split("\n")
        bounds = [*sorted(firsts | {1}), len(lines) + 1]
        return [("\n".join(lines[a - 1 : b - 1]), a, b - 1) for a, b in pairwise(bounds)]

    def task(self) -> list[tuple[str, int, int]]:
        return [(task.text, task.line, task.line) for task in self.note.tasks]

    def task_todo(self) -> list[tuple[str, int, int]]:
        return [(task.text, task.line, task.line) for task in self.note.tasks if task.status == " "]

    def task_done(self) -> list[tuple[str, int, int]]:
        return [(task.text, task.line, task.line) for task in self.note.tasks if task.status != " "]


def decided(  # noqa: PLR0911 - the plainest way
    query: Query, match_case: bool, looks: Looks, tags: list[str] | None = None, *, empty: bool = False
) -> bool:
    match query:
        case And(parts):
            return all(decided(part, match_case, looks, tags, empty=empty) for part in parts)
        case Or(parts):
            return any(decided(part, match_case, looks, tags, empty=empty) for part in parts)
        case Not(part):
            return not decided(part, match_case, looks, tags, empty=empty)
        case Case(match, part):
            return decided(part, match, looks, tags, empty=empty)
        case TagTerm(name):
            return any(below(tag, name) for tag in tags or [])
        case Empty():
            return empty
        case Word() | Phrase() | Regex():
            return looks(query, match_case)
        case _:
            raise AssertionError(query)


def below(tag: str, name: str) -> bool:
    return key(tag) == key(name) or key(tag).startswith(key(name) + "/")


def stands(term: Word | Phrase | Regex, text: str, match_case: bool) -> bool:
    """Whether it is anywhere in the text, with its accents written in one of the two ways."""
    if isinstance(term, Regex):
        return regex.search(term.pattern, text, regex.M | (0 if match_case else regex.I)) is not None
    forms = {term.text, unicodedata.normalize("NFC", term.text), unicodedata.normalize("NFD", term.text)}
    return any(form in text if match_case else form.lower() in text.lower() for form in forms)
