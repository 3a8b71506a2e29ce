"""A `NatsBus` while it is entered: one task keeps a connection to the broker, another sends what waits over it.

While there is no connection, changes wait, and nobody can say what changed since. When there is one again, the log is
read on from where it was; where that cannot be done, every listener is told once that anything may have changed.

May import: `changes`, `errors`.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidings.bus import BusState, Entry, History, Listener
from tidings.bus import _nats_errors as errors
from tidings.bus._engine import Engine
from tidings.bus._nats_connection import Connection
from tidings.bus._nats_errors import TROUBLES, Interrupted, Trouble
from tidings.bus._nats_join import Joined, join
from tidings.bus._nats_link import Link
from tidings.bus._nats_log import Log
from tidings.bus._nats_past import Past
from tidings.bus._nats_sender import Sender
from tidings.bus._nats_servers import Servers
from tidings.bus._nats_stream import Stream
from tidings.bus._nats_subjects import Subjects, payload
from tidings.bus._nats_wire import end
from tidings.bus._waiting import NotStored
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

logger = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 0.5
"""How long a bus that is left waits for a broker that does not get on."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class Session:
    """The bus from `start` to `stop`. `tell` tells the listeners."""

    def __init__(
        self,
        servers: Servers,
        *,
        subjects: Subjects,
        history: History,
        replicas: int,
        buffer: int,
        timeout: float,
        tell: Listener,
        engine: Engine,
    ) -> None:
        self._servers = servers
        self._subjects = subjects
        self._history = history
        self._replicas = replicas
        self._timeout = timeout
        self._beat = min(max(timeout / 5, 0.1), 1.0)
        self._engine = engine
        self.log = Log(history, tell)
        self._sender = Sender(buffer, subjects, self.log, engine)
        self._past = Past(self.log, history)
        self._link: Link | None = None
        self._failures = 0
        self._away_since = 0.0
        self._trouble: Trouble | None = None
        self._attention = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def state(self) -> BusState:
        """How it stands with the broker."""
        return replace(self._engine.state, waiting=len(self._sender.waiting))

    async def start(self) -> None:
        """Find the broker and the log.

        Raises:
            BusUnavailable: The broker cannot be used.
            BusMismatch: It holds a stream of this name that is not a log.
        """
        link = await self._connect()
        self._engine.entered()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(link))

    async def publish(self, change: Change) -> Cursor:
        payload(change)
        try:
            return await self._sender.waiting.put(change, self._patience())
        except NotStored as error:
            raise self._not_stored(kept=error.kept) from None

    def _patience(self) -> float:
        """Seconds for which a publisher waits. While the broker is away they count for all together."""
        if self._link is not None:
            return self._timeout
        return max(0.0, self._away_since + self._timeout - asyncio.get_running_loop().time())

    def _not_stored(self, *, kept: bool) -> Trouble:
        kind = type(self._trouble) if self._trouble else BusUnavailable
        why = self._trouble or f"The broker at {self._servers} did not store it within {self._timeout:g} s."
        what = (
            "it is kept, and goes out when that is over" if kept else "it is not kept: too many wait. Publish it again"
        )
        return kind(f"{why} As for the change, {what}.")

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        link = self._link
        if link is None:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                return await self._past.since(link, cursor)
        except Exception as error:  # noqa: BLE001 - whatever it was, the answer is not known
            logger.debug("cannot say what changed since %s: %r", cursor, error)
            return None

    async def stop(self) -> None:
        """Send what waits, if that goes on, and let go of the broker."""
        try:
            if self._link is not None:
                await self._sender.drained(_DRAIN_SECONDS)
        finally:
            if self._keeper is not None:
                await end(self._keeper)
            await self._past.stop()
            self._sender.waiting.refuse(
                lambda: BusUnavailable(f"The bus at {self._servers} was left: it is not stored.")
            )
            self._engine.left(self._sender.waiting.clear())

    async def _keep(self, link: Link) -> None:
        """Have a connection, always."""
        while True:
            try:
                await self._use(link)
                reason = link.connection.ended.result()
                self._away(errors.explain(reason, link.connection.address.url, seconds=self._timeout))
            except Exception:
                # Whatever it is, to hear no more and not to say so would be worse.
                logger.exception("the connection to %s is given up", link.connection.address)
            finally:
                self._link = None
                self._servers.learn(link.connection)
                await link.close()
            link = await self._connect_again()

    async def _use(self, link: Link) -> None:
        """Send and hear until the connection ends."""
        self._trouble = None
        stored = self._sender.stored
        self._attention.clear()
        link.connection.ended.add_done_callback(lambda _: self._attention.set())
        sending = asyncio.get_running_loop().create_task(self._sender.run(link.connection))
        try:
            if not len(self._sender.waiting):
                self._engine.back()
            while not link.connection.ended.done():
                await self._watch(link)
        finally:
            await end(sending)
            self._sender.interrupted()
            if self._sender.stored > stored:
                self._failures = 0

    async def _watch(self, link: Link) -> None:
        """One beat, or less if there is something to do."""
        try:
            async with asyncio.timeout(link.beat):
                await self._attention.wait()
                self._attention.clear()
        except TimeoutError:
            link.check()
            if self._sender.is_late(self._timeout):
                link.connection.fail(Interrupted(f"it has not acknowledged a change for {self._timeout:g} s."))
            if self._engine.connected:
                self._failures = 0
        self._engine.waiting(len(self._sender.waiting))
        try:
            async with asyncio.timeout(self._timeout):
                await link.tend()
        except Exception as error:  # noqa: BLE001 - another connection has to do it
            link.connection.fail(error)

    def _away(self, trouble: Trouble) -> None:
        if self._trouble is None:
            self._away_since = asyncio.get_running_loop().time()
        self._trouble = trouble
        self._engine.away(str(trouble))
        self._engine.waiting(len(self._sender.waiting))

    async def _connect_again(self) -> Link:
        while True:
            if self._failures:
                pause = min(_FIRST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only to spread them
            self._failures += 1
            try:
                return await self._connect()
            except TROUBLES as trouble:
                self._away(trouble)

    async def _connect(self) -> Link:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._servers.connect(self._timeout)
                return await self._attach(connection)
        except BaseException as error:
            self._link = None
            if connection is not None:
                await connection.close()
            if isinstance(error, Exception):
                place = connection.address.url if connection else str(self._servers)
                raise errors.explain(error, place, seconds=self._timeout) from error
            raise

    async def _attach(self, connection: Connection) -> Link:
        """Take part in the log over `connection`, where this process was in it."""
        stream = Stream(connection, self._subjects, self._history, self._replicas)
        joined = await join(stream, self.log.known)
        self._adopt(joined)
        link = Link(
            connection,
            stream,
            joined,
            subjects=self._subjects,
            log=self.log,
            engine=self._engine,
            beat=self._beat,
            attend=self._attention.set,
        )
        # What is heard from now on may make others ask.
        self._link = link
        await link.open()
        return link

    def _adopt(self, joined: Joined) -> None:
        if joined.resumed:
            return
        self._sender.lost()
        if self.log.begin(joined.place, joined.mark, head=joined.head):
            self._engine.lost(self.log.head)
