"""What the tools answer with: a shape for programs, beside a text for whoever reads.

`note` says what one should know of an answer: that the index is still being built, or that something was left out.
Keys that have nothing to say are not there.
"""

from typing import Any, NotRequired

from mcp_types import CallToolResult, TextContent
from typing_extensions import TypedDict


class Line(TypedDict):
    """One line of a note."""

    line: int
    text: str


class Hit(TypedDict):
    """A file that a search found."""

    path: str
    lines: list[Line]


class Found(TypedDict):
    """What a search found: one page of it."""

    total: int
    results: list[Hit]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class Piece(TypedDict):
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

    notes: list[Piece]
    problems: NotRequired[list[str]]


class Written(TypedDict):
    """A note that was written."""

    path: str
    version: str
    done: str
    diff: NotRequired[str]


class Moved(TypedDict):
    """What was moved, and which notes had links to it."""

    path: str
    version: NotRequired[str]
    done: str
    changed: list[str]
    warnings: NotRequired[list[str]]


class Deleted(TypedDict):
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


class TagCount(TypedDict):
    """A tag, and how many notes have it or one below it."""

    tag: str
    count: int


class Tags(TypedDict):
    """Tags with their counts, or the notes of one tag: one page of them."""

    total: int
    tags: NotRequired[list[TagCount]]
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


class Links(TypedDict):
    """Links, or notes without any, or the notes on the way from one to another."""

    total: int
    links: NotRequired[list[LinkSeen]]
    notes: NotRequired[list[str]]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class Change(TypedDict):
    """A file, and when it was changed."""

    path: str
    modified: str


class Recent(TypedDict):
    """What was changed last."""

    files: list[Change]
    next_offset: NotRequired[int]
    note: NotRequired[str]


class Folder(TypedDict):
    """A folder, and how many notes and other files it and its subfolders have."""

    path: str
    notes: int
    files: int


class Structure(TypedDict):
    """The folders below one, and the files in it."""

    folder: str
    folders: list[Folder]
    files: list[str]
    note: NotRequired[str]


Info = dict[str, Any]
"""Facts of a note or of the whole vault; which ones, depends on what there is to say."""


def answer(text: str, data: Any) -> CallToolResult:
    """An answer for both: `text` to read, `data` for programs."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)
