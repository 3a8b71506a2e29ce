"""Saves of other programs: reading a file while nobody is saving it, and renaming without loss.

Many editors empty a file and then write it. On Linux a *lease* says whether a program has the file open for writing;
while it is held, a program that wants to open it so has to wait. Elsewhere, and for files of other users, a file is
settled if nothing happened to it for a moment; an empty one, which may be about to be written, for a longer one.
"""

import ctypes
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

from tidings._kit.files import Locked, read_open, same_state

if sys.platform == "linux":
    import fcntl

_RECENT: Final = 2.0  # Seconds. What changed earlier is settled.
_QUIET_OPEN: Final = 0.5  # For a file that another program keeps open.
_QUIET_EMPTY: Final = 0.1
_QUIET_UNKNOWN, _QUIET_UNKNOWN_EMPTY = 0.03, 0.5  # Where there are no leases.
_PAUSE: Final = 0.0005  # Short: a program that saves all the time leaves gaps of less than a millisecond.
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}

# The call that can do more than `rename`, with the same arguments on both systems, and its flags.
_RENAME, NO_REPLACE, EXCHANGE = ("renameatx_np", 4, 2) if sys.platform == "darwin" else ("renameat2", 1, 2)
try:
    _rename: Any = getattr(ctypes.CDLL(None, use_errno=True), _RENAME)
except (OSError, AttributeError, TypeError):  # pragma: no cover - another system, or an old C library
    _rename = None


class FileLease(Enum):
    """The answer to the request for a lease."""

    HELD = auto()  # Nobody else has the file open for writing, until the descriptor is closed.
    BUSY = auto()  # Another program has.
    UNKNOWN = auto()  # The system cannot tell.


def take_lease(descriptor: int, *, alone: bool = False) -> FileLease:
    """Takes a lease of an open file. `alone`: nobody else has it open at all, and it is open for writing here."""
    if sys.platform != "linux":
        return FileLease.UNKNOWN
    try:
        # Whoever wants the file makes the system send a signal. The usual one would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK if alone else fcntl.F_RDLCK)
    except OSError as error:
        return FileLease.BUSY if error.errno == errno.EAGAIN else FileLease.UNKNOWN
    return FileLease.HELD


def is_wanted(descriptor: int) -> bool:
    """Returns whether another program waits to open a file for writing, of which a lease is held."""
    return sys.platform == "linux" and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def is_settled(descriptor: int, found: os.stat_result, *, writing: bool = False, trusted: bool = False) -> bool:
    """Returns whether no program seems to be saving an open file. While the descriptor is open, none can begin to.

    One that another program keeps open is not settled for `writing`. A `trusted` file was not just emptied.
    """
    now = time.time()
    age = min(abs(now - found.st_ctime), abs(now - found.st_mtime))
    if age > _RECENT and not writing:
        return True
    lease = take_lease(descriptor)
    if lease is FileLease.BUSY:
        return not writing and found.st_size > 0 and age > _QUIET_OPEN
    if trusted:
        return True
    if lease is FileLease.HELD:
        return found.st_size > 0 or age > _QUIET_EMPTY
    return age > (_QUIET_UNKNOWN if found.st_size else _QUIET_UNKNOWN_EMPTY)


def read_settled(
    opened: Callable[[], int], name: str, largest: int, *, seconds: float = 2.0, writing: bool = False
) -> tuple[bytes, os.stat_result]:
    """Reads a file once nobody is saving it. Raises `Locked` if that lasts, unless the file only grows."""
    until, most = time.monotonic() + seconds, 0
    while True:
        descriptor = opened()
        try:
            settled = is_settled(descriptor, os.fstat(descriptor), writing=writing)
            data, found = read_open(os.dup(descriptor), name, largest)
            if settled and same_state(found, os.fstat(descriptor)):
                return data, found
        finally:
            os.close(descriptor)
        if time.monotonic() > until:
            if writing or not data or len(data) < most:
                raise Locked(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return data, found
        most = max(most, len(data))
        time.sleep(_PAUSE)


def rename_with(flag: int, name: str, folder: int | None, to: str, other: int | None) -> bool:
    """Renames with `NO_REPLACE` or `EXCHANGE`; False if the system cannot. Raises `FileExistsError` or `OSError`."""
    if _rename is None or folder is None or other is None:
        return False
    if not _rename(folder, os.fsencode(name), other, os.fsencode(to), flag):
        return True
    if (number := ctypes.get_errno()) in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), to)


def fill(descriptor: int, data: bytes) -> None:
    """Replaces the content of an open file, in place."""
    at = 0
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)
