"""`Disk`: the files of a vault, read and changed one at a time: locked, version-checked, replaced in one step.

Every write begins with `everything`, which refuses on a read-only server. Within this process one writer works
at a time; writers of other processes are kept out folder by folder (see `OpenFolder.lock`).
"""

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from tidings.vault.files import outcomes
from tidings.vault.files.content import FileContent, Texts, decode, encode
from tidings.vault.files.folders import OpenFolder, move_to_free_name, replace
from tidings.vault.files.journal import Operation, Step, WriteJournal
from tidings.vault.files.outcomes import FileWritten, explained
from tidings.vault.files.paths import BadPath, Mount, Vault
from tidings.vault.notes.edits import diff
from tidings.vault.notes.model import LARGEST_TEXT, key, version_of

# Makes a file's new text, or its bytes, from its current content; None if it is new.
Make = Callable[[FileContent | None], str | bytes]
LARGEST_WRITE: Final = LARGEST_TEXT  # Bytes of a file.
LARGEST_READ: Final = 20_000_000
_PATIENCE: Final = 5.0  # Seconds to wait for a program that is saving a file, or keeps changing it.
_ATTEMPTS_LINKED: Final = 20  # Attempts to change a file with several names in place, before it gets one of its own.
_ATTEMPTS_EXCHANGING: Final = 2
_QUIET_FOLDER, _PAUSE = 0.3, 0.001  # Seconds in which an editor that has taken a name away gives it to another file.
_SHORT_TEXT: Final = 2_000  # Characters of a text that a conflict shows whole.


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """The place of a file or folder, with links resolved: its vault, the names of its folders, its own name."""

    path: str
    mount: Mount
    folder: tuple[str, ...]
    name: str

    @property
    def real(self) -> str:
        """Its path without links, as the index knows it."""
        return self.mount.path("/".join((*self.folder, self.name)))

    def enter(self, *, create: bool = False) -> OpenFolder:
        return OpenFolder(self.mount.root, self.folder, create=create)

    def stat(self) -> os.stat_result | None:
        """Returns its state; None if there is nothing."""
        with suppress(FileNotFoundError, NotADirectoryError), self.enter() as folder:
            return folder.stat(self.name)
        return None


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """A change of a file's text that was worked out, and not made yet."""

    path: str
    before: FileContent
    step: Step
    update: Callable[[str], str]

    def make(self, now: FileContent | None) -> str | bytes:
        if now is None:
            raise outcomes.NotThere(f"{self.step.path!r} no longer exists.")
        if now.version == self.before.version:
            return self.step.after
        return _updated(self.step.path, now, self.update)  # Somebody has changed it since.


def _updated(path: str, now: FileContent, update: Callable[[str], str]) -> str:
    text = update(now.text)
    if text != now.text and now.problem:
        raise outcomes.NotText(f"{path!r} cannot be edited: {now.problem}.")
    return text


