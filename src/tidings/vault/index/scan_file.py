"""One file of a vault, from the disk to an entry of the index.

`read_file` never raises: what cannot be read, or is no text, is an entry that says so, and what is not there (or will
not keep still) is `Missed`. Nothing but a regular file is opened, so nothing blocks.

May import: `canvas`, `entries`, `model`, `notes`. No more, so that the processes which only parse start quickly.
"""

import codecs
import errno
import hashlib
import json
import logging
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tidings.vault.index.entries import make_entry
from tidings.vault.text import notes
from tidings.vault.text.canvas import canvas_links, canvas_text
from tidings.vault.text.model import Entry, Kind, Note, Stamp

logger = logging.getLogger(__name__)

_TRIES: Final = 3
_RACY_NS: Final = 2_000_000_000
"""What is as good as the same time, where a file system counts in seconds: the coarsest counts in two."""
_RACY_FINE_NS: Final = 100_000_000
"""And where it counts in parts of a second: some ticks of the system's clock."""
_BINARY_BYTES: Final = 8192
_HASH_BYTES: Final = 8
_SLICE: Final = 2**20
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_KINDS: Final[dict[str, Kind]] = {".md": "note", ".canvas": "canvas", ".base": "base"}

TO_BE_READ_AGAIN: Final = -1
"""Stands for the ctime in a stamp that no file has: the next look finds it different."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read."""

    size: int = 20_000_000
    """Larger files are known by their name only. In bytes."""


class Job(NamedTuple):
    """A file to read."""

    path: str
    kind: Kind
    stamp: Stamp
    hash: str | None
    """What it had when it was last read, if its stamp is the same since."""
    root: str
    """The vault's folder."""
    inner: str
    """The path within it."""


class Task(NamedTuple):
    """What a process is asked to do at once."""

    limits: Limits
    jobs: list[Job]


class Missed(NamedTuple):
    """A file that could not be read, and is not in the index for it."""

    path: str
    why: Literal["gone", "unsettled"]
    """`unsettled`: it changed while it was read, again and again, or its disk is in trouble. To be looked at later."""


class Same(NamedTuple):
    """A file that was read again, and holds what it did."""

    path: str
    stamp: Stamp
    hash: str


def kind_of(name: str) -> Kind:
    """What a file is, by the end of its name."""
    return _KINDS.get(os.path.splitext(name)[1].lower(), "attachment")  # noqa: PTH122 - of a name, thousands of times


def stamp_of(status: os.stat_result) -> Stamp:
    """What the file system says of a file."""
    inode = status.st_ino
    # A database has no unsigned numbers.
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode - (inode >> 63 << 64))


def name_only(path: str, kind: Kind, stamp: Stamp, problem: str | None = None) -> Entry:
    """The entry of a file that is not read."""
    return make_entry(path, kind, _settled(stamp, time.time_ns()), problem=problem)


def read_attachment(job: Job) -> Entry:
    """The entry of an attachment: its name, and the hash of what it holds, if that stays as it is meanwhile."""
    entry = name_only(job.path, job.kind, job.stamp)
    with suppress(OSError):
        file = _open(job)
        try:
            before = os.fstat(file)
            if stat.S_ISREG(before.st_mode) and stamp_of(before) == job.stamp:
                version = _digest(file, before.st_size)
                return entry._replace(hash=version) if stamp_of(os.fstat(file)) == job.stamp else entry
        finally:
            os.close(file)
    return entry


def read_file(job: Job, limits: Limits) -> Entry | Missed | Same:
    """What a file holds, as far as the index wants to know."""
    try:
        return _read(job, limits)
    except (FileNotFoundError, NotADirectoryError):
        return Missed(job.path, "gone")
    except PermissionError:
        return name_only(job.path, job.kind, job.stamp, "It may not be read: this user lacks the permission.")
    except (OSError, MemoryError):
        return Missed(job.path, "unsettled")


