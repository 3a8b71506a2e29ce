"""The text of a file, with everything needed to write it back unchanged: encoding, line endings, version.

A version is a hash of the bytes: two files with the same bytes have the same version, whenever they were written.
`Texts` keeps what callers have read, so that a conflict can show what has changed since.
"""

import codecs
import os
import re
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final, Literal

from tidings.vault.files.outcomes import NotText
from tidings.vault.notes.model import version_of
from tidings.vault.notes.sections import own_newline

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]

_MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-8": b"",
}
_CODECS = {"utf-8-sig": "utf-8"}  # The mark is written here, once, whatever the text begins with.
_LARGEST_KEPT: Final = 2_000_000  # Bytes of one text. Differences in a larger one would not be shown.


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file."""

    text: str  # With its own line endings, without the byte order mark. Invalid bytes are `\ufffd`.
    data: bytes
    version: str
    encoding: Encoding
    problem: str | None  # The reason why its text cannot be edited.
    seen: os.stat_result | None  # The state of the file when it was read.


def decode(data: bytes, seen: os.stat_result | None = None) -> FileContent:
    """Returns the content of a file with these bytes."""
    encoding: Encoding = next(name for name, mark in _MARKS.items() if data.startswith(mark))
    codec, plain = _CODECS.get(encoding, encoding), data[len(_MARKS[encoding]) :]
    try:
        text = plain.decode(codec)
        problem = "it contains NUL characters, as binary files do" if "\0" in text else None
    except UnicodeDecodeError as error:
        text = plain.decode(codec, errors="replace")
        problem = f"it is not valid {encoding.upper()} (at byte {error.start + len(_MARKS[encoding])})"
    return FileContent(text, data, version_of(data), encoding, problem, seen)


def encode(text: str, encoding: Encoding = "utf-8") -> bytes:
    """Returns the bytes of a text. Raises `NotText` for a lone surrogate."""
    try:
        return _MARKS[encoding] + text.encode(_CODECS.get(encoding, encoding))
    except UnicodeEncodeError as error:
        half = f"half a character (U+{ord(text[error.start]):04X}, a lone surrogate)"
        raise NotText(f"The text contains {half}. Remove it.") from None


def with_endings_of(before: str, text: str) -> str:
    """Returns `text` with the line endings of `before`: lines that both begin or end with keep theirs."""
    if "\n" not in before:
        return text
    newline = own_newline(before)
    old, new = _lines(before), _lines(text)
    endings = [newline if ending else "" for _, ending in new]
    most = min(len(old), len(new))
    for step in (1, -1):
        for at in range(most) if step == 1 else range(-1, -most - 1, -1):
            if old[at][0] != new[at][0]:
                break
            if new[at][1] and old[at][1]:
                endings[at] = old[at][1]
    return "".join(line + ending for (line, _), ending in zip(new, endings, strict=True))


def _lines(text: str) -> list[tuple[str, str]]:
    """Returns each line and its ending."""
    parts = [*re.split(r"(\r?\n)", text), ""]
    return [line for line in zip(parts[::2], parts[1::2], strict=True) if any(line)]


class Texts:
    """Texts by version, the most recent `most` bytes of them. Any thread may use it."""

    def __init__(self, most: int = 16_000_000) -> None:
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def keep(self, version: str, text: str) -> None:
        data = text.encode(errors="surrogatepass")
        if len(data) > min(_LARGEST_KEPT, self._most):
            return
        with self._lock:
            self._size += len(data) - len(self._kept.pop(version, b""))
            self._kept[version] = data
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])

    def get(self, version: str) -> str | None:
        """Returns the text of a version, or None if it is not known, or no longer."""
        with self._lock:
            data = self._kept.get(version)
        return data if data is None else data.decode(errors="surrogatepass")
