"""The log of a `NatsBus` as this process knows it; reading it in order without a gap, sending, and the past.

The entries that the process has received stay in memory, compacted, as many as the history has room for: clients that
come back at once cost the broker nothing. After an interruption, it continues from its position, unless
- the epoch differs: the stream was created, emptied or marked anew;
- the stream ends before the position: an older copy was restored, or a crash lost the end of it;
- that end has grown again since: a message before the position was stored after it.
In the last two cases no other process may have noticed, so a new epoch is begun for all.
"""

import asyncio
import heapq
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final, NamedTuple

from tidings._kit.tasks import SingleFlight
from tidings.bus import Entry, History, Listener
from tidings.bus.nats.connection import Answer, Msg, NatsConnection, Subscription
from tidings.bus.nats.errors import ApiError, Interrupted, NatsTimeout
from tidings.bus.nats.stream import Mark, NatsStream, StreamState, Subjects, change_in
from tidings.bus.shared import NOWHERE, Engine, Held, Recorded, Tail, Waiting, storable_key
from tidings.changes import Change, Cursor

logger = logging.getLogger(__name__)

_SILENCE: Final = 3  # Heartbeats that may be missing before the broker counts as gone.
_WINDOW: Final = 1024  # Messages that may be unacknowledged at a time. More would not be quicker.
_NOT_STORED: Final = Interrupted("no stream stores changes: it was deleted, or its cluster elects a leader.")
_ATTEMPTS: Final = 10


class LogPosition(NamedTuple):
    """The last message that a process has received, and the latest time at which one so far was stored."""

    epoch: str
    seq: int
    at: int


class Log:
    """The position in the log, and the listeners that `tell` calls in its order."""

    def __init__(self, history: History, tell: Listener) -> None:
        self._tell = tell
        self.head = NOWHERE
        self.place = LogPosition("", 0, 0)
        self.known: LogPosition | None = None  # The position to continue from after an interruption.
        self.mark = Mark("", 0, 0)
        self.tail = Tail(history, second=10**9)
        self._arrivals: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def cursor(self, seq: int) -> Cursor:
        """Returns the cursor of a message that this process has received."""
        return Cursor(self.place.epoch, seq, self.mark.terms.at(seq))

    def begin(self, place: LogPosition, mark: Mark) -> bool:
        """Begins another log, or this one at another position. Returns whether the listeners were called for that."""
        lost = self.place.epoch != ""
        self.place = self.known = place
        self.mark = mark
        # A log without any change is at 0.
        self.head = self.cursor(0 if place.seq == mark.seq == 1 else place.seq)
        self.tail.begin(self.head.version)
        self._arrivals.clear()
        if lost:
            self._tell(self.head, None)
        return lost

    def learn(self, mark: Mark) -> None:
        """Takes a mark that is ahead of the position, because those in between may have been overwritten by it."""
        if mark.seq > self.mark.seq:
            self.mark = mark

    def hear(self, seq: int, at: int, change: Change | None) -> None:
        """Takes the next message. It may not be a change."""
        self.place = self.known = LogPosition(self.place.epoch, seq, max(at, self.place.at))
        if change is not None:
            self.head = self.cursor(seq)
            self.tail.add(Recorded((self.head, change), at))
            self._tell(self.head, change)
        self._arrive()

    def hear_mark(self, epoch: str, mark: Mark, at: int) -> bool:
        """Takes a mark. Returns whether it begins another epoch, for which the listeners were called."""
        lost = epoch != self.place.epoch
        self.place = self.known = LogPosition(epoch, mark.seq, max(at, self.place.at))
        if not lost:
            self.learn(mark)
        else:
            self.mark = mark
            self.head = self.cursor(mark.seq)
            self.tail.begin(mark.seq)
            self._tell(self.head, None)
        self._arrive()
        return lost

    def when(self, seq: int, arrived: Callable[[], None]) -> None:
        """Calls `arrived` as soon as everything up to `seq` was delivered, which may be now."""
        heapq.heappush(self._arrivals, (seq, next(self._order), arrived))
        self._arrive()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.place.seq:
            heapq.heappop(self._arrivals)[2]()


