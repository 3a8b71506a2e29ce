"""The task of a `RedisBus` that talks to the log: the only one, so that everything has one order.

Each turn sends what waits, in one call however much it is, or looks for what others have published. What a call finds
new is told to the listeners, and only then do those who published get their answers. When a call fails, what it was to
store waits again, and the next turn comes after a pause.

May import: `changes`, `errors`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tidings.bus import Entry
from tidings.bus._engine import Engine
from tidings.bus._listeners import Listeners
from tidings.bus._redis_log import News, RedisLog
from tidings.bus._redis_server import Pause
from tidings.bus._shared import NOWHERE
from tidings.bus._waiting import Waiting
from tidings.changes import Cursor
from tidings.errors import BusMismatch, BusUnavailable

logger = logging.getLogger(__name__)

_BATCH: Final = 500
"""How many distinct changes go out in one call: Redis does nothing else meanwhile."""

Question = tuple[Cursor, asyncio.Future[Sequence[Entry] | None]]


class Worker:
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
        pause = Pause()
        try:
            while not (self._finishing and (self._idle or not self._engine.connected)):
                try:
                    await self._turn()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next turn may do better
                    await self._failed(error)
                    await pause.sleep()
                else:
                    self._engine.back()
                    pause.reset()
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

    async def _tell_all(self, news: News) -> None:
        """Tell what is on this page, and read on to the last one."""
        while True:
            self._tell(news)
            if not news.more:
                break
            news = await self._log.look(self.head)
        self._due = asyncio.get_running_loop().time() + self._poll

    def _tell(self, news: News) -> None:
        if news.entries is None:
            self._engine.lost(news.head)
        for cursor, change in [(news.head, None)] if news.entries is None else news.entries:
            self.head = cursor
            self._listeners.tell(cursor, change)
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
