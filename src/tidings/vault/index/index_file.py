"""Where the index is kept: in the user's cache folder, never in the vault, and one for each server.

Each set of vaults has a folder there, and in it numbered files. A server takes the first that no other server has: who
has one holds a lock on a file beside it, for as long as it lives. So two servers on one vault do not disturb each
other, and both find an index at their next start.

What cannot be used is made anew. Where nothing can be written, the index is in memory.

May import: `index_errors`, `index_schema`, `paths`.
"""

import hashlib
import itertools
import logging
import os
import sqlite3
import sys
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from tidings.vault.files.paths import Vault, VaultUnusable
from tidings.vault.index.index_errors import is_busy
from tidings.vault.index.index_schema import create, prepare_tables

if sys.platform != "win32":
    import fcntl
else:  # pragma: no cover - of Windows
    import msvcrt

logger = logging.getLogger(__name__)

PAGE: Final = 8192
"""The size of a page in the file, in bytes."""

_SLOTS: Final = 16
_TIMEOUT: Final = 5.0
"""How long another process may keep the file locked, in seconds."""

_numbers = itertools.count()


class Opened(NamedTuple):
    """An index that is this process's own until it is closed."""

    connection: sqlite3.Connection
    address: str
    """What to give to `connect` for another connection."""
    place: Path | None
    """None: in memory."""
    lock: int | None
    """The file that is locked."""
    notes: tuple[str, ...]
    """What the user should know: why it is in memory."""


def cache_folder(vault: Vault) -> Path:
    """The folder for the indices of these vaults, in the user's cache."""
    roots = "\0".join(f"{mount.name}\0{mount.root}" for mount in vault.mounts)
    digest = hashlib.blake2b(os.fsencode(roots), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("tidings")) / "vault" / digest


def folder_for(vault: Vault, chosen: Path | None = None) -> Path:
    """The folder for the indices of these vaults: the one that was chosen, or else the one in the user's cache.

    Raises:
        VaultUnusable: It lies in one of the vaults.
    """
    folder = chosen or cache_folder(vault)
    if vault.holds(folder):
        raise VaultUnusable(
            f"The folder for the index, {str(folder)!r}, lies in the vault, and would be watched and indexed itself. "
            "Choose another folder."
        )
    return folder


def has_index(vault: Vault, chosen: Path | None = None) -> bool:
    """Whether there is an index of these vaults already, be it an old one."""
    return any(folder_for(vault, chosen).glob("index-*.db"))


def open_in(folder: Path) -> Opened:
    """The first index in `folder` that no other server uses, made if need be; one in memory if none can be had."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(_SLOTS):
            opened = _open_slot(folder / f"index-{number}.db")
            if opened:
                return opened
        problem = f"{_SLOTS} servers use this vault already"
    except (OSError, sqlite3.Error) as error:
        problem = str(error)
    note = f"The index is in memory and is built anew at each start: {folder} cannot be used ({problem})."
    logger.warning("%s", note)
    return open_in_memory((note,))


def open_in_memory(notes: tuple[str, ...] = ()) -> Opened:
    """An index that is gone when it is closed."""
    # Several connections share it, each with its own view, as with a file.
    address = f"file:/tidings-index-{next(_numbers)}?vfs=memdb"
    connection = connect(address)
    create(connection)
    return Opened(connection, address, None, None, notes)


def connect(address: str) -> sqlite3.Connection:
    """A connection to an index, for one thread at a time."""
    connection = sqlite3.connect(address, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True)
    # Most notes fit twice or more into a page of this size: the file is smaller by a fifth than with the usual one.
    connection.execute(f"PRAGMA page_size = {PAGE}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def remove(place: Path) -> None:
    """Delete an index."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def prepare(address: str, place: Path) -> sqlite3.Connection:
    """The index in a file that this process holds the lock for; what is there but cannot be used is removed."""
    for last in (False, True):
        connection = connect(address)
        try:
            # A loss of power may take the last commits: what is left is an older state, and whole.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            prepare_tables(connection)
        except BaseException as error:
            connection.close()
            if last or not isinstance(error, sqlite3.Error) or is_busy(error):
                raise
            logger.info("the index %s is built anew: %s", place, error)
            remove(place)
        else:
            return connection
    raise AssertionError  # pragma: no cover - the second round returns or raises


def unlock(lock: int) -> None:
    """Let another server have the index."""
    os.close(lock)


def _open_slot(place: Path) -> Opened | None:
    """The index at `place`, or None if another server uses it, or another program has locked it."""
    lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    opened = None
    try:
        if _try_lock(lock):
            address = place.absolute().as_uri()
            opened = Opened(prepare(address, place), address, place, lock, ())
    except sqlite3.Error as error:
        if not is_busy(error):
            raise
    finally:
        if opened is None:
            os.close(lock)
    return opened


def _try_lock(file: int) -> bool:
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # pragma: no cover - of Windows
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
