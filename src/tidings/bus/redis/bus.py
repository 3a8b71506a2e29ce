"""`RedisBus`: the bus of many machines where a Redis or Valkey already runs.

One task talks to the log: each turn sends the changes that wait, or looks for those of others. Another listens to
pub/sub, which says only that it is time to look: a lost message costs time alone.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from tidings._kit.backoff import Pauses
from tidings.bus import Entry, History
from tidings.bus.redis.log import PAUSES, RedisConnection, RedisLog, RedisRecords, Server, explain
from tidings.bus.shared import NOWHERE, BrokerBus, Engine, Listeners, NewEntries, Waiting
from tidings.changes import Cursor
from tidings.errors import BusMismatch, BusUnavailable

logger = logging.getLogger(__name__)

_BATCH: Final = 500  # Distinct changes in one call: Redis does nothing else meanwhile.
_LEAVE_SECONDS: Final = 0.5  # Closing waits so long until accepted changes are stored.


@dataclass(eq=False)
class RedisSession:
    """The bus while it is open. It stores `waiting` changes in `log`, and looks there every `poll` seconds."""

    server: Server
    log: RedisLog
    past: RedisLog  # The same, for questions about the past: they hold up no changes.
    records: RedisRecords
    _: KW_ONLY
    listeners: Listeners
    engine: Engine
    buffer: int
    poll: float

    def __post_init__(self) -> None:
        self._wakes = Wakes(self.server, self.log.channel, self._wake)
        self._more = asyncio.Event()
        self._announced: Cursor | None = None
        self._due = 0.0
        self._question = asyncio.Lock()
        self._finishing = False
        self._tasks: list[asyncio.Task[None]] = []
        self.waiting = Waiting(self.buffer, self._added)

    @property
    def connected(self) -> bool:
        return self.engine.state.connected

    async def start(self) -> None:
        """Connects to the server, and joins the log. Raises `BusUnavailable` or `BusMismatch` if it cannot."""
        try:
            async with asyncio.timeout(self.server.timeout):
                head = await self.log.open()
                await self._wakes.open()
        except BaseException as error:
            await self.log.calls.close()
            await self._wakes.close()
            if isinstance(error, TimeoutError):
                raise explain(error, self.server) from None
            raise
        self.listeners.head = head
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._wakes.run())]

    async def stop(self) -> None:
        """Finishes what was begun before, as long as the server can be reached, and closes the connections."""
        self._finishing = True
        self._more.set()
        try:
            await asyncio.wait(self._tasks[:1], timeout=_LEAVE_SECONDS)
        finally:
            await self.past.calls.close()
            await self.records.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _added(self) -> None:
        self.engine.waiting(len(self.waiting))
        self._more.set()

    def _wake(self, place: Cursor) -> None:
        """Notes that the log reaches up to `place`; NOWHERE if that is not known."""
        self._announced = place
        if self._news:
            self._more.set()

    @property
    def _news(self) -> bool:
        """The log has more than the listeners know, as far as pub/sub says."""
        announced, head = self._announced, self.listeners.head
        return announced is not None and (announced.epoch != head.epoch or announced > head)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """Returns the same as `RedisLog.since`; None while the server is out of reach."""
        if self._finishing or not self.connected:
            return None
        with suppress(TimeoutError, BusUnavailable, BusMismatch):
            async with asyncio.timeout(self.server.timeout), self._question:
                return await self.past.since(cursor)
        return None

    async def _run(self) -> None:
        pauses = Pauses(PAUSES, below=0.5)
        try:
            while not (self._finishing and (self.waiting.idle or not self.connected)):
                try:
                    await self._turn()
                except Exception as error:  # noqa: BLE001 - the next turn may succeed
                    await self._failed(error)
                    await asyncio.sleep(pauses.next())
                else:
                    self.engine.back()
                    pauses.reset()
        finally:
            await self.log.calls.close()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if self.waiting.idle and not self._news and not self._finishing:
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due):
                    await self._more.wait()
        if not self.connected:
            # First what others published meanwhile. It also shows whether the server accepts anything.
            await self._look()
        if not self.waiting.idle:
            await self._send()
        elif self._news or loop.time() >= self._due:
            await self._look()

    async def _send(self) -> None:
        began = asyncio.get_running_loop().time()
        batch = self.waiting.take(_BATCH)
        try:
            cursors, news = await self.log.append([held.change for held in batch], self.listeners.head)
            await self._call_with_all(news)
        except BaseException:
            self.waiting.give_back(batch)
            raise
        self.waiting.done(batch)
        for held, cursor in zip(batch, cursors, strict=True):
            held.stored(cursor)
        self.engine.waiting(len(self.waiting))
        self.engine.stored(len(batch), asyncio.get_running_loop().time() - began)

    async def _look(self) -> None:
        # A message from now on may be newer than what this call finds.
        self._announced = None
        await self._call_with_all(await self.log.look(self.listeners.head))

    async def _call_with_all(self, news: NewEntries) -> None:
        while True:
            if news.entries is None:
                self.engine.lost(news.head)
            self.listeners.call_all(news)
            if not news.more:
                break
            news = await self.log.look(self.listeners.head)
        self._due = asyncio.get_running_loop().time() + self.poll

    async def _failed(self, error: Exception) -> None:
        if not isinstance(error, BusUnavailable | BusMismatch) and str(error) != self.engine.state.reason:
            logger.error("The bus at %s failed unexpectedly", self.engine.place, exc_info=error)
        self.engine.away(error)
        self._announced = NOWHERE
        if self.log.calls.connected:
            # It refuses this call, so publishers need not wait; and changes of others may still be read.
            kind = BusMismatch if isinstance(error, BusMismatch) else BusUnavailable
            text = f"{error} The change is kept, and published when this is solved."
            self.waiting.refuse(lambda: kind(text))
            with suppress(BusUnavailable, BusMismatch):
                await self._look()


class Wakes:
    """Listens to pub/sub: calls `wake` with the newest cursor of the log, or NOWHERE if a message may be lost."""

    def __init__(self, server: Server, channel: str, wake: Callable[[Cursor], None]) -> None:
        self._server = server
        self._channel = channel
        self._wake = wake
        self._connection: RedisConnection | None = None

    async def open(self) -> RedisConnection:
        """Begins to listen. Raises `BusUnavailable` if it cannot."""
        try:
            async with asyncio.timeout(self._server.timeout):
                self._connection = connection = await self._server.connect()
                await connection.ask("SUBSCRIBE", self._channel)
        except BaseException as error:
            await self.close()
            if isinstance(error, Exception):
                raise explain(error, self._server) from error
            raise
        return connection

    async def run(self) -> None:
        """Listens for ever, first on the connection that `open` made, if it was called."""
        pauses = Pauses(PAUSES, below=0.5)
        while True:
            try:
                await self._listen(self._connection or await self.open(), pauses)
            except Exception as error:  # noqa: BLE001 - the log is looked at all the same
                logger.debug("Not listening to %s for now: %s", self._server.place, error)
            finally:
                await self.close()
            await asyncio.sleep(pauses.next())

    async def _listen(self, connection: RedisConnection, pauses: Pauses) -> None:
        # Messages from before may be lost.
        self._wake(NOWHERE)
        asked = False
        while True:
            match await connection.receive(self._server.timeout / 2):
                case None if asked:
                    return
                case None:
                    await connection.send("PING")
                    asked = True
                    continue
                case [b"message", bytes(), bytes(text)]:
                    epoch, _, version = text.partition(b" ")
                    known = version.isdigit()
                    self._wake(Cursor(epoch.decode(errors="replace"), int(version)) if known else NOWHERE)
                case _:
                    pass  # An answer to PING.
            pauses.reset()
            asked = False

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class RedisBus(BrokerBus):
    """A bus in the Redis (6 or newer) or Valkey server at `url`, for any number of processes on any number of machines.

    A server that restarts, or that takes the place of another, may have lost changes that were acknowledged. So a new
    epoch begins, and each listener is called once with None. While the server cannot be reached, changes wait, and are
    published in order when it is back. `publish` then raises `BusUnavailable`, which says whether the change is kept,
    and `since` returns None. Each change of `state` is logged once.

    Args:
        url: `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS; also `valkey://` and `unix:///path`.
            For a cluster, name any of its nodes.
        prefix: Buses with the same prefix share one log.
        history: The past changes that are kept. Their age is measured by the server's clock.
        buffer: The number of distinct changes that may wait while the server cannot be reached.
        timeout: The seconds that the server may take to answer.
        poll: The seconds after which the log is checked even if there is no message from pub/sub.
        durable: States that the server loses nothing (`appendonly yes` and `appendfsync always`, which is checked if
            possible), so the log continues after a restart. When a replica takes over, a new epoch always begins.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "tidings",
        history: History | None = None,
        buffer: int = 10_000,
        timeout: float = 5.0,
        poll: float = 1.0,
        durable: bool = False,
    ) -> None:
        if not prefix or not prefix.isprintable() or set("{}") & set(prefix):
            raise ValueError(f"A prefix must be a string without braces, not {prefix!r}")
        if not poll > 0:
            raise ValueError(f"poll must be more than 0 seconds, not {poll}")
        server = Server(url, timeout=timeout)
        super().__init__("redis", server.place, buffer=buffer, timeout=timeout)
        log = partial(RedisLog, server, prefix=prefix, history=history or History(), durable=durable)
        self._new_session = lambda: RedisSession(
            server,
            log(),
            log(),
            RedisRecords(server, prefix),
            listeners=self._listeners,
            engine=self._engine,
            buffer=buffer,
            poll=poll,
        )
