"""Files for a `SqliteBus`, and what may happen to them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tidings.bus.sqlite import SqliteBus
from tidings.changes import Cursor, ResourceUpdated

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")

TRY_TO_PUBLISH = """
import anyio, sys
from tests.bus.files import make
from pathlib import Path
try:
    print("stored as", anyio.run(make, Path(sys.argv[1])))
except Exception as error:
    print(type(error).__name__, error)
"""


def change_file(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


async def make(path: Path) -> Cursor:
    async with SqliteBus(path) as bus:
        return await bus.publish(A)


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite_all_but_the_header(path: Path) -> None:
    path.write_bytes(content(path)[:100] + b"\xff" * (len(content(path)) - 100))


def is_text(path: Path) -> None:
    path.write_text("Dear diary, today I learnt about databases. " * 100)


def is_another_database(path: Path) -> None:
    change_file(path, "CREATE TABLE notes (text)")


def is_marked_by_another_application(path: Path) -> None:
    change_file(path, "PRAGMA application_id = 7")
