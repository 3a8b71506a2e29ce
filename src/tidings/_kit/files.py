"""Files shared by programs: read within a limit, locked (as far as programs ask for locks), replaced in one step."""

import errno
import json
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, dumps

if sys.platform != "win32":
    import fcntl
else:  # pragma: no cover - Windows
    import msvcrt

READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags to open what may turn out to be a pipe: does not wait for a program that writes into it."""

_NOT_JSON: Final = ValueError, OverflowError, RecursionError
_MOUNTS: Final = Path("/proc/self/mounts")
_REMOTE: Final = {"9p", "afpfs", "cifs", "davfs", "fuse.rclone", "fuse.sshfs", "nfs", "nfs4", "smb3", "vboxsf"}


class NotAFile(PermissionError):
    """The path leads to a pipe, a socket or a device."""


class Locked(BlockingIOError):
    """Another program held the lock for all the time that was given."""


def read_file(path: Path, largest: int) -> tuple[bytes, os.stat_result]:
    """Returns the bytes and the state of a regular file. Raises `OverflowError` with its size, or an `OSError`."""
    _check_regular(path.stat(), path.name)  # Before it is opened: some devices do something by that alone.
    return read_open(os.open(path, READING), path.name, largest)


def read_open(descriptor: int, name: str, largest: int) -> tuple[bytes, os.stat_result]:
    """Reads what was opened (see `READING`) as `read_file` does, and closes it. `name` is for the errors."""
    try:
        found = os.fstat(descriptor)
        _check_regular(found, name)
        if found.st_size > largest:
            raise OverflowError(found.st_size)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(descriptor)
    if len(data) > largest:
        raise OverflowError(len(data))
    return data, found


def state_of(path: Path) -> os.stat_result | None:
    """Returns the state of a file, for `same_state` and `replace_file`; None if it does not exist."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def same_state(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Returns whether nothing was written between two looks at a file, as far as the system can tell."""
    if one is None or other is None:
        return one is other
    stamp = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
    return stamp(one) == stamp(other)


def write_synced(descriptor: int, data: bytes) -> None:
    """Writes `data` to an open file, sees to it that it is on the disk, and closes it."""
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def replace_file(path: Path, data: bytes, seen: os.stat_result | None = None, *, always: bool = False) -> bool:
    """Replaces a file, or creates it, readable for its owner alone: readers see the old content or the new.

    Returns False, and leaves it as it is, unless it is still as it was `seen` (None: it did not exist); `always`
    replaces it in any state. A program that writes in the microseconds after that look is overwritten.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")  # 0600
    new = Path(name)
    try:
        write_synced(descriptor, data)
        if not always and not same_state(state_of(path), seen):
            return False
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return True


def try_lock(descriptor: int) -> bool:
    """Locks an open file or folder for this descriptor alone, unless another one has it. Closing it unlocks it."""
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # pragma: no cover - Windows
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # The latter on Windows.
        return False
    return True


def wait_for_lock(descriptor: int, timeout: float) -> None:
    """Does what `try_lock` does, and waits for it. Raises `Locked` if another program has it for `timeout` seconds."""
    until = time.monotonic() + timeout
    pause = 0.0005
    while not try_lock(descriptor):
        if time.monotonic() > until:
            raise Locked(errno.EAGAIN, os.strerror(errno.EAGAIN))
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def open_lock(path: Path) -> int:
    """Opens the lock file at `path`, for `try_lock`, and returns its descriptor. It is created if it does not exist."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def locked(path: Path, timeout: float) -> Generator[None]:
    """Holds the lock file at `path`: one holder at a time, of all threads and processes. May raise `Locked`.

    Use a file beside the one it guards. It stays: deleting it would give two programs a lock each.
    """
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, timeout)
        yield
    finally:
        os.close(descriptor)


def read_json(path: Path, largest: int) -> dict[str, Any]:
    """Returns the JSON object in a file; an empty one if there is none, or it cannot be read."""
    try:
        return as_dict(json.loads(read_file(path, largest)[0].decode()))
    except (OSError, *_NOT_JSON):
        return {}


@contextmanager
def editing_json(path: Path, largest: int, timeout: float) -> Generator[dict[str, Any]]:
    """Yields the JSON object in a file, and writes it back, one program at a time. A broken file is set aside."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path.with_name(f".{path.name}.lock"), timeout):
        document: dict[str, Any] = {}
        try:
            document = as_dict(json.loads(read_file(path, largest)[0].decode()))
        except FileNotFoundError:
            pass
        except _NOT_JSON:
            path.replace(path.with_name(f"{path.name}.broken"))
        yield document
        replace_file(path, dumps(document).encode(), always=True)


def settings_folder(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Returns the folder of all programs' settings, on a system named as in `sys.platform`."""
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    stated = environ.get("XDG_CONFIG_HOME", "")
    return Path(stated) if stated.startswith("/") else home / ".config"


def network_disk(root: Path) -> str | None:
    """Returns the kind of network disk of `root`, if known: changes by other machines are not seen there."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    mounted = [
        fields
        for line in lines
        if len(fields := line.split()) > 2
        and root.is_relative_to(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]))
    ]
    kind = max(mounted, key=lambda fields: len(fields[1]), default=("", "", ""))[2]
    return kind if kind in _REMOTE else None


def _check_regular(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(errno.EACCES, os.strerror(errno.EACCES), name)
