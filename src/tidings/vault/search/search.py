"""Running a search: a query, and the files that match it, with the lines that show why.

SQL decides and ranks, see `sql.py`. After `timeout`, what was found is returned, with a `problem`.
"""

import importlib
import importlib.util
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings._kit.lazy import install_command
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import UTF16, Missed, kind_of, read_bytes, read_file, text_of
from tidings.vault.index.scan import FolderWalk, VaultAway
from tidings.vault.notes.model import SEARCHED, IndexEntry
from tidings.vault.search import query as tree
from tidings.vault.search.query import BadQuery, Query, parse_query
from tidings.vault.search.sql import Sort, Translator, selection
from tidings.vault.search.text import Candidate, Deadline, LineMatch, OutOfTime, forms_of, matching_lines

_GRACE: Final = 2.0  # Seconds after the deadline in which SQL may end. It needs few of them, on however busy a machine.
_STEPS: Final = 5_000  # SQLite's virtual machine steps between two looks at the clock: a fraction of a millisecond.

_SECONDS: Final = 15.0  # Of reading. A vault that takes longer has so many notes that a part of the index is of use.
_MOST_CHARACTERS: Final = 60_000_000  # Of texts in memory.
_MOST_PARSED: Final = 2_000  # Files whose tags, tasks … are needed. Parsing more takes as long as the index.
# The letters outside ASCII whose lower case contains ASCII, by that.
_ODD: Final = {"i": "\u0130".encode(), "k": "\u212a".encode()}
_SIGMA: Final = str.maketrans("\u03c2", "\u03c3")  # It differs at the end of a word, and in the middle.

May = Callable[[str, bytes], bool]  # Returns whether a note with this title and content, in lower case, may match.
_STRUCTURE: Final = ("section", "task", "task-todo", "task-done")
_PART: Final = 700  # Characters of a part, if its paragraphs are not longer.
_LONGEST: Final = 4_000  # Characters of a part that count.
_MOST_PARTS: Final = 200  # Of one note.
_MEANING_SECONDS: Final = 20.0  # For notes that are new. The next search goes on with the others.
_MERGED: Final = 100  # The hits of each of the two ways that are merged.
_MOST_WORDS: Final = 30  # Of a query.
_RANK: Final = 10  # The constant of reciprocal rank fusion: how little the first ranks differ.
_COMMON: Final = re.compile(
    "(?:a|an|and|are|as|at|be|by|can|do|does|for|from|how|i|in|is|it|my|of|on|or|the|to|was|what|when|where|which|who|"
    "why|with)\\Z",
    re.IGNORECASE,
)
_NOTES: Final = f"SELECT hash || '/' || title, id, path, title FROM files WHERE hash IS NOT NULL AND kind IN {SEARCHED}"  # noqa: S608


class SearchHit(NamedTuple):
    """A file that was found."""

    path: str
    title: str
    score: float  # Higher is better; 0 without words in the query, or in another order.
    matches: tuple[LineMatch, ...]  # Some of the matching lines; none if only the name or a property matches.
    lines: int  # The number of matching lines, counted up to 200 for each term.


class SearchPage(NamedTuple):
    """One page of the result."""

    total: int
    exact: bool  # False if there are at least `total` hits.
    hits: tuple[SearchHit, ...]
    problem: str | None  # The reason why the answer is incomplete, and what to do.


