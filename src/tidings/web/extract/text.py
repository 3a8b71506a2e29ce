"""Plain text, and text of other sorts (programs, style sheets, calendars), as they are."""

import re
from posixpath import splitext
from urllib.parse import urlsplit

from tidings.web.extract.charset import as_text
from tidings.web.extract.model import Extracted, ExtractOptions
from tidings.web.extract.written import bounded, fenced

_HEADING = re.compile(r"^(\s{0,3})(#{1,6}\s)", re.MULTILINE)
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript", ".rs": "rust",
              ".rb": "ruby", ".sh": "bash", ".yml": "yaml", ".h": "c", ".cc": "cpp", ".hpp": "cpp"}  # fmt: skip


def read_text(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Prose without markup. Nothing in it is a heading, whatever it begins with."""
    text = _text(body, charset)
    text, warnings = bounded(text, options.caps.characters, "the text")
    markdown = _HEADING.sub(r"\1\\\2", text)
    return Extracted("text", "text", markdown, text, warnings=warnings, empty=None if text else "empty")


def read_code(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Text that is no prose, as one block of code."""
    text, warnings = bounded(_text(body, charset), options.caps.characters, "the text")
    if not text:
        return Extracted("text", "text", empty="empty")
    return Extracted("text", "text", fenced(text, _language(url)), text, warnings=warnings)


def _text(body: bytes, charset: str | None) -> str:
    text = _UNSEEN.sub("", as_text(body, charset).replace("\f", "\n"))
    # Not the indentation of the first line: a figure may begin with it.
    return text.rstrip().lstrip("\n\N{ZERO WIDTH NO-BREAK SPACE}") if text.strip() else ""


def _language(url: str) -> str:
    try:
        ending = splitext(urlsplit(url).path)[1].lower()
    except ValueError:
        return ""
    return _LANGUAGES.get(ending, ending[1:] if re.fullmatch(r"\.[a-z0-9+#-]{1,12}", ending) else "")
