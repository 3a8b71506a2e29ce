"""What the bytes of an HTML page say beside its text: in comments, and in attributes that are read out."""

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VALUE = re.compile(rb"""=\s{0,3}(?:"([^"]{12,2000})"|'([^']{12,2000})')""")
_READ_OUT = (b"alt", b"title", b"content", b"placeholder", b"summary", b"aria-label", b"aria-description")
_APART = "\n" + " " * 200 + "\n"
"""Between two of them, so that nothing is taken for one sentence that is not."""
_LONGEST, _MOST = 2_000, 200_000


class Asides(NamedTuple):
    """All comments, and all attributes, in one text each."""

    comments: str
    attributes: str


def asides(raw: bytes) -> Asides:
    """The comments and the attributes of `raw` that may speak to a reader; what is too long for that is cut."""
    # Names and marks are ASCII in nearly every charset; what is not UTF-8 may lose letters here.
    return Asides(_joined(_comments(raw)), _joined(_attributes(raw)))


def _comments(raw: bytes) -> Iterator[bytes]:
    start = raw.find(b"<!--")
    while start >= 0:
        end = raw.find(b"-->", start)
        end = len(raw) if end < 0 else end
        yield raw[start + 4 : min(end, start + _LONGEST)]
        start = raw.find(b"<!--", end)


def _attributes(raw: bytes) -> Iterator[bytes]:
    for found in _VALUE.finditer(raw):
        value: bytes = found[1] or found[2]
        if b" " in value and raw[max(0, found.start() - 20) : found.start()].rstrip().lower().endswith(_READ_OUT):
            yield value


def _joined(parts: Iterable[bytes]) -> str:
    kept: list[str] = []
    size = 0
    for part in dict.fromkeys(parts):
        text = html.unescape(part.decode("utf-8", "replace")).strip()
        if " " in text:
            kept.append(text)
            size += len(text)
        if size > _MOST:
            break
    return _APART.join(kept)