async def join(stream: NatsStream, known: LogPosition | None) -> tuple[StreamState, Mark, LogPosition]:
    """Joins the log of `stream`. Returns its state, its mark, and the position: `known` if nothing was missed there."""
    await stream.prepare()
    for _ in range(_ATTEMPTS):
        found = await stream.find()
        # After that: it has the terms of all messages up to the last one found.
        mark = await stream.mark()
        if mark is None or not mark.epoch:
            await stream.begin_epoch(mark)
        elif not found.first <= mark.seq <= found.last:
            continue  # It was emptied or replaced between the two questions.
        elif known is None or known.epoch != found.epoch(mark):
            await stream.probe(mark)
            return found, mark, LogPosition(found.epoch(mark), found.last, found.last_at)
        elif known.seq > found.last or ((later := await stream.first_after(known.at)) and later <= known.seq):
            await stream.begin_epoch(mark)
        else:
            await stream.probe(mark)
            return found, mark, known
    raise ApiError(0, "others keep changing the stream")


class StreamDelivery(NamedTuple):
    """One message of the stream."""

    seq: int
    at: int  # The time at which it was stored, in nanoseconds since 1970.
    pending: int  # The number of messages that follow it at present.
    subject: str
    data: bytes


class StreamReader:
    """Calls `deliver` with each message of `stream`.

    The broker numbers what it sends, sends heartbeats, and asks whether everything has arrived. So a lost message, a
    reader that the broker has forgotten and a broker that hangs are noticed. Each ends the connection.
    """

    def __init__(self, stream: NatsStream, deliver: Callable[[StreamDelivery], None]) -> None:
        self._connection = stream.connection
        self._stream = stream
        self._deliver = deliver
        self._name = f"tidings-{secrets.token_hex(8)}"
        self._subscriptions: list[Subscription] = []
        self._count = 0
        self._quiet = 0
        self._closed = False

    async def open(self, start: int, *, beat: float, watch: bool = False) -> int:
        """Reads from `start` on; returns the number of messages. `watch`: ends if the broker drops this reader."""
        if watch:
            advisory = f"$JS.EVENT.ADVISORY.CONSUMER.DELETED.{self._stream.name}.{self._name}"
            self._subscriptions.append(await self._connection.listen(advisory, self._dropped))
        inbox = self._connection.inbox()
        self._subscriptions.append(await self._connection.listen(inbox, self._message))
        return await self._stream.read_from(start, inbox, name=self._name, beat=beat)

    async def _dropped(self, _: Msg) -> None:
        self._end("it has dropped its reader, perhaps because the stream was deleted.")

    def check(self) -> None:
        """Ends the connection if the broker is silent. Called at each beat."""
        self._quiet += 1
        if self._quiet > _SILENCE:
            self._end("it sends no heartbeats.")

    async def close(self) -> None:
        """Stops reading. The connection stays open, and errors are ignored."""
        self._closed = True
        with suppress(Exception):
            for subscription in self._subscriptions:
                await subscription.unsubscribe()
            subject = f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}"
            await self._connection.post(subject, b"", lambda answer: None)

    async def _message(self, message: Msg) -> None:
        if self._closed or self._connection.ended.done():
            return
        self._quiet = 0
        headers = message.headers or {}
        if "Status" not in headers:
            self._take(message)
        elif headers["Status"] != "100":
            self._end(f"it stopped sending, with status {headers['Status']}.")
        elif message.reply:
            # The broker asks whether everything has arrived. It has: messages come here one after the other.
            await self._connection.send(message.reply)
        elif int(headers.get("Nats-Last-Consumer", self._count)) != self._count:
            self._end(f"messages after {self._count} were lost on their way.")
        elif stalled := headers.get("Nats-Consumer-Stalled"):
            await self._connection.send(stalled)

    def _take(self, message: Msg) -> None:
        # $JS.ACK.<stream>.<reader>.<tries>.<seq>.<count>.<time>.<pending>; after $JS.ACK there may be two more.
        tokens = message.reply.split(".")
        seq, count, at, pending = map(int, tokens[5:9] if len(tokens) == 9 else tokens[7:11])
        if count != self._count + 1:
            self._end(f"message {self._count + 1} was lost on its way.")
            return
        self._count = count
        self._deliver(StreamDelivery(seq, at, pending, message.subject, message.data))

    def _end(self, why: str) -> None:
        self._connection.fail(Interrupted(why))


