"""Searching by meaning: the parts of notes whose words mean what the words of a query mean, merged with those words.

A part is a few paragraphs of a note. It becomes a vector: the mean of the vectors of its words, which come with the
package `wordllama` (the extra `semantic`). Only its data are used, so nothing is downloaded, and little is imported.
Vectors are kept in a file beside the index, by the version of the note: only changed notes are read again.
"""

import importlib
import importlib.util
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tidings._kit.lazy import install_command
from tidings.vault.index.queries import Queries
from tidings.vault.notes.model import SEARCHED
from tidings.vault.search.query import And, BadQuery, Or, Phrase, Query, Word, parse_query
from tidings.vault.search.search import SearchHit, SearchPage, search
from tidings.vault.search.text import LineMatch

_PART: Final = 700  # Characters of a part, if its paragraphs are not longer.
_LONGEST: Final = 4_000  # Characters of a part that count.
_MOST_PARTS: Final = 200  # Of one note.
_SECONDS: Final = 20.0  # For notes that are new. The next search goes on with the others.
_MERGED: Final = 100  # The hits of each of the two ways that are merged.
_MOST_WORDS: Final = 30  # Of a query.
_RANK: Final = 10  # The constant of reciprocal rank fusion: how little the first ranks differ.
_COMMON: Final = re.compile(
    "(?:a|an|and|are|as|at|be|by|can|do|does|for|from|how|i|in|is|it|my|of|on|or|the|to|was|what|when|where|which|who|"
    "why|with)\\Z",
    re.IGNORECASE,
)
_NOTES: Final = f"SELECT hash || '/' || title, id, path, title FROM files WHERE hash IS NOT NULL AND kind IN {SEARCHED}"  # noqa: S608


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
        end = time.monotonic() + _SECONDS
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
    either = Or(tuple(map(Word, words[:_MOST_WORDS]))) if words else Phrase(text)
    return search(queries, either, limit=limit, offset=offset, hidden=hidden)


def _divided(text: str) -> tuple[str, Query | None]:
    """Returns the words of a query, and its operators. What cannot be parsed is a sentence."""
    try:
        query = parse_query(text)
    except BadQuery:
        return text, None
    parts = query.parts if isinstance(query, And) else (query,)
    words = [part.text for part in parts if isinstance(part, Word | Phrase)]
    rest: list[Query] = [part for part in parts if not isinstance(part, Word | Phrase)]
    return (" ".join(words), And((*rest, Phrase("")))) if words and rest else (text, None)


def _hit(
    queries: Queries, path: str, score: float, by_word: SearchHit | None, place: tuple[str, int] | None
) -> SearchHit:
    if place is None and by_word is not None:
        return by_word._replace(score=score)
    title, line = place or ("", 1)
    text = "\n".join((queries.text(path) or "").split("\n")[line - 1 :])
    shown = " ".join(text[:1000].split())
    return SearchHit(path, title, score, (LineMatch(line, shown[:240] + "…" * (len(shown) > 240)),), 1)
