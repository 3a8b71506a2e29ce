"""What a file of a vault holds, as values: made by the parser, kept by the index, sent between processes.

Offsets count characters of the note's text, lines count from 1. May import: nothing of Tidings, so that the processes
which only parse start quickly.

When two names are the same.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

Kind = Literal["note", "canvas", "base", "attachment"]


class Stamp(NamedTuple):
    """What the file system says of a file. If none of it differs, the file is taken to be the same."""

    size: int
    mtime: int
    """When the content was changed, in nanoseconds."""
    ctime: int
    inode: int


class Heading(NamedTuple):
    """A heading. Its section reaches to the next heading of the same or a higher level."""

    level: int
    text: str
    line: int
    start: int
    """Where its line begins."""


class NoteBlock(NamedTuple):
    """A block that links can point at: `^id` at its end."""

    id: str
    line: int
    """The line on which the id stands."""
    start: int
    end: int
    """The block's text, without the id."""


class NoteLink(NamedTuple):
    """A link or an embed, as it is written."""

    kind: Literal["wiki", "markdown", "property", "canvas"]
    embed: bool
    target: str
    """The path or name alone, decoded; empty for a link within the same note."""
    subpath: str
    """`#Heading`, `#H1#H2` or `#^block`, with its `#`; else empty."""
    shown: str | None
    line: int
    start: int
    end: int
    """The whole link, brackets included."""


class NoteTag(NamedTuple):
    """A tag, without its `#`."""

    name: str
    line: int
    start: int
    end: int
    """Where the name stands, after the `#` if there is one."""


class NoteTask(NamedTuple):
    """An item of a list with a box: `- [ ] …`."""

    status: str
    """What stands in the box: a space if it is open."""
    text: str
    line: int


class Note(NamedTuple):
    """All that the index wants to know of a note's text."""

    title: str
    """Obsidian's: the name of the file, without `.md`."""
    properties: dict[str, Any]
    body_start: int
    """Where the text after the properties begins."""
    tags: tuple[NoteTag, ...]
    aliases: tuple[str, ...]
    headings: tuple[Heading, ...]
    blocks: tuple[NoteBlock, ...]
    links: tuple[NoteLink, ...]
    tasks: tuple[NoteTask, ...]
    words: int
    problem: str | None
    """What is wrong with the properties, in words for the user."""


class IndexEntry(NamedTuple):
    """One file of the vault, as the index keeps it: ready to be stored, by whichever process read it."""

    path: str
    kind: Kind
    stamp: Stamp
    hash: str | None
    """Of the bytes; the version that `if_match` compares. None for what was not read."""
    text: str
    """What can be searched."""
    title: str
    words: int
    properties: str
    """A JSON object."""
    problem: str | None
    """Why it was not read, or not read as it is; and what is wrong with its properties."""
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    """What was found in it, by the tables of the index."""


def key(text: str) -> str:
    """A name for comparing: upper and lower case are the same, and so are the ways to write an accent."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
