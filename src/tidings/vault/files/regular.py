"""Reading files that may turn out to be none: nothing here waits for a pipe, or reads a device without end.

May import: nothing of Tidings.
"""

import errno
import os
import stat
from pathlib import Path

READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what may be a pipe: without waiting for who writes into it."""


def read_regular(place: Path, largest: int) -> bytes:
    """The bytes of a file, or of the one that a symbolic link leads to.

    Raises:
        OverflowError: It is larger than that.
        OSError: It is not there, no file, or may not be read.
    """
    _check(place.stat(), place.name)  # Before it is opened: some devices do something by that alone.
    return read_open(os.open(place, READING), place.name, largest)[0]


def read_open(descriptor: int, name: str, largest: int) -> tuple[bytes, os.stat_result]:
    """The bytes of what was opened, and what the system said of it before. It is closed then.

    Raises:
        OverflowError: It is larger than that.
        OSError: It is no file, or cannot be read.
    """
    try:
        found = os.fstat(descriptor)
        _check(found, name)
        if found.st_size > largest:
            raise OverflowError(found.st_size)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(descriptor)
    if len(data) > largest:
        raise OverflowError(len(data))
    return data, found


def _check(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
