"""The one place that writes to a vault.

Each write is atomic, and made only if the file is still the one that was read: `if_match` takes the version that a
read gave. Writers in one process, and in several on one machine, wait for each other; what another program (the app,
a sync client) writes is noticed up to the moment before the file is replaced. What remains are the microseconds
between that last look and the step itself: no file system offers to make the two one.

Permissions, owner, encoding and line endings stay as they were. All of it is synchronous, to be called in a thread.

May import: everything that is no part of the server.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from tidings.vault.files.content import FileContent, Texts, with_endings_of
from tidings.vault.files.disk import Disk, WriteLimits, check_version
from tidings.vault.files.folders import sweep
from tidings.vault.files.moving import References, move
from tidings.vault.files.outcomes import (
    AlreadyThere,
    BadVersion,
    Conflict,
    FileDeleted,
    FileMoved,
    FileTooLarge,
    FileWritten,
    NotText,
    NotThere,
    ReadOnly,
    Retagged,
    Skipped,
    WriteFailed,
)
from tidings.vault.files.paths import Vault
from tidings.vault.files.retagging import rename_tag
from tidings.vault.files.trash import delete
from tidings.vault.notes.edits import Edit, ReplaceSection, append, apply_edits, prepend

__all__ = [
    "AlreadyThere",
    "BadVersion",
    "Conflict",
    "FileContent",
    "FileDeleted",
    "FileMoved",
    "FileTooLarge",
    "FileWritten",
    "NotText",
    "NotThere",
    "ReadOnly",
    "References",
    "Retagged",
    "Skipped",
    "VaultWriter",
    "WriteFailed",
    "WriteLimits",
]


class VaultWriter:
    """Reads and writes the files of a vault.

    Every method that writes raises `BadPath` for what is no path of the vault, `Conflict` if `if_match` is not the
    version that is there, `BadVersion` if it can be none, `ReadOnly` if the server only reads, `FileTooLarge`, and
    `WriteFailed` for what the system does not allow. After any of them everything is as it was.

    Args:
        vault: The folders.
        read_only: Whether to refuse all writes.
        limits: How large files may be.
        texts: What callers have read elsewhere, for a conflict to say what has changed since.
    """

    def __init__(
        self, vault: Vault, *, read_only: bool = False, limits: WriteLimits | None = None, texts: Texts | None = None
    ) -> None:
        self._disk = Disk(vault, read_only=read_only, limits=limits, texts=texts)

    @property
    def read_only(self) -> bool:
        """Whether all writes are refused."""
        return self._disk.read_only

    def read(self, path: str) -> FileContent:
        """What a file holds, and its version.

        Raises:
            NotThere: There is no such file.
        """
        content = self._disk.read(path)
        self._disk.texts.keep(content.version, content.text)
        return content

    def write(
        self,
        path: str,
        text: str,
        *,
        if_match: str | None = None,
        create: Literal["allowed", "only", "never"] = "allowed",
        overwrite: bool = False,
    ) -> FileWritten:
        """Give a file a whole new text.

        Args:
            path: Of a file that is there, or is to be created with its folders.
            text: With any line endings: a file that is there keeps its own.
            if_match: The version to replace; the file has to be there.
            create: Whether a file that is not there is created, and one that is there refused.
            overwrite: Whether to replace a file without knowing its version.

        Raises:
            AlreadyThere: It is there, and was not to be replaced.
            NotThere: It is not there, and was not to be created.
        """

        def make(before: FileContent | None) -> str:
            wanted = text if before is None or before.problem else with_endings_of(before.text, text)
            check_version(self._disk.texts, path, if_match, before, lambda _: wanted)
            if before is None:
                if create == "never":
                    raise _not_there(path)
            elif create == "only" or (if_match is None and not overwrite):
                raise AlreadyThere(
                    f"{path!r} is there already (version {before.version}). Choose another name, or read it, and give "
                    "its version as if_match to replace it."
                )
            return wanted

        with self._disk.one(path, creating=create != "never") as place:
            return self._written(self._disk.change(place, make))

    def edit(self, path: str, edits: Sequence[Edit], *, if_match: str | None = None) -> FileWritten:
        """Change parts of a note: all of the edits, or none.

        Raises:
            EditRefused: One of the edits cannot be made.
            NotText: The file is no text.
            NotThere: There is no such note.
        """
        return self._change(path, lambda text: apply_edits(text, edits), if_match=if_match)

    def append(
        self,
        path: str,
        content: str,
        *,
        if_match: str | None = None,
        create: bool = True,
        section: str | None = None,
    ) -> FileWritten:
        """Add to the end of a note, or of one of its sections.

        Args:
            path: Of the note.
            content: The lines to add.
            if_match: The version to add to.
            create: Whether to create the note, or the section's heading, if it is not there.
            section: The heading, as in `edits.ReplaceSection`.

        Raises:
            EditRefused: There is no such section, or there are several.
            NotText: The file is no text.
            NotThere: There is no such note.
        """
        return self._add(path, content, append, "append", if_match=if_match, create=create, section=section)

    def prepend(
        self,
        path: str,
        content: str,
        *,
        if_match: str | None = None,
        create: bool = True,
        section: str | None = None,
    ) -> FileWritten:
        """Add to the beginning of a note, after its properties, or of one of its sections; see `append`."""
        return self._add(path, content, prepend, "prepend", if_match=if_match, create=create, section=section)

    def move(
        self, path: str, to: str, *, references: References, if_match: str | None = None, dry_run: bool = False
    ) -> FileMoved:
        """Give a file or folder another path, and bring the links to it up to date.

        Args:
            path: Of a file or folder.
            to: Where it will be; nothing may be there. Folders on the way are created.
            references: What the index knows of the links.
            if_match: The version of the file to move.
            dry_run: Whether only to find out what would be changed.

        Raises:
            AlreadyThere: Something is there.
            NotThere: There is nothing to move.
        """
        return move(self._disk, path, to, references, if_match=if_match, dry_run=dry_run)

    def delete(self, path: str, *, if_match: str | None = None, recursive: bool = False) -> FileDeleted:
        """Put a file or folder into the trash of its vault: the folder `.trash`, as Obsidian does.

        Args:
            path: Of a file or folder.
            if_match: The version of the file to delete.
            recursive: Whether to delete a folder that is not empty.

        Raises:
            AlreadyThere: The folder is not empty.
            NotThere: There is nothing to delete.
        """
        return delete(self._disk, path, if_match=if_match, recursive=recursive)

    def rename_tag(self, old: str, new: str, notes: Iterable[str], *, dry_run: bool = False) -> Retagged:
        """Give a tag another name, and so those nested in it, in the properties and the text of notes.

        Args:
            old: The tag, with or without `#`.
            new: Its new name.
            notes: The paths of the notes that have it.
            dry_run: Whether only to find out what would be changed.

        Raises:
            EditRefused: One of the names is no tag.
        """
        return rename_tag(self._disk, old, new, notes, dry_run=dry_run)

    def sweep(self) -> int:
        """Remove what writes that were killed have left behind more than an hour ago, and return how many."""
        return 0 if self.read_only else sum(sweep(mount.root) for mount in self._disk.vault.mounts)

    def _add(
        self,
        path: str,
        content: str,
        add: Callable[[str, str], str],
        mode: Literal["append", "prepend"],
        *,
        if_match: str | None,
        create: bool,
        section: str | None,
    ) -> FileWritten:
        def edit(text: str) -> str:
            if section is None:
                return add(text, content)
            return apply_edits(text, [ReplaceSection(section, content, mode, create=create)])

        return self._change(path, edit, if_match=if_match, create=create)

    def _change(
        self, path: str, edit: Callable[[str], str], *, if_match: str | None, create: bool = False
    ) -> FileWritten:
        def make(before: FileContent | None) -> str:
            check_version(self._disk.texts, path, if_match, before, edit)
            if before is None:
                if not create:
                    raise _not_there(path)
                return edit("")
            if before.problem:
                raise NotText(
                    f"{path!r} cannot be edited: {before.problem}. Save it as UTF-8 in an editor, or write all of it."
                )
            return edit(before.text)

        with self._disk.one(path, creating=create) as place:
            return self._written(self._disk.change(place, make))

    def _written(self, done: FileWritten) -> FileWritten:
        """Who has written a version knows it as if they had read it."""
        self._disk.texts.keep(done.version, done.text)
        return done


def _not_there(path: str) -> NotThere:
    return NotThere(f"There is no file {path!r}. Check how it is written, or allow it to be created.")
