"""`NatsBus`: the bus of many machines, a stream in NATS JetStream that all processes share and that outlives them.

One task keeps a connection to one of the servers, and another sends waiting changes over it. After an interruption the
log is read from where it was; if that is not possible, listeners are told that anything may have changed.
"""

import asyncio
import itertools
import logging
import os
import random
import ssl
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidings._kit.backoff import Pauses, doubling
from tidings.bus import Entry, History
from tidings.bus.nats.connection import Access, NatsAddress, NatsConnection, addresses, end
from tidings.bus.nats.errors import TROUBLES, Interrupted, Trouble, explain
from tidings.bus.nats.records import NatsRecords
from tidings.bus.nats.stream import LARGEST_PAYLOAD, NatsStream, RecordsShape, StreamShape, Subjects
from tidings.bus.nats.transfer import Log, Past, Sender, StreamLink, join
from tidings.bus.shared import BrokerBus, Engine, Listeners
from tidings.changes import Cursor
from tidings.errors import BusMismatch, BusUnavailable

logger = logging.getLogger(__name__)

_OLDEST: Final = (2, 11)  # The first version that finds a message by its time, which shows what a crash lost.
_DRAIN_SECONDS: Final = 0.5  # Without progress for so long, closing no longer waits for the broker.
_FULL: Final = "Look at its log. After its disk was full, it stores nothing until it is restarted."
_DELAYS: Final = (0.0, *doubling(0.1, 2.0))


class NatsServers:
    """The servers of a cluster, of which one is used at a time: those that the user names, and those that they name."""

    def __init__(self, named: Sequence[NatsAddress], access: Access) -> None:
        self.named = list(named)
        self._access = access
        self._told: dict[str, NatsAddress] = {}
        self._last: NatsAddress | None = None

    def __str__(self) -> str:
        return ", ".join(one.url for one in self.named)

    async def connect(self, seconds: float) -> NatsConnection:
        """Connects to a server, the last one last. Raises `BusUnavailable`, or `BusMismatch` if a bus cannot use it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        told = [one for one in self._told.values() if one not in self.named]
        groups = (random.sample(group, len(group)) for group in (self.named, told))
        servers = sorted(itertools.chain(*groups), key=lambda one: one == self._last)
        failures: list[Trouble] = []
        for tried, address in enumerate(servers):
            # A server that does not answer must leave time for the others.
            share = (deadline - loop.time()) / (len(servers) - tried)
            try:
                connection = await NatsConnection.open(address, self._access, seconds=max(share, 0.05))
            except TROUBLES as error:
                failures.append(error)
                continue
            self._last = address
            self.learn(connection)
            if unfit := _misfit(address.url, connection.info):
                await connection.close()
                raise BusMismatch(unfit)
            return connection
        if len(failures) == 1:
            raise failures[0]
        raise BusUnavailable(f"None of the {len(failures)} brokers can be used. " + " ".join(map(str, failures)))

    def learn(self, connection: NatsConnection) -> None:
        places = [place for place in connection.info.get("connect_urls") or () if isinstance(place, str)]
        found = [one for one in map(connection.address.beside, places) if one is not None]
        known = {(one.host, one.port) for one in self.named}
        self._told = {one.url: one for one in found if (one.host, one.port) not in known}


def _misfit(place: str, info: dict[str, Any]) -> str | None:
    """Returns why a bus cannot use the server with this introduction."""
    version, payload = str(info.get("version", "0")), int(info.get("max_payload", LARGEST_PAYLOAD))
    if tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2]) < _OLDEST:
        wanted = ".".join(map(str, _OLDEST))
        return f"The broker at {place} is nats-server {version}; this bus needs {wanted} or newer. Update it."
    if payload >= LARGEST_PAYLOAD:
        return None
    why = f"accepts messages of at most {payload} bytes, and a change may have {LARGEST_PAYLOAD}"
    return f"The broker at {place} {why}. Raise max_payload in its configuration."


@dataclass(eq=False)
class NatsSession:
    """The bus while it is open: the stream of a `shape` on one of the `servers`."""

    servers: NatsServers
    shape: StreamShape
    records: NatsRecords
    _: KW_ONLY
    listeners: Listeners
    engine: Engine
    buffer: int
    timeout: float

    def __post_init__(self) -> None:
        self._beat = min(max(self.timeout / 5, 0.1), 1.0)
        self._log = Log(self.shape.history, self.listeners.call)
        self._sender = Sender(self.buffer, self.shape.subjects, self._log, self.engine)
        self.waiting = self._sender.waiting
        self._past = Past(self._log)
        self._link: StreamLink | None = None
        self._pauses = Pauses(_DELAYS, below=0.5)
        self._attention = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._link is not None

    async def start(self) -> None:
        """Connects to the broker, and joins the log. Raises `BusUnavailable` or `BusMismatch` if it cannot."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep(await self._connect()))

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        link = self._link
        if link is None:
            return None
        try:
            async with asyncio.timeout(self.timeout):
                return await self._past.since(link, cursor)
        except Exception as error:  # noqa: BLE001 - the answer is not known
            logger.debug("The changes since %s cannot be read: %r", cursor, error)
            return None

    async def stop(self) -> None:
        """Sends what waits as long as that makes progress, and closes the connection."""
        try:
            if self._link is not None:
                await self._sender.drained(_DRAIN_SECONDS)
        finally:
            if self._keeper is not None:
                await end(self._keeper)
            await self._past.stop()
            await self.records.close()

    async def _keep(self, link: StreamLink) -> None:
        """Uses a connection until it ends, and then another one, for ever."""
        while True:
            place = link.connection.address.url
            try:
                await self._use(link)
                self._away(explain(link.connection.ended.result(), place, seconds=self.timeout))
            except Exception:
                logger.exception("The connection to %s is closed after an unexpected error", place)
            finally:
                self._link = None
                self.servers.learn(link.connection)
                await link.close()
            while True:
                await asyncio.sleep(self._pauses.next())
                try:
                    link = await self._connect()
                    break
                except TROUBLES as trouble:
                    self._away(trouble)

    async def _use(self, link: StreamLink) -> None:
        """Sends and receives until the connection ends."""
        stored = self._sender.stored
        self._attention.clear()
        link.connection.ended.add_done_callback(lambda _: self._attention.set())
        # Begins a term of the log, unless somebody has done so since this connection was opened.
        begin_term = partial(link.stream.replace, link.mark, floor=link.mark.floor)
        sending = asyncio.get_running_loop().create_task(self._sender.run(link.connection, begin_term))
        try:
            if not len(self.waiting):
                self.engine.back()
            while not link.connection.ended.done():
                await self._watch(link)
        finally:
            await end(sending)
            self._sender.take_back(everything=False)
            if self._sender.stored > stored:
                self._pauses.reset()

    async def _watch(self, link: StreamLink) -> None:
        """Waits for one beat, or less if there is something to do."""
        try:
            async with asyncio.timeout(link.beat):
                await self._attention.wait()
                self._attention.clear()
        except TimeoutError:
            link.reader.check()
            if self._sender.is_late(self.timeout):
                link.connection.fail(Interrupted(f"it has not stored a change for {self.timeout:g} s. {_FULL}"))
            if self.engine.state.connected:
                self._pauses.reset()
        self.engine.waiting(len(self.waiting))
        try:
            async with asyncio.timeout(self.timeout):
                await link.tend()
        except Exception as error:  # noqa: BLE001 - another connection has to do it
            link.connection.fail(error)

    def _away(self, trouble: Trouble) -> None:
        self.engine.away(trouble)
        self.engine.waiting(len(self.waiting))

    async def _connect(self) -> StreamLink:
        connection: NatsConnection | None = None
        try:
            async with asyncio.timeout(self.timeout):
                connection = await self.servers.connect(self.timeout)
                return await self._join(NatsStream(connection, self.shape))
        except BaseException as error:
            self._link = None
            if connection is not None:
                await connection.close()
            if isinstance(error, Exception):
                place = connection.address.url if connection else str(self.servers)
                raise explain(error, place, seconds=self.timeout) from error
            raise

    async def _join(self, stream: NatsStream) -> StreamLink:
        log = self._log
        found, mark, place = await join(stream, log.known)
        if place is not log.known:
            self._sender.take_back(everything=True)
            if log.begin(place, mark):
                self.engine.lost(log.head)
            self.listeners.head = log.head
        log.learn(mark)
        link = StreamLink(stream, found, mark, log=log, engine=self.engine, beat=self._beat, attend=self._attention.set)
        # Listeners that are called from now on may ask for the past.
        self._link = link
        await link.reader.open(log.place.seq + 1, beat=link.beat, watch=True)
        return link


