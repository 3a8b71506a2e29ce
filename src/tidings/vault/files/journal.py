"""`WriteJournal`: what writers of a vault are about to change, on the disk before they change it.

Each operation is a file: a byte for its state, a line about it, then its steps with the contents before and after.
While it is under way, its process holds a lock of that file. So the next start finds the operations of processes that
were killed (see `recovery`), and a change can be undone. The oldest are removed when there are too many.
"""

import hashlib
import json
import logging
import os
import secrets
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tidings._kit.files import try_lock

logger = logging.getLogger(__name__)

State = Literal["begun", "done", "undone", "recovered"]

MOST_ENTRIES, MOST_BYTES, LONGEST_DAYS = 500, 100_000_000, 30
_PRUNE_EVERY: Final = 16
_HEADER: Final = 20_000  # Bytes that a line about an operation has at most.
_MARKS: Final[dict[bytes, State]] = {b"B": "begun", b"D": "done", b"U": "undone", b"R": "recovered"}
_BYTES: Final = {state: mark for mark, state in _MARKS.items()}


class Step(NamedTuple):
    """A change of one path: it gets another path, or the content `after`. Paths are those of the disk."""

    path: str
    to: str = ""
    before: bytes | None = None  # None: the file is new.
    after: bytes = b""

    @property
    def back(self) -> "Step":
        """The step that undoes it. There is none for a new file."""
        return Step(self.to, self.path) if self.to else Step(self.path, before=self.after, after=self.before or b"")


StepsByPath = dict[tuple[str, bool], Step]  # By path, and by whether it gets another one.


class JournalEntry(NamedTuple):
    """An operation in the history."""

    id: str
    at: float
    did: str
    state: State
    place: Path

    def steps(self) -> list[Step]:
        """Reads its steps. Raises `OSError`."""
        return list(_steps(self.place.read_bytes()).values())

    def changes(self, path: str) -> bool:
        with suppress(OSError, ValueError):
            return not {path, f"{path}.md"}.isdisjoint(each for step in self.steps() for each in (step.path, step.to))
        return False


