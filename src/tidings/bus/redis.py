"""The bus of many machines where a Redis or Valkey already runs.

May import: `changes`, `errors`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.bus import BusState, Entry, History, Listener
from tidings.bus._engine import Engine
from tidings.bus._listeners import Listeners
from tidings.bus._redis_errors import explain
from tidings.bus._redis_log import RedisLog
from tidings.bus._redis_server import Server
from tidings.bus._redis_wakes import Wakes
from tidings.bus._redis_worker import Worker
from tidings.bus._shared import NOWHERE, SharedBus, storable_key
from tidings.bus._waiting import NotStored
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

_LEAVE_SECONDS: Final = 0.5
"""How long whoever leaves waits for what was accepted to be stored: a server that hangs must not keep a process."""


class RedisBus(SharedBus):
    """A bus on the Redis (6 or newer) or Valkey at `url`, for any number of processes on any number of machines.

    `url` is `redis://[user:password@]host[:port][/db]`, with `rediss://` over TLS; `valkey://`, `unix:///path` and
    `redis+sentinel://sentinel,sentinel/service` are understood too, and a cluster is reached through any of its nodes.
    Buses with the same `prefix` are one log. `history` is how much of the past is kept, by the server's own clock.

    Changes are heard through pub/sub, which is only a sign to look; where a sign is lost, the log is looked at every
    `poll` seconds. `timeout` is for how many seconds an answer is waited for. While the server is away, up to `buffer`
    distinct changes wait, and go out in order when it is back; publishing then raises `BusUnavailable`, which says
    whether the change is kept. `since` answers None meanwhile. `state` tells how it stands, and each change of it is
    logged once.

    The log survives the end of every process that uses it. Whenever the server starts again, or another takes its
    place, it may have lost what it had acknowledged, so a new epoch begins and each listener is told once that
    anything may have changed. With `durable=True` you say that this server loses nothing (`appendonly yes` and
    `appendfsync always`, which is checked where CONFIG GET is permitted): then the log goes on after a restart. When a
    replica takes over, a new epoch begins in any case.
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
        super().__init__()
        if not prefix or not prefix.isprintable() or set("{}") & set(prefix):
            raise ValueError(f"A prefix is a text without braces, not {prefix!r}")
        if buffer < 1:
            raise ValueError(f"The buffer has room for at least 1 change, not {buffer}")
        if not timeout > 0:
            raise ValueError(f"An answer is waited for so many seconds, more than 0, not {timeout}")
        if not poll > 0:
            raise ValueError(f"A bus looks for changes every so many seconds, more than 0, not {poll}")
        self._server = Server(url, timeout=timeout)
        self._timeout = timeout
        self._listeners = Listeners()
        self._engine = Engine("redis", self._server.place)
        self._new_log = partial(
            RedisLog, self._server, prefix=prefix, history=history or History(), timeout=timeout, durable=durable
        )
        self._new_worker = partial(Worker, listeners=self._listeners, engine=self._engine, buffer=buffer, poll=poll)
        self._head = NOWHERE
        self._worker: Worker | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def head(self) -> Cursor:
        """The newest place in the log that this process knows of; in no log before the bus was first entered."""
        return self._head if self._worker is None else self._worker.head

    @property
    def state(self) -> BusState:
        """Whether the server answers, since when, and how many changes wait for it."""
        return self._engine.state

    async def publish(self, change: Change) -> Cursor:
        """Append `change`, in place of an earlier equal one, and say where it stands once the server has it.

        If this is cancelled, the change is still published.

        Raises:
            BusUnavailable: The server did not take the change in time. It says whether the change is kept, to go out
                when the server is back; to publish it again does no harm.
            BusMismatch: The server has something else where the log should be.
            InvalidUri: The change names a resource by a text that no server can hold.
        """
        worker = self._entered()
        storable_key(change)  # Raises here, before the change waits with others.
        try:
            return await worker.waiting.put(change, self._patience())
        except NotStored as late:
            raise (self._late(kept=late.kept) if self._worker is worker else self._left()) from None

    def _patience(self) -> float:
        """How many seconds a change may take: all who publish during an outage wait for its beginning only."""
        state = self._engine.state
        away = 0.0 if state.connected else max(time.time() - state.since, 0.0)
        return max(self._timeout - away, 0.0)

    def _late(self, *, kept: bool) -> BusUnavailable:
        slow = f"The Redis at {self._server.place} did not take the change within {self._timeout:g} s."
        why = self._engine.reason or slow
        if kept:
            return BusUnavailable(f"{why} The change is kept, and goes out when the server is back.")
        waiting = self.state.waiting
        return BusUnavailable(
            f"{why} The change is not kept, as {waiting} others wait already: publish it again later."
        )

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """What changed after `cursor`, or None if this bus cannot know, as while the server is away."""
        worker = self._entered()
        if not self._engine.connected:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                return await worker.since(cursor)
        return None

    async def _open(self) -> None:
        log = self._new_log()
        worker = self._new_worker(log)
        wakes = Wakes(self._server, log.channel, timeout=self._timeout, wake=worker.wake)
        try:
            async with asyncio.timeout(self._timeout):
                worker.head = await log.open()
                await wakes.open()
        except BaseException as error:
            await log.close()
            await wakes.close()
            if isinstance(error, TimeoutError):
                raise explain(error, self._server.place, self._timeout) from None
            raise
        self._engine.entered()
        self._worker = worker
        self._tasks = [asyncio.create_task(worker.run()), asyncio.create_task(wakes.run())]

    async def _close(self) -> None:
        """Wait for what was accepted to be stored, for half a second at most."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.finish()
        try:
            await asyncio.wait(self._tasks[:1], timeout=_LEAVE_SECONDS)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._head = worker.head
            self._listeners.clear()
            worker.waiting.refuse(self._left)
            self._engine.left(worker.waiting.clear())

    def _left(self) -> BusUnavailable:
        return BusUnavailable(f"The bus was left before the Redis at {self._server.place} took the change.")

    def _entered(self) -> Worker:
        if self._worker is None:
            raise BusUnavailable(f"The bus at {self._server.place} is not open: use it within its `async with`.")
        return self._worker
