"""`InspectedServer`: one server of a session, and everything that can be done with it; `ConnectionSpec`: the way to it.

What is known about it is in `view`, a `ServerView`. Results of actions appear there, as records: connecting never
raises for a server's fault, and requests return an id at once, with which the view has the result. All of it runs on
the event loop of its session. The client and the SDK are imported in a thread when the first server connects: a session
starts without them.
"""

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tidings._kit.bounded_json import dumps, mapped
from tidings.client.config import Backoff, CacheLimits, ClientConfig, Signal, State, Timeouts
from tidings.errors import NotConnected, TidingsError
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.records import LIVENESS_CHECKS
from tidings.inspector.view.error_report import error_view
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.client.pending import Responder
    from tidings.client.sign_in import SigningIn
    from tidings.client.targets import Target
    from tidings.client.transports.tap import Tap
    from tidings.inspector.recorder import KnownServer, MakeRecord, Recorder

# A client that is inspected notices a lost server within two seconds and never gives up. After half a minute it tries
# less often, so that a kept session is not full of its tries. It does not check the results of tools: the inspector
# shows them beside their problems.
CONFIG: Final = ClientConfig(
    timeouts=Timeouts(ping=2.0, ping_interval=1.0),
    backoff=Backoff(delays=(0.5, *[1.0] * 30, 5.0), tries=None),
    cache=CacheLimits(entries=1_000, size=32 * 2**20),
    concurrency=32,
    history=0,
    check_output=False,
)
_importing: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """Everything that a session needs to connect to a server. Made from a catalog entry, or by hand."""

    name: str  #: Unique in the session.
    target: object  #: A catalog entry, or a target of `tidings.connect`, such as a server object.
    era: str = "auto"
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    roots: Sequence[str | Path] | None = None
    log_level: "LoggingLevel | None" = "info"
    timeouts: Timeouts | None = None  #: The entry's own. The intervals of liveness checks are always those of `CONFIG`.

    @classmethod
    def of(cls, entry: ServerEntry, environ: Mapping[str, str]) -> "ConnectionSpec":
        """Makes a spec from a catalog entry. `${NAME}` is looked up in `environ` when the session connects."""
        return cls(
            entry.name,
            entry,
            era=entry.era,
            environ=environ,
            roots=entry.roots or None,
            log_level=cast("LoggingLevel", entry.log_level or "info"),
            timeouts=replace(CONFIG.timeouts, **entry.timeouts),
        )

    def parsed(self) -> "Target":
        """Parses the address or the command. Raises `BadTarget` if it is not valid."""
        from tidings.client.targets import parse_target, target_of  # noqa: PLC0415 - imports the SDK

        if isinstance(self.target, ServerEntry):
            return target_of(self.target.resolved(self.environ))
        return parse_target(self.target, environ=self.environ)

    def client(self, target: "Target", tap: "Tap", answer: "Responder") -> "LiveClient":
        """Makes a client. A setting names the folders that the server may use. `answer` answers other questions."""
        from tidings.client.wiring import connect  # noqa: PLC0415 - imports the SDK

        own = CONFIG.timeouts
        timeouts = replace(self.timeouts or own, ping=own.ping, ping_interval=own.ping_interval)
        given: Any = {"config": replace(CONFIG, timeouts=timeouts), "era": self.era, "log_level": self.log_level}
        return connect(target, **given, answer=answer, roots=self.roots or (), tap=tap)

    @property
    def shown(self) -> dict[str, Any]:
        if isinstance(self.target, ServerEntry):
            derived = {"derived": True} if self.target.literal else {}  # The server's own name is better than this one.
            return {"name": self.name, **derived, **self.target.shown()}
        return {"name": self.name, "target": type(self.target).__name__, "tidings": {"era": self.era}}


def import_client() -> None:
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


Action = Callable[["LiveClient"], Awaitable[Any]]


