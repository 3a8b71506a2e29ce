"""Sending what waits: each change is one message, and it counts as stored when the broker has said so and the listeners
of this process have heard of it.

So whoever is told where a change stands knows that everybody here who listens was told before.

May import: `changes`.
"""

import asyncio
from functools import partial
from typing import Final

from tidings.bus._engine import Engine
from tidings.bus._nats_connection import Answer, Connection
from tidings.bus._nats_errors import Interrupted, NoAnswer
from tidings.bus._nats_log import Log
from tidings.bus._nats_subjects import Subjects, payload
from tidings.bus._waiting import Held, Waiting
from tidings.changes import Cursor

_WINDOW: Final = 1024
"""Messages that may be on their way at a time. More would not be quicker."""

_NOBODY: Final = Interrupted("nobody stores changes there: the stream was deleted, or its cluster elects a leader.")


class _Sent:
    """A change on its way: as often as there are those who want to know where it stands."""

    __slots__ = ("at", "copies", "held", "seqs")

    def __init__(self, held: Held, at: float) -> None:
        self.held = held
        self.at = at
        self.copies = max(1, len(held.askers))
        self.seqs: list[int] = []

    @property
    def stored(self) -> bool:
        return len(self.seqs) == self.copies


class Sender:
    """Sends what is in `waiting`, and answers those who wait once `log` has got that far."""

    def __init__(self, limit: int, subjects: Subjects, log: Log, engine: Engine) -> None:
        self._more = asyncio.Event()
        self.waiting = Waiting(limit, self._more.set)
        self._subjects = subjects
        self._log = log
        self._engine = engine
        self.stored = 0
        """How many messages were stored so far."""
        self._sent: dict[Held, _Sent] = {}
        self._on_the_way = 0
        self._progress = asyncio.Event()

    async def run(self, connection: Connection) -> None:
        """Send over `connection` until it ends."""
        try:
            while not connection.ended.done():
                await self._more.wait()
                self._more.clear()
                while self._on_the_way < _WINDOW and not self.waiting.idle:
                    for sent in self._take(_WINDOW - self._on_the_way):
                        await self._send(connection, sent)
        except Exception as error:  # noqa: BLE001 - whatever it is, another connection has to do it
            connection.fail(error)

    def _take(self, most: int) -> list[_Sent]:
        # All are noted before the first is sent: what goes wrong with it must not lose the others.
        now = asyncio.get_running_loop().time()
        taken = [_Sent(held, now) for held in self.waiting.take(most)]
        self._sent |= {sent.held: sent for sent in taken}
        return taken

    async def _send(self, connection: Connection, sent: _Sent) -> None:
        change = sent.held.change
        subject, body = self._subjects.of(change), payload(change)
        for _ in range(sent.copies):
            self._on_the_way += 1
            await connection.post(subject, body, partial(self._answered, connection, sent))

    def _answered(self, connection: Connection, sent: _Sent, answer: Answer) -> None:
        self._on_the_way -= 1
        if isinstance(answer, Exception):
            # Not stored, nor would the next be. If the connection has ended this is why, and says nothing new.
            connection.fail(_NOBODY if isinstance(answer, NoAnswer) else answer)
            return
        sent.seqs.append(answer["seq"])
        self.stored += 1
        self._more.set()
        if sent.stored:
            self._log.when(max(sent.seqs), partial(self._told, sent))

    def _told(self, sent: _Sent, epoch: str) -> None:
        del self._sent[sent.held]
        self.waiting.done([sent.held])
        sent.held.stored([Cursor(epoch, seq) for seq in sorted(sent.seqs)])
        self._engine.stored(sent.copies, asyncio.get_running_loop().time() - sent.at)
        self._engine.back()
        self._progress.set()

    def is_late(self, seconds: float) -> bool:
        """Whether the broker has owed an answer for so long."""
        oldest = next((sent for sent in self._sent.values() if not sent.stored), None)
        return oldest is not None and asyncio.get_running_loop().time() - oldest.at > seconds

    def interrupted(self) -> None:
        """The connection has ended: what was not stored goes out again over the next."""
        self._give_back([sent for sent in self._sent.values() if not sent.stored])

    def lost(self) -> None:
        """The log was lost, and with it what was stored and not heard of yet: all goes out again."""
        self._give_back(list(self._sent.values()))

    def _give_back(self, sent: list[_Sent]) -> None:
        self._on_the_way = 0
        for one in sent:
            del self._sent[one.held]
        self.waiting.give_back([one.held for one in sent])
        self._more.set()

    async def drained(self, seconds: float) -> None:
        """Wait until nothing waits any more, or nothing has happened for so many `seconds`."""
        try:
            while len(self.waiting):
                self._progress.clear()
                async with asyncio.timeout(seconds):
                    await self._progress.wait()
        except TimeoutError:
            return
