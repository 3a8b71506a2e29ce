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
from tidings.vault.index.read_file import UTF16, Missed, WalkedFile, kind_of, read_bytes, read_file, text_of
from tidings.vault.index.walk import FolderWalk, VaultAway
from tidings.vault.notes.model import SEARCHED, IndexEntry
from tidings.vault.search.matching import forms_of
from tidings.vault.search.query import parse_query
from tidings.vault.search.search import SearchPage, search
from tidings.vault.search.sql import Sort
from tidings.vault.search.tree import And, Case, Fact, Or, Phrase, Property, Query, TagTerm, Within, Word, inside

_SECONDS: Final = 15.0  # Of reading. A vault that takes longer has so many notes that a part of the index is of use.
_MOST_CHARACTERS: Final = 60_000_000  # Of texts in memory.
_MOST_PARSED: Final = 2_000  # Files whose tags, tasks … are needed. Parsing more takes as long as the index.
# The letters outside ASCII whose lower case contains ASCII, by that.
_ODD: Final = {"i": "\u0130".encode(), "k": "\u212a".encode()}
_SIGMA: Final = str.maketrans("\u03c2", "\u03c3")  # It differs at the end of a word, and in the middle.

May = Callable[[str, bytes], bool]  # Returns whether a note with this title and content, in lower case, may match.
_STRUCTURE: Final = ("section", "task", "task-todo", "task-done")


def cold_search(
    vault: Vault, text: str, *, limit: int, offset: int, sort: Sort, hidden: Callable[[str], bool] | None
) -> SearchPage | None:
    """Searches the disk, see `search`. Returns None if that is no better than an incomplete index."""
    query = parse_query(text)
    entries = _entries(vault, query, text)
    if entries is None:
        return None
    with closing(Index(vault, memory=True)) as index:
        index.apply(entries)
        now = datetime.now(UTC).astimezone()
        return search(index.queries, query, limit=limit, offset=offset, sort=sort, hidden=hidden, now=now)


def _entries(vault: Vault, query: Query, text: str) -> list[IndexEntry] | None:
    """Returns the files that may match; None if there are too many."""
    may, deadline = _may(query), time.monotonic() + _SECONDS
    parsed = any(  # Whether more of a note counts than its name and its text.
        isinstance(each, TagTerm | Property)
        or (isinstance(each, Within) and each.scope in _STRUCTURE)
        or (isinstance(each, Fact) and each.name == "has")
        for each in inside(query)
    )
    # A text with one of these may have ASCII letters of the query in lower case that its bytes do not have.
    odd = [letter for ascii_letter, letter in _ODD.items() if ascii_letter in text.lower()]
    entries: list[IndexEntry] = []
    size = 0
    try:
        walk, roots = FolderWalk(vault), {mount: str(mount.root) for mount in vault.mounts}
        for path in walk.paths():
            if time.monotonic() > deadline:
                return None
            mount, inner = vault.split(path)
            kind = kind_of(path)
            is_text = kind in SEARCHED
            data = read_bytes(roots[mount], inner) if is_text else b""
            name = path.rpartition("/")[2]
            title = name.rpartition(".")[0] if is_text else name
            is_odd = data.startswith(UTF16) or any(map(data.__contains__, odd))
            if kind == "note" and not is_odd and not may(title.lower(), data.lower()):
                continue  # Most notes need not be decoded, nor looked at any further.
            if (seen := walk.file(path)) is None:
                continue
            body = text_of(kind, data)
            entries += _entry(seen, title, body, parsed=parsed and is_text)
            size += len(body)
            if size > _MOST_CHARACTERS or (parsed and len(entries) > _MOST_PARSED):
                return None
    except VaultAway:
        return None
    return entries


def _entry(seen: WalkedFile, title: str, text: str, *, parsed: bool) -> list[IndexEntry]:
    if not parsed:
        return [IndexEntry(seen.path, seen.kind, seen.stamp, None, text, title, 0, "{}", None, {}, "")]
    read = read_file(seen)
    return [] if isinstance(read, Missed) else [read]


def _may(query: Query) -> May:
    """Returns a test that every matching note passes, and many others do not."""
    match query:
        case And(parts) | Or(parts):
            tests, holds = list(map(_may, parts)), all if isinstance(query, And) else any
            return lambda title, data: holds(may(title, data) for may in tests)
        case Case(_, part):
            return _may(part)
        case Within(scope, part) if scope not in {"file", "path"}:
            return _may(part)
        case Word(text) | Phrase(text) if text.isascii():
            lower, written = text.lower(), text.lower().encode()
            return lambda title, data: written in data or lower in title
        case Word(text) | Phrase(text):
            forms = forms_of(text.lower().translate(_SIGMA))

            def found(title: str, data: bytes) -> bool:
                texts = (part.lower().translate(_SIGMA) for part in (data.decode(errors="replace"), title))
                return any(form in part for part in texts for form in forms)

            return found
        case _:
            return lambda title, data: True