class InspectedServer:
    """One server of a session. `Session.add` creates it."""

    def __init__(self, spec: ConnectionSpec, view: ServerView, record: "MakeRecord") -> None:
        self.view = view  #: Everything that is known about it: read only.
        self.client: LiveClient | None = None  #: For what is not offered here. None before the first `connect`.
        self.rules: Responder | None = None  #: Answers questions of the server before the user is asked.
        self.rules_given: list[Any] = []  #: The rules as the user wrote them.
        self.signing_in: SigningIn | None = None  #: The sign-in by the user that is going on, or was the last.
        self.signing_task: asyncio.Task[None] | None = None
        self.spec = spec
        self._record, self._numbers = record, count(1)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._recorder: Recorder | None = None
        self._known: KnownServer | None = None
        self._target: Target | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._made, self._settled = asyncio.Event(), asyncio.Event()

    @property
    def name(self) -> str:
        return self.spec.name

    # The connection.

    async def connect(self) -> None:
        """Connects, and waits for the first outcome: connected, with all lists loaded, or failed for now."""
        self.start()
        await self._settled.wait()

    def start(self) -> None:
        if self._connecting is not None and not self._connecting.done():
            return
        self._settled.clear()
        if self.client is None:
            self._made.clear()
            self._record_state(State.CONNECTING, Signal.CONNECT)

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() and self.client is None:  # There is no client to report it.
                self._record_state(State.DISCONNECTED, Signal.DISCONNECT)
            self._made.set()
            self._settled.set()

        self._connecting = asyncio.create_task(self._connect(), name=f"connecting to {self.name}")
        self._connecting.add_done_callback(ended)

    async def disconnect(self) -> None:
        await self._stop_connecting()
        if self.client is not None:
            await self.client.disconnect()

    async def reconnect(self) -> None:
        """Connects again with the same subscriptions. If it waits for the next attempt, it connects now."""
        client = self.client
        is_connected = client is not None and client.connected
        subscriptions = client.subscriptions if client is not None and is_connected else ()
        await (self.disconnect() if is_connected else self._stop_connecting())
        await self.connect()
        for uri in subscriptions:
            with contextlib.suppress(TidingsError):
                await self.subscribe(uri)

    async def change(self, spec: ConnectionSpec) -> None:
        again = self.view.state != "disconnected"
        await self.aclose()
        self.spec = spec
        self._record("server", {"what": "changed", "entry": spec.shown})
        if again:
            self.start()

    async def aclose(self) -> None:
        """Ends the connection and all requests. The next connection is made by a new client."""
        if self.signing_task is not None and self.signing_task is not asyncio.current_task():
            self.signing_task.cancel()
        await self._stop_connecting()
        if self.client is not None:
            await self.client.aclose()
        self.client = None
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self) -> None:
        try:
            try:
                known = self.client
                client = known or await self._make_client()
            finally:
                self._made.set()
            if known is not None:
                await known.reconnect()  # At once, even if the next attempt is due later.
            await client.connect()
            # The tasks that go on since an earlier connection. In the legacy era they ended with it.
            for request in tuple(self.view.requests.values()):
                if request.state == "left" and request.task is not None and self.view.era == "modern":
                    self.follow_task(request.task.id, request.params.get("name"), request.params.get("arguments"))
        except Exception as error:  # noqa: BLE001 - the view shows it, whatever it is
            if self.view.error is None:
                self._record_state(State.DISCONNECTED, Signal.GIVE_UP, error=self._error(error))

    def _record_state(self, state: State, signal: Signal, **more: Any) -> None:
        self._record("state", {"state": state.value, "signal": signal.value, **more})

    async def _make_client(self) -> "LiveClient":
        await asyncio.to_thread(import_client)
        from tidings.client.events import StateChanged  # noqa: PLC0415 - imports the SDK
        from tidings.client.pending import ASK  # noqa: PLC0415 - imports the SDK
        from tidings.inspector.recorder import KnownServer, Recorder  # noqa: PLC0415 - imports the SDK

        def state_changed(event: StateChanged) -> None:
            if event.new in (State.ERROR, State.DISCONNECTED):
                self._settled.set()  # A connection that succeeds is settled when its lists are loaded.

        def answer(question: Any) -> Any:
            return ASK if self.rules is None else self.rules(question)

        target = self._target = self.spec.parsed()
        known = self._known = self._known or KnownServer(self._record, self.view)
        known.wire.start_client()
        self.client = client = self.spec.client(target, known.wire, answer)
        self._recorder = Recorder(client, known, self._next_id, self._mask)
        client.on(StateChanged, state_changed)
        return client

    async def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)

    def _client_now(self) -> "LiveClient":
        if self.client is None:
            raise NotConnected(f"Not connected to {self.name}.", server=self.name)
        return self.client

    async def _client_soon(self, request_id: str = "", *, aside: bool = False) -> "LiveClient":
        """Returns the client, waiting while it is being made. Its next request from this task is recorded by the id."""
        if self._connecting is not None and not self._connecting.done():
            await self._made.wait()
        if request_id and self._recorder is not None:
            self._recorder.expect(request_id, aside=aside)
        return self._client_now()

    def _mask(self, value: Any) -> Any:
        """Returns a JSON value without the secrets of the server; the same object if it has none."""
        if self._target is None or not self._target.secrets or value is None:
            return value
        text = value if isinstance(value, str) else dumps(value)
        if "\\" not in text and not any(secret in text for secret in self._target.secrets):
            return value
        clean = self._target.clean
        return mapped(value, lambda each: clean(each) if isinstance(each, str) else each)

    def _error(self, error: BaseException, method: str | None = None) -> dict[str, Any]:
        is_command = self._recorder is not None and self._recorder.is_command
        return asdict(error_view(error, is_command=is_command, method=method))

    # Requests.

    # Each returns the id of the request at once.

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None) -> str:
        """Calls a tool, with further metadata (`_meta`)."""
        params = {"name": tool, "arguments": dict(arguments or {}), **({"_meta": dict(meta)} if meta else {})}
        return self._start("tools/call", params, lambda client: client.call_tool(tool, arguments, meta))

    def read(self, uri: str) -> str:
        return self._start("resources/read", {"uri": uri}, lambda client: client.read_resource(uri))

    def get_prompt(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        params = {"name": name, "arguments": dict(arguments or {})}
        return self._start("prompts/get", params, lambda client: client.get_prompt(name, arguments))

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> str:
        """Sends any request. Calls, reads and prompts are sent as by their own methods, others unchanged."""
        if method in LIVENESS_CHECKS and self._recorder is not None:
            self._recorder.wire.show_check()
        match method, params:
            case "tools/call", {"name": str() as tool, **rest} if rest.keys() <= {"arguments"}:
                return self.call(tool, rest.get("arguments"))
            case "prompts/get", {"name": str() as name, **rest} if rest.keys() <= {"arguments"}:
                return self.get_prompt(name, rest.get("arguments"))
            case "resources/read", {"uri": str() as uri, **rest} if not rest:
                return self.read(uri)
            case _:
                return self._start(method, dict(params or {}), lambda client: client.request(method, params))

    def follow_task(self, task_id: str, tool: str | None = None, arguments: Mapping[str, Any] | None = None) -> str:
        """Follows a task to its end. Returns the id of the request for this. `tool` and `arguments` are only shown."""
        of_task = [each for each in self.view.requests.values() if each.task is not None and each.task.id == task_id]
        if followed := [request.id for request in of_task if not request.over]:
            return followed[0]
        left = [request.id for request in of_task if request.state == "left"]

        def resume(client: "LiveClient") -> Awaitable[Any]:
            task = client.task(task_id)
            if task.tool is None and tool is not None:
                task.tool, task.arguments = tool, dict(arguments or {})
            return task.resume()

        params = {"taskId": task_id} if tool is None else {"name": tool, "arguments": dict(arguments or {})}
        known = self._start("tools/call", params, resume)
        self._record("task", {"request": known, "id": task_id, "pending": True})
        for before in left:
            self._record("task", {"request": before, "id": task_id, "pending": False})
        return known

    def _start(self, method: str, params: dict[str, Any], action: Action) -> str:
        known = self._next_id()
        shown = self._mask(params)
        began = {"id": known, "method": method, "params": shown, "status": "pending", "created_at": self.view.clock()}
        self._record("request", began)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.pop(known, None)
            if task.cancelled():  # Perhaps before it began.
                self._record_end(known, method, "cancelled", asyncio.CancelledError())

        task = asyncio.create_task(self._run(known, method, action), name=f"{method} at {self.name}")
        self._running[known] = task
        task.add_done_callback(ended)
        return known

    async def _run(self, known: str, method: str, action: Action) -> None:
        try:
            await action(await self._client_soon(known))
        except Exception as error:  # noqa: BLE001 - the view shows it, whatever it is
            self._record_end(known, method, "error", error)

    def _record_end(self, known: str, method: str, status: str, error: BaseException) -> None:
        """Records the end of a request that never reached the client's queue."""
        request = self.view.requests.get(known)
        if request is not None and not request.over:
            data = self._error(error, method)
            self._record("request", {"id": known, "status": status, "completed_at": self.view.clock(), "error": data})

    def _next_id(self) -> str:
        return f"r{next(self._numbers)}"

    async def wait(self, request_id: str) -> RequestView:
        """Waits until a request has ended, and returns it. Raises `KeyError` if it is unknown, or no longer kept."""
        if (task := self._running.get(request_id)) is not None:
            await asyncio.wait((task,))
        return self.view.requests[request_id]

    def cancel(self, request_id: str) -> bool:
        entry = None if self._recorder is None else self._recorder.entries.get(request_id)
        if entry is not None and self.client is not None and self.client.cancel(entry.id):
            return True
        task = self._running.get(request_id)
        return task is not None and task.cancel()

    async def complete(
        self, kind: str, name: str, argument: str, value: str, context: Mapping[str, str] | None = None
    ) -> list[str]:
        """Returns suggestions for an argument of a "prompt" or "template". Raises `TidingsError` without an answer."""
        client = await self._client_soon(self._next_id(), aside=True)
        from mcp_types import PromptReference, ResourceTemplateReference  # noqa: PLC0415 - the SDK is imported by now

        ref = PromptReference(name=name) if kind == "prompt" else ResourceTemplateReference(uri=name)
        result = await client.complete(ref, {"name": argument, "value": value}, context)
        return list(result.completion.values)

    async def set_log_level(self, level: "LoggingLevel") -> None:
        await (await self._client_soon()).set_log_level(level)

    # Subscriptions.

    async def subscribe(self, uri: str) -> None:
        """Subscribes to a URI, or to a prefix that ends in `*`. Raises `TidingsError` if the server refuses."""
        await (await self._client_soon()).subscribe(uri, refresh=True)

    async def unsubscribe(self, uri: str) -> None:
        await self._client_now().unsubscribe(uri)

    # Questions.

    def answer(self, question_id: str, value: object) -> None:
        """Answers an open question with a result or a plain value. After a `ValueError`, the question is still open."""
        self._client_now().pending.resolve(question_id, value)

    def refuse(self, question_id: str, how: str = "refuse", reason: str = "") -> None:
        """Refuses to answer, with an error that has the reason. An elicitation can be declined or cancelled instead."""
        pending = self._client_now().pending
        if how == "refuse":
            pending.reject(question_id, reason or "The user rejected the request")
        else:
            (pending.decline if how == "decline" else pending.cancel)(question_id)
