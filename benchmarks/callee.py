"""The server that clients are measured with: it adds, has resources, changes them, and counts who listens.

python -m benchmarks.callee              over stdio
"""

import os
from collections import Counter
from typing import Any, Final

from benchmarks.control import pin
from tidings import LiveServer
from tidings.server import Coalesce

SCHEME: Final = "bench://"


class Callee:
    """A server whose resources are as many as are asked for."""

    def __init__(self) -> None:
        self.mcp: LiveServer[Any] = LiveServer("bench", coalesce=Coalesce(window=0, max_wait=0), log_level="ERROR")
        self._versions = Counter[str]()
        self.mcp.tool()(self.add)
        self.mcp.tool()(self.listeners)
        self.mcp.resource(SCHEME + "{+name}")(self.content)

    def add(self, a: int, b: int) -> int:
        return a + b

    def listeners(self) -> int:
        """How many streams and sessions wait for changes."""
        return len(self.mcp.notify.subscribers())

    def content(self, name: str) -> str:
        """Which process it comes from, and how often it has changed there."""
        return f"{os.getpid()} {self._versions[SCHEME + name]}"

    async def change(self, uri: str) -> None:
        self._versions[uri] += 1
        await self.mcp.notify.resource_updated(uri)


if __name__ == "__main__":
    pin(0)
    Callee().mcp.run("stdio")
