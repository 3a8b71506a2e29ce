"""`LiveServer`, a drop-in `MCPServer`; `attach()` for an existing server; and `ResourceProvider`."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast, get_args
from weakref import WeakSet

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.lowlevel.server import LifespanResultT, Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import AnyUrl, BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from tidings._kit.suggest import there_are
from tidings._kit.tasks import causes
from tidings._kit.uvicorn_seam import HttpServer
from tidings.bus import Bus
from tidings.bus.streams import Retention
from tidings.bus.urls import bus_from_url
from tidings.changes import ResourcesListChanged, ResourceUpdated
from tidings.errors import TidingsError, TransportError
from tidings.server.adapters import Kind, McpServerAdapter, adapter_for, lasting, list_change
from tidings.server.config import Coalesce, CoalesceSetting, Events, Limits, Waking, check_options
from tidings.server.events.catalogue import ModelT
from tidings.server.live import HookT, Live, not_found_in_era
from tidings.server.notify import Notifier
from tidings.server.policy import Authorize, SubscriptionPolicy
from tidings.server.waking.changes import shown_resources
from tidings.server.waking.running import TaskMode


class ResourceProvider(Protocol):
    """A source of resources that are looked up on request, such as the notes of a folder or the rows of a table.

    For resources that are too many to register, or that come and go. `LiveServer.provide` serves them together with the
    registered ones: in `resources/list`, page by page, among the templates, and for reading and subscribing.
    """

    def owns(self, uri: str) -> bool:
        """Returns whether the provider has this URI, or prefix ending in `*`, and clients may subscribe to it.

        The resource need not exist yet. Its subscribers are notified when it does.

        Raises:
            ValueError: The URI looks like one of the provider's, but no such resource can exist. The message says why.
        """
        ...

    def templates(self) -> Sequence[types.ResourceTemplate]:
        """Returns the URI templates of the resources."""
        ...

    async def page(self, cursor: str | None) -> tuple[Sequence[types.Resource], str | None]:
        """Returns the resources after `cursor` (None: from the first), and the cursor of the next page, if any.

        Raises:
            ValueError: The cursor is not one of this provider's.
        """
        ...

    async def read(self, uri: str) -> Sequence[ReadResourceContents]:
        """Returns the contents of the resource at `uri`.

        Raises:
            ResourceError: The resource does not exist or cannot be read. See `mcp.server.mcpserver.exceptions`.
        """
        ...


logger = logging.getLogger(__name__)

CallableT = TypeVar("CallableT", bound=Callable[..., Any])

_KINDS: tuple[Kind, ...] = get_args(Kind)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")  # There, the SDK checks Host and Origin by itself.
_TRANSPORTS = ("stdio", "sse", "streamable-http")
_live_servers: WeakSet[Server[Any]] = WeakSet()


def attach(
    server: object,
    *,
    bus: Bus | str | None = None,
    coalesce: CoalesceSetting = Coalesce(),  # noqa: B008 - a frozen value
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    authorize: Authorize | None = None,
    subscribable: Sequence[str] | None = None,
    waking: Waking | None = Waking(),  # noqa: B008 - a frozen value
    events: Events | None = Events(),  # noqa: B008 - a frozen value
) -> Live:
    """Makes an existing server live: an SDK `MCPServer`, a lowlevel `Server` or a `fastmcp.FastMCP`.

    The arguments are those of `LiveServer`. HTTP apps that the server makes from now on are wrapped automatically. Pass
    an app that was made earlier or elsewhere through `wrap()`.

    Raises:
        TypeError: `server` or an option has the wrong type.
        ValueError: `server` is already live, a pattern is not valid, or the URL is not that of a bus.
    """
    bus = bus_from_url(bus) if isinstance(bus, str) else bus
    check_options(
        bus=bus,
        coalesce=coalesce,
        limits=limits,
        authorize=authorize,
        subscribable=subscribable,
        waking=waking,
        events=events,
    )
    adapter = adapter_for(server)
    if adapter.lowlevel in _live_servers:
        raise ValueError("This server is already live: attach() was called on it before, or it is a LiveServer.")
    policy = SubscriptionPolicy(
        limits=limits,
        authorize=authorize,
        subscribable=subscribable,
        missing=adapter.missing,
        known=adapter.known,
        lasting=lasting,
    )
    notifier = server.notifier if isinstance(server, LiveServer) else Notifier
    shows = server.shown_resources if isinstance(server, LiveServer) else shown_resources
    live = Live(
        adapter, policy, bus=bus, coalesce=coalesce, notifier=notifier, waking=waking, events=events, shows=shows
    )
    _live_servers.add(adapter.lowlevel)
    adapter.wrap_apps(live.wrap, max_sessions=limits.sessions, session_idle_timeout=limits.session_idle)
    return live


class LiveServer(MCPServer[LifespanResultT]):
    """An `MCPServer` whose subscriptions and change notifications work.

    It takes all arguments of `MCPServer`, and these:

    Args:
        bus: Carries changes between processes, and keeps past ones. By default, a bus in memory. Pass a bus, or its
            URL, such as `redis://host` or `sqlite:///path/to/bus.db`: see `tidings.bus.urls`.
        coalesce: Merges changes that follow each other quickly. Pass one rule for all, or one for each URI pattern.
        limits: Limits on subscribers and subscriptions, and on the time that slow readers get.
        authorize: Called with the request's context and the URI before a subscription is accepted. A URI that it
            refuses is left out of the acknowledgment (modern era) or answered as if it did not exist (legacy era).
        subscribable: The URIs, prefixes and templates that clients may subscribe to. By default, all.
        waking: Settings for waiting and for tasks. None turns both off, and removes the tool `wait_for_change`.
        events: Settings for keeping and delivering MCP Events. None turns them off.
    """

    notifier: ClassVar[type[Notifier]] = Notifier
    """The class of `notify`. A subclass of the server can set one with more methods."""

    def __init__(
        self,
        name: str | None = None,
        *arguments: Any,
        bus: Bus | str | None = None,
        coalesce: CoalesceSetting = Coalesce(),  # noqa: B008 - a frozen value
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        authorize: Authorize | None = None,
        subscribable: Sequence[str] | None = None,
        waking: Waking | None = Waking(),  # noqa: B008 - a frozen value
        events: Events | None = Events(),  # noqa: B008 - a frozen value
        **options: Any,
    ) -> None:
        super().__init__(name, *arguments, **options)
        self._shelf: dict[tuple[Kind, str], Any] = {}
        self._provider: ResourceProvider | None = None
        self._live = attach(
            self,
            bus=bus,
            coalesce=coalesce,
            limits=limits,
            authorize=authorize,
            subscribable=subscribable,
            waking=waking,
            events=events,
        )

    @property
    def notify(self) -> Notifier:
        """Publishes changes, and lists the subscribers."""
        return self._live.notify

    def shown_resources(self, tool: str, result: dict[str, Any]) -> Iterable[str]:
        """Returns the URIs of the resources that a tool's result contains. They count as read by the caller.

        By default, these are the embedded resources. A subclass may know more. See `Waking.hints`.
        """
        return shown_resources(tool, result)

    def on_first_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """See `Live.on_first_subscriber`."""
        return self._live.on_first_subscriber(pattern)

    def on_last_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """See `Live.on_last_subscriber`."""
        return self._live.on_last_subscriber(pattern)

    def event(
        self,
        name: str,
        *,
        description: str | None = None,
        arguments: type[BaseModel] | None = None,
        retention: Retention | None = None,
    ) -> Callable[[ModelT], ModelT]:
        """See `Live.event`."""
        return self._live.event(name, description=description, arguments=arguments, retention=retention)

    @property
    def trouble(self) -> str:
        """See `Live.trouble`."""
        return self._live.trouble

    def asgi(self, *, ready: str | None = None, **options: Any) -> Starlette:
        """Returns the app for streamable HTTP, to run or to mount. It takes the `options` of `streamable_http_app`.

        `ready` is a path for a load balancer, such as "/ready". It answers 200, or 503 with the `trouble`.
        """

        async def say(_: Request) -> PlainTextResponse:
            return PlainTextResponse(self.trouble or "ready", status_code=503 if self.trouble else 200)

        if ready is not None:
            self.custom_route(ready, methods=["GET"], include_in_schema=False)(say)
        return self.streamable_http_app(**options)

    async def _announce(
        self,
        uris: Sequence[str],
        *,
        listed: bool = False,
        changed_at: float | None = None,
        before: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Publishes changes that have happened. Whoever made them has succeeded, even if the bus is away.

        What the bus cannot store now is kept and published later, which `notify` logs.
        """
        publish = partial(self.notify.publish, changed_at=changed_at)
        publishing = [publish(ResourceUpdated(uri), before=before.get(uri)) for uri in uris]
        publishing += [publish(ResourcesListChanged())] if listed else []
        for outcome in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, TransportError):
                logger.error("A change could not be published.", exc_info=outcome)

    def tool(  # noqa: PLR0917 - as in `MCPServer`
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: list[types.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
        *,
        task: TaskMode = False,
    ) -> Callable[[CallableT], CallableT]:
        """Decorates a function that becomes a tool. See `MCPServer.tool`.

        With `task=True`, the tool runs as a task for clients that declare the tasks extension: see `Live.task`. With
        `task="required"`, other clients are refused.
        """
        register = super().tool(name, title, description, annotations, icons, meta, structured_output)

        def decorate(function: CallableT) -> CallableT:
            registered = register(function)
            self._set_task_mode(name or function.__name__, task)
            return registered

        return decorate

    def add_tool(  # noqa: PLR0917 - as in `MCPServer`
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: list[types.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
        *,
        task: TaskMode = False,
    ) -> None:
        """Adds a tool. See `MCPServer.add_tool`, and `tool` for `task`."""
        super().add_tool(fn, name, title, description, annotations, icons, meta, structured_output)
        self._set_task_mode(name or fn.__name__, task)

    def _set_task_mode(self, tool: str, mode: TaskMode) -> None:
        if mode or hasattr(self, "_live"):  # The tools of the SDK's extensions are added before.
            self._live.task(tool, mode)

    async def aclose(self) -> None:
        """See `Live.aclose`."""
        await self._live.aclose()

    def remove_resource(self, uri: str) -> None:
        """Removes the resource at `uri` from the server. Raises `ValueError` if there is none."""
        self._take("resource", uri)

    def remove_resource_template(self, uri_template: str) -> None:
        """Removes a resource template from the server. Raises `ValueError` if there is none."""
        self._take("template", uri_template)

    def disable(self, kind: Kind, name: str) -> None:
        """Disables a tool or prompt (by name), a resource (by URI) or a template (by its text). `enable` reverses it.

        Raises:
            ValueError: There is no such item or no such kind, or the item is already disabled.
        """
        self._shelf[kind, name] = self._take(kind, name)

    def enable(self, kind: Kind, name: str) -> None:
        """Enables an item that was disabled with `disable`.

        Raises:
            ValueError: The item is not disabled, or there is no such kind.
        """
        items = self._items(kind)
        if (kind, name) not in self._shelf:
            raise ValueError(f"The {kind} {name!r} is not disabled.")
        items[name] = self._shelf.pop((kind, name))
        self.notify.soon(list_change(kind))

    def _take(self, kind: Kind, name: str) -> Any:
        items = self._items(kind)
        if name not in items:
            raise ValueError(f"There is no {kind} {name!r}.{there_are(items, most=None)}")
        item = items.pop(name)
        self.notify.soon(list_change(kind))
        return item

    def _items(self, kind: Kind) -> dict[str, Any]:
        if kind not in _KINDS:
            raise ValueError(f"There is no kind {kind!r} of item.{there_are(_KINDS)}")
        return McpServerAdapter(self).items(kind)

    # Resources that are found when they are asked for

    def provide(self, provider: ResourceProvider) -> None:
        """Also serves the resources of `provider`, which publishes their changes through `notify`."""
        self._provider = provider
        self._live.also_serves(provider.owns, lambda: [each.uri_template for each in provider.templates()])
        McpServerAdapter(self).lowlevel.add_request_handler(
            "resources/list", types.PaginatedRequestParams, self._list_page
        )

    async def _list_page(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        provider = cast("ResourceProvider", self._provider)
        cursor = params.cursor if params else None
        try:
            provided, following = await provider.page(cursor)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"cursor": cursor}) from error
        registered = [] if cursor else await self.list_resources()
        return types.ListResourcesResult(resources=[*registered, *provided], next_cursor=following)

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Returns the registered templates and those of the provider."""
        return [*await super().list_resource_templates(), *(self._provider.templates() if self._provider else ())]

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[LifespanResultT, Any] | None = None
    ) -> Iterable[ReadResourceContents] | types.InputRequiredResult:
        """Returns the contents of the resource at `uri`, from the provider if it owns the URI. See `MCPServer`."""
        with not_found_in_era(context, str(uri)):
            try:
                provided = self._provider is not None and self._provider.owns(str(uri))
            except ValueError as error:
                raise ResourceNotFoundError(str(error)) from error
            if self._provider is not None and provided:
                return await self._provider.read(str(uri))
            return await super().read_resource(uri, context)

    def run(self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", **kwargs: Any) -> None:
        """Serves until the process is asked to stop: over "stdio" (the default), "streamable-http" or "sse".

        Other arguments are passed to the transport, as in `MCPServer.run`. Ctrl-C stops the server without an error.

        Raises:
            ValueError: There is no such transport.
            SystemExit: The server cannot serve because of a `TidingsError`.
        """
        if transport not in _TRANSPORTS:
            raise ValueError(f"There is no transport {transport!r}.{there_are(_TRANSPORTS)}")
        try:
            with suppress(KeyboardInterrupt):
                super().run(transport, **kwargs)
        except BaseExceptionGroup as failures:
            # The tasks of a stdio server ended with these. A named error explains itself, without a traceback.
            if not all(isinstance(each, TidingsError) for each in causes(failures)):
                raise
            raise SystemExit(f"The live server cannot serve: {next(causes(failures))}") from None

    async def run_stdio_async(self) -> None:
        """Serves over standard input and output until the input ends or the process is asked to stop."""
        await self._live.run_stdio_async()

    async def run_streamable_http_async(  # type: ignore[override]
        self, *, host: str = "127.0.0.1", port: int = 8000, hosts: Sequence[str] = (), **options: Any
    ) -> None:
        """Serves over streamable HTTP until the process is asked to stop. Takes the `options` of `streamable_http_app`.

        `hosts` are the names that clients may use for this server, without a port, such as "mcp.example.com". Requests
        with another `Host`, or from a page with another `Origin`, are refused.
        """
        await self._serve_http(self.asgi(host=host, **_secured(host, hosts, options)), host, port)

    async def run_sse_async(  # type: ignore[override]
        self, *, host: str = "127.0.0.1", port: int = 8000, hosts: Sequence[str] = (), **options: Any
    ) -> None:
        """Serves over the SSE transport until the process is asked to stop. Takes the `options` of `sse_app`."""
        await self._serve_http(self.sse_app(host=host, **_secured(host, hosts, options)), host, port)

    async def _serve_http(self, app: Starlette, host: str, port: int) -> None:
        level = self.settings.log_level.lower()
        await HttpServer(app, handle_signals=True, host=host, port=port, log_level=level).serve()


def _secured(host: str, hosts: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of an app that accepts these `hosts` alone. Warns if an open port accepts any."""
    if hosts and "transport_security" in options:
        raise TypeError("Pass either hosts or transport_security: both say which hosts are accepted.")
    if hosts:
        names = [pattern for name in hosts for pattern in (name, f"{name}:*")]
        origins = [f"{scheme}://{name}" for name in names for scheme in ("https", "http")]
        return {
            "transport_security": TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins),
            **options,
        }
    if host not in _LOOPBACK and "transport_security" not in options:
        logger.warning(
            "This server listens on %s and checks neither Host nor Origin: a web page that somebody in this network "
            "visits could use it. Pass the host names that clients use: run(..., hosts=['mcp.example.com']).",
            host,
        )
    return options