@dataclass
class Operation:
    """An operation under way. Without a `folder` it is not recorded."""

    did: str
    folder: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    steps: StepsByPath = field(default_factory=StepsByPath)
    place: Path | None = None
    _descriptor: int | None = None

    @property
    def id(self) -> str:
        return self.token[:8]

    def hidden(self, path: str) -> str:
        """Returns the name of the temporary file beside the file at `path`."""
        return f".tidings-{self.id}{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}.tmp"

    def intend(self, *steps: Step) -> None:
        """Records steps before they are made. A later step for the same path replaces the earlier one."""
        new = [step for step in steps if self.steps.get((step.path, bool(step.to))) != step]
        if not new:
            return
        if self.folder is not None:
            if self._descriptor is None:
                self._descriptor = self._create(self.folder)
            _write(self._descriptor, _packed(new))
        self.steps |= {(step.path, bool(step.to)): step for step in new}

    def end(self, state: State | None) -> None:
        """Ends it. None: nothing was changed, and it is forgotten."""
        if self._descriptor is None:
            return
        try:
            if state is not None:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, _BYTES[state])
            elif self.place is not None:
                self.place.unlink(missing_ok=True)
                self.place = None
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    @classmethod
    def resumed(cls, place: Path) -> "Operation | None":
        """Takes over an operation whose process has ended. None if it is alive, or ended as it should."""
        descriptor = os.open(place, os.O_RDWR)
        with suppress(OSError, ValueError):
            if try_lock(descriptor) and (data := place.read_bytes()).startswith(b"B"):
                about = json.loads(data[1 : data.index(b"\n")])
                return cls(about["did"], place.parent, about["token"], _steps(data), place, descriptor)
        os.close(descriptor)
        return None

    def _create(self, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.place = folder / f"{time.time_ns():020d}-{self.token}.op"
        descriptor = os.open(self.place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(OSError):  # Some disks have no locks.
            try_lock(descriptor)
        about = {"token": self.token, "at": time.time(), "did": self.did[: _HEADER // 8]}
        try:
            _write(descriptor, b"B" + json.dumps(about).encode() + b"\n")
        except OSError:
            self.place.unlink()
            os.close(descriptor)
            raise
        with suppress(OSError):
            above = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(above)
            finally:
                os.close(above)
        return descriptor


class WriteJournal:
    """The operations on a vault, in `folder`; None: they are not recorded."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.mine: list[str] = []  # The ids of the operations of this process.
        self.recovered: list[str] = []  # What was done at the start about operations that had been killed.

    def open(self) -> None:
        """Removes what is too old. If the folder cannot be used, nothing is recorded from now on."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._prune()
            (self.folder / "probe").touch()
        except OSError as error:
            why = f"{self.folder} cannot be used ({error})"
            self.recovered.append(f"Writes are not recorded and cannot be undone: {why}.")
            logger.warning("%s", self.recovered[-1])
            self.folder = None

    @contextmanager
    def operation(self, did: str) -> Generator[Operation]:
        """Records what is done within it. If that raises, nothing was changed, and nothing is kept."""
        operation = Operation(did, self.folder)
        try:
            yield operation
        except BaseException:
            operation.end(None)
            raise
        recorded = operation.place is not None
        operation.end("done")
        if recorded:
            self.mine.append(operation.id)
            if len(self.mine) % _PRUNE_EVERY == 0:
                self._prune()

    def entries(self) -> Iterator[JournalEntry]:
        """Yields the operations of all processes, the newest first."""
        places: list[Path] = []
        with suppress(OSError):
            places = sorted(self.folder.glob("*.op"), reverse=True) if self.folder else []
        for place in places:
            with suppress(OSError, ValueError, KeyError):
                with place.open("rb") as file:
                    mark, line = file.read(1), file.readline(_HEADER)
                about = json.loads(line)
                yield JournalEntry(about["token"][:8], about["at"], about["did"], _MARKS[mark], place)

    def interrupted(self) -> Iterator[Operation]:
        """Yields the operations of processes that were killed."""
        for entry in reversed(list(self.entries())):
            with suppress(OSError):
                if entry.state == "begun" and (operation := Operation.resumed(entry.place)) is not None:
                    yield operation

    def mark(self, entry: JournalEntry, state: State) -> None:
        with entry.place.open("r+b") as file:
            file.write(_BYTES[state])

    def _prune(self) -> None:
        """Removes the oldest operations that are too many, too large together, or too old."""
        size, horizon = 0, time.time() - LONGEST_DAYS * 86_400
        for number, entry in enumerate(self.entries()):
            with suppress(OSError):
                size += entry.place.stat().st_size
                if (number >= MOST_ENTRIES or size > MOST_BYTES or entry.at < horizon) and entry.state != "begun":
                    entry.place.unlink()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def _packed(steps: list[Step]) -> bytes:
    """Returns steps as one chunk: its length, then compressed a line about the steps, and their contents."""
    about = [
        (step.path, step.to, step.before if step.before is None else len(step.before), len(step.after))
        for step in steps
    ]
    contents = (content for step in steps for content in (step.before or b"", step.after))
    data = zlib.compress(b"".join([json.dumps(about).encode(), b"\n", *contents]), 1)
    return len(data).to_bytes(8, "big") + data


def _steps(data: bytes) -> StepsByPath:
    """Returns the steps of an operation, by path. A chunk that was not written to its end does not count."""
    steps: StepsByPath = {}
    at = data.index(b"\n") + 1
    while at + 8 <= len(data):
        start, at = at + 8, at + 8 + int.from_bytes(data[at : at + 8], "big")
        with suppress(zlib.error, ValueError):
            content = zlib.decompress(data[start:at])
            first = content.index(b"\n") + 1
            for path, to, before, after in json.loads(content[:first]):
                middle = first + (before or 0)
                old = None if before is None else content[first:middle]
                first = middle + after
                steps[path, bool(to)] = Step(path, to, old, content[middle:first])
    return steps
