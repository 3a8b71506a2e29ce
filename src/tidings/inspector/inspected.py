"""`InspectedServer`: one server of a session, and what can be done with it.

What is known about it is in `view`, a `ServerView`; what is done here shows there, as records.

    server.view                                         what is known: read only
    await server.connect(), disconnect(), reconnect()   never raise for a server's fault: the view says it
    server.call(tool, arguments) -> id                  starts it; the result is in `view.requests[id]`
    server.read(uri), get_prompt(name, arguments), request(method, params) -> id      likewise
    await server.wait(id) -> RequestView                until it ended
    server.cancel(id) -> bool                           it ends as "cancelled"
    await server.subscribe(uri), unsubscribe(uri)       what is subscribed to is read at once and after every change
    await server.complete("prompt", name, argument, value) -> texts
    server.answer(question, value), refuse(question, reason), decline(question), dismiss(question)
    await server.set_log_level(level); await server.ping() -> seconds; await server.reload(list)

All of it belongs to the event loop of its session.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from mcp_types import LoggingLevel, PromptReference, ResourceTemplateReference

from tidings.changes import ResourceUpdated
from tidings.client.events import StateChanged
from tidings.client.live import LiveClient
from tidings.client.states import State
from tidings.errors import NotConnected, TidingsError
from tidings.inspector.limits import SessionLimits
from tidings.inspector.masks import Mask
from tidings.inspector.observer import Claim, Observer, current_claim
from tidings.inspector.observer_wire import Tell
from tidings.inspector.opening import Opening
from tidings.inspector.record_data import ListName
from tidings.inspector.view_items import RequestView
from tidings.inspector.views import Clock, ServerView
from tidings.inspector.watches import Watches

_CHECKS: Final = ("ping", "server/discover")
Action = Callable[[LiveClient], Awaitable[Any]]


class InspectedServer:
    """One server of a session. Made by `Session.add`."""

    def __init__(self, opening: Opening, view: ServerView, tell: Tell, *, limits: SessionLimits, clock: Clock) -> None:
        self.opening = opening
        self.view = view
        """What is known about it: read only."""
        self._tell = tell
        self._clock = clock
        self._mask = Mask()
        self._observer = Observer(tell, limits=limits, clock=clock, mask=self._mask)
        self._client: LiveClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._watches = Watches(self._connected, self._reread)

    @property
    def name(self) -> str:
        """The name under which it was added."""
        return self.opening.name

    @property
    def client(self) -> LiveClient | None:
        """The client, for what is not offered here. None before the first `connect`."""
        return self._client

    # The connection.

    async def connect(self) -> None:
        """Connect, and wait for the first outcome: it is connected and its lists are there, or it is known why not.

        What can be mended by itself is tried on then.
        """
        self.start()
        await self._settled.wait()

    def start(self) -> None:
        """Connect in the background."""
        if self._connecting is None or self._connecting.done():
            self._settled.clear()
            self._connecting = asyncio.create_task(self._connect(), name=f"connecting to {self.name}")

    async def _connect(self) -> None:
        try:
            client = self._client or self._make_client()
            await client.connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says it
            if self.view.error is None:
                failed = {"state": "disconnected", "signal": "give_up", "error": self._observer.error(error)}
                self._tell("state", failed)
        finally:
            self._settled.set()

    def _make_client(self) -> LiveClient:
        target = self.opening.parsed()
        self._mask.hide(target.secrets, target.clean)
        self._client = client = self.opening.client(target, self._observer.wire)
        self._observer.attach(client)
        client.on(StateChanged, self._state_changed)
        client.on(ResourceUpdated, self._watches.updated)
        return client

    def _state_changed(self, event: StateChanged) -> None:
        if event.new in (State.ERROR, State.DISCONNECTED):
            self._settled.set()  # Connected, it is settled when the lists are there.
        if event.new is State.CONNECTED and self._client is not None:
            for uri in self._client.subscriptions:
                self._watches.watch(uri)

    async def disconnect(self) -> None:
        """End the connection. Subscriptions end with it."""
        await self._stop_connecting()
        await self._watches.aclose()
        if self._client is not None:
            await self._client.disconnect()

    async def reconnect(self) -> None:
        """Connect anew: at once if it waits to be tried again, and with the same subscriptions if it is connected."""
        client = self._client
        if client is None or client.state is State.DISCONNECTED:
            await self.connect()
        elif client.connected:
            subscriptions = client.subscriptions
            await self.disconnect()
            await self.connect()
            for uri in subscriptions:
                with contextlib.suppress(TidingsError):
                    await self.subscribe(uri)
        else:
            self._settled.clear()
            await self._stop_connecting()
            self._connecting = asyncio.create_task(self._hurry(client), name=f"connecting to {self.name}")
            await self._settled.wait()

    async def _hurry(self, client: LiveClient) -> None:
        with contextlib.suppress(TidingsError):  # The view says it.
            await client.reconnect()
        self._settled.set()

    async def change(self, opening: Opening) -> None:
        """Use another entry: another address, other options. Connects anew if it was connected."""
        again = self.view.state != "disconnected"
        await self.aclose()
        self._client = None
        self.opening = opening
        self._tell("server", {"what": "changed", "entry": opening.shown})
        if again:
            self.start()

    async def aclose(self) -> None:
        """End the connection and everything that runs."""
        await self._stop_connecting()
        await self._watches.aclose()
        if self._client is not None:
            await self._client.aclose()
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop_connecting(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)

    # Requests.

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> str:
        """Call a tool. The id of the request, at once."""
        params = {"name": tool, "arguments": dict(arguments or {})}
        return self._start("tools/call", params, lambda client: client.call_tool(tool, arguments, timeout=timeout))

    def read(self, uri: str, *, timeout: float | None = None) -> str:
        """Read a resource. The id of the request, at once."""
        return self._start("resources/read", {"uri": uri}, lambda client: client.read_resource(uri, timeout=timeout))

    def get_prompt(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Get a prompt. The id of the request, at once."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return self._start("prompts/get", params, lambda client: client.get_prompt(name, arguments))

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> str:
        """Send any request, as it is: to repeat one, or one that was edited. The id of the request, at once."""
        if method in _CHECKS:
            self._observer.wire.show_check()
        return self._start(method, dict(params or {}), lambda client: client.request(method, params, timeout=timeout))

    def _start(self, method: str, params: dict[str, Any], action: Action) -> str:
        known = self._observer.next_id()
        shown = self._mask(params)
        began = {"id": known, "method": method, "params": shown, "status": "pending", "created_at": self._clock()}
        self._tell("request", began)
        task = asyncio.create_task(self._run(known, method, action), name=f"{method} at {self.name}")
        self._running[known] = task
        task.add_done_callback(lambda _: self._running.pop(known, None))
        return known

    async def _run(self, known: str, method: str, action: Action) -> None:
        current_claim.set(Claim(known))
        try:
            await action(self._connected())
        except asyncio.CancelledError as error:
            self._end(known, method, "cancelled", error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says it
            self._end(known, method, "error", error)

    def _end(self, known: str, method: str, status: str, error: BaseException) -> None:
        """Tell the end of a request that the client did not tell of: it never came so far."""
        request = self.view.requests.get(known)
        if request is not None and not request.over:
            told = self._observer.error(error, method)
            self._tell("request", {"id": known, "status": status, "completed_at": self._clock(), "error": told})

    async def wait(self, request_id: str) -> RequestView:
        """Wait until a request ended, and return what came of it.

        Raises:
            LookupError: There is no such request, or it is not kept any more.
        """
        if (task := self._running.get(request_id)) is not None:
            await asyncio.wait((task,))
        try:
            return self.view.requests[request_id]
        except KeyError:
            raise LookupError(f"There is no request {request_id!r}, or it is not kept any more.") from None

    def cancel(self, request_id: str) -> bool:
        """Cancel a request that waits or runs. False if it is over."""
        entry = self._observer.entry(request_id)
        if entry is not None and self._client is not None and self._client.cancel(entry.id):
            return True
        if (task := self._running.get(request_id)) is None:
            return False
        return task.cancel()

    def _connected(self) -> LiveClient:
        if self._client is None:
            raise NotConnected(f"Not connected to {self.name}.", server=self.name)
        return self._client

    async def complete(
        self,
        kind: Literal["prompt", "template"],
        name: str,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> list[str]:
        """What the server suggests for an argument of a prompt, or of a template (by its URI template).

        Raises:
            TidingsError: It could not be asked, or does not say.
        """
        ref = PromptReference(name=name) if kind == "prompt" else ResourceTemplateReference(uri=name)
        current_claim.set(Claim(self._observer.next_id(), aside=True))
        result = await self._connected().complete(ref, {"name": argument, "value": value}, context)
        return list(result.completion.values)

    async def ping(self) -> float:
        """How many seconds the server takes to answer.

        Raises:
            TidingsError: It does not.
        """
        self._observer.wire.show_check()
        return await self._connected().ping()

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Have the server send log messages of this level and above.

        Raises:
            TidingsError: It could not be told, or refuses.
        """
        await self._connected().set_log_level(level)

    async def reload(self, name: ListName) -> None:
        """Load a list again.

        Raises:
            TidingsError: It could not be loaded.
        """
        client = self._connected()
        loads = {
            "tools": client.list_tools,
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        await loads[name]()

    # Subscriptions.

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource, or to all whose URI begins with what stands before a `*`.

        Raises:
            TidingsError: The server offers no subscriptions, or refuses this one.
        """
        client = self._connected()
        await client.subscribe(uri)
        self._watches.watch(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Undo `subscribe`.

        Raises:
            TidingsError: The server refuses.
        """
        await self._watches.forget(uri)
        await self._connected().unsubscribe(uri)

    async def _reread(self, uri: str) -> None:
        """Read what a prefix covers, and was updated."""
        current_claim.set(Claim(self._observer.next_id(), aside=True))
        try:
            await self._connected().read_resource(uri)
        except TidingsError as error:
            self._tell("content-failed", {"uri": uri, "error": self._observer.error(error)})

    # Questions.

    def answer(self, question_id: str, value: object) -> None:
        """Answer what the server asks: with a result as JSON, or with a plain value (see `tidings.client.answers`).

        Raises:
            LookupError: No such question waits.
            ValueError: This is no answer to it. It goes on waiting.
        """
        self._connected().pending.resolve(question_id, value)

    def refuse(self, question_id: str, reason: str = "The user rejected the request") -> None:
        """Refuse to answer; the server is told the reason."""
        self._connected().pending.reject(question_id, reason)

    def decline(self, question_id: str) -> None:
        """Answer an elicitation with an explicit no."""
        self._connected().pending.decline(question_id)

    def dismiss(self, question_id: str) -> None:
        """Close an elicitation without a choice."""
        self._connected().pending.cancel(question_id)
