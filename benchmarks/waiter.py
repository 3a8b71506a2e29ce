"""The client process of waits: tasks that wait for changes, and looks at them, over connections that stay open."""

import asyncio
import json
import time
from collections import Counter
from typing import Any

import uvloop

from benchmarks import wire
from benchmarks.control import Control, pin, raise_open_files, take_stdout

AT_ONCE = 16


class Connection:
    """One connection, with one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> dict[str, Any]:
        """Returns the JSON-RPC answer, which comes as JSON."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = wire.Head((await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n"))
        body = await reader.readexactly(head.length)
        return json.loads(body)


class Waiter:
    """The commands."""

    def __init__(self) -> None:
        self._tasks: list[str] = []
        self._connections: list[Connection] = []
        self._port = 0

    @property
    def handlers(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("wait", "look", "read")}

    async def wait(self, port: int, uris: list[str]) -> dict[str, Any]:
        """Starts a task for each URI, which waits for a change of it."""
        self._port = port
        self._connections = [Connection(port) for _ in range(AT_ONCE)]

        async def start(connection: Connection, uri: str) -> None:
            answer = await connection.ask(wire.wait(port, uri))
            self._tasks.append(answer["result"]["taskId"])

        await self._share([(start, uri) for uri in uris])
        return {"waits": len(self._tasks)}

    async def look(self, looks: int, rate: float | None = None) -> dict[str, Any]:
        """Looks at the tasks in turn, so many in all: at this many a second, else as fast as possible."""
        seen: Counter[str] = Counter()
        began = time.monotonic()

        async def one(connection: Connection, number: int) -> None:
            if rate is not None:
                await asyncio.sleep(max(began + number / rate - time.monotonic(), 0.0))
            task = self._tasks[number % len(self._tasks)]
            seen[(await connection.ask(wire.look(self._port, task)))["result"]["status"]] += 1

        await self._share([(one, number) for number in range(looks)])
        return {"statuses": dict(seen)}

    async def read(self, port: int, uri: str, times: int) -> dict[str, Any]:
        """Reads a resource, again and again: the least that a client asks for."""
        self._connections = [Connection(port) for _ in range(AT_ONCE)]

        async def one(connection: Connection, _: int) -> None:
            assert "result" in await connection.ask(wire.read(port, uri))

        await self._share([(one, number) for number in range(times)])
        return {}

    async def _share(self, work: list[tuple[Any, Any]]) -> None:
        """Lets the connections share the work, in order."""
        rest = iter(work)

        async def take(connection: Connection) -> None:
            for do, argument in rest:
                await do(connection, argument)

        await asyncio.gather(*map(take, self._connections))


async def main() -> None:
    answers = take_stdout()
    pin(1)
    raise_open_files()
    control = Control(answers, Waiter().handlers)
    control.tell({})
    await control.run()


if __name__ == "__main__":
    uvloop.run(main())
