"""A connection of a `NatsBus` in use: it brings what is in the stream to the log of this process.

May import: `changes`.

Reading a stream over one connection: from a place on, in order, and without a gap that goes unnoticed.

The broker numbers what it sends to a reader without holes, sends a heartbeat when there is nothing to send, and asks
from time to time whether what it sent has arrived. So a message that is lost on the way, a reader that the broker has
forgotten and a broker that hangs are all noticed, and end the connection: whoever reads goes on from where it was, over
another one.

May import: `nats`.

Sending what waits: each change is one message, and it counts as stored when the broker has said so and the listeners
of this process have heard of it.

So whoever is told where a change stands knows that everybody here who listens was told before.

May import: `changes`.

What changed since a place in the log of a `NatsBus`.

First the broker is asked how far the log has got, so that what another process has just published is not missed; those
who ask at the same time share the question. Then this process hears everything up to there, and knows the answer,
unless the place is older than what it remembers: then that part of the log is read, once for all who ask.

May import: `changes`.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tidings.bus import Entry, History
from tidings.bus.nats.connection import Answer, NatsConnection, end
from tidings.bus.nats.errors import Interrupted, NatsTimeout
from tidings.bus.nats.log import Log, LogJoined, Recorded
from tidings.bus.nats.stream import NatsStream, StreamState, Subjects, change_in, payload
from tidings.bus.shared import Engine, Held, Waiting
from tidings.changes import Cursor

_SILENCE: Final = 3
"""After so many beats without a sign of life the broker is taken for gone. It gives one with each."""


class Delivery(NamedTuple):
    """One message of the stream."""

    seq: int
    at: int
    """When it was stored, in nanoseconds since 1970."""
    pending: int
    """How many follow it at present."""
    subject: str
    data: bytes


class StreamReader:
    """Hands each message of `stream` to `deliver`."""

    def __init__(self, connection: NatsConnection, stream: NatsStream, deliver: Callable[[Delivery], None]) -> None:
        self._connection = connection
        self._stream = stream
        self._deliver = deliver
        self._name = f"tidings-{secrets.token_hex(8)}"
        self._subscriptions: list[Subscription] = []
        self._count = 0
        self._quiet = 0
        self._closed = False

    async def open(self, start: int, *, beat: float, watch: bool = False) -> int:
        """Read from `start` on, with a sign of life every `beat` seconds; how many messages there are now.

        With `watch`, hear it at once if the broker gives this reader up, where that is permitted.
        """
        if watch:
            await self._watch()
        inbox = self._connection.inbox()
        self._subscriptions.append(await self._connection.listen(inbox, self._message))
        return await self._stream.read_from(start, inbox, name=self._name, beat=beat)

    async def _watch(self) -> None:
        async def given_up(_: Msg) -> None:
            self._end("it has given up its reader, perhaps because the stream was deleted.")

        advisory = f"$JS.EVENT.ADVISORY.CONSUMER.DELETED.{self._stream.name}.{self._name}"
        self._subscriptions.append(await self._connection.listen(advisory, given_up))

    def check(self) -> None:
        """To be called with each beat: has the broker given a sign of life?"""
        self._quiet += 1
        if self._quiet > _SILENCE:
            self._end("it gives no sign of life.")

    async def close(self) -> None:
        """Read no more; the connection goes on, and so does this, whatever it finds of it."""
        self._closed = True
        with suppress(Exception):
            for subscription in self._subscriptions:
                await subscription.unsubscribe()
            subject = f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}"
            await self._connection.post(subject, b"", _ignore)

    async def _message(self, message: Msg) -> None:
        if self._closed or self._connection.ended.done():
            return
        self._quiet = 0
        status = message.headers.get("Status") if message.headers else None
        if status is None:
            self._take(message)
        elif status == "100":
            await self._control(message)
        else:
            self._end(f"it stopped sending, with status {status}.")

    def _take(self, message: Msg) -> None:
        # $JS.ACK.<stream>.<reader>.<tries>.<seq>.<count>.<time>.<pending>; after $JS.ACK there may be two more.
        tokens = message.reply.split(".")
        seq, count, at, pending = map(int, tokens[5:9] if len(tokens) == 9 else tokens[7:11])
        if count != self._count + 1:
            self._end(f"message {self._count + 1} got lost on its way.")
            return
        self._count = count
        self._deliver(Delivery(seq, at, pending, message.subject, message.data))

    async def _control(self, message: Msg) -> None:
        headers = message.headers or {}
        if message.reply:
            # Has all this arrived? It has: messages come here one after the other.
            await self._connection.say(message.reply)
        elif int(headers.get("Nats-Last-Consumer", self._count)) != self._count:
            self._end(f"messages after {self._count} got lost on their way.")
        elif stalled := headers.get("Nats-Consumer-Stalled"):
            await self._connection.say(stalled)

    def _end(self, why: str) -> None:
        self._connection.fail(Interrupted(why))


def _ignore(_: Answer) -> None:
    pass


logger = logging.getLogger(__name__)


class StreamLink:
    """Reads on where `log` is, with a sign of life from the broker every `beat` seconds.

    `attend` is called when there is something to `tend`.
    """

    def __init__(
        self,
        connection: NatsConnection,
        stream: NatsStream,
        joined: LogJoined,
        *,
        subjects: Subjects,
        log: Log,
        engine: Engine,
        beat: float,
        attend: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.stream = stream
        self.found = joined.found
        self.subjects = subjects
        self.beat = beat
        self._log = log
        self._engine = engine
        self._attend = attend
        self._reader = StreamReader(connection, stream, self._heard)
        self._puzzled = False

    async def open(self) -> None:
        """Begin to read."""
        await self._reader.open(self._log.place.seq + 1, beat=self.beat, watch=True)

    def check(self) -> None:
        """To be called with each beat: does the broker still send?"""
        self._reader.check()

    async def tend(self) -> None:
        """Write the mark anew if it has become old. Whoever does it first does it for all."""
        mark = self._log.mark
        if self._mark_is_old():
            await self.stream.set_mark(mark.epoch, mark.floor, expected=mark.seq)

    async def close(self) -> None:
        """Let go of the broker."""
        if not self.connection.ended.done():
            await self._reader.close()
        await self.connection.close()

    def _heard(self, delivery: Delivery) -> None:
        log = self._log
        if delivery.seq <= log.place.seq:
            return
        if self.stream.may_have_dropped(delivery.pending + 1, self.found):
            log.fall_behind()
            self.connection.fail(Interrupted("this process has fallen too far behind the log."))
            return
        if delivery.subject == self.subjects.mark:
            self._heard_mark(delivery)
        else:
            log.hear(delivery.seq, delivery.at, change_in(delivery.data))
            if log.head.version != delivery.seq:
                self._skip(delivery)
        if self._mark_is_old():
            self._attend()

    def _heard_mark(self, delivery: Delivery) -> None:
        mark = self.stream.mark_in(delivery.data, delivery.seq)
        if not mark.epoch:
            # Whoever comes next writes a true one, with a new epoch, and that is this process.
            self.connection.fail(Interrupted("somebody has overwritten the mark of the log."))
        elif self._log.hear_mark(self.found.epoch(mark), mark, delivery.at):
            self._engine.lost(self._log.head)

    def _mark_is_old(self) -> bool:
        return self._log.place.seq - self._log.mark.seq > self.stream.mark_lasts

    def _skip(self, delivery: Delivery) -> None:
        if not self._puzzled:
            self._puzzled = True
            logger.warning(
                "a message on %s tells of no change that this version knows: it is left out, and so are others",
                delivery.subject,
            )


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

    async def run(self, connection: NatsConnection) -> None:
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

    async def _send(self, connection: NatsConnection, sent: _Sent) -> None:
        change = sent.held.change
        subject, body = self._subjects.of(change), payload(change)
        for _ in range(sent.copies):
            self._on_the_way += 1
            await connection.post(subject, body, partial(self._answered, connection, sent))

    def _answered(self, connection: NatsConnection, sent: _Sent, answer: Answer) -> None:
        self._on_the_way -= 1
        if isinstance(answer, Exception):
            # Not stored, nor would the next be. If the connection has ended this is why, and says nothing new.
            connection.fail(_NOBODY if isinstance(answer, NatsTimeout) else answer)
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


class Past:
    """Knows what changed in `log`, of which `history` says how much is kept."""

    def __init__(self, log: Log, history: History) -> None:
        self._log = log
        self._history = history
        self._turn = asyncio.Lock()
        self._question: asyncio.Task[StreamState] | None = None
        self._questions: set[asyncio.Task[StreamState]] = set()

    async def since(self, link: StreamLink, cursor: Cursor) -> Sequence[Entry] | None:
        """What changed after `cursor`, or None if it is not known.

        Raises:
            Exception: The connection has ended, with this reason.
        """
        log, tail, version = self._log, self._log.tail, cursor.version
        found = await self._up_to_date(link)
        if cursor.epoch != log.place.epoch or not 0 <= version <= log.place.seq:
            return None
        tail.expire(found.now)
        if tail.floor <= version < tail.start:
            async with self._turn:
                await self._remember(link, version)
            tail.expire(found.now)
        if cursor.epoch != log.place.epoch or version < tail.start:
            return None
        return tail.after(version)

    async def _up_to_date(self, link: StreamLink) -> StreamState:
        """How it stands with the log, once everything up to there was heard."""
        if self._question is None:
            self._question = asyncio.get_running_loop().create_task(self._ask(link))
            self._questions.add(self._question)
            self._question.add_done_callback(self._answered)
        return await asyncio.shield(self._question)

    async def _ask(self, link: StreamLink) -> StreamState:
        await asyncio.sleep(0)
        # Whoever asks from now on wants to know how it stands later than that.
        self._question = None
        found = await link.stream.find()
        if found.created != link.found.created or self._log.mark.seq < found.first or found.narrow:
            link.connection.fail(Interrupted("the stream was emptied, has got other limits, or is another one."))
            raise link.connection.ended.result()
        arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._log.when(found.last, arrived.set_result)
        await asyncio.wait([arrived, link.connection.ended], return_when=asyncio.FIRST_COMPLETED)
        if not arrived.done():
            raise link.connection.ended.result()
        return found

    def _answered(self, question: asyncio.Task[StreamState]) -> None:
        self._questions.discard(question)
        if not question.cancelled():
            # If it failed, those who asked know; they may all have given up.
            question.exception()

    async def _remember(self, link: StreamLink, version: int) -> None:
        """Read what is after `version` and was not known so far."""
        tail, end, epoch = self._log.tail, self._log.tail.start, self._log.place.epoch
        if not tail.floor <= version < end:
            return
        if version < self._log.mark.floor:
            tail.unknown(version)
            return
        older: list[Recorded] = []
        complete = asyncio.get_running_loop().create_future()

        def take(delivery: Delivery) -> None:
            change = change_in(delivery.data)
            if delivery.seq <= end and change is not None and delivery.subject != link.subjects.mark:
                older.append(Recorded((Cursor(epoch, delivery.seq), change), delivery.at))
            if (delivery.seq >= end or not delivery.pending) and not complete.done():
                complete.set_result(None)

        reader = StreamReader(link.connection, link.stream, take)
        try:
            # The mark may be among them.
            count = await reader.open(version + 1, beat=link.beat)
            if count > self._history.entries + 1:
                tail.unknown(version)
                return
            if count:
                await asyncio.wait([complete, link.connection.ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await reader.close()
        # What was heard meanwhile may have pushed out what was known: then there is a hole.
        if not link.connection.ended.done() and (tail.start, self._log.place.epoch) == (end, epoch):
            tail.prepend(older, version)

    async def stop(self) -> None:
        """Nobody wants to know any more."""
        for question in tuple(self._questions):
            await end(question)
