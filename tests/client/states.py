"""State files, and what may happen to them."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from tidings.client.state_file import Saved, StateFile


@asynccontextmanager
async def opened(path: Path, identity: str = "me", **options: Any) -> AsyncGenerator[StateFile]:
    """A state that only writes when it is told to, unless `options` say otherwise."""
    state = StateFile(path, identity, **{"delay": 3600, "retry": 3600, **options})
    try:
        yield state
    finally:
        await state.aclose()


async def saved(path: Path, identity: str = "me") -> Saved:
    """What a client that starts now finds."""
    async with opened(path, identity) as state:
        return await state.load()


def ask(path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the file holds, seen from outside."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(query, values).fetchall()


def cursor_in(path: Path) -> str | None:
    rows = ask(path, "SELECT cursor FROM states WHERE identity = 'me'")
    return rows[0][0] if rows else None


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Meanwhile somebody else writes to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await checkpoint()


async def some_turns() -> None:
    for _ in range(200):
        await checkpoint()
