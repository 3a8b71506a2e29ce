"""A lock that one process at a time has, while it creates the store's file or sets it aside.

SQLite's own locks cannot do this: they are on the file that is moved.

May import: nothing of Tidings.
"""

import os
import sqlite3
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl
else:  # pragma: no cover - of Windows
    import msvcrt


@contextmanager
def locked(path: Path, timeout: float) -> Generator[None]:
    """Have the lock of the store at `path`, after at most `timeout` seconds. It ends with the process, at the latest.

    Raises:
        sqlite3.OperationalError: Another process has it.
        OSError: The file for it cannot be made.
    """
    file = os.open(path.with_name(f"{path.name}-lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(file):
            if time.monotonic() > deadline:
                error = sqlite3.OperationalError("it is being opened")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            time.sleep(0.005)
        yield
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # pragma: no cover - of Windows
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
