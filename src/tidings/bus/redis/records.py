"""The records of a `RedisBus`, over connections of their own, so that large ones do not hold up changes.

Redis runs the script as one step, and drops a record when its time is over. The keys have the hash tag of the log:
- `{prefix}:record:` and the key of a record, a hash: its value and its revision;
- `{prefix}:records`, a hash: the newest revision of any record.
"""

import asyncio
import math
from pathlib import Path
from typing import Any, Final

from tidings.bus import StoredRecord
from tidings.bus.redis.connection import Server
from tidings.bus.redis.log import RedisCalls, Script, explain
from tidings.errors import BusUnavailable

_CONNECTIONS: Final = 4  # At most, while many ask at once.
_SCRIPT: Final = Script(Path(__file__).with_name("records.lua").read_text(encoding="utf-8"))


class RedisRecords:
    """The records under `prefix` on `server`. The first use connects; each takes at most the server's `timeout`."""

    def __init__(self, server: Server, prefix: str) -> None:
        self._server = server
        self._prefix = prefix
        self._all = [RedisCalls(server) for _ in range(_CONNECTIONS)]
        self._idle = self._all[:]
        self._room = asyncio.Semaphore(_CONNECTIONS)
        self._closed = False

    async def get(self, key: str) -> StoredRecord | None:
        value, revision = await self._run(key, "get")
        return None if revision is None else StoredRecord(value, int(revision))

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        expected = "" if revision is None else revision
        stored = await self._run(key, "put", expected, value, math.ceil(seconds * 1000))
        return None if stored is None else StoredRecord(value, int(stored))

    async def delete(self, key: str) -> None:
        await self._run(key, "delete")

    async def close(self) -> None:
        self._closed = True
        for calls in self._all:
            await calls.close()

    async def _run(self, key: str, *words: str | bytes | int) -> Any:
        keys = (f"{{{self._prefix}}}:record:{key}", f"{{{self._prefix}}}:records")
        try:
            async with asyncio.timeout(self._server.timeout), self._room:
                if self._closed:
                    raise BusUnavailable(f"The bus at {self._server.place} was closed before it answered.")
                calls = self._idle.pop()  # The one that was used last: most of the time, one connection is enough.
                try:
                    return await calls.do(lambda connection: _SCRIPT.run(connection, keys, *words))
                finally:
                    self._idle.append(calls)
                    if self._closed:  # Meanwhile: what this call has opened is closed, too.
                        await calls.close()
        except TimeoutError as error:
            raise explain(error, self._server) from None
