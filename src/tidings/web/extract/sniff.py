"""The true content type of a body, and its encoding.

A label is overruled only by an unmistakable beginning: the first bytes of a PDF or an image, the first tag of a page or
a feed. Encodings are tried in this order: a byte order mark, the zero bytes of UTF-16 and UTF-32, valid UTF-8, the
response's charset, the page's declaration, Windows-1252. Only those that browsers know are used: pages use others,
UTF-7 for example, only to hide something.
"""

import codecs
import json
import re
from contextlib import suppress
from posixpath import splitext
from urllib.parse import urlsplit

GENERIC = frozenset(  # Labels without meaning.
    ("", "application/octet-stream", "binary/octet-stream", "application/unknown", "application/x-download",
     "application/force-download", "application/download", "unknown/unknown", "*/*", "application/x-unknown")
)  # fmt: skip
PACKED = frozenset(("application/gzip", "application/x-gzip", "application/gunzip"))
MARKUP = frozenset(("text/html", "application/xhtml+xml", "text/xml", "application/xml"))

_BINARY = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"PK\x03\x04", "application/zip"), (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"), (b"\xfd7zXZ\0", "application/x-xz"),
    (b"BZh91AY&SY", "application/x-bzip2"), (b"OggS\0", "application/ogg"), (b"\0asm", "application/wasm"),
    (b"\x7fELF", "application/x-elf"), (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"), (b"wOFF", "font/woff"), (b"wOF2", "font/woff2"),
    (b"ID3", "audio/mpeg"), (b"%!PS-Adobe-", "application/postscript"), (b"\x28\xb5\x2f\xfd", "application/zstd"),
)  # fmt: skip
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_SKIPPED = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s++|<!--.{0,2000}?-->|<\?.{0,2000}?\?>)*+", re.DOTALL)
_PAGE = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_PIECE = re.compile(
    rb"<(?:head|body|title|meta|script|style|div|p|h[1-6]|table|ul|ol|a|b|br|font|iframe|article|section|main|nav)[\s>/]",
    re.IGNORECASE,
)
_DOCTYPE = re.compile(rb"<!DOCTYPE[^>\[]{0,500}(?:\[.{0,20000}?\]\s*)?>", re.IGNORECASE | re.DOTALL)
_FEED = re.compile(rb"<(?:[\w-]{1,20}:)?(?:rss|feed|RDF)[\s>]")
_RDF_ITEMS = b"purl.org/rss/1.0"
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x08")) + b"\x7f"
_LOOKED_AT = 4_096
_NAMES = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".csv": "text/csv", ".tsv": "text/tab-separated-values",
    ".json": "application/json", ".geojson": "application/json", ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson", ".jsonld": "application/ld+json", ".xml": "application/xml",
    ".rss": "application/rss+xml", ".atom": "application/atom+xml",
}  # fmt: skip


def truly(body: bytes, said: str, url: str) -> str:
    """Returns the content type to read `body` as; `said` is the label, in lower case and without parameters."""
    start = body[:_LOOKED_AT]
    last = _RIFF.get(start[8:12]) if start.startswith(b"RIFF") else "video/mp4" if start[4:8] == b"ftyp" else None
    if binary := next((kind for magic, kind in _BINARY if start.startswith(magic)), last):
        return binary
    if b"%PDF-" in start[: 1024 if said == "application/pdf" or said in GENERIC else 8].lstrip():
        return "application/pdf"
    at = _SKIPPED.sub(b"", start, count=1)  # The first tag, or the text.
    if _PAGE.match(at):
        # XHTML that is labelled as XML is a page, too.
        return said if said == "application/xhtml+xml" else "text/html"
    feed = _feed(start, at)
    if feed is not None and (said in MARKUP or said in GENERIC or said.endswith(("/plain", "xml"))):
        return feed
    return _text(body, start, at, said, url)


def _feed(start: bytes, at: bytes) -> str | None:
    if doctype := _DOCTYPE.match(at):
        at = _SKIPPED.sub(b"", at[doctype.end() :], count=1)
    found = _FEED.match(at)
    if found is None:
        return None
    name = found[0][1:-1].rpartition(b":")[2]
    if name == b"RDF":
        return "application/rdf+xml" if _RDF_ITEMS in start else None
    return "application/rss+xml" if name == b"rss" else "application/atom+xml"


def _text(body: bytes, start: bytes, at: bytes, said: str, url: str) -> str:
    """Returns the content type of a body that does not begin as a page, a feed or binary data."""
    nameless = said in GENERIC
    if (nameless or (said.startswith("text/") and said not in MARKUP)) and looks_binary(start):
        return "application/octet-stream"
    if nameless:
        return _NAMES.get(file_ending(url)) or _guessed(body, start, at)
    if said == "text/plain":
        return _NAMES.get(file_ending(url), said)
    if said == "text/html" and at[:1] in (b"{", b"[") and _is_json(body):
        return "application/json"
    return said