def _read(job: Job, limits: Limits) -> Entry | Missed | Same:
    for _ in range(_TRIES):
        file = _open(job)
        try:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                return Missed(job.path, "gone")
            if before.st_size > limits.size:
                problem = f"It is larger than {limits.size:,} bytes, and was not read."
                return name_only(job.path, job.kind, stamp_of(before), problem)
            now = time.time_ns()
            data = _content(file, before.st_size)
            after = os.fstat(file)
        finally:
            os.close(file)
        if stamp_of(before) == stamp_of(after) and len(data) == after.st_size:
            return _entry(job, _settled(stamp_of(after), now), data)
    return Missed(job.path, "unsettled")


def _open(job: Job) -> int:
    place = os.path.join(job.root, job.inner)  # noqa: PTH118 - thousands of times
    try:
        return os.open(place, _OPEN)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    real = os.path.realpath(place)
    if os.path.commonpath([job.root, real]) != job.root:
        raise FileNotFoundError(place)
    return os.open(real, _OPEN)


def _content(file: int, size: int) -> bytes:
    """All that is in a file; of one that has grown, only a little more than it had."""
    parts: list[bytes] = []
    while size >= 0 and (part := os.read(file, size + 1)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _digest(file: int, size: int) -> str:
    """The hash of a file, of which no more than a slice is in memory."""
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    while size >= 0 and (part := os.read(file, _SLICE)):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()


def _settled(stamp: Stamp, now: int) -> Stamp:
    """The stamp to remember. What changed just before it was read may change again within the same tick."""
    racy = _is_recent(stamp.mtime, now) or _is_recent(stamp.ctime, now)
    return stamp._replace(ctime=TO_BE_READ_AGAIN) if racy else stamp


def _is_recent(when: int, now: int) -> bool:
    """Whether what happened at `when` was so recent that more may have happened at the same time."""
    return abs(now - when) < (_RACY_FINE_NS if when % 1_000_000_000 else _RACY_NS)


def is_same_but_racy(before: Stamp, now: Stamp) -> bool:
    """Whether a file is to be read again only because it had just changed when it was read."""
    return before.ctime == TO_BE_READ_AGAIN and before._replace(ctime=now.ctime) == now


def _entry(job: Job, stamp: Stamp, data: bytes) -> Entry | Same:
    version = hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()
    if version == job.hash and stamp[:2] == job.stamp[:2]:
        return Same(job.path, stamp, version)
    text, problem = decode(data)
    note = None
    try:
        if job.kind == "canvas":
            note = _canvas(text, job.path)
            text = canvas_text(text)
        elif job.kind == "note":
            note = notes.parse(text, job.path)
    except Exception as error:
        logger.exception("the text of %r was not understood", job.path)
        problem = f"Its text was not understood ({type(error).__name__}: {error})."
    return make_entry(job.path, job.kind, stamp, version=version, text=text, note=note, problem=problem)


def _canvas(text: str, path: str) -> Note:
    """What is known of a canvas: as if it were a note that holds nothing but links."""
    problem = None
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"It is no canvas: {error}." if text.strip() else None
    words = canvas_text(text)
    title = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122
    return Note(title, {}, 0, (), (), (), (), tuple(canvas_links(text)), (), len(words.split()), problem)


def decode(data: bytes) -> tuple[str, str | None]:
    """The text of some bytes, and what is wrong with it. There is none in what seems to be binary."""
    codec, name = ("utf-16", "UTF-16") if data.startswith(_UTF16) else ("utf-8-sig", "UTF-8")
    if name == "UTF-8" and b"\0" in data[:_BINARY_BYTES]:
        return "", "It is binary, though its name says that it is text."
    try:
        text, problem = data.decode(codec), None
    except UnicodeDecodeError as error:
        text = data.decode(codec, errors="replace")
        problem = f"It is not valid {name} from byte {error.start} on: what is no text is shown as \ufffd."
    # A text ends at one, for a database.
    return text.replace("\0", "\ufffd"), problem