@dataclass(eq=False)
class StreamLink:
    """A connection in use: it brings messages after the position of `log`. `attend` is called if it is to `tend`."""

    stream: NatsStream
    found: StreamState
    mark: Mark  # As it was found.
    _: KW_ONLY
    log: Log
    engine: Engine
    beat: float
    attend: Callable[[], None]

    def __post_init__(self) -> None:
        self.connection = self.stream.connection
        self.reader = StreamReader(self.stream, self._heard)
        self._warned = False

    async def tend(self) -> None:
        """Writes the mark anew if it is old. One process does it for all."""
        if self._mark_is_old():
            await self.stream.replace(self.log.mark, floor=self.log.mark.floor)

    async def close(self) -> None:
        if not self.connection.ended.done():
            await self.reader.close()
        await self.connection.close()

    def _heard(self, delivery: StreamDelivery) -> None:
        log = self.log
        if delivery.seq <= log.place.seq:
            return
        if self.found.may_have_dropped(delivery.pending + 1):
            log.known = None  # Messages may be missing before this one, so that it cannot continue from here.
            self.connection.fail(Interrupted("this process has fallen too far behind the log."))
            return
        if delivery.subject == self.stream.shape.subjects.mark:
            mark = self.stream.mark_in(delivery.data, delivery.seq)
            if not mark.epoch:
                # This process connects again, and then writes a valid mark with a new epoch.
                self.connection.fail(Interrupted("the mark of the log was overwritten."))
            elif log.hear_mark(self.found.epoch(mark), mark, delivery.at):
                self.engine.lost(log.head)
        else:
            log.hear(delivery.seq, delivery.at, change_in(delivery.data))
            if log.head.version != delivery.seq and not self._warned:
                self._warned = True
                logger.warning(
                    "A message on %s has no change that this version knows. It is skipped, and so are others like it",
                    delivery.subject,
                )
        if self._mark_is_old():
            self.attend()

    def _mark_is_old(self) -> bool:
        return self.log.place.seq - self.log.mark.seq > self.stream.shape.mark_lasts


@dataclass(slots=True, eq=False)
class _Sent:
    """A change that was sent."""

    held: Held
    at: float
    seq: int = 0  # Its number in the stream; 0 until it is stored.


class Sender:
    """Sends the changes in `waiting`, and answers their publishers once the listeners here were called with them."""

    def __init__(self, limit: int, subjects: Subjects, log: Log, engine: Engine) -> None:
        self._more = asyncio.Event()
        self.waiting = Waiting(limit, self._more.set)
        self._subjects = subjects
        self._log = log
        self._engine = engine
        self.stored = 0  # The number of messages that were stored so far.
        self._sent: dict[Held, _Sent] = {}
        self._on_the_way = 0
        self._progress = asyncio.Event()

    async def run(self, connection: NatsConnection, prepare: Callable[[], Awaitable[object]]) -> None:
        """Sends over `connection` until it ends, after it has awaited `prepare` before the first change."""
        is_prepared = False
        try:
            while not connection.ended.done():
                await self._more.wait()
                self._more.clear()
                if not (is_prepared or self.waiting.idle):
                    await prepare()
                    is_prepared = True
                while self._on_the_way < _WINDOW and not self.waiting.idle:
                    now = asyncio.get_running_loop().time()
                    held = self.waiting.take(_WINDOW - self._on_the_way)
                    taken = [_Sent(each, now) for each in held]
                    # All are noted before the first is sent: its failure must not lose the others.
                    self._sent |= {sent.held: sent for sent in taken}
                    for sent in taken:
                        self._on_the_way += 1
                        change, answered = sent.held.change, partial(self._answered, connection, sent)
                        await connection.post(self._subjects.of(change), storable_key(change).encode(), answered)
        except Exception as error:  # noqa: BLE001 - another connection has to do it
            connection.fail(error)

    def _answered(self, connection: NatsConnection, sent: _Sent, answer: Answer) -> None:
        self._on_the_way -= 1
        if isinstance(answer, Exception):
            # It is not stored, and the next would not be. If the connection has ended, this has no effect.
            connection.fail(_NOT_STORED if isinstance(answer, NatsTimeout) else answer)
            return
        sent.seq = answer["seq"]
        self.stored += 1
        self._more.set()
        self._log.when(sent.seq, partial(self._stored, sent))

    def _stored(self, sent: _Sent) -> None:
        del self._sent[sent.held]
        self.waiting.done([sent.held])
        sent.held.stored(self._log.cursor(sent.seq))
        self._engine.stored(1, asyncio.get_running_loop().time() - sent.at)
        self._engine.back()
        self._progress.set()

    def is_late(self, seconds: float) -> bool:
        """Returns whether the broker has not acknowledged a message for this long."""
        oldest = next((sent for sent in self._sent.values() if not sent.seq), None)
        return oldest is not None and asyncio.get_running_loop().time() - oldest.at > seconds

    def take_back(self, *, everything: bool) -> None:
        """Takes back what was not stored; with `everything` also what was not received yet, as the log was lost."""
        self._on_the_way = 0
        held = [sent.held for sent in self._sent.values() if everything or not sent.seq]
        for one in held:
            del self._sent[one]
        self.waiting.give_back(held)
        self._more.set()

    async def drained(self, seconds: float) -> None:
        """Waits until everything is stored, or nothing has happened for `seconds`."""
        with suppress(TimeoutError):
            while len(self.waiting):
                self._progress.clear()
                async with asyncio.timeout(seconds):
                    await self._progress.wait()


