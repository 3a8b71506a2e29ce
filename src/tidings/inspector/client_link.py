"""The connection to one server of a session: made, ended, made anew, and where it stands told as records.

The client and the SDK are imported when the first server is connected to, in a thread: a session is there before them.

How a server of a session is connected to: the target, the options, and what of them may be shown.

What must not be shown of what goes to a server and comes from it: the secrets that its entry has.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidings._kit.bounded_json import dumps
from tidings.client.config import Backoff, CacheLimits, ClientConfig, Timeouts
from tidings.client.masking import shown_arguments
from tidings.client.states import Signal, State
from tidings.errors import NotConnected, TidingsError
from tidings.inspector.records import ErrorData, SessionLimits
from tidings.inspector.view.error_report import seen
from tidings.inspector.view.view import Clock, ServerView
from tidings.inspector.watches import Watches

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.events import StateChanged
    from tidings.client.live import LiveClient
    from tidings.client.targets import Target
    from tidings.client.transports.tap import Tap
    from tidings.inspector.catalog.entry import ServerEntry
    from tidings.inspector.recorder import Recorder
    from tidings.inspector.wire_recorder import Tell


CONFIG: Final = ClientConfig(
    timeouts=Timeouts(ping=2.0, ping_interval=1.0),
    backoff=Backoff(delays=(0.5, 1.0), tries=None),
    cache=CacheLimits(entries=1_000, size=32 * 2**20),
    concurrency=32,
    history=0,
    check_output=False,
)
"""A client that is looked at: whether its server is there is known within two seconds, and it never gives up. What a
tool returned is shown as it is, beside what is wrong with it, which is found out within bounds.
"""


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """What a session needs to connect to a server. Made of a catalog's entry, or by hand."""

    name: str
    """Unique in the session."""
    target: object
    """What `tidings.connect` takes: a URL, a command, `file.json#name`, a server object."""
    era: str = "auto"
    headers: Mapping[str, str] | None = None
    token: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None
    """The entry's own; how often it is asked whether it is there stays as it is."""
    entry: "ServerEntry | None" = None
    """The catalog's entry, if it was made of one."""

    @classmethod
    def of(cls, entry: "ServerEntry", environ: Mapping[str, str]) -> "ConnectionSpec":
        """How to connect to what a catalog's entry says. `${NAME}` is looked up in `environ`, when it is connected."""
        return cls(
            entry.name,
            entry,
            era=entry.era,
            environ=environ,
            roots=entry.roots or None,
            log_level=cast("LoggingLevel", entry.log_level or "info"),
            timeouts=replace(CONFIG.timeouts, **entry.timeouts.raw()),
            entry=entry,
        )

    def parsed(self) -> "Target":
        """The target, understood.

        Raises:
            BadTarget: It cannot be.
        """
        from tidings.client.targets import parse_target, target_of  # noqa: PLC0415 - imports the SDK

        if self.entry is not None:
            return target_of(self.entry.resolved(self.environ))
        return parse_target(
            self.target,
            headers=self.headers,
            token=self.token,
            auth=None,
            env=self.env,
            cwd=self.cwd,
            environ=self.environ,
        )

    def client(self, target: "Target", tap: "Tap") -> "LiveClient":
        """A client of this target, which asks the user what the server wants to know."""
        from tidings.client.live import LiveClient  # noqa: PLC0415 - imports the SDK
        from tidings.client.questions import ASK  # noqa: PLC0415 - imports the SDK
        from tidings.client.responders import roots_responder  # noqa: PLC0415 - imports the SDK
        from tidings.client.wiring import ClientWiring  # noqa: PLC0415 - imports the SDK

        config = CONFIG
        if self.timeouts is not None:
            quick = replace(self.timeouts, ping=CONFIG.timeouts.ping, ping_interval=CONFIG.timeouts.ping_interval)
            config = replace(CONFIG, timeouts=quick)
        wiring = ClientWiring(
            target,
            era=self.era,
            config=config,
            answer=lambda _: ASK,
            roots=None if self.roots is None else roots_responder(self.roots),
            log_level=self.log_level,
            tap=tap,
        )
        return LiveClient(wiring)

    @property
    def shown(self) -> dict[str, Any]:
        """What it is, without its secrets."""
        if self.entry is not None:
            return {"name": self.name, **self.entry.shown()}
        target: Any = self.target
        if isinstance(target, str):
            target = shown_arguments([target])[0][0]
        elif isinstance(target, list | tuple):
            target = shown_arguments([str(word) for word in cast("Sequence[object]", target)])[0]
        else:
            target = type(target).__name__
        return {"name": self.name, "target": target, "tidings": {"era": self.era}}


class Mask:
    """Called with a JSON value, gives the same without the secrets."""

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._clean: Callable[[str], str] = str

    def hide(self, secrets: frozenset[str], clean: Callable[[str], str]) -> None:
        """From now on, these; `clean` takes them out of a text."""
        self._secrets, self._clean = secrets, clean

    def __call__(self, value: Any) -> Any:
        """The value without secrets; the same object if it has none."""
        if not self._secrets or value is None:
            return value
        text = value if isinstance(value, str) else dumps(value)
        if "\\" not in text and not any(secret in text for secret in self._secrets):
            return value
        return self._masked(value)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, Mapping):
            return {self._clean(str(key)): self._masked(each) for key, each in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._masked(each) for each in cast("list[Any]", value)]
        return value


_GIVING_WAY: Final = 0.0005
"""Seconds after which the thread that imports lets others have their turn: somebody is looking at the page by then."""
_importing: Final = threading.Lock()


