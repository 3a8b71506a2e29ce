"""A connection of a `NatsBus` in use: it brings what is in the stream to the log of this process.

May import: `changes`.
"""

import logging
from collections.abc import Callable

from tidings.bus._engine import Engine
from tidings.bus._nats_connection import Connection
from tidings.bus._nats_errors import Interrupted
from tidings.bus._nats_join import Joined
from tidings.bus._nats_log import Log
from tidings.bus._nats_reader import Delivery, Reader
from tidings.bus._nats_stream import Stream
from tidings.bus._nats_subjects import Subjects, change_in

logger = logging.getLogger(__name__)


class Link:
    """Reads on where `log` is, with a sign of life from the broker every `beat` seconds.

    `attend` is called when there is something to `tend`.
    """

    def __init__(
        self,
        connection: Connection,
        stream: Stream,
        joined: Joined,
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
        self._reader = Reader(connection, stream, self._heard)
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