class Disk:
    """The files of a vault. `texts` keeps what callers have read, `journal` what is written."""

    def __init__(
        self, vault: Vault, *, read_only: bool = False, texts: Texts | None = None, journal: WriteJournal | None = None
    ) -> None:
        self.vault = vault
        self.journal = journal or WriteJournal()
        self.read_only = read_only
        self.texts = texts or Texts()
        self._lock = threading.Lock()

    @contextmanager
    def everything(self) -> Generator[None]:
        """Keeps out other writers of this process. Raises `ReadOnly` if nothing may be written."""
        self.check_allowed()
        with self._lock:
            yield

    def check_allowed(self) -> None:
        if self.read_only:
            raise outcomes.ReadOnly("This server is read-only. Start it without --read-only to write.")

    def place(self, path: str, *, creating: bool = False, follow: bool = True) -> OpenedFile:
        """Returns the place of a path; with `follow`, of a link's target. Raises `BadPath` or `WriteFailed`."""
        located = self.vault.locate(path, creating=creating)
        mount = self.vault.mount_of(path)
        if missing := self.vault.missing(mount):
            raise outcomes.WriteFailed(f"{missing} Nothing was changed.")
        if located == mount.root:
            raise BadPath(f"{path!r} is a whole vault.", "Name something in it.")
        real = os.path.realpath(located if follow else located.parent)
        if not follow:
            real = os.path.join(real, located.name)  # noqa: PTH118 - no path yet, only a text to check
        if real == os.fspath(mount.root):
            raise BadPath(f"{path!r} leads to a whole vault.", "Name something in it.")
        # Checked again: what `locate` saw may have been replaced since.
        if not Path(real).is_relative_to(mount.root) or self.vault.relative(real) is None:
            raise BadPath(f"A symbolic link at {path!r} leads out of the vault now.", "Try again.")
        names = Path(real).relative_to(mount.root).parts
        return OpenedFile(path, mount, names[:-1], names[-1])

    def read(self, path: str) -> FileContent:
        """Returns the content of a file. Raises `BadPath`, `NotThere`, `FileTooLarge` or `WriteFailed`."""
        place = self.place(path)
        with explained(path, "read"), suppress(FileNotFoundError), place.enter() as folder:
            if content := self.look(folder, place):
                return content
            folder.lock()  # Where names cannot be exchanged, a writer leaves the name free for a moment.
            if content := self._look_again(folder, place):
                return content
        raise outcomes.NotThere(f"There is no file {path!r}. Check the spelling.")

    def at(self, path: str) -> OpenedFile:
        """Returns a place that the journal names: without links, and perhaps hidden. Raises `BadPath`."""
        mount, inner = self.vault.split(path)
        names = tuple(inner.split("/"))
        if missing := self.vault.missing(mount):
            raise outcomes.WriteFailed(f"{missing} Nothing was changed.")
        if not {"", ".", ".."}.isdisjoint(names):
            raise BadPath(f"{path!r} is not a path.", "Remove this entry from the journal.")
        return OpenedFile(path, mount, names[:-1], names[-1])

    def rename(
        self, place: OpenedFile, to: OpenedFile, check: Callable[[OpenFolder], None] | None = None
    ) -> OpenFolder:
        """Gives a file or folder a free path; `check` may refuse before. Returns its folder, closed, for `discard`."""
        with ExitStack() as stack:
            here = stack.enter_context(place.enter())
            there = here if to.folder == place.folder else stack.enter_context(to.enter(create=True))
            for folder in sorted({here, there}, key=lambda each: each.place):  # Two programs lock in the same order.
                folder.lock()
            if check is not None:
                check(here)
            if is_same(here, place.name, there, to.name):
                here.rename(place.name, there, to.name)  # Only the case of letters changes.
            elif not move_to_free_name(here, place.name, there, to.name):
                raise taken(to)
            return there

    def make_step(self, step: Step, operation: Operation) -> None:
        """Makes a step of an operation. Raises `Conflict` if the file has another content than before the step."""
        place = self.at(step.path)
        if step.to:
            with explained(step.path, "moved"):
                self.rename(place, self.at(step.to))
            return

        def make(now: FileContent | None) -> bytes:
            # It has its new content already if it is another name of a file that was changed (a hard link).
            if (now and now.data) not in (step.before, step.after):
                expected = None if step.before is None else version_of(step.before)
                raise outcomes.Conflict(step.path, str(expected), now and now.version)
            return step.after

        self.change(place, make, operation)

    def put_back(self, steps: Sequence[Step], operation: Operation) -> list[str]:
        """Undoes steps that an operation has made. Returns the paths where that was not possible."""
        left: list[str] = []
        for step in reversed(steps):
            try:
                # Killed meanwhile, the next start finishes what was begun, and knows its temporary files.
                self.make_step(step.back, Operation("", token=operation.token))
            except (OSError, ValueError):
                left.append(step.to or step.path)
        return left

    def plans(
        self, paths: Iterable[str], update: Callable[[str, str], str], moved: Mapping[str, str] | None = None
    ) -> tuple[list[PlannedEdit], list[outcomes.Skipped]]:
        """Works out changes of texts, by path; of missing files, none in a move. `moved` are the paths by then."""
        plans: list[PlannedEdit] = []
        skipped: list[outcomes.Skipped] = []
        for path in dict.fromkeys(paths):
            change = partial(update, path)
            try:
                before = self.read(path)
                if (text := _updated(path, before, change)) != before.text:
                    real = (moved or {}).get(path) or self.place(path).real
                    step = Step(real, before=before.data, after=encode(text, before.encoding))
                    plans.append(PlannedEdit(path, before, step, change))
            except (OSError, ValueError) as error:
                if moved is None or not isinstance(error, outcomes.NotThere):
                    skipped.append(outcomes.Skipped(path, str(error)))
        return plans, skipped

    def change(self, place: OpenedFile, make: Make, operation: Operation) -> FileWritten:
        """Gives a file a new text, while `everything` is held. Raises `FileTooLarge` or `WriteFailed`."""
        until = time.monotonic() + _PATIENCE
        with explained(place.path):
            for attempt in count():
                try:
                    folder = place.enter()
                except FileNotFoundError:
                    make(None)  # Before any folder is created: this may be refused.
                    folder = place.enter(create=True)
                with folder:
                    folder.lock()
                    written = self._attempt(folder, place, make, operation, attempt)
                if written is not None:
                    return written
                if time.monotonic() > until:
                    break
        why = "another program keeps changing it. Try again later."
        raise outcomes.WriteFailed(f"{place.path!r} was not written: {why}")

    def _attempt(
        self, folder: OpenFolder, place: OpenedFile, make: Make, operation: Operation, attempt: int
    ) -> FileWritten | None:
        before = self.look(folder, place, writing=True)
        try:
            text = make(before)
        except (outcomes.NotThere, outcomes.Conflict):
            if before is not None:
                raise
            before = self._look_again(folder, place, writing=True)
            text = make(before)
        if isinstance(text, bytes):
            data, text = text, decode(text).text
        else:
            data = encode(text, before.encoding if before is not None and before.problem is None else "utf-8")
        if len(data) > LARGEST_WRITE:
            allowed = f"{LARGEST_WRITE:,} are allowed. Write several notes."
            raise outcomes.FileTooLarge(f"The text of {place.path!r} would have {len(data):,} bytes, and {allowed}")
        version, old = version_of(data), before.text if before else ""
        if before is not None and before.version == version:
            return FileWritten(place.path, version, (), before=old, text=text)
        linked = before is not None and before.seen is not None and before.seen.st_nlink > 1
        # A program that saves all the time leaves no room for anything else.
        in_place = attempt < _ATTEMPTS_LINKED if linked else attempt >= _ATTEMPTS_EXCHANGING
        operation.intend(Step(place.real, before=before and before.data, after=data))
        if not replace(folder, place.name, data, before, hidden=operation.hidden(place.real), in_place=in_place):
            return None
        touched = tuple(dict.fromkeys((place.path, place.real)))
        cut = linked and not in_place
        return FileWritten(place.path, version, touched, created=before is None, cut=cut, before=old, text=text)

    def look(self, folder: OpenFolder, place: OpenedFile, *, writing: bool = False) -> FileContent | None:
        """Returns the content of a file in an open folder; None if it does not exist."""
        try:
            return decode(*folder.read(place.name, LARGEST_READ, seconds=_PATIENCE, writing=writing))
        except FileNotFoundError:
            return None
        except OverflowError as error:
            size = f"{error.args[0]:,} bytes. At most {LARGEST_READ:,} are read."
            raise outcomes.FileTooLarge(f"{place.path!r} has {size}") from None

    def _look_again(self, folder: OpenFolder, place: OpenedFile, *, writing: bool = False) -> FileContent | None:
        """Looks for a missing file until its folder is quiet: some editors take the name away before they save."""
        while True:
            quiet = abs(time.time() - folder.changed_at()) > _QUIET_FOLDER
            if (found := self.look(folder, place, writing=writing)) or quiet:
                return found
            time.sleep(_PAUSE)


