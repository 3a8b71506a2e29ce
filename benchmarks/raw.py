"""Writes to an engine without a bus, with its own Python driver, as fast as that allows: the limit for `publishes`.

Each stores the newest of the changes of a URI with a number and a time, as a bus does, `at_once` in one transaction,
pipeline or flight. Nobody is told, nothing is compared, and no place in a log is returned.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

Write = Callable[[Sequence[tuple[int, str]]], Awaitable[object]]


async def storm(url: str, uris: Sequence[str], updates: int, at_once: int) -> tuple[float, float]:
    """Writes `updates`, going round `uris`. Returns the seconds that took, and the CPU seconds of this process."""
    write, close = await ENGINES[urlsplit(url).scheme](url)
    changes = [(number, uris[number % len(uris)]) for number in range(updates)]
    start, cpu = time.monotonic(), time.process_time()
    for at in range(0, updates, at_once):
        await write(changes[at : at + at_once])
    took = time.monotonic() - start, time.process_time() - cpu
    await close()
    return took


async def _sqlite(url: str) -> tuple[Write, Callable[[], Awaitable[object]]]:
    connection = sqlite3.connect(Path(urlsplit(url).path).with_name("raw.db"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS changes (version INTEGER PRIMARY KEY, key TEXT UNIQUE, at REAL)")

    def write_all(changes: Sequence[tuple[int, str]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        rows = [(*change, time.time()) for change in changes]
        connection.executemany("INSERT OR REPLACE INTO changes VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")

    async def write(changes: Sequence[tuple[int, str]]) -> None:
        write_all(changes)

    async def close() -> None:
        connection.close()

    return write, close


async def _redis(url: str) -> tuple[Write, Callable[[], Awaitable[object]]]:
    from redis.asyncio import Redis

    client = Redis.from_url(url)

    async def write(changes: Sequence[tuple[int, str]]) -> None:
        async with client.pipeline(transaction=False) as pipe:
            for version, key in changes:
                pipe.zadd("raw:changes", {key: version})
                pipe.hset("raw:times", key, str(time.time()))
            await pipe.execute()

    return write, client.aclose


async def _nats(url: str) -> tuple[Write, Callable[[], Awaitable[object]]]:
    import nats

    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="raw", subjects=["raw.>"], max_msgs_per_subject=1)

    async def write(changes: Sequence[tuple[int, str]]) -> None:
        subjects = ((version, key.replace(":", "").replace("/", "-")) for version, key in changes)
        await asyncio.gather(*(stream.publish(f"raw.{key}", b"%d" % version) for version, key in subjects))

    async def close() -> None:
        await stream.delete_stream("raw")
        await client.close()

    return write, close


ENGINES: dict[str, Callable[[str], Awaitable[tuple[Write, Callable[[], Awaitable[object]]]]]] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "nats": _nats,
}
