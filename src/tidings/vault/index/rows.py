"""What the index answers with.

May import: `model`.
"""

import json
from typing import Any, NamedTuple

from tidings.vault.notes.model import Kind


class FileRow(NamedTuple):
    """All that the index knows of a file itself."""

    id: int
    path: str
    folder: str
    kind: Kind
    size: int
    mtime: int
    """When the content was changed, in nanoseconds."""
    hash: str | None
    """The version; None if it was not read."""
    title: str
    words: int
    properties_json: str
    problem: str | None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]

    @property
    def properties(self) -> dict[str, Any]:
        """The note's properties."""
        return json.loads(self.properties_json)


class NameMatch(NamedTuple):
    """A file that was asked for as users write it."""

    file: FileRow
    also: tuple[str, ...]
    """Other files that may have been meant."""


class ListedFiles(NamedTuple):
    """A file in a list: nothing that an edit of its text changes."""

    path: str
    kind: Kind
    title: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


class FolderRow(NamedTuple):
    """A folder, with what it and all folders in it hold."""

    path: str
    notes: int
    files: int
    """All files, notes included."""

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.rpartition("/")[2]


class FolderListing(NamedTuple):
    """What a folder holds, each by name."""

    path: str
    """As it is written on the disk."""
    folders: tuple[FolderRow, ...]
    files: tuple[ListedFiles, ...]


class TagCount(NamedTuple):
    """A tag, without its `#`, and how many notes have it."""

    key: str
    shown: str
    """As it was written first."""
    notes: int
    """0 if it is only there because others are nested in it."""
    total: int
    """With those that have a tag nested in it."""


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
    """A task."""

    path: str
    line: int
    status: str
    """What stands in the box: a space if it is open."""
    text: str


class PropertyUse(NamedTuple):
    """A property, in lower case, and how many notes have it."""

    name: str
    notes: int


class Stats(NamedTuple):
    """How much there is of what."""

    notes: int
    canvases: int
    bases: int
    attachments: int
    folders: int
    tags: int
    """Different ones."""
    links: int
    """Embeds included."""
    tasks_open: int
    tasks_done: int
    """All whose box holds something."""
    words: int
    """0 if it was not asked for, as the size."""
    size: int
    """Of all files, in bytes."""
