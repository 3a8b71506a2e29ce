"""The types of extraction, and the Markdown helpers that readers share."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

LISTS: Final = frozenset(("collection", "listing", "product", "service"))  # Kinds of pages with many links.


@dataclass(frozen=True)
class ExtractWarning:
    """A remark for the reader of the text; `type` is one of the document's warning types."""

    type: str
    message: str


@dataclass(frozen=True)
class FeedEntry:
    """One entry of a feed."""

    id: str
    title: str
    url: str
    published_at: str | None = None
    updated_at: str | None = None
    author: str | None = None
    summary: str = ""


@dataclass(frozen=True)
class Caps:
    """The largest output of each kind, beyond which a warning says what is left out; and the limits of what is read."""

    characters: int = 2_000_000
    pages: int = 2_000  # Pages of a PDF.
    rows: int = 1_000  # Rows of a table.
    columns: int = 100
    entries: int = 500  # Entries of a feed.
    summary: int = 2_000  # Characters of the summary of a feed's entry.
    unpacked: int = 32 * 1024 * 1024  # Bytes of a body that is a gzip file, decompressed.
    # Of a page that is given to a parser; real pages stay well below. All tags with many attributes together may have
    # five times as many as one, because scripts can look like such tags.
    elements: int = 150_000
    attributes: int = 10_000


@dataclass(frozen=True)
class ExtractOptions:
    """The options of a caller."""

    keep_tables: bool = True
    keep_code_blocks: bool = True
    # CSS selectors (tag, #id, .class and combinations of them) of parts to leave out.
    remove_selectors: tuple[str, ...] = ()
    prefer_readability: bool = False  # Treat the page as an article, whatever kind it is.
    part: str = ""  # The part of the page that is asked for; see `part.py`.
    whole_page: bool = False  # Keep all blocks of the page, menus included.
    comments: bool | None = None  # Keep or leave out the comments of readers; None: as the kind of page has it.
    links: str = "inline"  # Or "footnotes", which are at the end, or "off".
    images: bool = True
    prior: str = ""  # The `memory` of the last look, if there was one.
    caps: Caps = Caps()


@dataclass(frozen=True)
class Extracted:
    """The result. `markdown` and `text` have the same content, with and without markup."""

    kind: str
    method: str
    markdown: str = ""
    text: str = ""
    title: str | None = None
    author: str | None = None
    published_at: str | None = None
    language: str | None = None
    site_name: str | None = None
    description: str | None = None
    canonical_url: str | None = None
    page_count: int | None = None
    warnings: tuple[ExtractWarning, ...] = ()
    # Text of the page that readers do not see; some of it (tabs, for example) may be in `text`.
    hidden: tuple[str, ...] = ()
    concealed: tuple[tuple[int, int], ...] = ()  # The spans of such text in `markdown`, as start and end, in order.
    entries: tuple[FeedEntry, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict[str, str])  # What the page states for programs, by name.
    memory: str = ""  # The blocks of the page, which were chosen, and what is left out; see `html.choose`.
    # The reason why there is no text: "empty", "script-only", "login" or "scanned"; None if there is.
    empty: str | None = None


class Unsupported(Exception):
    """There is no reader for this content type: only the raw bytes can be returned."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"{content_type or 'a body without a content type'} cannot be read as text; ask for it as raw")
        self.content_type = content_type


class ExtractionFailed(Exception):
    """A body of a supported type could not be read. The message says why, and what to do.

    `kind` is for programs. "encrypted", "broken" and "bomb" are permanent; "timeout", "memory" and "crash" happened
    while reading; "busy" and "stopped" are about this server and may pass.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_TICKS = re.compile("`{3,}+")
_SPECIAL = re.compile(r"([\\`*_\[\]])")


def bounded(text: str, most: int, what: str) -> tuple[str, tuple[ExtractWarning, ...]]:
    """Returns the first `most` characters, cut at a line's end if one is near, and a warning if there were more."""
    if len(text) <= most:
        return text, ()
    end = text.rfind("\n", most - most // 10, most)
    kept = text[: end if end > 0 else most]
    return kept, (left_out(what, len(kept), len(text), "characters"),)


def left_out(what: str, kept: int, whole: int, unit: str) -> ExtractWarning:
    """Returns the warning that only a part is given, and how much is left out."""
    return ExtractWarning(
        "truncated", f"{what} has {whole:,} {unit}: the first {kept:,} are given, {whole - kept:,} are left out"
    )


def fenced(text: str, language: str = "") -> str:
    """Returns a code block with a fence that its text does not contain."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of cells that are Markdown already; the first row is the header, and all become equally wide."""
    width = max(map(len, rows), default=0)
    written = ["| " + " | ".join((*row, *[""] * (width - len(row)))) + " |" for row in rows]
    written.insert(1, "|" + " --- |" * width)
    return "\n".join(written)


def escaped(text: str) -> str:
    """Returns text with the characters of inline Markdown escaped."""
    return _SPECIAL.sub(r"\\\1", text) if _SPECIAL.search(text) else text


def escaped_url(url: str) -> str:
    """Returns a URL with spaces and parentheses, which would end it in a Markdown link, escaped."""
    return url.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
