"""`InspectedServer`: one server of a session, and everything that can be done with it.

What is known about it is in `view`, a `ServerView`. Results of actions appear there, as records: connecting never
raises for a server's fault, and requests return an id at once, with which the view has the result. All of it runs on
the event loop of its session.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from tidings.errors import TidingsError
from tidings.inspector.client_link import ConnectionSpec, ServerLink
from tidings.inspector.records import LIVENESS_CHECKS, ListName
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from tidings.client.live import LiveClient
    from tidings.inspector.wire_recorder import MakeRecord

Action = Callable[["LiveClient"], Awaitable[Any]]


class InspectedServer:
    """One server of a session. Made by `Session.add`."""

    def __init__(self, spec: ConnectionSpec, view: ServerView, record: "MakeRecord") -> None:
        self.view = view  #: Everything that is known about it: read only.
        self._record = record
        self._numbers = count(1)
        self._link = ServerLink(spec, view, record, self._next_id)
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def name(self) -> str:
        """The name under which it was added."""
        return self._link.spec.name

    @property
    def client(self) -> "LiveClient | None":
        """The client, for everything that is not offered here. None before the first `connect`."""
        return self._link.client

    # The connection.

    async def connect(self) -> None:
        """Connects, and waits for the first outcome: connected, with its lists loaded, or failed.

        The client goes on trying after a failure that may pass.
        """
        self.start()
        await self._link.settle()

    def start(self) -> None:
        """Connects in the background."""
        self._link.start()

    async def disconnect(self) -> None:
        """Ends the connection and its subscriptions."""
        await self._link.disconnect()

    async def reconnect(self) -> None:
        """Connects anew with the same subscriptions; or at once, if it waits for the next attempt."""
        client = self.client
        if client is not None and client.connected:
            subscriptions = client.subscriptions
            await self.disconnect()
            await self.connect()
            for uri in subscriptions:
                with contextlib.suppress(TidingsError):
                    await self.subscribe(uri)
        else:
            await self._link.retry_now()

    async def change(self, spec: ConnectionSpec) -> None:
        """Changes the address or the options. Connects anew if it was connected."""
        again = self.view.state != "disconnected"
        await self.aclose()
        self._link.use(spec)
        self._record("server", {"what": "changed", "entry": spec.shown})
        if again:
            self.start()

    async def aclose(self) -> None:
        """Ends the connection and all requests."""
        await self._link.aclose()
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Requests.

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> str:
        """Calls a tool. Returns the id of the request at once."""
        params = {"name": tool, "arguments": dict(arguments or {})}
        return self._start("tools/call", params, lambda client: client.call_tool(tool, arguments, timeout=timeout))

    def read(self, uri: str, *, timeout: float | None = None) -> str:
        """Reads a resource. Returns the id of the request at once."""
        return self._start("resources/read", {"uri": uri}, lambda client: client.read_resource(uri, timeout=timeout))

    def get_prompt(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Gets a prompt. Returns the id of the request at once."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return self._start("prompts/get", params, lambda client: client.get_prompt(name, arguments))

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> str:
        """Sends any request unchanged, for example to repeat one. Returns its id at once."""
        if method in LIVENESS_CHECKS:
            self._show_check()
        return self._start(method, dict(params or {}), lambda client: client.request(method, params, timeout=timeout))

    def _start(self, method: str, params: dict[str, Any], action: Action) -> str:
        known = self._next_id()
        shown = self._link.mask(params)
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
            await action(await self._link.client_for(known))
        except Exception as error:  # noqa: BLE001 - the view shows it, whatever it is
            self._record_end(known, method, "error", error)

    def _record_end(self, known: str, method: str, status: str, error: BaseException) -> None:
        """Records the end of a request that never reached the client's queue."""
        request = self.view.requests.get(known)
        if request is not None and not request.over:
            data = self._link.error_data(error, method)
            self._record("request", {"id": known, "status": status, "completed_at": self.view.clock(), "error": data})

    def _next_id(self) -> str:
        return f"r{next(self._numbers)}"

    def _show_check(self) -> None:
        if self._link.recorder is not None:
            self._link.recorder.wire.show_check()

    async def wait(self, request_id: str) -> RequestView:
        """Waits until a request ended, and returns it. Raises `LookupError` if it is not known, or no longer kept."""
        if (task := self._running.get(request_id)) is not None:
            await asyncio.wait((task,))
        if request_id not in self.view.requests:
            raise LookupError(f"There is no request {request_id!r}, or it is no longer kept.")
        return self.view.requests[request_id]

    def cancel(self, request_id: str) -> bool:
        """Cancels a request that waits or runs. Returns False if it has ended."""
        if self._link.recorder is not None and self.client is not None:
            entry = self._link.recorder.entry(request_id)
            if entry is not None and self.client.cancel(entry.id):
                return True
        task = self._running.get(request_id)
        return task is not None and task.cancel()

    async def complete(
        self,
        kind: Literal["prompt", "template"],
        name: str,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Returns the server's suggestions for an argument of a prompt, or of a template (by its URI template).

        Raises `TidingsError` if the server could not be asked, or does not answer.
        """
        client = await self._link.client_for(self._next_id(), aside=True)
        from mcp_types import PromptReference, ResourceTemplateReference  # noqa: PLC0415 - the SDK is imported by now

        ref = PromptReference(name=name) if kind == "prompt" else ResourceTemplateReference(uri=name)
        result = await client.complete(ref, {"name": argument, "value": value}, context)
        return list(result.completion.values)

    async def ping(self) -> float:
        """Returns the seconds that the server takes to answer. Raises `TidingsError` if it does not answer."""
        self._show_check()
        return await (await self._link.client_soon()).ping()

    async def set_log_level(self, level: "LoggingLevel") -> None:
        """Asks the server for log messages of this level and above. Raises `TidingsError` if it refuses."""
        await (await self._link.client_soon()).set_log_level(level)

    async def reload(self, name: ListName) -> None:
        """Loads a list again. Raises `TidingsError` if it cannot be loaded."""
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
        """Subscribes to a resource or, with a `*` at the end, to all resources whose URI begins so.

        Raises `TidingsError` if the server offers no subscriptions, or refuses this one.
        """
        await (await self._link.client_soon()).subscribe(uri, refresh=True)

    async def unsubscribe(self, uri: str) -> None:
        """Ends a subscription. Raises `TidingsError` if the server refuses."""
        await self._link.client_now().unsubscribe(uri)

    # Questions.

    def answer(self, question_id: str, value: object) -> None:
        """Answers a question: with a result as JSON, or with a plain value (see `tidings.client.pending`).

        Raises `LookupError` if there is no such open question, and `ValueError` if the value is not a valid answer: the
        question stays open then.
        """
        self._link.client_now().pending.resolve(question_id, value)

    def refuse(self, question_id: str, reason: str = "The user rejected the request") -> None:
        """Refuses to answer; the server gets the reason."""
        self._link.client_now().pending.reject(question_id, reason)

    def decline(self, question_id: str) -> None:
        """Answers an elicitation with an explicit no."""
        self._link.client_now().pending.decline(question_id)

    def dismiss(self, question_id: str) -> None:
        """Closes an elicitation without a choice."""
        self._link.client_now().pending.cancel(question_id)