class ServerLink:
    """One server's client, whichever it is at the moment, and the observer that tells what it does."""

    def __init__(
        self,
        opening: ConnectionSpec,
        view: ServerView,
        tell: "Tell",
        next_id: Callable[[], str],
        reread: Callable[[str], Awaitable[object]],
        *,
        limits: SessionLimits,
        clock: Clock,
    ) -> None:
        """Not connected yet.

        Args:
            opening: How to connect.
            view: What is known about the server: read only.
            tell: Takes records.
            next_id: An id for one more request.
            reread: Reads a resource once, and tells if it could not be.
            limits: How much is kept of what is seen.
            clock: What time it is.
        """
        self.opening = opening
        self.mask = Mask()
        self.watches = Watches(self.client_now, reread)
        self.client: LiveClient | None = None
        self.observer: Recorder | None = None
        self._view = view
        self._tell = tell
        self._next_id = next_id
        self._limits = limits
        self._clock = clock
        self._connecting: asyncio.Task[None] | None = None
        self._made = asyncio.Event()
        self._settled = asyncio.Event()

    def client_now(self) -> "LiveClient":
        """The client.

        Raises:
            NotConnected: There is none.
        """
        if self.client is None:
            raise NotConnected(f"Not connected to {self.opening.name}.", server=self.opening.name)
        return self.client

    async def client_soon(self) -> "LiveClient":
        """The client; if it is about to be made, as soon as it is.

        Raises:
            NotConnected: There is none, and nobody makes one.
        """
        if self._connecting is not None and not self._connecting.done():
            await self._made.wait()
        return self.client_now()

    def seen(self, error: BaseException, method: str | None = None) -> ErrorData:
        """An error as records keep it."""
        is_command = self.observer is not None and self.observer.is_command
        return seen(error, is_command=is_command, method=method)

    def start(self) -> None:
        """Connect in the background."""
        if self._connecting is None or self._connecting.done():
            self._settled.clear()
            if self.client is None:
                self._made.clear()
                self._tell("state", {"state": State.CONNECTING.value, "signal": Signal.CONNECT.value})
            self._go(self._connect())

    async def settle(self) -> None:
        """Wait for the first outcome: it is connected and its lists are there, or it is known why not."""
        await self._settled.wait()

    async def disconnect(self) -> None:
        """End the connection. Subscriptions end with it."""
        await self._stop_connecting()
        await self.watches.aclose()
        if self.client is not None:
            await self.client.disconnect()

    async def hurry(self) -> None:
        """Try again now what waits to be tried again, or was given up."""
        await self._stop_connecting()
        if self.client is None:
            self.start()
        else:
            self._settled.clear()
            self._go(self._reconnect(self.client))
        await self._settled.wait()

    async def aclose(self) -> None:
        """End the connection for good. The next is made by another client."""
        await self._stop_connecting()
        await self.watches.aclose()
        if self.client is not None:
            await self.client.aclose()
        self.client = None

    def _go(self, connecting: Coroutine[Any, Any, None]) -> None:
        task = self._connecting = asyncio.create_task(connecting, name=f"connecting to {self.opening.name}")
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Connecting has ended, perhaps before it began."""
        if task.cancelled() and self.client is None:  # There is none to say it.
            self._tell("state", {"state": State.DISCONNECTED.value, "signal": Signal.DISCONNECT.value})
        self._made.set()
        self._settled.set()

    async def _connect(self) -> None:
        try:
            try:
                client = self.client or await self._make_client()
            finally:
                self._made.set()
            await client.connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says it
            if self._view.error is None:
                failed = {"state": State.DISCONNECTED.value, "signal": Signal.GIVE_UP.value, "error": self.seen(error)}
                self._tell("state", failed)

    async def _reconnect(self, client: "LiveClient") -> None:
        with contextlib.suppress(TidingsError):  # The view says it.
            await client.reconnect()

    async def _make_client(self) -> "LiveClient":
        await asyncio.to_thread(_import_client)
        from tidings.changes import ResourceUpdated  # noqa: PLC0415 - imports the SDK
        from tidings.client.events import StateChanged  # noqa: PLC0415 - likewise
        from tidings.inspector.recorder import Recorder  # noqa: PLC0415 - likewise

        target = self.opening.parsed()
        self.mask.hide(target.secrets, target.clean)
        if self.observer is None:
            limits, clock = self._limits, self._clock
            self.observer = Recorder(self._tell, self._next_id, limits=limits, clock=clock, mask=self.mask)
        self.client = client = self.opening.client(target, self.observer.wire)
        self.observer.attach(client)
        client.on(StateChanged, self._state_changed)
        client.on(ResourceUpdated, self.watches.updated)
        return client

    def _state_changed(self, event: "StateChanged") -> None:
        if event.new in (State.ERROR, State.DISCONNECTED):
            self._settled.set()  # Connected, it is settled when the lists are there.
        if event.new is State.CONNECTED and self.client is not None:
            for uri in self.client.subscriptions:
                self.watches.watch(uri)

    async def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)


def _import_client() -> None:
    """Import what every connection needs: most of a second the first time, nothing from then on."""
    with _importing:
        if "tidings.inspector.recorder" in sys.modules:
            return
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()  # Nothing of what is imported is garbage; looking for some takes an eighth of the time.
        sys.setswitchinterval(_GIVING_WAY)
        try:
            import_module("tidings.client.live")
            import_module("tidings.inspector.recorder")
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()
