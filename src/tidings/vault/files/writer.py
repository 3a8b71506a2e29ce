"""`VaultWriter`: the one place that writes to a vault.

Each write is atomic, and happens only if the file is still the one that was read: `if_match` takes the version that a
read returned. Writers on one machine wait for each other, and for programs that are saving the file. What is written is
in the journal first. Permissions, owner, encoding and line endings are kept. Call it in a thread.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidings._kit.text import applied, quoted
from tidings.vault.files import outcomes
from tidings.vault.files.content import FileContent, Texts, with_endings_of
from tidings.vault.files.disk import Disk, Make, check_version
from tidings.vault.files.journal import WriteJournal
from tidings.vault.files.moving import References, delete, move
from tidings.vault.files.outcomes import FileDeleted, FileMoved, FileWritten, Retagged, Skipped, Undone
from tidings.vault.files.paths import Vault
from tidings.vault.files.recovery import recover, undo
from tidings.vault.notes import parse
from tidings.vault.notes.edits import Edit, ReplaceSection, apply_edits
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import EditRefused, append, prepend

_PROGRESS_EVERY: Final = 100
Report = Callable[[int], None]


class VaultWriter:
    """Reads and writes the files of a vault. `texts` are what callers have read elsewhere, for conflicts to show.

    Every method that writes raises `BadPath`, `Conflict` if `if_match` is not the current version, `WriteRefused` if it
    cannot be one, `ReadOnly`, `FileTooLarge`, and `WriteFailed` for what the system does not allow. After any of them
    everything is as it was. Methods that change a text also raise `EditRefused`, `NotText` or `NotThere`.
    """

    def __init__(
        self, vault: Vault, *, read_only: bool = False, texts: Texts | None = None, journal: WriteJournal | None = None
    ) -> None:
        self.read_only = read_only
        self._disk = Disk(vault, read_only=read_only, texts=texts, journal=journal)
        self.journal = self._disk.journal

    def read(self, path: str) -> FileContent:
        content = self._disk.read(path)
        self._disk.texts.keep(content.version, content.text)
        return content

    def write(self, path: str, text: str, *, if_match: str = "", overwrite: bool = False) -> FileWritten:
        """Writes a whole file. Raises `AlreadyThere` for an old one without `if_match` or `overwrite`."""

        def make(before: FileContent | None) -> str:
            wanted = text if before is None or before.problem else with_endings_of(before.text, text)
            check_version(self._disk.texts, path, if_match, before, lambda _: wanted)
            if before is not None and not (if_match or overwrite):
                cure = "Choose another name; or read it, and give its version as if_match to replace it."
                raise outcomes.AlreadyThere(f"{path!r} already exists (version {before.version}). {cure}")
            return wanted

        return self._write(path, make, f"Wrote {path}", creating=True)

    def edit(self, path: str, edits: Sequence[Edit], *, if_match: str = "") -> FileWritten:
        """Changes parts of a note: makes all of the edits, or none. Raises `EditRefused`, `NotText` or `NotThere`."""
        return self._change(path, lambda text: apply_edits(text, edits), f"Edited {path}", if_match=if_match)

    def append(
        self,
        path: str,
        content: str,
        *,
        if_match: str = "",
        create: bool = True,
        section: str = "",
        at_start: bool = False,
    ) -> FileWritten:
        """Adds lines to the end of a note or a section, or `at_start`. `create` creates a missing note, or heading."""

        def edit(text: str) -> str:
            if section:
                mode = "prepend" if at_start else "append"
                return apply_edits(text, [ReplaceSection(section, content, mode, create=create)])
            return (prepend if at_start else append)(text, content)

        return self._change(path, edit, f"Added to {path}", if_match=if_match, create=create)

    def move(
        self, path: str, to: str, *, references: References, if_match: str = "", dry_run: bool = False
    ) -> FileMoved:
        """Moves a file or folder to a free path, and updates the links to it. Raises `AlreadyThere` or `NotThere`."""
        return move(self._disk, path, to, references, if_match=if_match, dry_run=dry_run)

    def delete(self, path: str, *, if_match: str = "", recursive: bool = False) -> FileDeleted:
        """Moves a file, or a folder (`recursive`: one with files), to `.trash`. Raises `AlreadyThere` or `NotThere`."""
        return delete(self._disk, path, if_match=if_match, recursive=recursive)

    def rename_tag(
        self, old: str, new: str, notes: Iterable[str], *, dry_run: bool = False, progress: Report = lambda count: None
    ) -> Retagged:
        """Renames a tag, and those nested in it, in the properties and the text of `notes`; never in code.

        A note whose tags would not be right is left alone and reported. `dry_run` only finds out what would be changed.
        `progress` gets the number of notes that are done. Raises `EditRefused` if one of the names is not a tag.
        """
        self._disk.check_allowed()
        old, new = _tag_name(old), _tag_name(new)
        counts: dict[str, int] = {}

        def update(path: str, text: str) -> str:
            text, counts[path] = _renamed(text, old, new)
            return text

        plans, skipped = self._disk.plans(notes, update)
        touched, changed = list[str](), [plan.path for plan in plans]
        if not dry_run:
            with self.journal.operation(f"Renamed #{old} to #{new}") as operation:
                with outcomes.explained(f"#{new}"):
                    operation.intend(*(plan.step for plan in plans))
                for number, plan in enumerate(plans):
                    try:
                        with self._disk.everything():
                            place = self._disk.place(plan.path)
                            touched += self._disk.change(place, plan.make, operation).touched
                    except (ValueError, OSError) as error:
                        skipped.append(Skipped(plan.path, str(error)))
                        changed.remove(plan.path)
                    if number % _PROGRESS_EVERY == 0:
                        progress(number)
                if not touched:
                    operation.end(None)
        return Retagged(tuple(touched), tuple(changed), sum(counts[path] for path in changed), tuple(skipped))

    def recover(self) -> list[str]:
        """Finishes or drops what a killed process has begun. Returns what was done, for the user."""
        return [] if self.read_only else recover(self._disk)

    def undo(self, which: str = "") -> Undone:
        """Undoes an operation, by id or path; by default the last one here. Raises `AlreadyThere` or `NotThere`."""
        return undo(self._disk, which)

    def _change(
        self, path: str, edit: Callable[[str], str], did: str, *, if_match: str, create: bool = False
    ) -> FileWritten:
        def make(before: FileContent | None) -> str:
            check_version(self._disk.texts, path, if_match, before, edit)
            if before is None and not create:
                cure = "Check the spelling, or allow it to be created."
                raise outcomes.NotThere(f"There is no file {path!r}. {cure}")
            if before is not None and before.problem:
                cure = "Save it as UTF-8 in an editor, or write all of it."
                raise outcomes.NotText(f"{path!r} cannot be edited: {before.problem}. {cure}")
            return edit(before.text if before else "")

        return self._write(path, make, did, creating=create)

    def _write(self, path: str, make: Make, did: str, *, creating: bool) -> FileWritten:
        with self._disk.everything(), self.journal.operation(did) as operation:
            done = self._disk.change(self._disk.place(path, creating=creating), make, operation)
        # The writer of a version knows it as if it had read it.
        self._disk.texts.keep(done.version, done.text)
        return done


def _renamed(text: str, old: str, new: str) -> tuple[str, int]:
    """Returns a note's text with a tag renamed, and how often. Raises `EditRefused` if that cannot be done safely."""
    tags = parse.parse(text, "").tags
    found = [tag for tag in tags if _nested(tag.name, old) is not None]
    if escaped := next((tag for tag in found if text[tag.start : tag.end] != tag.name), None):
        raise EditRefused(f"The tag in line {escaped.line} is written with escapes. Edit it by hand.")
    result = applied(text, sorted((tag.start, tag.end, new + (_nested(tag.name, old) or "")) for tag in found))
    expected = [new + below if (below := _nested(tag.name, old)) is not None else tag.name for tag in tags]
    if [tag.name for tag in parse.parse(result, "").tags] != expected:
        raise EditRefused(f"The tag {quoted(new)} would be read differently in this note. Edit it by hand.")
    return result, len(found)


def _nested(name: str, tag: str) -> str | None:
    """Returns the rest of a nested tag: `/b` of `a/b` in `a`; None if it is not nested in it."""
    parts, depth = name.split("/"), tag.count("/") + 1
    return "".join(f"/{part}" for part in parts[depth:]) if key("/".join(parts[:depth])) == key(tag) else None


def _tag_name(text: str) -> str:
    """Returns a tag without its `#`. Raises `EditRefused` if it cannot be one."""
    name = text.strip().removeprefix("#")
    if "//" in f"/{name}" or [tag.name for tag in parse.parse(f"#{name}", "").tags] != [name]:
        rule = "Tags consist of letters, digits, '_', '-' and '/', and not of digits alone."
        raise EditRefused(f"{quoted(text)} is not a tag. {rule}")
    return name
