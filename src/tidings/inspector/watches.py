"""Reading what is subscribed to: at once, and after every change.

What is subscribed to by name is watched by the client; what a prefix covers is read again once it was updated.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tidings.errors import TidingsError
from tidings.inspector.rereading import Rereader

if TYPE_CHECKING:
    from tidings.changes import ResourceUpdated
    from tidings.client.live import LiveClient


class Watches:
    """The resources of one server that are read by themselves. What is read is told as records, by the observer."""

    def __init__(self, client: "Callable[[], LiveClient]", reread: Callable[[str], Awaitable[object]]) -> None:
        """Nothing is watched yet.

        Args:
            client: Gives the client; raises `NotConnected` if there is none.
            reread: Reads a resource once, and tells if it could not be.
        """
        self._client = client
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._rereader = Rereader(reread)

    def watch(self, uri: str) -> None:
        """Have the client read this at once, and after every change."""
        if not uri.endswith("*") and not self._is_watched(uri):
            self._tasks[uri] = asyncio.create_task(self._watching(uri), name=f"watching {uri}")

    async def forget(self, uri: str) -> None:
        """Undo `watch`."""
        if (task := self._tasks.pop(uri, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def updated(self, event: "ResourceUpdated") -> None:
        """Read what a prefix covers, and what is not watched any more because it could not be read."""
        uri = str(event.uri)
        if not uri.endswith("*") and not self._is_watched(uri):
            self._rereader.want(uri)

    async def aclose(self) -> None:
        """Watch nothing any more."""
        await self._rereader.aclose()
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_watched(self, uri: str) -> bool:
        task = self._tasks.get(uri)
        return task is not None and not task.done()

    async def _watching(self, uri: str) -> None:
        with contextlib.suppress(TidingsError):  # It was told by the event of a read that failed.
            async with contextlib.aclosing(self._client().watch(uri, missing="wait")) as reads:
                async for _ in reads:
                    pass  # What was read is told as a record.
