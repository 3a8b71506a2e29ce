"""The words of texts, as the full-text index has them, and all words of a vault.

A text is indexed in lower case. Each character of a script without spaces (Chinese, Japanese, Thai …) is a word of its
own, so that a part of a sentence is a sequence of words. In other scripts, a part of a word is found through the
`Vocabulary`: first the words that contain it, then the files that contain one of these words.

Words are never split where the tokenizer of SQLite does not split, or one of them could be missed. A longer word does
no harm: SQLite splits it again.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final, Literal

# Punctuation; Thai, Lao, Tibetan, Myanmar, Khmer, Tai; kana and Han with their extensions.
_ALONE: Final = re.compile(
    "[\u00a0\u00ab\u00bb\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u2000-\u206f\u2e80-\u2fff\u3000-\u30ff"
    "\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff0f\uff1a-\uff20\uff5b-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]"
)
_BETWEEN: Final = bytes(n if n > 127 or chr(n).isalnum() else 32 for n in range(256))  # Of ASCII, letters and digits.

Side = Literal["contains", "ends"]


def folded(text: str) -> str:
    """Returns a text as it is indexed."""
    return text.lower() if text.isascii() else _ALONE.sub(r" \g<0> ", text.lower())


def words_in(text: str) -> list[str]:
    """Returns the words of a text that `folded` returned."""
    return [word.decode() for word in text.encode(errors="replace").translate(_BETWEEN).split()]


def distinct_words(texts: Iterable[str]) -> str:
    """Returns each word of some texts once, one in each line."""
    together = folded("\n".join(texts)).encode(errors="replace")
    return b"\n".join(set(together.translate(_BETWEEN).split())).decode()


class Vocabulary:
    """All words of an index, and perhaps some of former texts. It may be used by several threads."""

    def __init__(self) -> None:
        self._words = "\n"  # Between line ends.
        self._last = 0
        self._refreshing = Lock()

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Adds the words that are new in the index behind a connection."""
        with self._refreshing:
            rows = connection.execute("SELECT id, word FROM words WHERE id > ? ORDER BY id", (self._last,)).fetchall()
            if rows:
                self._words += "".join(f"{word}\n" for _, word in rows)
                self._last = rows[-1][0]

    def having(self, part: str, side: Side, most: int) -> list[str] | None:
        """Returns the words that contain `part`, or end with it; None if no word is known, or more than `most`."""
        if not self._last:
            return None
        found: list[str] = []
        for word in self._find(part if side == "contains" else f"{part}\n"):
            if len(found) == most:
                return None
            found.append(word)
        return found

    def _find(self, part: str) -> Iterator[str]:
        words = self._words  # Another thread may add some.
        at = words.find(part)
        while at >= 0:
            start, end = words.rfind("\n", 0, at) + 1, words.find("\n", at)
            yield words[start:end]
            at = words.find(part, end)
