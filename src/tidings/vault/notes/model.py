"""The contents of a file as values: made by the parser, stored by the index, sent between processes.

Offsets count characters of the note's text; lines count from 1. Imports little, so that worker processes start fast.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

LARGEST_TEXT: Final = 10_000_000  # Bytes of a file that is written, and characters of a text that is made for one.

Kind = Literal["note", "canvas", "base", "attachment"]
SEARCHED: Final = ("note", "canvas")  # The kinds of files that words are searched in.


class Stamp(NamedTuple):
    """The state of a file in the file system. If none of it differs, the file counts as unchanged."""

    size: int
    mtime: int  # The last change of the content, in nanoseconds.
    ctime: int
    inode: int


class Heading(NamedTuple):
    """A heading. Its section reaches to the next heading of the same or a higher level."""

    level: int
    text: str
    line: int
    start: int  # The beginning of its line.


class NoteBlock(NamedTuple):
    """A block that links can point at: `^id` at its end."""

    id: str
    line: int  # The line of the id.
    start: int  # The block's text is from here to `end`, without the id.
    end: int


class NoteLink(NamedTuple):
    """A link or an embed, as it is written."""

    kind: Literal["wiki", "markdown", "reference", "property", "canvas"]  # A reference is `[shown]: target`.
    embed: bool
    target: str  # The path or name alone, decoded; empty for a link within the same note.
    subpath: str  # `#Heading`, `#H1#H2` or `#^block`, with its `#`; else empty.
    shown: str | None
    line: int
    start: int  # The whole link is from here to `end`, brackets included.
    end: int


class NoteTag(NamedTuple):
    """A tag, without its `#`."""

    name: str
    line: int
    start: int  # The name is from here to `end`, without its `#`.
    end: int


class NoteTask(NamedTuple):
    """A list item with a checkbox: `- [ ] …`."""

    line: int
    status: str  # The character in the checkbox: a space if the task is open.
    text: str


class Note(NamedTuple):
    """The parsed text of a note."""

    title: str  # Obsidian's: the name of the file, without `.md`.
    properties: dict[str, Any]
    body_start: int  # The beginning of the text after the properties.
    tags: tuple[NoteTag, ...]
    aliases: tuple[str, ...]
    headings: tuple[Heading, ...]
    blocks: tuple[NoteBlock, ...]
    links: tuple[NoteLink, ...]
    tasks: tuple[NoteTask, ...]
    words: int
    problem: str | None  # The problem with its properties, in words for the user.


class IndexEntry(NamedTuple):
    """One file of the vault, ready to be stored in the index."""

    path: str
    kind: Kind
    stamp: Stamp
    hash: str | None  # The version of its bytes, which `if_match` compares. None if it was not read.
    text: str  # The text that can be searched.
    title: str
    words: int
    properties: str  # A JSON object.
    problem: str | None  # The reason why it was not read, or not as it is; or the problem with its properties.
    rows: Mapping[str, Sequence[tuple[Any, ...]]]  # Its rows, by table of the index.
    vocabulary: str  # The distinct words of its text and title, one in each line.


class TextChange(NamedTuple):
    """A span of a text, and its replacement."""

    start: int
    end: int
    text: str


def version_of(data: bytes) -> str:
    """Returns the version of a file with these bytes, which `if_match` compares."""
    return blake2b(data, digest_size=8).hexdigest()


def key(text: str) -> str:
    """Returns a name in the form that is compared: without regard to case and to the encoding of accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
