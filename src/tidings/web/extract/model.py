"""The types of extraction: what goes in beside the bytes, and what comes out.

What readers of plain material have in common: bounded text, tables in markdown, fences that hold.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidings.web.extract.prescan import TreeBounds


@dataclass(frozen=True)
class ExtractWarning:
    """Something the reader of the text should know; `type` is one of the packet's warning types."""

    type: str
    message: str


@dataclass(frozen=True)
class PageLink:
    """A link in the text that was kept."""

    text: str
    url: str


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
    """How much of anything is written. What is over a cap is left out, and a warning says how much that is."""

    characters: int = 2_000_000
    pages: int = 2_000
    """Of a PDF."""
    rows: int = 1_000
    """Of a table."""
    columns: int = 100
    entries: int = 500
    """Of a feed."""
    summary: int = 2_000
    """Characters of what an entry of a feed says."""
    unpacked: int = 32 * 1024 * 1024
    """Bytes of a body that is packed once more than the connection knew."""


@dataclass(frozen=True)
class ExtractOptions:
    """What the caller may ask for."""

    keep_tables: bool = True
    keep_code_blocks: bool = True
    remove_selectors: tuple[str, ...] = ()
    """CSS selectors (tag, #id, .class and their combinations) of parts to leave out."""
    prefer_readability: bool = False
    """Treat the page as an article, whatever it looks like."""
    bounds: TreeBounds = field(default_factory=TreeBounds)
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True)
class Extracted:
    """What was found. `markdown` and `text` say the same, with and without markup."""

    kind: str
    method: str
    markdown: str = ""
    text: str = ""
    title: str | None = None
    author: str | None = None
    published_at: str | None = None
    modified_at: str | None = None
    language: str | None = None
    site_name: str | None = None
    description: str | None = None
    canonical_url: str | None = None
    links: tuple[PageLink, ...] = ()
    page_count: int | None = None
    warnings: tuple[ExtractWarning, ...] = ()
    hidden: tuple[str, ...] = ()
    """Text that the page holds and does not show to readers; parts of it (tabs, for example) may be in `text`."""
    concealed: tuple[tuple[int, int], ...] = ()
    """Where in `markdown` such text stands: from, and up to behind the last character; in order."""
    entries: tuple[FeedEntry, ...] = ()
    empty: str | None = None
    """Why there is no text: "empty", "script-only", "login", "scanned"; None where there is."""


class Unsupported(Exception):
    """No reader for this content type: the bytes can only be handed on as they are."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"nothing here reads {content_type or 'a body without a content type'}; ask for it as raw")
        self.content_type = content_type

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.content_type,))


class ExtractionFailed(Exception):
    """The body is of a type that is read here, and could not be read. The text says why, and what to do.

    `kind` is a word for programs: "encrypted", "broken", "bomb" are about the body and stay so; "timeout", "memory" and
    "crash" are about reading it; "busy" and "stopped" are about this server, and may be over in a moment.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.kind, str(self)))


_TICKS = re.compile("`{3,}+")


def bounded(text: str, most: int, what: str) -> tuple[str, tuple[ExtractWarning, ...]]:
    """The first `most` characters, ending with a line where one ends near, and a warning if there were more."""
    if len(text) <= most:
        return text, ()
    end = text.rfind("\n", most - most // 10, most)
    kept = text[: end if end > 0 else most]
    return kept, (left_out(what, len(kept), len(text), "characters"),)


def left_out(what: str, kept: int, whole: int, unit: str) -> ExtractWarning:
    """That only a part is given, and how much is not."""
    return ExtractWarning(
        "truncated", f"{what} has {whole:,} {unit}: the first {kept:,} are given, {whole - kept:,} are left out"
    )


def fenced(text: str, language: str = "") -> str:
    """A block of code that its own text cannot end."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells, the first of them the header, all as wide as the widest."""
    lines = [[_cell(cell) for cell in row] for row in rows]
    width = max(map(len, lines), default=0)
    written = ["| " + " | ".join((*line, *[""] * (width - len(line)))) + " |" for line in lines]
    written.insert(1, "|" + " --- |" * width)
    return "\n".join(written)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
