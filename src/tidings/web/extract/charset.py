"""The bytes of a page as UTF-8, which is the only encoding its parser is given.

In order: a byte order mark, the zero bytes of UTF-16 and UTF-32, UTF-8 if the bytes are that, what the response said,
what the page says of itself, and Windows-1252, which can decode anything and is what unlabelled pages are as a rule.
A label that fits badly is a lie, and the next is tried. Only encodings that browsers know are ever used: others (UTF-7
above all) exist for no page but those that hide something.
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
            "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "x-sjis": "cp932", "shift_jis": "cp932",
            "shift-jis": "cp932", "sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "windows-949": "cp949",
            "x-euc-jp": "euc_jp", "windows-874": "cp874", "dos-866": "cp866", "x-mac-cyrillic": "mac-cyrillic",
            "iso-8859-9": "cp1254", "iso-8859-8-i": "iso8859-8", "iso-8859-11": "cp874", "tis-620": "cp874",
            "x-x-big5": "big5hkscs", "big5": "big5hkscs", "unicode-1-1-utf-8": "utf-8"}  # fmt: skip
"""What browsers take these names for."""
_TAKEN_WRITTEN = (
    "utf-8 cp866 koi8-r koi8-u mac-roman mac-cyrillic cp874 gb18030 big5hkscs euc_jp iso2022_jp cp932 cp949 "
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 "
    "iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16"
)
_TAKEN = frozenset(_TAKEN_WRITTEN.split())
_WIDE = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-16le": ("utf-16-le",), "utf-16be": ("utf-16-be",)}
_LOOKED_AT = 2_048
"""Bytes in which zero bytes tell of two or four bytes a letter."""
_LOST = "\N{REPLACEMENT CHARACTER}"


def as_utf8(body: bytes, charset: str | None) -> bytes:
    """`body` in UTF-8, without byte order marks and zero bytes; what cannot be decoded is replaced."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _encoded(body[len(mark) :].decode(encoding, "replace"))
    wide = _wide(body)
    if wide is not None:
        return _encoded(body.decode(wide, "replace"))
    # What is not UTF-8 hardly ever looks like it, and pages are mislabelled often. Seven-bit encodings look like ASCII.
    if not body.isascii() and _is_utf8(body):
        return _clean(body)
    said = _SAID.search(body, 0, 4096)
    for name in (charset, said[1].decode("ascii") if said else None):
        text = _decoded(body, name)
        if text is not None:
            return _encoded(text)
    if body.isascii():
        return _clean(body)
    return _encoded(_wide_as_said(body, charset) or body.decode("cp1252", "replace"))


def as_text(body: bytes, charset: str | None) -> str:
    """The same as text, its line ends made one."""
    return as_utf8(body, charset).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _decoded(body: bytes, name: str | None) -> str | None:
    """`body` in the encoding of this name; None where there is none, or where it does not fit at all."""
    encoding = _known(name)
    if encoding is None:
        return None
    text = body.decode(encoding, "replace")
    lost = text.count(_LOST)
    return None if lost > 2 and lost * 4 > len(text) - len(text.encode("ascii", "ignore")) else text


def _known(name: str | None) -> str | None:
    """Python's name for an encoding that a page may be in, or None."""
    # A page that says it in letters of one byte each is not written in letters of two: UTF-16 is never believed.
    name = (name or "").strip().lower()
    if not 1 < len(name) <= 40:
        return None
    try:
        found = codecs.lookup(_ALIASES.get(name, name)).name
    except (LookupError, ValueError, UnicodeError):
        return None
    return found if found in _TAKEN else None


def _wide(body: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: letters of the West leave zero bytes at the same place of each letter."""
    start = body[: _LOOKED_AT - len(body[:_LOOKED_AT]) % 4]
    if start.count(0) * 5 < len(start) or len(start) < 4:
        return None
    zeros = [start[place::4].count(0) * 4 / len(start) for place in range(4)]
    if min(zeros[2:]) > 0.9 and zeros[0] < 0.1:
        return "utf-32-le"
    if min(zeros[:2]) > 0.9 and zeros[3] < 0.1:
        return "utf-32-be"
    if min(zeros[1::2]) > 0.4 and max(zeros[0::2]) < 0.1:
        return "utf-16-le"
    if min(zeros[0::2]) > 0.4 and max(zeros[1::2]) < 0.1:
        return "utf-16-be"
    return None


def _wide_as_said(body: bytes, charset: str | None) -> str | None:
    """UTF-16 that only the response tells of: letters of the East leave no zero bytes. It has to fit."""
    start = body[:_LOOKED_AT]
    if len(start) < 16 or (start.count(b" ") + start.count(b"\n")) * 20 > len(start):
        return None  # It is parted into words, in letters of one byte.
    for encoding in _WIDE.get((charset or "").strip().lower(), ()):
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError:
            continue
        if sum(map(str.isalpha, text)) * 2 > len(text):
            return text
    return None


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