def search(
    queries: Queries,
    query: Query | str,
    *,
    limit: int = 20,
    offset: int = 0,
    sort: Sort = "relevance",
    matches: int = 3,
    context: int = 160,
    hidden: Callable[[str], bool] | None = None,
    timeout: float = 2.0,
    now: datetime | None = None,
) -> SearchPage:
    """Searches the index, in the thread that may use it. Raises `BadQuery`.

    Equal hits are in the order of their paths. At most `matches` lines of a file are shown, and `context` characters of
    each. `hidden` returns whether a path is excluded by the app's settings; `timeout` is in seconds; `now` is the time
    from which `modified:7d` counts back, with the time zone of days.
    """
    query = parse_query(query) if isinstance(query, str) else query
    connection = queries.connection
    queries.vocabulary.refresh(connection)  # Before the time counts: the first search of a large vault takes a while.
    deadline = Deadline(timeout)
    if hidden is not None:
        connection.create_function("vault_hidden", 1, hidden, deterministic=True)
    # Questions to Python are no longer answered at the deadline, so that SQL ends soon, with what was found by then.
    connection.set_progress_handler(lambda: deadline.passed(_GRACE), _STEPS)
    translator = Translator(queries, deadline, now or datetime.now(UTC).astimezone())
    found: list[tuple[Any, ...]] = []
    total = 0
    try:
        try:
            deadline.left()
            sql, values = selection(query, translator, sort=sort, hidden=hidden is not None)
            found = connection.execute(f"{sql} LIMIT ? OFFSET ?", (*values, limit, offset)).fetchall()
            beyond = not found and (offset or limit <= 0)
            counted = connection.execute(f"{sql} LIMIT 1", values).fetchall() if beyond else found
            total = counted[0][-1] if counted else 0
        except (OutOfTime, sqlite3.OperationalError) as error:
            if not isinstance(error, OutOfTime) and not deadline.passed():
                raise
            translator.late = True
        hits: list[SearchHit] = []
        for id_, path, kind, title, score, _ in found:
            lines, count = (), 0
            try:
                candidate = Candidate(connection, id_, kind)
                lines, count = matching_lines(query, candidate, deadline, most=matches, context=context)
            except sqlite3.OperationalError:  # There is no time for lines.
                if not deadline.passed():
                    raise
            hits.append(SearchHit(path, title, -score or 0.0, lines, count))  # not -0.0
    finally:
        connection.set_progress_handler(None, 0)
    problems: list[str] = []
    if translator.late:
        cure = "Add a word, a tag or in:Folder."
        problems.append(f"The search was ended after {timeout:g} s, before all was looked at. {cure}")
    if translator.slow:
        cure = "Repetitions within repetitions, as in (a+)+, are slow: write the regular expression without."
        given_up = f"The regular expression was given up on {translator.slow} texts, where it took too long."
        problems.append(f"{given_up} {cure}")
    return SearchPage(total, not problems, tuple(hits), " ".join(problems) or None)


def cold_search(
    vault: Vault, text: str, *, limit: int, offset: int, sort: Sort, hidden: Callable[[str], bool] | None
) -> SearchPage | None:
    """Searches the disk, while the first index is built. Returns None if that is no better than an incomplete index.

    Files that cannot match are left out by a look at their texts. The others go into an index in memory, which is
    searched like any other, so that both answers are the same. It has no list of words: to make one takes longer than
    to read texts.
    """
    query = parse_query(text)
    entries = _entries(vault, query, text)
    if entries is None:
        return None
    with closing(Index(vault, memory=True)) as index:
        index.apply(entries)
        return search(index.queries, query, limit=limit, offset=offset, sort=sort, hidden=hidden)


def _entries(vault: Vault, query: Query, text: str) -> list[IndexEntry] | None:
    """Returns the files that may match; None if there are too many."""
    may, deadline = _may(query), time.monotonic() + _SECONDS
    parsed = any(  # Whether more of a note counts than its name and its text.
        isinstance(each, tree.TagTerm | tree.Property)
        or (isinstance(each, tree.Within) and each.scope in _STRUCTURE)
        or (isinstance(each, tree.Fact) and each.name == "has")
        for each in tree.inside(query)
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
            if not (parsed and is_text):
                entries.append(IndexEntry(path, seen.kind, seen.stamp, None, body, title, 0, "{}", None, {}, ""))
            elif not isinstance(read := read_file(seen), Missed):
                entries.append(read)
            size += len(body)
            if size > _MOST_CHARACTERS or (parsed and len(entries) > _MOST_PARSED):
                return None
    except VaultAway:
        return None
    return entries


def _may(query: Query) -> May:
    """Returns a test that every matching note passes, and many others do not."""
    match query:
        case tree.And(parts) | tree.Or(parts):
            tests, holds = list(map(_may, parts)), all if isinstance(query, tree.And) else any
            return lambda title, data: holds(may(title, data) for may in tests)
        case tree.Case(_, part):
            return _may(part)
        case tree.Within(scope, part) if scope not in {"file", "path"}:
            return _may(part)
        case tree.Word(text) | tree.Phrase(text) if text.isascii():
            lower, written = text.lower(), text.lower().encode()
            return lambda title, data: written in data or lower in title
        case tree.Word(text) | tree.Phrase(text):
            forms = forms_of(text.lower().translate(_SIGMA))

            def found(title: str, data: bytes) -> bool:
                texts = (part.lower().translate(_SIGMA) for part in (data.decode(errors="replace"), title))
                return any(form in part for part in texts for form in forms)

            return found
        case _:
            return lambda title, data: True


# Searching by meaning. A part of a note is a few paragraphs. It becomes a vector: the mean of the vectors of its words,
# which come with the package `wordllama` (the extra `semantic`). Only its data are used, so nothing is downloaded.


class _Model:
    """Turns texts into vectors."""

    def __init__(self) -> None:
        try:
            # Only here, so that all else works without, and starts fast.
            self.np: Any = importlib.import_module("numpy")
            safetensors: Any = importlib.import_module("safetensors.numpy")
            tokenizers: Any = importlib.import_module("tokenizers")
            found = importlib.util.find_spec("wordllama")
            folder = Path((found and found.origin) or "").parent
            weights = safetensors.load_file(next(folder.glob("weights/*_256.safetensors")))
            self._words: Any = next(iter(weights.values()))
            self._tokens: Any = tokenizers.Tokenizer.from_file(str(next(folder.glob("tokenizers/*.json"))))
        except (ImportError, StopIteration) as error:
            cause = "Searching by meaning needs the extra `semantic`, which is not installed"
            cure = f"install it with `{install_command('semantic')}`, or search without `by_meaning`"
            raise BadQuery(1, cause, cure) from error
        self._tokens.no_padding()
        self._tokens.no_truncation()

    def vectors(self, texts: list[str]) -> Any:
        """Returns a row for each text, of length 1; of zeros for a text without words."""
        np = self.np
        rows = np.zeros((len(texts), self._words.shape[1]), np.float32)
        for n, tokens in enumerate(self._tokens.encode_batch(texts, add_special_tokens=False)):
            if tokens.ids:
                rows[n] = self._words[tokens.ids].mean(axis=0, dtype=np.float32)
        return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float16)


