"""The index as a database: its tables (`schema.sql`), its place, its lock.

A file of the vault is a row of `files`; its contents are rows of other tables that refer to it by the column `file` and
are numbered by `n` in the order of the text. `texts` has the text under the same id, `fts` its words. Targets of links
are resolved when needed, over `files.name` and `links.name`: they depend on which other files exist.

Each set of vaults has a folder in the user's cache with numbered files. A server takes the first one that no other
server uses, and locks a file beside it for as long as it runs. A file that is damaged, or of another version, is
rebuilt. If none can be written, the index is in memory.
"""

import hashlib
import logging
import os
import sqlite3
from pathlib import Path
from typing import Final

import platformdirs

from tidings._kit.files import open_lock, try_lock
from tidings._kit.sqlite import Database, OnDamage, Schema, statements_in
from tidings._kit.sqlite_errors import Trouble, Wording, trouble_of
from tidings.vault.files.paths import Vault, VaultUnusable

logger = logging.getLogger(__name__)

PAGE: Final = 8192  # Most notes fit twice or more into a page: the file is a fifth smaller than with the usual size.
_SLOTS: Final = 16
_TIMEOUT: Final = 5.0  # Seconds that another process may keep the file locked.

# The tables of the contents of files, with the number of their columns after `file` and `n`.
ROWS: Final = {"tags": 3, "links": 9, "headings": 3, "blocks": 2, "tasks": 3, "properties": 3, "aliases": 2}

SCHEMA: Final = Schema(
    application_id=0x54494456,  # "TIDV"
    version=3,  # Raised with every change of the tables, or of how a file is read.
    tables=statements_in(Path(__file__).with_name("schema.sql")),
    checked=("files", "texts", "fts", "words", "tag_counts", "meta", *ROWS),
    pragmas=(f"PRAGMA page_size = {PAGE}", "PRAGMA temp_store = MEMORY", "PRAGMA secure_delete = OFF"),
)
_WORDING: Final = Wording(
    "index",
    start_over="It is rebuilt.",
    texts=dict.fromkeys(
        (Trouble.DAMAGED, Trouble.MISFIT, Trouble.NOT_A_DATABASE, Trouble.UNKNOWN),
        "is damaged, and is rebuilt ({error}).",
    ),
)
OpenedIndex = tuple[Database, int | None, tuple[str, ...]]
"""The index, the descriptor of its lock file (None: in memory), and messages for the user: why it is in memory."""

_BLOCKING: Final = {Trouble.LOCKED, Trouble.FULL, Trouble.DISK, Trouble.MEMORY, Trouble.INTERRUPTED, Trouble.NO_ACCESS}


class IndexBlocked(Exception):
    """The index cannot be used at the moment. It is as it was before; the same may succeed later."""


class IndexDamaged(Exception):
    """The index is damaged, and has to be rebuilt."""


def cache_folder(vault: Vault) -> Path:
    """Returns the folder for the indices of these vaults in the user's cache."""
    roots = "\0".join(f"{mount.name}\0{mount.root}" for mount in vault.mounts) + vault.excluded
    digest = hashlib.blake2b(os.fsencode(roots), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("tidings")) / "vault" / digest


def folder_for(vault: Vault, chosen: Path | None = None) -> Path:
    """Returns the chosen folder for the indices, or else `cache_folder`. Raises `VaultUnusable` if a vault holds it."""
    folder = chosen or cache_folder(vault)
    if vault.holds(folder):
        why = "lies in the vault and would be indexed itself. Choose another folder."
        raise VaultUnusable(f"The folder for the index, {str(folder)!r}, {why}")
    return folder


def log_in(folder: Path, vault: Vault) -> Path:
    """Returns the place of the log of changes of these vaults in the folder of their indices."""
    return folder / f"changes-{cache_folder(vault).name}.db"


def journal_in(folder: Path, vault: Vault) -> Path:
    """Returns the folder of the journal of writes to these vaults in the folder of their indices."""
    return folder / f"journal-{cache_folder(vault).name}"


def open_in(folder: Path) -> OpenedIndex:
    """Opens the first index in `folder` that no other server uses; one in memory if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(_SLOTS):
            if opened := _open_slot(slot(folder, number)):
                return opened
        problem = f"{_SLOTS} servers use this vault already"
    except (OSError, IndexBlocked, IndexDamaged) as error:
        problem = str(error)
    note = f"The index is in memory and is rebuilt at each start: {folder} cannot be used ({problem})."
    logger.warning("%s", note)
    return open_in_memory((note,))


def slot(folder: Path, number: int) -> Path:
    """Returns the path of the index that the server with this number uses."""
    return folder / f"index-{number}.db"


def open_in_memory(notes: tuple[str, ...] = ()) -> OpenedIndex:
    """Opens an index that is gone when it is closed."""
    database = _database(None)
    database.open()
    return database, None, notes


def _open_slot(place: Path) -> OpenedIndex | None:
    """Opens the index at `place`; None if another server uses it, or another program has locked it."""
    lock = open_lock(place.with_suffix(".lock"))
    opened = None
    try:
        if try_lock(lock):
            database = _database(place)
            database.open()
            opened = database, lock, ()
    except (IndexBlocked, IndexDamaged) as error:
        if not isinstance(error.__cause__, Exception) or trouble_of(error.__cause__) is not Trouble.LOCKED:
            raise
    finally:
        if opened is None:
            os.close(lock)
    return opened


def _set_up_writer(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -8000")


def _database(place: Path | None) -> Database:
    return Database(
        place,
        SCHEMA,
        wording=_WORDING,
        error=lambda trouble, text: (IndexBlocked if trouble in _BLOCKING else IndexDamaged)(text),
        timeout=_TIMEOUT,
        on_damage=OnDamage.REBUILD,
        exclusive=True,
        opened=_set_up_writer,
    )
