"""The results of queries."""

import json
from typing import Any, NamedTuple

from tidings.vault.notes.model import Kind


class FileRow(NamedTuple):
    """A file in the index."""

    id: int
    path: str
    folder: str
    kind: Kind
    size: int
    mtime: int  # The last change of the content, in nanoseconds.
    hash: str | None  # The version; None if it was not read.
    title: str
    words: int
    properties_json: str
    problem: str | None

    @property
    def properties(self) -> dict[str, Any]:
        """The note's properties as values."""
        return json.loads(self.properties_json)


class NameMatch(NamedTuple):
    """The file that a user means."""

    file: FileRow
    also: tuple[str, ...]  # Other files that may have been meant.


class ListedFiles(NamedTuple):
    """A file in a list, with nothing that an edit of its text changes."""

    path: str
    kind: Kind
    title: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FolderRow(NamedTuple):
    """A folder, with the counts of everything below it."""

    path: str
    notes: int
    files: int  # All files, notes included.

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FolderListing(NamedTuple):
    """The content of a folder, by name."""

    path: str  # As it is written on the disk.
    folders: tuple[FolderRow, ...]
    files: tuple[ListedFiles, ...]


class TagCount(NamedTuple):
    """A tag without its `#`, and the number of notes with it."""

    key: str
    shown: str  # Its first occurrence as written.
    notes: int  # 0 if only tags nested in it occur.
    total: int  # Includes the notes with a tag nested in it.


class HeadingRow(NamedTuple):
    """A heading of a note."""

    level: int
    text: str
    line: int


class BlockRow(NamedTuple):
    """A block of a note that links can point at."""

    id: str
    line: int


class TaskRow(NamedTuple):
    """A task of a note."""

    line: int
    status: str  # The character in the checkbox: a space if it is open.
    text: str


class PropertyUse(NamedTuple):
    """A property in lower case, and the number of notes with it."""

    name: str
    notes: int


class Stats(NamedTuple):
    """Counts of everything in a vault."""

    notes: int
    canvases: int
    bases: int
    attachments: int
    folders: int
    tags: int  # Different ones.
    links: int  # Embeds included.
    tasks_open: int
    tasks_done: int  # All with a character in the checkbox.
    words: int  # 0 if it was not requested, like the size.
    size: int  # Of all files, in bytes.