def looks_binary(start: bytes) -> bool:
    """Returns whether it has bytes that no text has. UTF-16 and UTF-32 have zeros in every second place."""
    if not start or start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return False
    zeros = start.count(0)
    if zeros and not any(start[place::2].count(0) == zeros for place in (0, 1)):
        return True
    return len(start) - len(start.translate(None, _CONTROLS)) - zeros > max(2, len(start) // 50)


def file_ending(url: str) -> str:
    """Returns the ending of the file name in a URL, such as `.py`; empty if it has none."""
    with suppress(ValueError):
        return splitext(urlsplit(url).path)[1].lower()
    return ""


def _guessed(body: bytes, start: bytes, at: bytes) -> str:
    if _PIECE.match(at):
        return "text/html"
    if at[:1] in (b"{", b"[") and _is_json(body):
        return "application/json"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml"):
        return "application/xml"
    return "text/plain"


def _is_json(body: bytes) -> bool:
    if body.rstrip()[-1:] in (b"}", b"]"):
        with suppress(ValueError, RecursionError):
            json.loads(body)
            return True
    return False


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_SAID = re.compile(
    rb"<(?:meta\s[^>]{0,500}?charset|\?xml\s[^>]{0,200}?encoding)\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE
)
# The encodings that browsers use for these names.
_ALIASES = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
            "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "x-sjis": "cp932", "shift_jis": "cp932",
            "shift-jis": "cp932", "sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "windows-949": "cp949",
            "x-euc-jp": "euc_jp", "windows-874": "cp874", "dos-866": "cp866", "x-mac-cyrillic": "mac-cyrillic",
            "iso-8859-9": "cp1254", "iso-8859-8-i": "iso8859-8", "iso-8859-11": "cp874", "tis-620": "cp874",
            "x-x-big5": "big5hkscs", "big5": "big5hkscs", "unicode-1-1-utf-8": "utf-8"}  # fmt: skip
_ENCODINGS = frozenset(
    ("utf-8", "cp866", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp874", "gb18030", "big5hkscs", "euc_jp",
     "iso2022_jp", "cp932", "cp949", *(f"cp125{number}" for number in range(9)),
     *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)))
)  # fmt: skip
_CHARSET_BYTES = 2_048  # Bytes that are searched for the zeros of UTF-16 and UTF-32.
_LOST = "\N{REPLACEMENT CHARACTER}"


def as_utf8(body: bytes, charset: str | None) -> bytes:
    """Returns `body` in UTF-8, without byte order marks and zero bytes; invalid bytes are replaced."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _encoded(body[len(mark) :].decode(encoding, "replace"))
    if wide := _wide(body):
        return _encoded(body.decode(wide, "replace"))
    # Bytes in another encoding are hardly ever valid UTF-8, and labels are often wrong. Seven-bit encodings look like
    # ASCII, so that is not enough.
    with suppress(UnicodeDecodeError):
        if not body.isascii():
            body.decode("utf-8")
            return _clean(body)
    said = _SAID.search(body, 0, 4096)
    for name in (charset, said[1].decode("ascii") if said else None):
        if (text := _decoded(body, name)) is not None:
            return _encoded(text)
    if body.isascii():
        return _clean(body)
    return _encoded(body.decode("cp1252", "replace"))


def as_text(body: bytes, charset: str | None) -> str:
    """Returns the body as text with uniform line ends."""
    return as_utf8(body, charset).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _decoded(body: bytes, name: str | None) -> str | None:
    """Decodes `body`; returns None if the encoding is unknown or fits badly."""
    name = (name or "").strip().lower()
    if not 1 < len(name) <= 40:
        return None
    try:
        encoding = codecs.lookup(_ALIASES.get(name, name)).name
    except (LookupError, ValueError, UnicodeError):
        return None
    # Never UTF-16: a page that declares it in single bytes cannot be written in it.
    if encoding not in _ENCODINGS:
        return None
    text = body.decode(encoding, "replace")
    lost = text.count(_LOST)
    return None if lost > 2 and lost * 4 > len(text) - len(text.encode("ascii", "ignore")) else text


def _wide(body: bytes) -> str | None:
    """Detects UTF-16 and UTF-32 without a mark: Western letters have zero bytes at fixed places."""
    start = body[: _CHARSET_BYTES - len(body[:_CHARSET_BYTES]) % 4]
    if start.count(0) * 5 < len(start) or len(start) < 4:
        return None
    zeros = [start[place::4].count(0) * 4 / len(start) for place in range(4)]
    shapes = {
        "utf-32-le": min(zeros[2:]) > 0.9 and zeros[0] < 0.1,
        "utf-32-be": min(zeros[:2]) > 0.9 and zeros[3] < 0.1,
        "utf-16-le": min(zeros[1::2]) > 0.4 and max(zeros[0::2]) < 0.1,
        "utf-16-be": min(zeros[0::2]) > 0.4 and max(zeros[1::2]) < 0.1,
    }
    return next((encoding for encoding, fits in shapes.items() if fits), None)


def _encoded(text: str) -> bytes:
    return _clean(text.encode("utf-8", "replace"))


def _clean(body: bytes) -> bytes:
    return body.replace(b"\0", b"") if b"\0" in body else body
