"""The text of a file, with all that it takes to write it back just as it was.

A version is a hash of the bytes: two files with the same bytes have the same version, whenever they were written.

May import: `edits`, `write_errors`.

Reading files that may turn out to be none: nothing here waits for a pipe, or reads a device without end.

May import: nothing of Tidings.

What notes said when they were read, so that whoever read one can be shown what has changed since.

Only the last few megabytes are kept: what is older is not known any more.

May import: nothing of Tidings.
"""

import codecs
import errno
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final, Literal

from tidings.vault.files.outcomes import NotText
from tidings.vault.notes.sections import own_newline

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]

_MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-8": b"",
}
_CODECS = {"utf-8-sig": "utf-8"}  # The mark is written here, once, whatever the text begins with.


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file holds."""

    text: str
    """With its own line endings, without the mark of its encoding. What is no text is `\ufffd`."""
    version: str
    encoding: Encoding
    newline: str
    """The line ending it has most."""
    size: int
    mtime: float
    """When it was written, in seconds since 1970."""
    problem: str | None = None
    """Why its text cannot be edited."""


def version_of(data: bytes) -> str:
    """The version that `if_match` compares."""
    return blake2b(data, digest_size=8).hexdigest()


def decode(data: bytes, *, mtime: float = 0.0) -> FileContent:
    """The content of a file with these bytes."""
    encoding: Encoding = next(name for name, mark in _MARKS.items() if data.startswith(mark))
    codec, plain = _CODECS.get(encoding, encoding), data[len(_MARKS[encoding]) :]
    problem = None
    try:
        text = plain.decode(codec)
    except UnicodeDecodeError as error:
        text = plain.decode(codec, errors="replace")
        problem = f"it is not valid {encoding.upper()} (at byte {error.start + len(_MARKS[encoding])})"
    if problem is None and "\0" in text:
        problem = "it holds NUL characters, as binary files do"
    return FileContent(text, version_of(data), encoding, own_newline(text), len(data), mtime, problem)


def encode(text: str, encoding: Encoding = "utf-8") -> bytes:
    """The bytes of a text.

    Raises:
        NotText: It holds half a character.
    """
    try:
        return _MARKS[encoding] + text.encode(_CODECS.get(encoding, encoding))
    except UnicodeEncodeError as error:
        raise NotText(
            f"The text holds half a character (U+{ord(text[error.start]):04X}, a lone surrogate). Leave it out."
        ) from None


def with_endings_of(before: str, text: str) -> str:
    """A text that replaces another, with the other's line endings: who writes a note anew rarely means to change them.

    Lines that both begin or end with keep each its own ending; the others get the one that is most frequent.
    """
    if "\n" not in before:
        return text
    newline = own_newline(before)
    old, new = list(_lines(before)), list(_lines(text))
    endings = [newline if ending else "" for _, ending in new]
    most = min(len(old), len(new))
    for step in (1, -1):
        for at in range(most) if step == 1 else range(-1, -most - 1, -1):
            if old[at][0] != new[at][0]:
                break
            if new[at][1] and old[at][1]:
                endings[at] = old[at][1]
    return "".join(line + ending for (line, _), ending in zip(new, endings, strict=True))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    start = 0
    for match in re.finditer(r"\r?\n", text):
        yield text[start : match.start()], match[0]
        start = match.end()
    if start < len(text):
        yield text[start:], ""


READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what may be a pipe: without waiting for who writes into it."""


def read_regular(place: Path, largest: int) -> bytes:
    """The bytes of a file, or of the one that a symbolic link leads to.

    Raises:
        OverflowError: It is larger than that.
        OSError: It is not there, no file, or may not be read.
    """
    _check(place.stat(), place.name)  # Before it is opened: some devices do something by that alone.
    return read_open(os.open(place, READING), place.name, largest)[0]


def read_open(descriptor: int, name: str, largest: int) -> tuple[bytes, os.stat_result]:
    """The bytes of what was opened, and what the system said of it before. It is closed then.

    Raises:
        OverflowError: It is larger than that.
        OSError: It is no file, or cannot be read.
    """
    try:
        found = os.fstat(descriptor)
        _check(found, name)
        if found.st_size > largest:
            raise OverflowError(found.st_size)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(descriptor)
    if len(data) > largest:
        raise OverflowError(len(data))
    return data, found


def _check(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


_MOST: Final = 16_000_000
_LARGEST: Final = 2_000_000
"""Of one text. In a larger one nobody would be shown the differences."""


class Texts:
    """Texts by version. To be used by any thread.

    Args:
        most: How many bytes are kept of all of them.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def keep(self, version: str, text: str) -> None:
        """Remember a text that somebody has been given."""
        data = text.encode(errors="surrogatepass")
        if len(data) > min(_LARGEST, self._most):
            return
        with self._lock:
            self._size += len(data) - len(self._kept.pop(version, b""))
            self._kept[version] = data
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])

    def get(self, version: str) -> str | None:
        """The text of a version; None if it is not known, or not any more."""
        with self._lock:
            data = self._kept.get(version)
        return None if data is None else data.decode(errors="surrogatepass")
