"""The SDK seam of the server side: the only file that uses private names of the SDK and of FastMCP.

A server can be the SDK's `MCPServer`, its lowlevel `Server`, or a `fastmcp.FastMCP`. Each contains a lowlevel server.
The two that have lists are watched for additions and removals, and their HTTP apps are wrapped.

| private name | used for | without it |
|---|---|---|
| `MCPServer._lowlevel_server`, `FastMCP._mcp_server` | everything | `ServerChanged` |
| `MCPServer._resource_manager`, `_tool_manager`, `_prompt_manager` with their dictionaries | lists | `ServerChanged` |
| `MCPServer._subscriptions` | the SDK's own notifications | `ServerChanged` |
| `ServerSession._connection` | the end of a legacy session | `ServerChanged` |
| `JSONRPCDispatcher._next_id` | ids of questions that no other replica uses | `ServerChanged` |
| `JSONRPCDispatcher._read_stream` and its `_inner` | forgetting the last message of a legacy session | it is kept |
| `_server_instances` of a session manager, `_request_streams` and more of its transports (`_CHANNEL`) | holding the \
  event streams of legacy sessions | the SDK holds them |
| the four streams of such a transport (`_STREAMS`), and the `_inner` of each | lighter ones in their place | sessions \
  take 9 KB more |
| `_SSE_PING_INTERVAL` of the modern HTTP transport | stating how often streams carry a keep-alive | it is not stated |
| `EventSourceResponse` of the streamable HTTP transport, and its parts | answering with fewer tasks | a call takes \
  a tenth more CPU |
| `AppStatus.should_exit` of sse-starlette | answering legacy requests at a stop | they get no answer |
| `_add_component`, `_remove_component`, `_inner` of FastMCP's providers | lists | the program notifies by itself |

`tests/server/test_private_names.py` pins each of them.
"""

import asyncio
import functools
import inspect
import math
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import _streamable_http_modern, streamable_http
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import returns_input_required
from mcp.server.mcpserver.tools import Tool
from mcp.server.session import ServerSession
from mcp.server.streamable_http import GET_STREAM_KEY
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.requests import Request

from tidings.changes import FEATURES, Change
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.http_exchange import EXCHANGE_KEY, ASGIApp, Receive, Scope, Send
from tidings.server.message_pipe import Outlet, forget, lighter_ends

Kind = Literal["tool", "resource", "template", "prompt"]
Soon = Callable[[Change], None]
Wrap = Callable[[ASGIApp], ASGIApp]

_LISTS: Final[dict[Kind, tuple[str, str]]] = {
    "tool": ("_tool_manager", "_tools"),
    "resource": ("_resource_manager", "_resources"),
    "template": ("_resource_manager", "_templates"),
    "prompt": ("_prompt_manager", "_prompts"),
}
_BRIEF: Final = 1.0  # Seconds. An answer that takes no longer needs no keep-alives.


class ServerChanged(RuntimeError):
    """The installed version of the SDK or of FastMCP lacks a name without which a server cannot be live."""


