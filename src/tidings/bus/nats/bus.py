"""The bus of many machines: a stream in NATS JetStream, which all processes share, and which outlives them.

May import: `changes`, `errors`, `nats`.

The servers of a NATS cluster, of which one is used at a time.

May import: `errors`.

A `NatsBus` while it is entered: one task keeps a connection to the broker, another sends what waits over it.

While there is no connection, changes wait, and nobody can say what changed since. When there is one again, the log is
read on from where it was; where that cannot be done, every listener is told once that anything may have changed.

May import: `changes`, `errors`.
"""

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

try:
    import nats.errors  # noqa: F401 - first of all, to say what is missing
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "nats":
        raise
    raise ModuleNotFoundError(
        'NatsBus needs the NATS client: pip install "tidings[nats]" (in a clone: pip install ".[nats]")', name="nats"
    ) from error

from tidings.bus import BusState, Entry, History, Listener
from tidings.bus.nats import errors
from tidings.bus.nats.address import Access, NatsAddress, addresses
from tidings.bus.nats.connection import NatsConnection, end
from tidings.bus.nats.errors import TROUBLES, Interrupted, Trouble
from tidings.bus.nats.log import Log, LogJoined, join
from tidings.bus.nats.stream import LARGEST_PAYLOAD, NatsStream, Subjects, payload
from tidings.bus.nats.transfer import Past, Sender, StreamLink
from tidings.bus.shared import NOWHERE, Engine, Listeners, NotStored, SharedBus
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

_OLDEST: Final = (2, 11)
"""The first version that finds a message by its time, which a process needs to see what a crash of the broker took."""


class NatsServers:
    """Those that were named, and those that they name."""

    def __init__(self, named: Sequence[NatsAddress], access: Access) -> None:
        self.named = list(named)
        self._access = access
        self._told: dict[str, NatsAddress] = {}
        self._last: NatsAddress | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, self.named))

    async def connect(self, seconds: float) -> NatsConnection:
        """A connection to one that answers within so many `seconds`. The one that was used last is tried last.

        Raises:
            BusUnavailable: None of them can be used; the error says why.
            BusMismatch: The one that answers cannot be used by a bus.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        servers = self._in_order()
        failures: list[Trouble] = []
        for tried, address in enumerate(servers):
            # One that swallows everything leaves time for the others.
            share = (deadline - loop.time()) / (len(servers) - tried)
            try:
                connection = await NatsConnection.open(address, self._access, seconds=max(share, 0.05))
            except TROUBLES as error:
                failures.append(error)
                continue
            self._last = address
            self.learn(connection)
            return await _fit(connection)
        raise failures[0] if len(failures) == 1 else _none_of(failures)

    def _in_order(self) -> list[NatsAddress]:
        named, told = self.named[:], [one for one in self._told.values() if one not in self.named]
        random.shuffle(named)
        random.shuffle(told)
        return sorted(named + told, key=lambda one: one == self._last)

    def learn(self, connection: NatsConnection) -> None:
        """Take note of the other servers of the cluster that a server has told of."""
        places = [place for place in connection.info.get("connect_urls") or () if isinstance(place, str)]
        found = [one for one in map(connection.address.beside, places) if one is not None]
        known = {(one.host, one.port) for one in self.named}
        self._told = {one.url: one for one in found if (one.host, one.port) not in known}


async def _fit(connection: NatsConnection) -> NatsConnection:
    """`connection`, if its server can carry a bus."""
    place, info = connection.address.url, connection.info
    version, payload = str(info.get("version", "0")), int(info.get("max_payload", LARGEST_PAYLOAD))
    trouble: Trouble | None = None
    if _numbers(version) < _OLDEST:
        trouble = errors.old_server(place, version, ".".join(map(str, _OLDEST)))
    elif payload < LARGEST_PAYLOAD:
        trouble = errors.small_messages(place, payload, LARGEST_PAYLOAD)
    if trouble is not None:
        await connection.close()
        raise trouble
    return connection


def _numbers(version: str) -> tuple[int, ...]:
    """The first two, of something like 2.11.0-preview.1."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


def _none_of(failures: Sequence[Trouble]) -> BusUnavailable:
    return BusUnavailable(f"None of {len(failures)} brokers can be used. " + " ".join(map(str, failures)))


