"""The records of a `NatsBus`: a second stream beside the log, over a connection of its own.

There is one message for each key, and its number is the revision. Its data is the seconds for which it is kept, a
newline, and the value. The broker deletes it after that time, in whole seconds; readers compare its time with the
broker's clock. The connection is opened when it is first needed, so a large record holds up no change, and a user that
may not use records has a log all the same.
"""

import asyncio
import base64
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidings.bus import StoredRecord
from tidings.bus.nats.connection import NatsConnection
from tidings.bus.nats.errors import ApiError, NatsTimeout, explain
from tidings.bus.nats.stream import OUTDATED, NatsStream, RecordsShape, nanoseconds
from tidings.errors import BusUnavailable

T = TypeVar("T")

_ATTEMPTS: Final = 10


class NatsRecords:
    """The records in the stream of a `shape`. `connect` opens a connection to one of the servers at `place`."""

    def __init__(
        self, connect: Callable[[float], Awaitable[NatsConnection]], place: str, shape: RecordsShape, timeout: float
    ) -> None:
        self._connect = connect
        self._place = place
        self._shape = shape
        self._subject = shape.subjects.of_record
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._stream: NatsStream | None = None
        self._ahead = 0  # The broker's clock, compared with one that is never set.
        self._closed = False

    async def get(self, key: str) -> StoredRecord | None:
        return (await self._do(lambda stream: self._find(stream, key)))[1]

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        return await self._do(lambda stream: self._store(stream, key, value, seconds, revision))

    async def delete(self, key: str) -> None:
        await self._do(lambda stream: stream.purge(self._subject(key)))

    async def close(self) -> None:
        self._closed = True
        await self._drop()

    async def _find(self, stream: NatsStream, key: str) -> tuple[int, StoredRecord | None]:
        """Returns the number of the message of `key`, 0 if there is none, and the record if it has not expired."""
        message = await stream.newest(self._subject(key))
        if message is None:
            return 0, None
        seq: int = message["seq"]
        seconds, _, value = base64.b64decode(message.get("data", "")).partition(b"\n")
        try:
            expires = nanoseconds(message["time"]) + float(seconds) * 10**9
        except ValueError:  # Somebody else's.
            expires = 0.0
        return seq, StoredRecord(value, seq) if expires > self._ahead + time.monotonic_ns() else None

    async def _store(
        self, stream: NatsStream, key: str, value: bytes, seconds: float, revision: int | None
    ) -> StoredRecord | None:
        headers, data = {"Nats-TTL": f"{math.ceil(seconds) + 1}s"}, f"{float(seconds)!r}\n".encode() + value
        for _ in range(_ATTEMPTS):
            if revision is not None:
                seq, there = await self._find(stream, key)
                if revision != (there.revision if there else 0):
                    return None
                headers["Nats-Expected-Last-Subject-Sequence"] = str(seq)
            try:
                return StoredRecord(value, await stream.store(self._subject(key), data, headers))
            except ApiError as error:
                if error.code not in OUTDATED:
                    raise
                # Another process was quicker, or the broker has deleted what had expired.
            except NatsTimeout:
                await stream.prepare()  # Nothing was stored: the stream was deleted.
        raise ApiError(0, "others keep changing the record")

    async def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.connection.close()

    async def _do(self, work: Callable[[NatsStream], Awaitable[T]]) -> T:
        stream: NatsStream | None = None
        try:
            async with asyncio.timeout(self._timeout):
                stream = await self._open()
                return await work(stream)
        except Exception as error:
            if stream is not None and isinstance(error, TimeoutError):
                stream.connection.fail(error)  # The next one may reach another server.
            raise explain(error, self._place, seconds=self._timeout) from error

    async def _open(self) -> NatsStream:
        async with self._turn:
            if self._stream is None or self._stream.connection.ended.done():
                await self._drop()
                connection = await self._connect(self._timeout)
                try:
                    stream = NatsStream(connection, self._shape)
                    await stream.prepare()
                    self._ahead = (await stream.find()).now - time.monotonic_ns()
                    self._stream = stream
                except BaseException:
                    await connection.close()
                    raise
            if self._closed:
                await self._drop()
                raise BusUnavailable(f"The bus at {self._place} was closed before it answered.")
            return self._stream