class NatsBus(BrokerBus):
    """A bus in the NATS servers at `url`, for any number of processes on any number of machines.

    The broker must be nats-server 2.11 or newer, with JetStream. The log is a stream, which survives kill -9 of any
    process and of the broker. If the broker's machine loses power, what was not synced may be lost: by default up to
    two minutes. To prevent that, set `sync_interval: always` in the server's configuration, or `replicas=3` in a
    cluster. A process that had received the lost changes notices the loss, and a new epoch begins.

    While the broker cannot be reached, changes wait in order, and are published when it is back. `publish` then raises
    `BusUnavailable`, which says whether the change is kept, and `since` returns None. (Publishers wait only during the
    first `timeout` seconds of an outage. After that, `publish` raises at once.) Each change of `state` is logged once.

    Messages of the stream cannot be deleted one by one: delete the stream instead, and all processes begin a new one. A
    closed bus may be entered again: the log continues, but listeners must subscribe again.

    Args:
        url: One URL, several separated by commas, or a list. The other servers of a cluster are found automatically. A
            URL may contain a user and a password, or a token. `tls://` requires TLS.
        prefix: Buses with the same prefix share one log. The stream is named after it.
        history: The past changes that are kept for `since`. Their age is measured by the broker's clock.
        replicas: The number of servers in a cluster that keep the log.
        credentials: A NATS credentials file.
        user: Used with `password`, instead of the user and password in the URL.
        password: See `user`.
        token: Used instead of the token in the URL.
        tls: Requires TLS: nothing is sent in the clear.
        buffer: The number of distinct changes that may wait while the broker cannot be reached.
        timeout: The seconds that the broker may take to answer.
    """

    def __init__(
        self,
        url: str | Sequence[str] = "nats://127.0.0.1:4222",
        *,
        prefix: str = "tidings",
        history: History | None = None,
        replicas: int = 1,
        credentials: str | os.PathLike[str] | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        buffer: int = 10_000,
        timeout: float = 5.0,
    ) -> None:
        if replicas < 1:
            raise ValueError(f"A log needs at least 1 replica, not {replicas}")
        access = Access(user, password, token, Path(credentials).absolute() if credentials is not None else None, tls)
        servers = NatsServers(addresses(url), access)
        super().__init__("nats", str(servers), buffer=buffer, timeout=timeout)
        shape = StreamShape(Subjects(prefix), history or History(), replicas)
        self._new_session = lambda: NatsSession(
            servers,
            shape,
            NatsRecords(servers.connect, str(servers), RecordsShape(prefix, replicas), timeout),
            listeners=self._listeners,
            engine=self._engine,
            buffer=buffer,
            timeout=timeout,
        )
