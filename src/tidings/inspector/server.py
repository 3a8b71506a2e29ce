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
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

from tidings.errors import TidingsError
from tidings.inspector.client_link import ConnectionSpec, ServerLink
from tidings.inspector.recorder import RequestOrigin, current_claim
from tidings.inspector.records import ListName, SessionLimits
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import Clock, ServerView

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.inspector.wire_recorder import Tell

_CHECKS: Final = ("ping", "server/discover")
Action = Callable[["LiveClient"], Awaitable[Any]]


class InspectedServer:
    """One server of a session. Made by `Session.add`."""

    def __init__(
        self, opening: ConnectionSpec, view: ServerView, tell: "Tell", *, limits: SessionLimits, clock: Clock
    ) -> None:
        self.view = view
        """What is known about it: read only."""
        self._tell = tell
        self._clock = clock
        self._numbers = count(1)
        self._link = ServerLink(opening, view, tell, self._next_id, self._reread, limits=limits, clock=clock)
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def name(self) -> str:
        """The name under which it was added."""
        return self.opening.name

    @property
    def opening(self) -> ConnectionSpec:
        """How it is connected to."""
        return self._link.opening

    @property
    def client(self) -> "LiveClient | None":
        """The client, for what is not offered here. None before the first `connect`."""
        return self._link.client

    # The connection.

    async def connect(self) -> None:
        """Connect, and wait for the first outcome: it is connected and its lists are there, or it is known why not.

        What can be mended by itself is tried on then.
        """
        self.start()
        await self._link.settle()

    def start(self) -> None:
        """Connect in the background."""
        self._link.start()

    async def disconnect(self) -> None:
        """End the connection. Subscriptions end with it."""
        await self._link.disconnect()

    async def reconnect(self) -> None:
        """Connect anew: at once if it waits to be tried again, and with the same subscriptions if it is connected."""
        client = self.client
        if client is not None and client.connected:
            subscriptions = client.subscriptions
            await self.disconnect()
            await self.connect()
            for uri in subscriptions:
                with contextlib.suppress(TidingsError):
                    await self.subscribe(uri)
        else:
            await self._link.hurry()

    async def change(self, opening: ConnectionSpec) -> None:
        """Use another entry: another address, other options. Connects anew if it was connected."""
        again = self.view.state != "disconnected"
        await self.aclose()
        self._link.opening = opening
        self._tell("server", {"what": "changed", "entry": opening.shown})
        if again:
            self.start()

    async def aclose(self) -> None:
        """End the connection and everything that runs."""
        await self._link.aclose()
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
            self._show_check()
        return self._start(method, dict(params or {}), lambda client: client.request(method, params, timeout=timeout))

    def _start(self, method: str, params: dict[str, Any], action: Action) -> str:
        known = self._next_id()
        shown = self._link.mask(params)
        began = {"id": known, "method": method, "params": shown, "status": "pending", "created_at": self._clock()}
        self._tell("request", began)
        task = asyncio.create_task(self._run(known, method, action), name=f"{method} at {self.name}")
        self._running[known] = task
        task.add_done_callback(lambda task: self._ended(task, known, method))
        return known

    def _ended(self, task: asyncio.Task[None], known: str, method: str) -> None:
        self._running.pop(known, None)
        if task.cancelled():  # Perhaps before it began.
            self._end(known, method, "cancelled", asyncio.CancelledError())

    async def _run(self, known: str, method: str, action: Action) -> None:
        current_claim.set(RequestOrigin(known))
        try:
            await action(await self._link.client_soon())
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says it
            self._end(known, method, "error", error)

    def _end(self, known: str, method: str, status: str, error: BaseException) -> None:
        """Tell the end of a request that the client did not tell of: it never came so far."""
        request = self.view.requests.get(known)
        if request is not None and not request.over:
            told = self._link.seen(error, method)
            self._tell("request", {"id": known, "status": status, "completed_at": self._clock(), "error": told})

    def _next_id(self) -> str:
        return f"r{next(self._numbers)}"

    def _show_check(self) -> None:
        """What would be taken for a check of the connection is about to be sent because somebody asked for it."""
        if self._link.observer is not None:
            self._link.observer.wire.show_check()

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
        if self._link.observer is not None and self.client is not None:
            entry = self._link.observer.entry(request_id)
            if entry is not None and self.client.cancel(entry.id):
                return True
        if (task := self._running.get(request_id)) is None:
            return False
        return task.cancel()

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
        client = await self._link.client_soon()
        from mcp_types import PromptReference, ResourceTemplateReference  # noqa: PLC0415 - likewise

        ref = PromptReference(name=name) if kind == "prompt" else ResourceTemplateReference(uri=name)
        current_claim.set(RequestOrigin(self._next_id(), aside=True))
        result = await client.complete(ref, {"name": argument, "value": value}, context)
        return list(result.completion.values)

    async def ping(self) -> float:
        """How many seconds the server takes to answer.

        Raises:
            TidingsError: It does not.
        """
        self._show_check()
        return await (await self._link.client_soon()).ping()

    async def set_log_level(self, level: "LoggingLevel") -> None:
        """Have the server send log messages of this level and above.

        Raises:
            TidingsError: It could not be told, or refuses.
        """
        await (await self._link.client_soon()).set_log_level(level)

    async def reload(self, name: ListName) -> None:
        """Load a list again.

        Raises:
            TidingsError: It could not be loaded.
        """
        client = await self._link.client_soon()
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
        client = await self._link.client_soon()
        await client.subscribe(uri)
        self._link.watches.watch(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Undo `subscribe`.

        Raises:
            TidingsError: The server refuses.
        """
        await self._link.watches.forget(uri)
        await self._link.client_now().unsubscribe(uri)

    async def _reread(self, uri: str) -> None:
        """Read what a prefix covers, and was updated."""
        current_claim.set(RequestOrigin(self._next_id(), aside=True))
        try:
            await self._link.client_now().read_resource(uri)
        except TidingsError as error:
            self._tell("content-failed", {"uri": uri, "error": self._link.seen(error)})

    # Questions.

    def answer(self, question_id: str, value: object) -> None:
        """Answer what the server asks: with a result as JSON, or with a plain value (see `tidings.client.questions`).

        Raises:
            LookupError: No such question waits.
            ValueError: This is no answer to it. It goes on waiting.
        """
        self._link.client_now().pending.resolve(question_id, value)

    def refuse(self, question_id: str, reason: str = "The user rejected the request") -> None:
        """Refuse to answer; the server is told the reason."""
        self._link.client_now().pending.reject(question_id, reason)

    def decline(self, question_id: str) -> None:
        """Answer an elicitation with an explicit no."""
        self._link.client_now().pending.decline(question_id)

    def dismiss(self, question_id: str) -> None:
        """Close an elicitation without a choice."""
        self._link.client_now().pending.cancel(question_id)
