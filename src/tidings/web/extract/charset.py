"""The bytes of a page as UTF-8, which is the only encoding its parser is given.

In order: a byte order mark, UTF-8 if the bytes are that, what the response said, what the page says of itself, and
Windows-1252, which can decode anything and is what unlabelled pages are as a rule.
"""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAID = re.compile(
    rb"<(?:meta\s[^>]{0,500}?charset|\?xml\s[^>]{0,200}?encoding)\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE
)
_ALIASES = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
            "gb2312": "gb18030", "gbk": "gb18030", "x-sjis": "cp932", "shift_jis": "cp932"}  # fmt: skip
"""What browsers take these names for."""
_NEVER = frozenset(("utf-7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"))


def as_utf8(body: bytes, charset: str | None) -> bytes:
    """`body` in UTF-8, without byte order marks and zero bytes; what cannot be decoded is replaced."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _encoded(body[len(mark) :].decode(encoding, "replace"))
    # What is not UTF-8 hardly ever looks like it, and pages are mislabelled often. Seven-bit encodings look like ASCII.
    if not body.isascii() and _is_utf8(body):
        return _clean(body)
    said = _SAID.search(body, 0, 4096)
    for name in (charset, said[1].decode("ascii") if said else None):
        encoding = _known(name)
        if encoding is not None:
            return _encoded(body.decode(encoding, "replace"))
    return _clean(body) if body.isascii() else _encoded(body.decode("cp1252", "replace"))


def _known(name: str | None) -> str | None:
    """Python's name for an encoding of text that this may be, or None."""
    if not name:
        return None
    name = name.strip().lower()
    try:
        found = codecs.lookup(_ALIASES.get(name, name)).name
        "".encode(found)
    except (LookupError, ValueError, UnicodeError):
        return None
    # A page that says it in letters of one byte each is not written in letters of two.
    return None if found in _NEVER or found.startswith(("utf-16", "utf-32")) else found


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _encoded(text: str) -> bytes:
    return _clean(text.encode("utf-8", "replace"))


def _clean(body: bytes) -> bytes:
    return body.replace(b"\0", b"") if b"\0" in body else body
