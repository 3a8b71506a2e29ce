"""What the bytes of an HTML page say beside its text: in comments, in attributes that are read out, in unused parts."""

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VALUE = re.compile(rb"""=\s{0,3}(?:"([^"]{12,2000})"|'([^']{12,2000})')""")
_READ_OUT = (b"alt", b"title", b"content", b"placeholder", b"summary", b"aria-label", b"aria-description")
_APART = "\n" + " " * 200 + "\n"
"""Between two of them, so that nothing is taken for one sentence that is not."""
_TAG = re.compile(rb"<[^<>]*+>?")
_LONGEST, _LONGEST_PART, _MOST = 2_000, 10_000, 200_000


class Asides(NamedTuple):
    """All comments, all attributes, and all parts for other browsers and for scripts, in one text each."""

    comments: str
    attributes: str
    unused: str


def asides(raw: bytes) -> Asides:
    """What of `raw` may speak to a reader beside the text; what is too long for that is cut."""
    # Names and marks are ASCII in nearly every charset; what is not UTF-8 may lose letters here.
    return Asides(_joined(_comments(raw)), _joined(_attributes(raw)), _joined(_unused(raw)))


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


def _unused(raw: bytes) -> Iterator[bytes]:
    small = raw.lower()
    for tag in (b"<noscript", b"<template"):
        start = small.find(tag)
        while start >= 0:
            end = small.find(b"</" + tag[1:], start)
            end = len(raw) if end < 0 else end
            yield _TAG.sub(b" ", raw[start : min(end, start + _LONGEST_PART)])
            start = small.find(tag, end)


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
