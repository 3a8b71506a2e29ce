"""The text of a file, with all that it takes to write it back just as it was.

A version is a hash of the bytes: two files with the same bytes have the same version, whenever they were written.

May import: `edits`, `write_errors`.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from tidings.vault.files.sections import own_newline
from tidings.vault.files.write_errors import NotText

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]

_MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-8": b"",
}
_CODECS = {"utf-8-sig": "utf-8"}  # The mark is written here, once, whatever the text begins with.


@dataclass(frozen=True, slots=True)
class Content:
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


def decode(data: bytes, *, mtime: float = 0.0) -> Content:
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
    return Content(text, version_of(data), encoding, own_newline(text), len(data), mtime, problem)


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
