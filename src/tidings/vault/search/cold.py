"""Searching a vault whose first index is not complete yet: the files are read from the disk.

Files that cannot match are left out by a look at their texts. The others go into an index in memory, which is searched
like any other, so that both answers are the same. It has no list of words: to make one takes longer than to read texts.
"""

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.read_file import UTF16, Missed, Same, WalkedFile, read_bytes, read_file, text_of
from tidings.vault.index.walk import FolderWalk, VaultAway
from tidings.vault.notes.model import SEARCHED, IndexEntry
from tidings.vault.search.matching import Deadline, Finder
from tidings.vault.search.query import parse_query
from tidings.vault.search.search import SearchPage, search
from tidings.vault.search.sql import Sort
from tidings.vault.search.tree import And, Case, Fact, Not, Or, Phrase, Property, Query, TagTerm, Within, Word

_SECONDS: Final = 15.0  # Of reading. A vault that takes longer has so many notes that a part of the index is of use.
_MOST_CHARACTERS: Final = 60_000_000  # Of texts in memory.
_MOST_PARSED: Final = 2_000  # Files whose tags, tasks … are needed. Parsing more takes as long as the index.
# The letters outside ASCII whose lower case contains ASCII.
_ASCII_IN_LOWER_CASE: Final = ("\u0130".encode(), "\u212a".encode())

May = Callable[[str, str], bool]  # Returns whether a file with this title and text may match.


def cold_search(
    vault: Vault, text: str, *, limit: int, offset: int, sort: Sort, hidden: Callable[[str], bool] | None
) -> SearchPage | None:
    """Searches the disk, see `search`. Returns None if that is no better than an incomplete index."""
    query = parse_query(text)
    entries = _entries(vault, query)
    if entries is None:
        return None
    with closing(Index(vault, memory=True)) as index:
        index.apply(entries)
        now = datetime.now(UTC).astimezone()
        return search(index.queries, query, limit=limit, offset=offset, sort=sort, hidden=hidden, now=now)


def _entries(vault: Vault, query: Query) -> list[IndexEntry] | None:
    """Returns the files that may match; None if there are too many."""
    may, parsed, deadline = _may(query, Deadline(_SECONDS)), _is_about_structure(query), time.monotonic() + _SECONDS
    needed = _needed(query)
    entries: list[IndexEntry] = []
    size = 0
    try:
        for seen in FolderWalk(vault).everything():
            if time.monotonic() > deadline:
                return None
            data = read_bytes(seen) if seen.kind in SEARCHED else b""
            name = seen.path.rpartition("/")[2]
            title = name.rpartition(".")[0] if seen.kind in SEARCHED else name
            if seen.kind == "note" and _lacks(needed, title, data):
                continue
            text = text_of(seen, data)
            if seen.kind in SEARCHED and not may(title, text):
                continue
            entries += _entry(seen, title, text, parsed=parsed and seen.kind in SEARCHED)
            size += len(text)
            if size > _MOST_CHARACTERS or (parsed and len(entries) > _MOST_PARSED):
                return None
    except VaultAway:
        return None
    return entries


def _entry(seen: WalkedFile, title: str, text: str, *, parsed: bool) -> list[IndexEntry]:
    if not parsed:
        return [IndexEntry(seen.path, seen.kind, seen.stamp, None, text, title, 0, "{}", None, {}, "")]
    read = read_file(seen)
    return [] if isinstance(read, Missed | Same) else [read]


def _is_about_structure(query: Query) -> bool:
    """Returns whether a query needs more of a note than its name and its text."""
    match query:
        case And(parts) | Or(parts):
            return any(map(_is_about_structure, parts))
        case Within("section" | "task" | "task-todo" | "task-done") | TagTerm() | Property() | Fact("has"):
            return True
        case Not(part) | Case(_, part) | Within(_, part):
            return _is_about_structure(part)
        case _:
            return False


def _needed(query: Query) -> list[str]:
    """Returns texts in lower case of which each is in the title or the text of every file that matches."""
    match query:
        case And(parts):
            return [text for part in parts for text in _needed(part)]
        case Case(_, part):
            return _needed(part)
        case Word(text) | Phrase(text) if text.isascii():
            return [text.lower()]
        case _:
            return []


def _lacks(needed: list[str], title: str, data: bytes) -> bool:
    """Returns whether a note lacks one of these texts, as far as its bytes can tell: most notes need not be decoded."""
    if not needed or data.startswith(UTF16) or any(letter in data for letter in _ASCII_IN_LOWER_CASE):
        return False
    lower = data.lower()
    return any(text.encode() not in lower and text not in title.lower() for text in needed)


def _may(query: Query, deadline: Deadline) -> May:
    """Returns a test that every matching file passes, and many others do not."""
    match query:
        case And(parts):
            every = [_may(part, deadline) for part in parts]
            return lambda title, text: all(may(title, text) for may in every)
        case Or(parts):
            some = [_may(part, deadline) for part in parts]
            return lambda title, text: any(may(title, text) for may in some)
        case Case(_, part):
            return _may(part, deadline)
        case Within(scope, part) if scope not in {"file", "path"}:
            return _may(part, deadline)
        case Word() | Phrase():
            finder = Finder(query)
            return lambda title, text: finder.found(text, deadline) or finder.found(title, deadline)
        case _:
            return lambda title, text: True
