"""The connection of a session to one server: its `ConnectionSpec`, and the client that is made of it.

The client and the SDK are imported in a thread when the first server connects: a session starts without them.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidings._kit.bounded_json import dumps, mapped
from tidings.client.config import Backoff, CacheLimits, ClientConfig, Timeouts
from tidings.client.masking import shown_arguments
from tidings.client.states import Signal, State
from tidings.errors import NotConnected, TidingsError
from tidings.inspector.records import ErrorData
from tidings.inspector.view.error_report import error_data
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.client.targets import Target
    from tidings.client.transports.tap import Tap
    from tidings.inspector.catalog.entry import ServerEntry
    from tidings.inspector.recorder import KnownServer, Recorder
    from tidings.inspector.wire_recorder import MakeRecord

# A client that is inspected notices a lost server within two seconds and never gives up. It does not check the results
# of tools: the inspector shows them beside their problems.
CONFIG: Final = ClientConfig(
    timeouts=Timeouts(ping=2.0, ping_interval=1.0),
    backoff=Backoff(delays=(0.5, 1.0), tries=None),
    cache=CacheLimits(entries=1_000, size=32 * 2**20),
    concurrency=32,
    history=0,
    check_output=False,
)
_importing: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """Everything a session needs to connect to a server. Made of a catalog's entry, or by hand."""

    name: str  #: Unique in the session.
    target: object  #: A target of `tidings.connect`: a URL, a command, `file.json#name`, a server object.
    era: str = "auto"
    headers: Mapping[str, str] | None = None
    token: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None  #: The entry's own. The intervals of liveness checks are always those of `CONFIG`.
    entry: "ServerEntry | None" = None  #: The catalog's entry, if it was made of one.

    @classmethod
    def of(cls, entry: "ServerEntry", environ: Mapping[str, str]) -> "ConnectionSpec":
        """Makes the spec of a catalog's entry. `${NAME}` is looked up in `environ` when it connects."""
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
        """Parses the target. Raises `BadTarget` if it is not valid."""
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
        """Makes a client that passes the server's questions to the user."""
        from tidings.client.live import LiveClient  # noqa: PLC0415 - imports the SDK
        from tidings.client.pending import ASK  # noqa: PLC0415 - imports the SDK
        from tidings.client.responders import roots_responder  # noqa: PLC0415 - imports the SDK
        from tidings.client.wiring import ClientWiring  # noqa: PLC0415 - imports the SDK

        ping, interval = CONFIG.timeouts.ping, CONFIG.timeouts.ping_interval
        timeouts = replace(self.timeouts or CONFIG.timeouts, ping=ping, ping_interval=interval)
        wiring = ClientWiring(
            target,
            era=self.era,
            config=replace(CONFIG, timeouts=timeouts),
            answer=lambda _: ASK,
            roots=None if self.roots is None else roots_responder(self.roots),
            log_level=self.log_level,
            tap=tap,
        )
        return LiveClient(wiring)

    @property
    def shown(self) -> dict[str, Any]:
        """The spec as JSON, without its secrets."""
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


