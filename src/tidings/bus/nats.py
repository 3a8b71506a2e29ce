"""The bus of many machines: a stream in NATS JetStream, which all processes share, and which outlives them.

May import: `changes`, `errors`, `nats`.
"""

import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from tidings.bus import BusState, Entry, History, Listener
from tidings.bus._engine import Engine
from tidings.bus._listeners import Listeners
from tidings.bus._shared import NOWHERE, SharedBus
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

try:
    from tidings.bus._nats_address import Access, addresses
    from tidings.bus._nats_servers import Servers
    from tidings.bus._nats_session import Session
    from tidings.bus._nats_subjects import Subjects
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "nats":
        raise
    raise ModuleNotFoundError(
        'NatsBus needs the NATS client: pip install "tidings[nats]" (in a clone: pip install ".[nats]")', name="nats"
    ) from error


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
        self._servers = Servers(addresses(url), access)
        self._subjects = Subjects(prefix)
        self._history = history or History()
        self._replicas = replicas
        self._buffer = buffer
        self._timeout = timeout
        self._listeners = Listeners()
        self._engine = Engine("nats", str(self._servers))
        self._head = NOWHERE
        self._session: Session | None = None

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
        session = Session(
            self._servers,
            subjects=self._subjects,
            history=self._history,
            replicas=self._replicas,
            buffer=self._buffer,
            timeout=self._timeout,
            tell=self._listeners.tell,
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

    def _entered(self) -> Session:
        if self._session is None:
            raise BusUnavailable(f"The bus at {self._servers} is not open: use it within its `async with`.")
        return self._session
