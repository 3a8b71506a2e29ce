"""What changed since a place in the log of a `NatsBus`.

First the broker is asked how far the log has got, so that what another process has just published is not missed; those
who ask at the same time share the question. Then this process hears everything up to there, and knows the answer,
unless the place is older than what it remembers: then that part of the log is read, once for all who ask.

May import: `changes`.
"""

import asyncio
from collections.abc import Sequence

from tidings.bus import Entry, History
from tidings.bus._nats_errors import Interrupted
from tidings.bus._nats_link import Link
from tidings.bus._nats_log import Log, Recorded
from tidings.bus._nats_reader import Delivery, Reader
from tidings.bus._nats_stream import Found
from tidings.bus._nats_subjects import change_in
from tidings.bus._nats_wire import end
from tidings.changes import Cursor


class Past:
    """Knows what changed in `log`, of which `history` says how much is kept."""

    def __init__(self, log: Log, history: History) -> None:
        self._log = log
        self._history = history
        self._turn = asyncio.Lock()
        self._question: asyncio.Task[Found] | None = None
        self._questions: set[asyncio.Task[Found]] = set()

    async def since(self, link: Link, cursor: Cursor) -> Sequence[Entry] | None:
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

    async def _up_to_date(self, link: Link) -> Found:
        """How it stands with the log, once everything up to there was heard."""
        if self._question is None:
            self._question = asyncio.get_running_loop().create_task(self._ask(link))
            self._questions.add(self._question)
            self._question.add_done_callback(self._answered)
        return await asyncio.shield(self._question)

    async def _ask(self, link: Link) -> Found:
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

    def _answered(self, question: asyncio.Task[Found]) -> None:
        self._questions.discard(question)
        if not question.cancelled():
            # If it failed, those who asked know; they may all have given up.
            question.exception()

    async def _remember(self, link: Link, version: int) -> None:
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

        reader = Reader(link.connection, link.stream, take)
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