def taken(place: OpenedFile) -> outcomes.AlreadyThere:
    """Returns the error that a path is taken."""
    return outcomes.AlreadyThere(f"{place.path!r} already exists. Choose another name, or delete it first.")


def is_same(here: OpenFolder, name: str, there: OpenFolder, to: str) -> bool:
    """Returns whether both names are of one file, as on disks that ignore case."""
    mine, other = here.stat(name), there.stat(to)
    return other is not None and mine is not None and key(name) == key(to) and mine.st_ino == other.st_ino


def check_version(
    texts: Texts, path: str, if_match: str, now: FileContent | None, edit: Callable[[str], str] | None = None
) -> None:
    """Raises `Conflict`, with what `edit` would do, unless `now` is the version `if_match`."""
    if not if_match or (now is not None and now.version == if_match):
        return
    if not re.fullmatch("[0-9a-f]{16}", if_match):
        rule = "a version has 16 digits, 0 to 9 and a to f"
        cure = "Give the version that `read`, `info` or a write of the note returned, or leave out if_match."
        raise outcomes.WriteRefused(f"{if_match[:80]!r} is not a version: {rule}. {cure}")
    if now is None:
        raise outcomes.Conflict(path, if_match, None)
    details = f"The text of version {if_match} is no longer known. "
    if (read := texts.get(if_match)) is not None:
        details = f"What changed since you read it:\n{diff(read, now.text, path) or 'Only its encoding.'}"
    else:
        details += f"This is the current text:\n{now.text}" if len(now.text) <= _SHORT_TEXT else "Read it again."
    if edit:
        try:
            changes = diff(now.text, edit(now.text), path)
        except ValueError as error:  # A change that was meant for another text need not fit this one.
            details += f"\nYour change does not fit the current text: {error}"
        else:
            effect = f"What your change would do now:\n{changes}" if changes else "It already says what you wanted."
            details += f"\n{effect}"
    raise outcomes.Conflict(path, if_match, now.version, "" if now.problem else details)