class Past:
    """Answers questions about the past of `log`.

    First the broker is asked for the end of the log. When this process has received everything up to there, it knows
    the answer, unless the cursor is older than its memory: then that part of the log is read, once for all who ask.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn = asyncio.Lock()
        self._questions: SingleFlight[StreamState] = SingleFlight()
        self._number = 0  # Of the next question to the broker. Questions at the same time share one.

    async def since(self, link: StreamLink, cursor: Cursor) -> Sequence[Entry] | None:
        """Returns the changes after `cursor`; None if they are not known. Raises the reason of the connection's end."""
        log, tail, version = self._log, self._log.tail, cursor.version
        found = await self._questions.share(self._number, lambda _: self._ask(link))
        if cursor.epoch != log.place.epoch or not 0 <= version <= log.place.seq or not log.mark.terms.know(cursor):
            return None
        tail.expire(found.now)
        if tail.floor <= version < tail.start:
            async with self._turn:
                await self._remember(link, version)
            tail.expire(found.now)
        if cursor.epoch != log.place.epoch or version < tail.start:
            return None
        return tail.after(version)

    async def _ask(self, link: StreamLink) -> StreamState:
        """Returns the state of the stream, once everything up to its end was received."""
        await asyncio.sleep(0)
        self._number += 1  # A question from now on needs a later state.
        found = await link.stream.find()
        if found.created != link.found.created or self._log.mark.seq < found.first or found.narrow:
            link.connection.fail(Interrupted("the stream was emptied, replaced, or has other limits."))
            raise link.connection.ended.result()
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log.when(found.last, partial(arrived.set_result, None))
        await asyncio.wait([arrived, link.connection.ended], return_when=asyncio.FIRST_COMPLETED)
        if not arrived.done():
            raise link.connection.ended.result()
        return found

    async def _remember(self, link: StreamLink, version: int) -> None:
        """Reads the entries after `version` that were not known so far."""
        tail, end, epoch = self._log.tail, self._log.tail.start, self._log.place.epoch
        if not tail.floor <= version < end:
            return
        if version < self._log.mark.floor:
            tail.floor = version + 1
            return
        older: list[Recorded] = []
        complete = asyncio.get_running_loop().create_future()

        def take(delivery: StreamDelivery) -> None:
            change = change_in(delivery.data)
            if delivery.seq <= end and change is not None and delivery.subject != link.stream.shape.subjects.mark:
                older.append(Recorded((self._log.cursor(delivery.seq), change), delivery.at))
            if (delivery.seq >= end or not delivery.pending) and not complete.done():
                complete.set_result(None)

        reader = StreamReader(link.stream, take)
        try:
            # The mark may be one of them.
            count = await reader.open(version + 1, beat=link.beat)
            if count > link.stream.shape.history.entries + 1:
                tail.floor = version + 1  # They exceed the history.
                return
            if count:
                await asyncio.wait([complete, link.connection.ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await reader.close()
        # What was received meanwhile may have pushed out what was known, which leaves a hole.
        if not link.connection.ended.done() and (tail.start, self._log.place.epoch) == (end, epoch):
            tail.prepend(older, version)

    async def stop(self) -> None:
        await self._questions.aclose()