logger = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 0.5
"""How long a bus that is left waits for a broker that does not get on."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class NatsSession:
    """The bus from `start` to `stop`. `tell` tells the listeners."""

    def __init__(
        self,
        servers: NatsServers,
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
        self._link: StreamLink | None = None
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

    async def _keep(self, link: StreamLink) -> None:
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

    async def _use(self, link: StreamLink) -> None:
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

    async def _watch(self, link: StreamLink) -> None:
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

    async def _connect_again(self) -> StreamLink:
        while True:
            if self._failures:
                pause = min(_FIRST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only to spread them
            self._failures += 1
            try:
                return await self._connect()
            except TROUBLES as trouble:
                self._away(trouble)

    async def _connect(self) -> StreamLink:
        connection: NatsConnection | None = None
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

    async def _attach(self, connection: NatsConnection) -> StreamLink:
        """Take part in the log over `connection`, where this process was in it."""
        stream = NatsStream(connection, self._subjects, self._history, self._replicas)
        joined = await join(stream, self.log.known)
        self._adopt(joined)
        link = StreamLink(
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

    def _adopt(self, joined: LogJoined) -> None:
        if joined.resumed:
            return
        self._sender.lost()
        if self.log.begin(joined.place, joined.mark, head=joined.head):
            self._engine.lost(self.log.head)


class NatsBus(SharedBus):
    """A bus in the NATS servers at `url`, for any number of processes on any number of machines.

    All processes whose buses have the same `prefix` share a log, which is a JetStream stream named after it. The log
    survives kill -9 of any process, and of the broker. When the broker's machine loses power, what it had not yet
    synced to its disk may be lost (with NATS' own settings up to two minutes of it; `sync_interval: always` in the
    server's configuration, or `replicas=3` in a cluster, protect against that): a process that had heard of it notices
    that, and a new epoch begins.

    `url` is one URL, several with commas between, or a list; the other servers of a cluster are found by themselves.
    A user and a password, or a token, stand in the URL or are given as `user`, `password` and `token`; `credentials`
    names a file as NATS makes them. With `tls`, or with a URL that begins with `tls://`, nothing is said in the clear.
    `replicas` is how many servers of a cluster keep the log.

    A change is published when the broker has stored it and the listeners of this process were told, which is waited for
    up to `timeout` seconds. While the broker is away, up to `buffer` distinct changes wait, in order, and go out when
    it is back; publishing then raises `BusUnavailable`, which says whether the change is kept. (All who publish during
    one outage wait for its first `timeout` seconds, not each for as many.) To publish the same change again does no
    harm. `since` answers None meanwhile. `state` tells how it stands, and each change of it is logged once.

    The history is a promise about what `since` can answer. Its `age` goes by the broker's clock. The stream itself
    keeps about twice as many entries, and those that are too old until others take their place. It refuses to have
    messages deleted or purged: delete the stream instead, and all who use it begin a new one. What a process has heard
    of stays in its memory, as far as the history goes, so that it answers many who come back at once by itself.

    The broker has to be nats-server 2.11 or newer, with JetStream. A bus may be entered again after it was left: the
    log goes on, the listeners have to come again.
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
        super().__init__()
        if replicas < 1:
            raise ValueError(f"A log has at least 1 replica, not {replicas}")
        if buffer < 1:
            raise ValueError(f"There has to be room for at least 1 change, not {buffer}")
        if not timeout > 0:
            raise ValueError(f"The broker is waited for so many seconds, more than 0, not {timeout}")
        access = Access(user, password, token, Path(credentials).absolute() if credentials is not None else None, tls)
        self._servers = NatsServers(addresses(url), access)
        self._subjects = Subjects(prefix)
        self._history = history or History()
        self._replicas = replicas
        self._buffer = buffer
        self._timeout = timeout
        self._listeners = Listeners()
        self._engine = Engine("nats", str(self._servers))
        self._head = NOWHERE
        self._session: NatsSession | None = None

    @property
    def head(self) -> Cursor:
        """The newest place in the log that this process knows of; in no log before the bus was first entered."""
        return self._session.log.head if self._session else self._head

    @property
    def state(self) -> BusState:
        """Whether the broker answers, since when, and how many changes wait for it."""
        return self._session.state if self._session else self._engine.state

    async def publish(self, change: Change) -> Cursor:
        """Append `change`, in place of an earlier equal one, and say where it stands once the broker has stored it.

        If this is cancelled, the change may be in the log or not, or still get there.

        Raises:
            BusUnavailable: The broker has not stored it in time. The error says whether it is kept, to be sent later.
            BusMismatch: The stream has become one that is not a log; the error says the same.
            InvalidUri: The change names a resource by a text that cannot be sent.
        """
        return await self._entered().publish(change)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """What changed after `cursor`, or None if that cannot be known, also because the broker is away."""
        return await self._entered().since(cursor)

    async def _open(self) -> None:
        session = NatsSession(
            self._servers,
            subjects=self._subjects,
            history=self._history,
            replicas=self._replicas,
            buffer=self._buffer,
            timeout=self._timeout,
            tell=self._listeners.call,
            engine=self._engine,
        )
        await session.start()
        self._session = session

    async def _close(self) -> None:
        """Wait for a moment until what waits is sent, and let go of the broker."""
        session = self._session
        if session is None:
            return
        try:
            await session.stop()
        finally:
            self._head, self._session = session.log.head, None
            self._listeners.clear()

    def _entered(self) -> NatsSession:
        if self._session is None:
            raise BusUnavailable(f"The bus at {self._servers} is not open: use it within its `async with`.")
        return self._session
