"""The threads that answer questions, each with a connection of its own to the index."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import anyio

from tidings.vault.index.queries import Queries

T = TypeVar("T")

_THREADS = 3


class Readers:
    """A few threads. A question sees one state of the index throughout, and waits only while all of them are busy.

    Args:
        connect: Makes the read side of the index, in the thread that is to use it.
    """

    def __init__(self, connect: Callable[[], Queries]) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(_THREADS, "tidings-vault-read")
        self._thread = threading.local()
        self._connected: list[Queries] = []

    async def ask(self, question: Callable[[Queries], T]) -> T:
        """What `question` finds."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    async def aclose(self) -> None:
        """Break off what is being asked, and let go of the index."""
        for queries in self._connected:
            queries.connection.interrupt()
        await anyio.to_thread.run_sync(partial(self._pool.shutdown, cancel_futures=True))
        for queries in self._connected:
            queries.close()

    def _answer(self, question: Callable[[Queries], T]) -> T:
        queries: Queries | None = getattr(self._thread, "queries", None)
        if queries is None:
            queries = self._thread.queries = self._connect()
            self._connected.append(queries)
        with queries.snapshot():
            return question(queries)
