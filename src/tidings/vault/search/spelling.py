"""What a word that nothing was found for may have been meant to be: the nearest of the words that the index knows.

Only words with the same first letter are looked at, and only for a moment: a guess is not worth waiting for.
"""

import sqlite3
import unicodedata
from difflib import get_close_matches
from typing import Final

from tidings.vault.search.matching import Deadline
from tidings.vault.search.query import parse_query
from tidings.vault.search.query_tree import Word

_SECONDS: Final = 0.2
_STEPS: Final = 1_000
"""Of SQLite's machine, after which the time is looked at."""
_LONGER: Final = 2
"""By how many letters the two may differ in length."""

_VOCABULARY: Final = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, fts, row)"
_NEAR: Final = "SELECT term FROM temp.words WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"


def meant_instead(connection: sqlite3.Connection, query: str) -> str | None:
    """A word to search for instead of a query that is one word; None if none comes near."""
    match parse_query(query):
        case Word(text) if text.isalnum():
            word = _as_indexed(text)
        case _:
            return None
    lengths = (len(word) - _LONGER, len(word) + _LONGER)
    _make_vocabulary(connection)
    connection.set_progress_handler(Deadline(_SECONDS).passed, _STEPS)
    try:
        known = [term for (term,) in connection.execute(_NEAR, (word[:1], word[:1] + "\U0010ffff", *lengths))]
    except sqlite3.OperationalError:
        return None
    finally:
        connection.set_progress_handler(None, 0)
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.75)), None)


def _make_vocabulary(connection: sqlite3.Connection) -> None:
    """It is a view of the index and a part of this connection alone, which may otherwise only read."""
    only: int = connection.execute("PRAGMA query_only").fetchone()[0]
    connection.execute("PRAGMA query_only = 0")
    try:
        connection.execute(_VOCABULARY)
    finally:
        connection.execute(f"PRAGMA query_only = {only}")


def _as_indexed(word: str) -> str:
    """Without capitals and accents."""
    letters = unicodedata.normalize("NFD", word.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
