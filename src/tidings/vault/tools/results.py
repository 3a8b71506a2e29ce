"""The results of the tools, and their refusals.

A result is data for programs, beside a text. `note` says what to know about it: the index is still being built, or
something was left out. Empty keys are left out. A refusal names the cause and the cure. Any other exception is a fault
of the server, which the SDK logs.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NotRequired

from mcp_types import CallToolResult, ImageContent, TextContent
from typing_extensions import TypedDict

from tidings.server import exact_calls
from tidings.server.families import ResourceMissing
from tidings.vault.files.outcomes import WriteFailed, WriteRefused
from tidings.vault.files.paths import BadPath
from tidings.vault.index.index import IndexBlocked, IndexDamaged
from tidings.vault.notes.sections import EditRefused
from tidings.vault.search.query import BadQuery


class Remarked(TypedDict):
    """An answer, perhaps with a note about it."""

    note: NotRequired[str]


class Page(Remarked):
    """One page of a list."""

    total: int
    next_offset: NotRequired[int]


class LineResult(TypedDict):
    """One line of a note."""

    line: int
    text: str


class HitResult(TypedDict):
    """A file that a search found."""

    path: str
    lines: list[LineResult]


class SearchResult(Page):
    """One page of a search."""

    results: list[HitResult]


class ExcerptResult(Remarked):
    """A note, or the requested part of it, as much as fits."""

    path: str
    version: str
    text: str
    lines: str
    total_lines: int
    left_out: NotRequired[str]


class WriteResult(Remarked):
    """A note that was written."""

    path: str
    version: str
    done: str
    diff: NotRequired[str]


class ChangeResult(TypedDict):
    """A change of several files."""

    done: str
    changed: list[str]
    version: NotRequired[str]
    warnings: NotRequired[list[str]]


class MoveResult(ChangeResult):
    """A move, and the notes with links to the file."""

    path: str


class DeleteResult(TypedDict):
    """A deletion, and the place in the trash."""

    path: str
    trash: str
    done: str


class TagCountResult(TypedDict):
    """A tag, and the number of notes that have it or one below it."""

    tag: str
    count: int


class Tags(Page):
    """One page of the tags with their counts, or of the notes of one tag."""

    tags: NotRequired[list[TagCountResult]]
    notes: NotRequired[list[str]]


class LinkSeen(TypedDict):
    """A link: its place, its text, and its target."""

    path: str
    line: int
    text: str
    link: str
    target: NotRequired[str]


class LinksResult(Page):
    """Links, or notes without any, or the notes on the way from one to another."""

    links: NotRequired[list[LinkSeen]]
    notes: NotRequired[list[str]]


class ChangedFile(TypedDict):
    """A file, and the time of its last change."""

    path: str
    modified: str


class Recent(Remarked):
    """The files that changed last."""

    files: list[ChangedFile]
    next_offset: NotRequired[int]


class FolderResult(TypedDict):
    """A folder, and the numbers of notes and other files in it and below it."""

    path: str
    notes: int
    files: int


class Structure(Remarked):
    """The folders below one, and the files in it."""

    folder: str
    folders: list[FolderResult]
    files: list[str]


Info = dict[str, Any]  # Facts about a note or about the whole vault.


NOTES_META: Final = "dev.tidings/notes"
"""The facts about the notes in a result, in its `_meta`: path, version, lines."""


def answer(text: str, data: Any) -> CallToolResult:
    """Returns a result: `text` to read, `data` for programs."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)


def texts(text: str, notes: Sequence[ExcerptResult], images: Sequence[ImageContent]) -> CallToolResult:
    """Returns a result with the texts of notes, each once: several hosts show structured content, or else the text."""
    facts = [{name: value for name, value in note.items() if name != "text"} for note in notes]
    return CallToolResult(content=[TextContent(type="text", text=text), *images], _meta={NOTES_META: facts})


_NAMED = (BadPath, BadQuery, EditRefused, ResourceMissing, IndexBlocked, IndexDamaged, WriteRefused, WriteFailed)


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, _NAMED):
        # Its own text contains paths of this machine, which callers must not see.
        return f"The disk refused: {error.strerror or type(error).__name__}. Try again, or look at it."
    return str(error)


refusals_told = partial(exact_calls.refusals_told, (*_NAMED, OSError), _said)
"""Turns the vault's errors, and those of the disk, into errors of the tool."""
