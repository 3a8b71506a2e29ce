"""The bus of many machines where a Redis or Valkey already runs.

May import: `changes`, `errors`.

The task of a `RedisBus` that talks to the log: the only one, so that everything has one order.

Each turn sends what waits, in one call however much it is, or looks for what others have published. What a call finds
new is told to the listeners, and only then do those who published get their answers. When a call fails, what it was to
store waits again, and the next turn comes after a pause.

May import: `changes`, `errors`.

Hears through pub/sub that there is news in the log of a `RedisBus`.

It says only that it is time to look. A message that is lost costs nothing but time: the log is looked at every so often
in any case. So is a line that has gone silent: it is asked for a sign of life, and made anew if none comes.

May import: `changes`, `errors`.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tidings._kit.backoff import Pauses
from tidings.bus import BusState, Entry, History, Listener
from tidings.bus.redis import log as errors
from tidings.bus.redis.connection import PAUSES, RedisConnection, Server
from tidings.bus.redis.log import RedisLog, explain
from tidings.bus.shared import NOWHERE, Engine, Listeners, NewEntries, NotStored, SharedBus, Waiting, storable_key
from tidings.changes import Change, Cursor
from tidings.errors import BusMismatch, BusUnavailable

logger = logging.getLogger(__name__)

_BATCH: Final = 500
"""How many distinct changes go out in one call: Redis does nothing else meanwhile."""

Question = tuple[Cursor, asyncio.Future[Sequence[Entry] | None]]


class RedisWorker:
    """Sends what is in `waiting` to `log`, and tells `listeners` what is new there, looking every `poll` seconds."""

    def __init__(self, log: RedisLog, *, listeners: Listeners, engine: Engine, buffer: int, poll: float) -> None:
        self._log = log
        self._listeners = listeners
        self._engine = engine
        self._poll = poll
        self._more = asyncio.Event()
        self._rumour: Cursor | None = None
        self._due = 0.0
        self._questions: deque[Question] = deque()
        self._finishing = False
        self.waiting = Waiting(buffer, self._added)
        self.head = NOWHERE
        """The place up to which the listeners were told."""

    def _added(self) -> None:
        self._engine.waiting(len(self.waiting))
        self._more.set()

    def wake(self, place: Cursor) -> None:
        """The log is said to reach up to `place`; NOWHERE if nobody knows how far."""
        self._rumour = place
        if self._news:
            self._more.set()

    @property
    def _news(self) -> bool:
        """Whether the log is said to have more than the listeners were told."""
        rumour = self._rumour
        return rumour is not None and (rumour.epoch != self.head.epoch or rumour > self.head)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """See `RedisLog.since`; None while the server is away."""
        answer: asyncio.Future[Sequence[Entry] | None] = asyncio.get_running_loop().create_future()
        self._questions.append((cursor, answer))
        self._more.set()
        return await answer

    def finish(self) -> None:
        """Let `run` end when all is done that was asked before, or when the server is away."""
        self._finishing = True
        self._more.set()

    async def run(self) -> None:
        """Work until told to finish."""
        pauses = Pauses(PAUSES, below=0.5)
        try:
            while not (self._finishing and (self._idle or not self._engine.connected)):
                try:
                    await self._turn()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next turn may do better
                    await self._failed(error)
                    await asyncio.sleep(pauses.next())
                else:
                    self._engine.back()
                    pauses.reset()
        finally:
            self._give_up_questions()
            await self._log.close()

    @property
    def _idle(self) -> bool:
        return self.waiting.idle and not self._questions

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if self._idle and not self._news and not self._finishing:
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due):
                    await self._more.wait()
        if not self._engine.connected:
            # What others did meanwhile comes first; and what waits goes nowhere before there is somebody to take it.
            await self._look()
        if not self.waiting.idle:
            await self._send()
        elif self._news or loop.time() >= self._due:
            await self._look()
        await self._answer()

    async def _send(self) -> None:
        began = asyncio.get_running_loop().time()
        batch = self.waiting.take(_BATCH)
        try:
            places, news = await self._log.append(batch, self.head)
            await self._tell_all(news)
        except BaseException:
            self.waiting.give_back(batch)
            raise
        self.waiting.done(batch)
        for held, cursors in zip(batch, places, strict=True):
            held.stored(cursors)
        self._engine.waiting(len(self.waiting))
        self._engine.stored(sum(map(len, places)), asyncio.get_running_loop().time() - began)

    async def _look(self) -> None:
        # What is said from now on may be newer than what this call finds.
        self._rumour = None
        await self._tell_all(await self._log.look(self.head))

    async def _tell_all(self, news: NewEntries) -> None:
        """Tell what is on this page, and read on to the last one."""
        while True:
            self._tell(news)
            if not news.more:
                break
            news = await self._log.look(self.head)
        self._due = asyncio.get_running_loop().time() + self._poll

    def _tell(self, news: NewEntries) -> None:
        if news.entries is None:
            self._engine.lost(news.head)
        for cursor, change in [(news.head, None)] if news.entries is None else news.entries:
            self.head = cursor
            self._listeners.call(cursor, change)
        if not news.more:
            self.head = news.head

    async def _answer(self) -> None:
        """Answer one question. The others wait for the next turn, as they must not keep those who publish."""
        if self._questions:
            cursor, answer = self._questions[0]
            found = None if answer.done() else await self._log.since(cursor)
            self._questions.popleft()
            if not answer.done():
                answer.set_result(found)

    def _give_up_questions(self) -> None:
        """Nobody knows the answers: the server is away."""
        while self._questions:
            _, answer = self._questions.popleft()
            if not answer.done():
                answer.set_result(None)

    async def _failed(self, error: Exception) -> None:
        if not isinstance(error, BusUnavailable | BusMismatch) and str(error) != self._engine.reason:
            logger.error("the bus at %s failed unexpectedly", self._engine.place, exc_info=error)
        self._engine.away(str(error))
        self._give_up_questions()
        self._rumour = NOWHERE
        if self._log.connected:
            # It answers, only not to this. Whoever publishes need not wait to hear that; and others may be heard.
            kind = BusMismatch if isinstance(error, BusMismatch) else BusUnavailable
            text = f"{error} The change is kept, and goes out when that is mended."
            self.waiting.refuse(lambda: kind(text))
            with suppress(BusUnavailable, BusMismatch):
                await self._look()


class Wakes:
    """Calls `wake` with the newest place in the log, or NOWHERE if something may have been missed."""

    def __init__(self, server: Server, channel: str, *, timeout: float, wake: Callable[[Cursor], None]) -> None:
        self._server = server
        self._channel = channel
        self._timeout = timeout
        self._wake = wake
        self._line: RedisConnection | None = None

    async def open(self) -> RedisConnection:
        """Begin to listen.

        Raises:
            BusUnavailable: That is not possible.
        """
        try:
            async with asyncio.timeout(self._timeout):
                self._line = line = await self._server.connect()
                await line.ask("SUBSCRIBE", self._channel)
        except Exception as error:
            await self.close()
            raise errors.explain(error, self._server.place, self._timeout) from error
        except BaseException:
            await self.close()
            raise
        return line

    async def run(self) -> None:
        """Listen for ever; once `open` was called, on the line that it made."""
        pauses = Pauses(PAUSES, below=0.5)
        while True:
            try:
                await self._listen(self._line or await self.open(), pauses)
            except Exception as error:  # noqa: BLE001 - whatever it is, the log is looked at all the same
                logger.debug("not listening to %s for now: %s", self._server.place, error)
            finally:
                await self.close()
            await asyncio.sleep(pauses.next())

    async def _listen(self, line: RedisConnection, pauses: Pauses) -> None:
        # What was published before may have gone unheard.
        self._wake(NOWHERE)
        asked = False
        while True:
            said = await line.hear(self._timeout / 2)
            if said is not None:
                pauses.reset()
                asked = False
                self._wake_by(said)
            elif asked:
                return
            else:
                await line.say("PING")
                asked = True

    def _wake_by(self, said: Any) -> None:
        match said:
            case [b"message", bytes(), bytes(text)]:
                self._wake(_place(text))
            case _:
                pass  # A sign of life.

    async def close(self) -> None:
        """Let go of the line."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()


def _place(text: bytes) -> Cursor:
    epoch, _, version = text.partition(b" ")
    return Cursor(epoch.decode(errors="replace"), int(version)) if version.isdigit() else NOWHERE


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
        self._new_worker = partial(
            RedisWorker, listeners=self._listeners, engine=self._engine, buffer=buffer, poll=poll
        )
        self._head = NOWHERE
        self._worker: RedisWorker | None = None
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

    def _entered(self) -> RedisWorker:
        if self._worker is None:
            raise BusUnavailable(f"The bus at {self._server.place} is not open: use it within its `async with`.")
        return self._worker
