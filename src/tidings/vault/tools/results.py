"""What the tools answer with: a shape for programs, beside a text for whoever reads.

`note` says what one should know of an answer: that the index is still being built, or that something was left out.
Keys that have nothing to say are not there.

What an agent is told when something cannot be done: the cause and the cure, never a traceback.

Each error of the vault says both itself. All else is a mistake of ours, which the SDK keeps to itself and logs.
"""

from functools import partial
from typing import Any, Final, NotRequired

from mcp_types import CallToolResult, TextContent
from typing_extensions import TypedDict

from tidings.server import exact_calls
from tidings.vault.files.outcomes import (
    AlreadyThere,
    BadVersion,
    Conflict,
    FileTooLarge,
    NotText,
    NotThere,
    ReadOnly,
    WriteFailed,
)
from tidings.vault.files.paths import BadPath
from tidings.vault.index.database import IndexBlocked, IndexDamaged
from tidings.vault.notes.sections import EditRefused
from tidings.vault.resources.shapes import NotFound
from tidings.vault.search.query import BadQuery


class LineResult(TypedDict):
    """One line of a note."""

    line: int
    text: str


class HitResult(TypedDict):
    """A file that a search found."""

    path: str
    lines: list[LineResult]


class SearchResult(TypedDict):
    """What a search found: one page of it."""

    total: int
    results: list[HitResult]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class ExcerptResult(TypedDict):
    """A note, or the part of it that was asked for and fits."""

    path: str
    version: str
    text: str
    lines: str
    total_lines: int
    left_out: NotRequired[str]
    note: NotRequired[str]


class Pieces(TypedDict):
    """What was read."""

    notes: list[ExcerptResult]
    problems: NotRequired[list[str]]


class WriteResult(TypedDict):
    """A note that was written."""

    path: str
    version: str
    done: str
    diff: NotRequired[str]


class MoveResult(TypedDict):
    """What was moved, and which notes had links to it."""

    path: str
    version: NotRequired[str]
    done: str
    changed: list[str]
    warnings: NotRequired[list[str]]


class DeleteResult(TypedDict):
    """What was deleted, and where it is now."""

    path: str
    trash: str
    done: str


class Renamed(TypedDict):
    """A tag that was renamed, and the notes that have it."""

    done: str
    changed: list[str]
    version: NotRequired[str]
    warnings: NotRequired[list[str]]


class TagCountResult(TypedDict):
    """A tag, and how many notes have it or one below it."""

    tag: str
    count: int


class Tags(TypedDict):
    """Tags with their counts, or the notes of one tag: one page of them."""

    total: int
    tags: NotRequired[list[TagCountResult]]
    notes: NotRequired[list[str]]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class LinkSeen(TypedDict):
    """A link: where it stands, what it says, and where it leads."""

    path: str
    line: int
    text: str
    link: str
    target: NotRequired[str]


class LinksResult(TypedDict):
    """Links, or notes without any, or the notes on the way from one to another."""

    total: int
    links: NotRequired[list[LinkSeen]]
    notes: NotRequired[list[str]]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class ChangedFile(TypedDict):
    """A file, and when it was changed."""

    path: str
    modified: str


class Recent(TypedDict):
    """What was changed last."""

    files: list[ChangedFile]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class FolderResult(TypedDict):
    """A folder, and how many notes and other files it and its subfolders have."""

    path: str
    notes: int
    files: int


class Structure(TypedDict):
    """The folders below one, and the files in it."""

    folder: str
    folders: list[FolderResult]
    files: list[str]
    note: NotRequired[str]


Info = dict[str, Any]
"""Facts of a note or of the whole vault; which ones, depends on what there is to say."""


def answer(text: str, data: Any) -> CallToolResult:
    """An answer for both: `text` to read, `data` for programs."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)


_NAMED: Final = (
    BadPath,
    BadQuery,
    EditRefused,
    IndexBlocked,
    IndexDamaged,
    NotFound,
    AlreadyThere,
    BadVersion,
    Conflict,
    NotText,
    NotThere,
    ReadOnly,
    FileTooLarge,
    WriteFailed,
)


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, _NAMED):
        # Its own text contains paths of this machine, which callers must not see.
        return f"The disk refused: {error.strerror or type(error).__name__}. Try again, or look at it."
    return str(error)


refusals_told = partial(exact_calls.refusals_told, (*_NAMED, OSError), _said)
"""Turns errors that have a name, and those of the disk, into what the caller of a tool reads."""