_model = lru_cache(maxsize=1)(_Model)


def parts_of(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines and texts of a note's parts: paragraphs, up to a heading, or some hundred characters."""
    begin, size, line = 0, 0, 1
    for found in re.finditer(r".*?(?:\n[ \t]*(?=\n)\n+|\n(?=#{1,6} )|\Z)", text, re.DOTALL):
        if size and (size + len(found[0]) > _PART or found[0].startswith("#")):
            yield line, text[begin : found.start()]
            line += text.count("\n", begin, found.start())
            begin, size = found.start(), 0
        size += len(found[0])
    if text[begin:].strip():
        yield line, text[begin:]


class _Vectors:
    """The vectors of all notes of an index, in `place`; in memory if that is None, or cannot be written."""

    def __init__(self, place: Path | None) -> None:
        self._lock = threading.Lock()
        self._model = _model()
        self._parts: dict[str, tuple[Any, Any]] = {}  # The lines and the vectors, by version.
        try:
            self._open(str(place or ":memory:"))
        except sqlite3.Error:
            self._open(":memory:")

    def _open(self, place: str) -> None:
        np, file = self._model.np, sqlite3.connect(place, check_same_thread=False, isolation_level=None)
        try:
            file.execute("PRAGMA synchronous = OFF")  # All of it can be made again.
            file.execute("CREATE TABLE IF NOT EXISTS vectors (version TEXT PRIMARY KEY, lines BLOB, data BLOB)")
            for version, lines, data in file.execute("SELECT version, lines, data FROM vectors"):
                vectors = np.frombuffer(data, np.float16).reshape(-1, 256)
                self._parts[version] = np.frombuffer(lines, np.int32), vectors
        except sqlite3.Error:
            file.close()
            raise
        self._file = file
        weakref.finalize(self, file.close)

    def nearest(self, queries: Queries, query: str) -> tuple[list[tuple[float, int, str, str, int]], int]:
        """Returns the score, id, path, title and best line of notes, the best first; and how many are missing."""
        np = self._model.np
        with self._lock:
            known = {version: note for version, *note in queries.connection.execute(_NOTES)}
            self._file.execute("BEGIN")
            try:
                left = self._refresh(queries, {version: note[0] for version, note in known.items()})
            finally:
                self._file.execute("COMMIT")
            there = [version for version in known if version in self._parts]
            counts = [len(self._parts[version][0]) for version in there]
            every = np.concatenate([np.zeros((0, 256), np.float16), *(self._parts[each][1] for each in there)])
        scores = every.astype(np.float32) @ self._model.vectors([query])[0].astype(np.float32)
        found: list[tuple[float, int, str, str, int]] = []
        at = 0
        for version, count in zip(there, counts, strict=True):
            best = int(scores[at : at + count].argmax()) if count else 0
            if count:
                found.append((float(scores[at + best]), *known[version], int(self._parts[version][0][best])))
            at += count
        return sorted(found, key=lambda hit: (-hit[0], hit[2])), left

    def _refresh(self, queries: Queries, ids: dict[str, int]) -> int:
        """Adds new notes, and forgets others. Returns how many there was no time for."""
        end = time.monotonic() + _MEANING_SECONDS
        for version in self._parts.keys() - ids.keys():
            del self._parts[version]
            self._file.execute("DELETE FROM vectors WHERE version = ?", (version,))
        missing = [version for version in ids if version not in self._parts]
        for n, version in enumerate(missing):
            if time.monotonic() > end:
                return len(missing) - n
            body = queries.connection.execute("SELECT body FROM texts WHERE id = ?", (ids[version],)).fetchone()[0]
            parts = list(islice(parts_of(body), _MOST_PARTS))
            title = version.partition("/")[2]
            vectors = self._model.vectors([f"{title}\n{part[:_LONGEST]}" for _, part in parts] or [title])
            lines = self._model.np.array([line for line, _ in parts] or [1], self._model.np.int32)
            self._parts[version] = lines, vectors
            row = (version, lines.tobytes(), vectors.tobytes())
            self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)
        return 0