@dataclass(eq=False)
class ServerLink:
    """One server's current client, and the recorder of its events."""

    spec: ConnectionSpec
    view: ServerView
    record: "MakeRecord"
    next_id: Callable[[], str]
    client: "LiveClient | None" = None
    recorder: "Recorder | None" = None
    _target: "Target | None" = None
    _known: "KnownServer | None" = None
    _connecting: asyncio.Task[None] | None = None
    _made: asyncio.Event = field(default_factory=asyncio.Event)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    def mask(self, value: Any) -> Any:
        """Returns a JSON value without the secrets of the server; the same object if it has none."""
        if self._target is None or not self._target.secrets or value is None:
            return value
        text = value if isinstance(value, str) else dumps(value)
        if "\\" not in text and not any(secret in text for secret in self._target.secrets):
            return value
        clean = self._target.clean
        return mapped(value, lambda each: clean(each) if isinstance(each, str) else each)

    def client_now(self) -> "LiveClient":
        """Returns the client. Raises `NotConnected` if there is none."""
        if self.client is None:
            raise NotConnected(f"Not connected to {self.spec.name}.", server=self.spec.name)
        return self.client

    async def client_soon(self) -> "LiveClient":
        """Returns the client; waits for it if it is being made. Raises `NotConnected` if there is none."""
        if self._connecting is not None and not self._connecting.done():
            await self._made.wait()
        return self.client_now()

    async def client_for(self, request_id: str, *, aside: bool = False) -> "LiveClient":
        """Returns the client, whose next request from this task is recorded under this id."""
        client = await self.client_soon()
        if self.recorder is not None:
            self.recorder.expect(request_id, aside=aside)
        return client

    def error_data(self, error: BaseException, method: str | None = None) -> ErrorData:
        """Returns an error as records keep it."""
        return error_data(error, is_command=self.recorder is not None and self.recorder.is_command, method=method)

    def use(self, spec: ConnectionSpec) -> None:
        """Makes the next client of another spec."""
        self.spec = spec

    def start(self) -> None:
        """Connects in the background."""
        if self._connecting is None or self._connecting.done():
            self._settled.clear()
            if self.client is None:
                self._made.clear()
                self.record("state", {"state": State.CONNECTING.value, "signal": Signal.CONNECT.value})
            self._run(self._connect())

    async def settle(self) -> None:
        """Waits for the first outcome: connected, with its lists loaded, or failed."""
        await self._settled.wait()

    async def disconnect(self) -> None:
        """Ends the connection and its subscriptions."""
        await self._stop_connecting()
        if self.client is not None:
            await self.client.disconnect()

    async def retry_now(self) -> None:
        """Tries at once to connect, instead of waiting for the next attempt."""
        await self._stop_connecting()
        if self.client is None:
            self.start()
        else:
            self._settled.clear()
            self._run(self._reconnect(self.client))
        await self.settle()

    async def aclose(self) -> None:
        """Ends the connection. Another client makes the next one."""
        await self._stop_connecting()
        if self.client is not None:
            await self.client.aclose()
        self.client = None

    def _run(self, connecting: Coroutine[Any, Any, None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() and self.client is None:  # There is no client to report it.
                self.record("state", {"state": State.DISCONNECTED.value, "signal": Signal.DISCONNECT.value})
            self._made.set()
            self._settled.set()

        self._connecting = asyncio.create_task(connecting, name=f"connecting to {self.spec.name}")
        self._connecting.add_done_callback(ended)

    async def _connect(self) -> None:
        try:
            try:
                client = self.client or await self._make_client()
            finally:
                self._made.set()
            await client.connect()
        except Exception as error:  # noqa: BLE001 - the view shows it, whatever it is
            if self.view.error is None:
                state, signal = State.DISCONNECTED.value, Signal.GIVE_UP.value
                self.record("state", {"state": state, "signal": signal, "error": self.error_data(error)})

    async def _reconnect(self, client: "LiveClient") -> None:
        with contextlib.suppress(TidingsError):  # The view shows it.
            await client.reconnect()

    async def _make_client(self) -> "LiveClient":
        await asyncio.to_thread(_import_client)
        from tidings.client.events import StateChanged  # noqa: PLC0415 - imports the SDK
        from tidings.inspector.recorder import KnownServer, Recorder  # noqa: PLC0415 - imports the SDK

        def state_changed(event: StateChanged) -> None:
            if event.new in (State.ERROR, State.DISCONNECTED):
                self._settled.set()  # A connection that succeeds is settled when its lists are loaded.

        target = self._target = self.spec.parsed()
        known = self._known = self._known or KnownServer(self.record, self.view)
        known.wire.start_client()
        self.client = client = self.spec.client(target, known.wire)
        self.recorder = Recorder(client, known, self.next_id, self.mask)
        client.on(StateChanged, state_changed)
        return client

    async def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)


def _import_client() -> None:
    """Imports what every connection needs. The first time takes most of a second."""
    with _importing:
        if "tidings.inspector.recorder" in sys.modules:
            return
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()  # Imports leave no garbage; looking for some takes an eighth of the time.
        sys.setswitchinterval(0.0005)  # Others run meanwhile: the page may already be in use.
        try:
            import_module("tidings.client.live")
            import_module("tidings.inspector.recorder")
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()