def _private(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = type(owner)
        raise ServerChanged(
            f"{kind.__module__}.{kind.__qualname__} has no {name!r} in the installed version, and Tidings needs it. "
            "Install a version that Tidings was tested with: see its dependencies."
        ) from None


def list_change(kind: str) -> Change:
    """Returns the change of the list that has items of this kind: resources and templates share one."""
    return {"tool": FEATURES["tools"], "prompt": FEATURES["prompts"]}.get(kind, FEATURES["resources"])


def keep_alive_seconds() -> float | None:
    """Returns the longest time between two keep-alives on a stream of the SDK's; None if it is not known."""
    interval = getattr(_streamable_http_modern, "_SSE_PING_INTERVAL", None)
    return None if interval is None else float(max(interval, EventSourceResponse.DEFAULT_PING_INTERVAL))


@contextmanager
def answers_held_open() -> Generator[None]:
    """Keeps the answers to legacy requests open: sse-starlette ends event streams when the web server is to stop."""
    stops, AppStatus.should_exit = AppStatus.should_exit, False
    try:
        yield
    finally:
        AppStatus.should_exit = AppStatus.should_exit or stops


class LeanAnswer(EventSourceResponse):
    """The SDK's answer to a legacy request that is served by Tidings: two tasks, where the original has five.

    One that takes long has a third, for keep-alives. The end of the web server is not listened for: see
    `answers_held_open`.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if EXCHANGE_KEY not in scope or self.data_sender_callable is None:
            await super().__call__(scope, receive, send)
            return
        loop, later = asyncio.get_running_loop(), list[asyncio.TimerHandle | asyncio.Task[None]]()

        async def until_gone() -> None:
            await self._listen_for_disconnect(receive)
            tasks.cancel_scope.cancel()

        def ping() -> None:  # Not in the group: in a callback, AnyIO may not know the event loop.
            later.append(loop.create_task(self._ping(send)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.data_sender_callable)
            later.append(loop.create_task(until_gone()))  # Not in the group, either: that takes longer.
            later.append(loop.call_later(min(_BRIEF, self.ping_interval), ping))
            try:
                await self._stream_response(send)
            finally:
                for each in later:
                    each.cancel()
            tasks.cancel_scope.cancel()


class Adapter:
    """A lowlevel `Server`, which the other kinds contain. Its program notifies when its lists change."""

    def __init__(self, server: Any, lowlevel: str = "") -> None:
        self._server = server
        self.lowlevel: Server[Any] = _private(server, lowlevel) if lowlevel else server

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        """Returns the subscriptions that name nothing that is served; none if that cannot be known."""
        return []

    def known(self) -> list[str]:
        """Returns the URIs and templates of the resources; none if they are not known here."""
        return []

    def has_tool(self, name: str) -> bool:
        """Returns whether the server has a tool of this name; False if that is not known here."""
        return False

    def may_ask(self, name: str) -> bool:
        """Returns whether a tool may ask for input before its work; True if that is not known here."""
        return True

    def watch(self, soon: Soon) -> None:
        """Calls `soon` when one of the server's lists changes, or something is published on the SDK's own bus."""

    def wrap_apps(self, wrap: Wrap, **options: Any) -> None:
        """Wraps the HTTP apps that the server makes from now on. `options` are defaults for streamable HTTP."""
        _wrap_made(self.lowlevel, "streamable_http_app", wrap, **options)


class McpServerAdapter(Adapter):
    """The SDK's `MCPServer`."""

    def __init__(self, server: MCPServer[Any]) -> None:
        super().__init__(server, "_lowlevel_server")

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        resources, templates = self.items("resource"), self.items("template").values()
        uris = sorted(resources) if any(text.endswith("*") for text in subscriptions) else []
        heads = {template.uri_template.split("{", 1)[0] for template in templates}

        def exists(text: str) -> bool:
            if not text.endswith("*"):
                return text in resources or any(_matches(template, text) for template in templates)
            prefix = text[:-1]
            at = bisect_left(uris, prefix)
            return (at < len(uris) and uris[at].startswith(prefix)) or any(
                head.startswith(prefix) or prefix.startswith(head) for head in heads
            )

        return [text for text in subscriptions if not exists(text)]

    def known(self) -> list[str]:
        return [*self.items("template"), *self.items("resource")]

    def has_tool(self, name: str) -> bool:
        return name in self.items("tool")

    def may_ask(self, name: str) -> bool:
        tool: Tool | None = self.items("tool").get(name)
        if tool is None or tool.resolved_params or returns_input_required(tool.fn):
            return True
        return inspect.signature(tool.fn).return_annotation is inspect.Signature.empty

    def items(self, kind: Kind) -> dict[str, Any]:
        """Returns the server's own dictionary of tools, resources, templates or prompts, to take off and put back."""
        manager, items = _LISTS[kind]
        return _private(_private(self._server, manager), items)

    def watch(self, soon: Soon) -> None:
        for name, methods, change in (
            ("_tool_manager", ("add_tool", "remove_tool"), FEATURES["tools"]),
            ("_prompt_manager", ("add_prompt", "remove_prompt"), FEATURES["prompts"]),
            ("_resource_manager", ("add_resource", "add_template"), FEATURES["resources"]),
        ):
            manager = _private(self._server, name)
            for method in methods:
                _after(manager, method, _saying(soon, change))
        _private(self._server, "_subscriptions").subscribe(soon)

    def wrap_apps(self, wrap: Wrap, **options: Any) -> None:
        super().wrap_apps(wrap)
        _wrap_made(self._server, "streamable_http_app", lambda app: app, **options)  # Made by the lowlevel server.
        _wrap_made(self._server, "sse_app", wrap)


class FastMcpAdapter(Adapter):
    """A `fastmcp.FastMCP`. Its resources come from providers that may ask a network, so they are not asked here."""

    def __init__(self, server: Any) -> None:
        super().__init__(server, "_mcp_server")

    def watch(self, soon: Soon) -> None:
        _watch_provider(self._server, soon)

    def wrap_apps(self, wrap: Wrap, **options: Any) -> None:  # FastMCP has no such options.
        _wrap_made(self._server, "http_app", wrap)


def adapter_for(server: object) -> Adapter:
    """Returns the adapter for `server`. Raises `TypeError` if it is not a kind of server that Tidings supports."""
    if isinstance(server, MCPServer):
        return McpServerAdapter(cast("MCPServer[Any]", server))
    if isinstance(server, Server):
        return Adapter(cast("Server[Any]", server))
    if any(kind.__module__.startswith("fastmcp.") and kind.__name__ == "FastMCP" for kind in type(server).__mro__):
        return FastMcpAdapter(server)
    raise TypeError(
        f"attach() takes an mcp MCPServer, an mcp lowlevel Server or a fastmcp FastMCP (4.x), "
        f"not {type(server).__module__}.{type(server).__qualname__}"
    )


def _watch_provider(provider: Any, soon: Soon) -> None:
    """Watches a provider of components and those in it. A FastMCP server is one, and so is a server mounted in it."""

    def removed(key: str) -> None:
        soon(list_change(key.partition(":")[0]))  # The key of a component begins with its kind.

    def added(component: Any) -> None:
        removed(component.key)  # The same list has changed.

    def provider_added(provider: Any, **_: Any) -> None:
        _watch_provider(provider, soon)

    anything = _saying(soon, *FEATURES.values())
    after = [("_add_component", added), ("_remove_component", removed), ("add_provider", provider_added)]
    after += [(method, anything) for method in ("enable", "disable", "add_provider", "add_transform")]
    for method, then in after:
        if hasattr(provider, method):
            _after(provider, method, then)
    inside = (*getattr(provider, "providers", ()), getattr(provider, "server", None), getattr(provider, "_inner", None))
    for each in inside:
        if hasattr(each, "add_transform"):  # It is a provider too.
            _watch_provider(each, soon)


def _saying(soon: Soon, *changes: Change) -> Callable[..., None]:
    """Returns a function that calls `soon` with `changes`, whatever it is called with."""

    def say(*_: Any, **__: Any) -> None:
        for change in changes:
            soon(change)

    return say


def _after(owner: Any, method: str, then: Callable[..., None]) -> None:
    """Calls `then` with the same arguments whenever `owner.method` has succeeded."""
    call = _private(owner, method)

    @functools.wraps(call)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        then(*arguments, **options)
        return result

    setattr(owner, method, wrapped)


def _wrap_made(owner: Any, factory: str, wrap: Wrap, **defaults: Any) -> None:
    """Makes `owner.factory()` return apps that are wrapped outside all their middleware."""
    make = _private(owner, factory)
    if hasattr(streamable_http, "EventSourceResponse"):
        streamable_http.EventSourceResponse = LeanAnswer  # type: ignore[misc]

    @functools.wraps(make)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        app: Starlette = make(*arguments, **{**defaults, **options})
        build = app.build_middleware_stack
        # Built at the first request, so that middleware can still be added, and stays inside.
        app.build_middleware_stack = lambda: wrap(build())  # type: ignore[method-assign,assignment]
        return app

    setattr(owner, factory, wrapped)


def _matches(template: Any, uri: str) -> bool:
    try:
        return template.matches(uri) is not None
    except ValueError:
        return False  # The SDK finds it unsafe, and would not serve it.


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Returns the connection of a request. The SDK hides it from handlers, and it alone says when it ends."""
    return _private(ctx.session, "_connection")


def lasting(ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
    """Returns a context to ask for permission with, later: without what was there for the request alone."""
    connection = connection_of(ctx)
    session = ServerSession(cast("Any", connection.outbound), connection, request_meta=ctx.meta)
    request: Any = None if ctx.request is None else Request(ctx.request.scope)
    return replace(ctx, session=session, request=request, close_sse_stream=None, close_standalone_sse_stream=None)


_CHANNEL: Final = ("_create_event_data", "_idle_timeout", "_request_streams", "_requests_in_flight", "idle_scope")


def standalone_channel(server: Server[Any], patience: float, session_id: str) -> "StandaloneChannel | None":
    """Returns the channel for the event stream of a legacy session; None if the SDK hides it."""
    transport = _transport_of(server, session_id)
    reachable = transport is not None and all(hasattr(transport, name) for name in _CHANNEL)
    return StandaloneChannel(transport, patience) if reachable else None


def _transport_of(server: Server[Any], session_id: str | None) -> Any:
    """Returns the SDK's transport of a session over streamable HTTP; None if the SDK hides it."""
    return getattr(getattr(server, "_session_manager", None), "_server_instances", {}).get(session_id)


class StandaloneChannel:
    """Takes what the SDK sends outside of requests in a legacy session. See `borrowed_stream.Channel`."""

    __slots__ = ("_patience", "_stream", "_transport")

    def __init__(self, transport: Any, patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._stream: BorrowedStream

    def lead_to(self, stream: BorrowedStream) -> None:
        self._stream = stream
        transport = self._transport
        if transport.is_terminated:
            stream.finish()
        transport._request_streams.setdefault(GET_STREAM_KEY, (self, self))
        transport._requests_in_flight += 1
        if transport.idle_scope is not None:
            transport.idle_scope.deadline = math.inf

    def release(self) -> None:
        transport = self._transport
        if transport._request_streams.get(GET_STREAM_KEY) == (self, self):
            del transport._request_streams[GET_STREAM_KEY]
        transport._requests_in_flight -= 1
        if transport.idle_scope is not None and not transport._requests_in_flight:
            transport.idle_scope.deadline = anyio.current_time() + transport._idle_timeout

    # The SDK's stream, as the SDK uses it

    async def send(self, message: Any) -> None:
        stream = self._stream
        if stream.ended:
            raise anyio.ClosedResourceError
        writing = stream.write(ServerSentEvent(**self._transport._create_event_data(message)).encode())
        if writing is not None:
            try:
                async with asyncio.timeout(self._patience):
                    await writing
            except TimeoutError:
                stream.abort()

    def close(self) -> None:
        self._stream.finish()

    async def aclose(self) -> None:
        self.close()


_REPLACED: Final = (MemoryObjectSendStream, MemoryObjectReceiveStream)
_STREAMS: Final = (("_read_stream_writer", "_read_stream"), ("_write_stream", "_write_stream_reader"))


def lighten(server: Server[Any], connection: Connection) -> None:
    """Lets the SDK keep less for a legacy session: lighter streams between its tasks, and no past messages."""
    transport = _transport_of(server, connection.session_id)
    for names in _STREAMS:
        sides: list[Any] = [getattr(transport, name, None) for name in names]
        ends: Any = tuple(getattr(side, "_inner", None) for side in sides)
        if tuple(map(type, ends)) == _REPLACED and (lighter := lighter_ends(ends)) is not None:
            sides[0]._inner, sides[1]._inner = lighter
    stream = getattr(connection.outbound, "_read_stream", None)
    inner = getattr(stream, "_inner", None)
    if stream is not None and inner is not None and not isinstance(inner, Outlet | _Forgetful):
        stream._inner = _Forgetful(inner)


class _Forgetful:
    """A stream of messages that is not replaced. It empties each one when the next is asked for, as `Outlet` does."""

    __slots__ = ("_inner", "_last")

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._last: Any = None

    async def receive(self) -> Any:
        forget(self._last)
        self._last = None
        self._last = await self._inner.receive()
        return self._last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def number_questions(connection: Connection, first: int) -> None:
    """Lets the requests that the server sends on `connection` have ids after `first`."""
    _private(connection.outbound, "_next_id")
    setattr(connection.outbound, "_next_id", first)  # noqa: B010 - it is private