@lru_cache(maxsize=8)
def _vectors_at(index: str) -> _Vectors:
    return _Vectors(Path(f"{index}.vectors") if index else None)


def search_by_meaning(
    queries: Queries, text: str, *, limit: int, offset: int, hidden: Callable[[str], bool] | None
) -> SearchPage:
    """Searches for words that mean the same. Raises `BadQuery` if the extra is missing.

    Operators of the query, such as `tag:` or `path:`, have to hold as in any other search.
    """
    plain, rest = _divided(text)
    index: str = queries.connection.execute("PRAGMA database_list").fetchone()[2]
    nearest, left = _vectors_at(index).nearest(queries, plain)
    allowed = None
    if rest is not None:
        allowed = {hit.path for hit in search(queries, rest, limit=1_000_000, matches=0, hidden=hidden).hits}
    meant = [hit for hit in nearest if not (hidden and hidden(hit[2])) and (allowed is None or hit[2] in allowed)]
    scores = {path: 1 / (_RANK + rank) for rank, (_, _, path, _, _) in enumerate(meant[:_MERGED])}
    found = search_by_words(queries, plain, limit=_MERGED, offset=0, hidden=hidden).hits
    by_word = [hit for hit in found if allowed is None or hit.path in allowed]
    for rank, hit in enumerate(by_word):
        scores[hit.path] = scores.get(hit.path, 0.0) + 1 / (_RANK + rank)
    best = sorted(scores, key=lambda path: (-scores[path], path))
    lines = {hit.path: hit for hit in by_word}
    places = {path: (title, line) for _, _, path, title, line in meant}
    page = best[offset : offset + limit]
    hits = [_hit(queries, path, scores[path], lines.get(path), places.get(path)) for path in page]
    problem = f"{left:,} notes were not looked at for their meaning yet: search again." if left else None
    return SearchPage(len(best), False, tuple(hits), problem)


def search_by_words(
    queries: Queries, text: str, *, limit: int, offset: int, hidden: Callable[[str], bool] | None
) -> SearchPage:
    """Searches for notes with at least one of the words of a sentence, without the most common ones."""
    words = [word for word in re.findall(r"\w+", text) if not _COMMON.match(word)]
    either = tree.Or(tuple(map(tree.Word, words[:_MOST_WORDS]))) if words else tree.Phrase(text)
    return search(queries, either, limit=limit, offset=offset, hidden=hidden)


def _divided(text: str) -> tuple[str, Query | None]:
    """Returns the words of a query, and its operators. What cannot be parsed is a sentence."""
    try:
        query = parse_query(text)
    except BadQuery:
        return text, None
    parts = query.parts if isinstance(query, tree.And) else (query,)
    words = [part.text for part in parts if isinstance(part, tree.Word | tree.Phrase)]
    rest: list[Query] = [part for part in parts if not isinstance(part, tree.Word | tree.Phrase)]
    return (" ".join(words), tree.And((*rest, tree.Phrase("")))) if words and rest else (text, None)


def _hit(
    queries: Queries, path: str, score: float, by_word: SearchHit | None, place: tuple[str, int] | None
) -> SearchHit:
    if place is None and by_word is not None:
        return by_word._replace(score=score)
    title, line = place or ("", 1)
    text = "\n".join((queries.text(path) or "").split("\n")[line - 1 :])
    shown = " ".join(text[:1000].split())
    return SearchHit(path, title, score, (LineMatch(line, shown[:240] + "…" * (len(shown) > 240)),), 1)
