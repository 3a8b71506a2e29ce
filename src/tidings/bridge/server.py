"""`BridgeServer`: any MCP servers, made live, in both eras, behind one address."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from tidings._kit.bounded_json import as_dict, as_text
from tidings._kit.tasks import Background, Shared
from tidings._version import __version__
from tidings.bridge.group import KIND_OF, SCHEME, STATUS, ServerGroup
from tidings.bridge.relay import Relay, can_answer, is_modern
from tidings.bridge.settings import Json, UpstreamSpec
from tidings.bridge.upstream import Naming, Observe, Upstream
from tidings.bridge.watching import News
from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.bus.urls import bus_from_url
from tidings.changes import ResourcesListChanged, ResourceUpdated
from tidings.client import events
from tidings.errors import TidingsError
from tidings.server import LiveServer
from tidings.server.adapters import McpServerAdapter, list_change
from tidings.server.policy import RequestContext
from tidings.server.waking.extension import declares_tasks

logger = logging.getLogger(__name__)

_STATUS_SECONDS: Final = 1.0  # Between two looks at the status, while somebody subscribes to it.
_COUNTERS_EVERY: Final = 10  # Looks between two notifications of counters only.
_PAGE: Final = 1_000
_MOST_ALLOWED: Final = 10_000  # URIs that somebody may subscribe to, and nobody does.
_MOST_GROUPS: Final = 64  # Clients with tokens of their own, for which sessions are kept.
_DEFAULT_INTERVAL: Final = 5.0
_PAGES: Final = {
    "tools/list": ("tools", "tools", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "prompts", "name"),
}
_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}  # Every list and read of the modern era states this.
_MODERN_KEYS: Final = ("resultType", "ttlMs", "cacheScope")
_OWN_NOTIFICATIONS: Final = ("notifications/initialized", "notifications/cancelled", "notifications/progress")


class BridgeServer(LiveServer[None]):
    """Serves everything that other servers offer, and publishes their changes.

    Args:
        specs: The servers behind the bridge.
        prefixed: Begin all names with the name of their server. By default, only if there are several servers.
        interval: The seconds between two reads of a resource whose changes its server does not announce.
        observe: For a recorder: called with a server's name before its client is made. Returns the tap for the client,
            and a function that gets the client.
        bus: As for `LiveServer`.
        options: As for `LiveServer`.
    """

    def __init__(
        self,
        specs: Sequence[UpstreamSpec],
        *,
        prefixed: bool | None = None,
        interval: float = _DEFAULT_INTERVAL,
        observe: Observe | None = None,
        bus: Bus | str | None = None,
        **options: Any,
    ) -> None:
        bus = bus_from_url(bus) if isinstance(bus, str) else bus
        self._specs = {spec.name: spec for spec in specs}
        self._prefixed = len(specs) > 1 if prefixed is None else prefixed
        self._interval = interval
        self._pass_token = any(spec.pass_token for spec in specs)
        self._observe = observe
        self._relay = Relay(self._principal)
        self._background = Background()
        self._groups: OrderedDict[str | None, ServerGroup] = OrderedDict()
        self._allowed: OrderedDict[str, set[str | None]] = OrderedDict()  # The principals that may subscribe.
        self._wanted: set[str] = set()  # The subscriptions that there are.
        self._telling: asyncio.Task[None] | None = None
        durable = bus is not None and not isinstance(bus, MemoryBus)
        self._news = News(lambda uri: self.notify.soon(ResourceUpdated(uri)), getattr(bus, "records", None), durable)
        options = {"version": __version__} | options
        if self._pass_token:
            options["authorize"] = self._authorize
        super().__init__("tidings-bridge", bus=bus, lifespan=Shared(self._running).use, **options)
        self.on_first_subscriber("*")(self._begin_interest)
        self.on_last_subscriber("*")(self._end_interest)
        self._live.also_serves(self._owns, self._templates)
        self._answers: dict[str, Callable[[RequestContext], Awaitable[Json]]] = {
            **dict.fromkeys(_PAGES, self._page),
            "tools/call": self._call,
            "prompts/get": self._get_prompt,
            "resources/read": self._read,
            "completion/complete": self._complete,
        }
        self._lowlevel = McpServerAdapter(self).lowlevel
        self._lowlevel.middleware.append(self._serve)
        self._lowlevel.get_tool_input_schema = self._input_schema
        self._stamp = {types.SERVER_INFO_META_KEY: self._lowlevel.server_info_stamp}

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        if not self._pass_token:
            self._open_group(None)
        try:
            yield
        finally:
            if self._telling is not None:
                self._telling.cancel()
            await self._relay.aclose()
            await asyncio.gather(*(group.aclose() for group in self._groups.values()))
            self._groups.clear()

    async def set_servers(self, specs: Sequence[UpstreamSpec]) -> None:
        """Replaces the servers that differ. Raises `ValueError` if they begin or cease to get clients' tokens."""
        if any(spec.pass_token for spec in specs) != self._pass_token:
            raise ValueError("pass_token cannot be changed while the bridge runs. Start it again.")
        self._specs = {spec.name: spec for spec in specs}
        await asyncio.gather(*(group.set_servers(self._specs) for group in self._groups.values()))
        for kind in ("tool", "resource", "prompt"):
            self.notify.soon(list_change(kind))

    def _open_group(self, owner: str | None) -> ServerGroup:
        group = ServerGroup(owner, self._made, self._news, prefixed=self._prefixed)
        self._groups[owner] = group
        group.start(self._specs)
        while len(self._groups) > _MOST_GROUPS:
            idle = [key for key, each in self._groups.items() if not each.watches and each is not group]
            if not idle:
                break
            self._background.start(self._groups.pop(idle[0]).aclose())
        return group

    def _made(self, group: ServerGroup, spec: UpstreamSpec) -> Upstream:
        upstream = Upstream(
            spec,
            Naming(spec.name if self._prefixed else ""),
            partial(self._list_changed, group),
            lambda question: self._relay.answer(upstream, question),
            lambda feature: any(each.reachable for each in self.notify.subscribers(feature)),
            self._interval,
            group.owner,
            self._observe,
        )
        group.watches.hear(upstream)
        upstream.client.on(events.LogReceived, partial(self._relay.logged, upstream))
        upstream.client.on(events.NotificationReceived, partial(self._relay.notified, upstream))
        return upstream

    def _principal(self, ctx: RequestContext) -> str | None:
        """Returns what tells the sender of a request from others: the header that is sent on, if there is one."""
        return ctx.request.headers.get("authorization") if self._pass_token and ctx.request is not None else None

    def _group(self, ctx: RequestContext) -> ServerGroup:
        return self._group_of(self._principal(ctx))

    def _group_of(self, principal: str | None) -> ServerGroup:
        """Returns the sessions for the sender of a request."""
        if (group := self._groups.get(principal)) is None:
            group = self._open_group(principal)
        self._groups.move_to_end(principal)
        return group

    async def _authorize(self, ctx: RequestContext, uri: str) -> bool:
        """Allows a subscription to what the sender can read."""
        principal, group = self._principal(ctx), self._group(ctx)
        await group.tried()
        if uri != STATUS and not uri.endswith("*"):
            try:
                await group.source(uri).read()
            except (TidingsError, ValueError):
                return False
        self._allowed.setdefault(uri, set()).add(principal)
        self._allowed.move_to_end(uri)
        for old in [each for each in self._allowed if each not in self._wanted][:-_MOST_ALLOWED]:
            del self._allowed[old]
        if uri in self._wanted:
            await group.watches.begin(uri)  # Each with its own rights: the resource may be another one for this client.
        return True

    def _list_changed(self, group: ServerGroup, upstream: Upstream, name: str) -> None:
        self.notify.soon(list_change(KIND_OF[name]))
        if name == "tools":
            for tool in filter(upstream.needs_task, upstream.tools):
                self._live.task(upstream.naming.name_out(tool))
            self.notify.soon(ResourcesListChanged())  # The calls of tools are resources, too.
        group.watches.lists_changed()

    async def _serve(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        method = ctx.method
        self._relay.heard_from(ctx)
        if ctx.request_id is None:
            await self._pass_notification(ctx)
            return await call_next(ctx)
        if method in ("initialize", "server/discover"):
            group = self._group(ctx)
            await group.tried()
            result = await call_next(ctx)
            return group.introduced(result) if isinstance(result, dict) else result
        if method == "logging/setLevel" and not is_modern(ctx):
            return await self._set_level(ctx)
        if method.startswith("tasks/"):
            return await self._ask_about_task(ctx, call_next)
        answer = self._answers.get(method)
        if answer is None and not self._prefixed and self._lowlevel.get_request_handler(method) is None:
            (upstream,) = self._group(ctx)
            return self._enveloped(ctx, await self._relay.forward(ctx, upstream, ctx.params or {}, safe=False))
        return await call_next(ctx) if answer is None else self._enveloped(ctx, await answer(ctx))

    async def _pass_notification(self, ctx: RequestContext) -> None:
        """Passes a notification of a client on, unless it is about its own connection."""
        method, params = ctx.method, ctx.params
        if method == "notifications/initialized" and can_answer(ctx, "roots/list"):
            method, params = "notifications/roots/list_changed", None  # The servers asked before there was a client.
        if method in _OWN_NOTIFICATIONS:
            return
        for upstream in [each for each in self._group(ctx) if each.client.connected]:
            with suppress(TidingsError):
                await upstream.client.send_notification(method, params)

    async def _ask_about_task(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Asks about a task of the bridge itself or, if it has none of this id, of the servers."""
        try:
            return await call_next(ctx)
        except MCPError as unknown:
            if unknown.error.code != types.INVALID_PARAMS or not declares_tasks(ctx):
                raise
            for upstream in [each for each in self._group(ctx) if each.client.era == "modern"]:
                with suppress(MCPError):
                    result = await self._relay.forward(ctx, upstream, ctx.params or {}, safe=True)
                    return self._enveloped(ctx, result)
            raise

    def _enveloped(self, ctx: RequestContext, result: Json) -> Json:
        """Returns a result as the era of its request has it."""
        if not is_modern(ctx):
            return {name: value for name, value in result.items() if name not in _MODERN_KEYS}
        return {"resultType": "complete", **result, "_meta": {**self._stamp, **as_dict(result.get("_meta"))}}

    async def _page(self, ctx: RequestContext) -> Json:
        group = self._group(ctx)
        await group.tried()
        name, key, identity = _PAGES[ctx.method]
        items = group.offered(name)
        cursor, start = as_text((ctx.params or {}).get("cursor")), 0
        if cursor is not None:
            places = {str(item[identity]): place for place, item in enumerate(items)}
            if cursor not in places:
                raise MCPError(types.INVALID_PARAMS, "The list has changed since this cursor: begin again.")
            start = places[cursor] + 1
        page = items[start : start + _PAGE]
        more = {"nextCursor": str(page[-1][identity])} if len(items) > start + _PAGE else {}
        return {key: page, **more, **_CACHED}

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema by which the SDK checks the headers of a call, whoever sends it."""
        for upstream in [each for group in self._groups.values() for each in group]:
            original = upstream.naming.name_back(name)
            if original in upstream.tools and upstream.naming.name_out(original) == name:
                return as_dict(upstream.tools[original].get("inputSchema"))
        return None

    async def _call(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        upstream, name = self._group(ctx).find("tools", str(params.get("name")))
        safe = upstream.is_safe(name)
        try:
            if upstream.needs_task(name) and "requestState" not in params:
                return await self._relay.call_as_task(ctx, upstream, name)
            return await self._relay.forward(ctx, upstream, {**params, "name": name}, safe=safe)
        finally:
            if not safe:
                self._group(ctx).watches.hurry(upstream)
                upstream.hurry()

    async def _get_prompt(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        upstream, name = self._group(ctx).find("prompts", str(params.get("name")))
        return await self._relay.forward(ctx, upstream, {**params, "name": name}, safe=True)

    async def _complete(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        ref = as_dict(params.get("ref"))
        if ref.get("type") == "ref/prompt":
            upstream, name = self._group(ctx).find("prompts", str(ref.get("name")))
            ref = {**ref, "name": name}
        else:
            upstream, uri = self._group(ctx).owner_of(str(ref.get("uri")))
            ref = {**ref, "uri": uri}
        return await self._relay.forward(ctx, upstream, {**params, "ref": ref}, safe=True)

    async def _set_level(self, ctx: RequestContext) -> Json:
        level: Any = (ctx.params or {}).get("level")
        for upstream in self._group(ctx):
            if getattr(upstream.client.capabilities, "logging", None) is not None and upstream.client.connected:
                with suppress(TidingsError):  # One that refuses keeps it from no other.
                    await upstream.client.set_log_level(level)
        return {}

    async def _read(self, ctx: RequestContext) -> Json:
        uri, group = str((ctx.params or {}).get("uri")), self._group(ctx)
        if uri == STATUS:
            text = json.dumps(group.status(), indent=1)
            return {**_CACHED, "contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
        if (content := group.watches.content(uri)) is not None:
            return {**_CACHED, **content}
        try:
            if uri.startswith(SCHEME):
                return {**_CACHED, **await group.source(uri).read()}
            upstream, original = group.owner_of(uri)
        except (TidingsError, ValueError) as error:
            code = types.INVALID_PARAMS if is_modern(ctx) else -32002
            raise MCPError(code, str(error), {"uri": uri}) from None
        params = {**(ctx.params or {}), "uri": original}
        return {**_CACHED, **await self._relay.forward(ctx, upstream, params, safe=True)}

    def _owns(self, uri: str) -> bool:
        with suppress(TidingsError, ValueError):
            if uri != STATUS and not self._pass_token:  # Which tries each subscription with the rights of its sender.
                self._group_of(None).source(uri)
            return True
        return False

    def _templates(self) -> list[str]:
        items = [] if self._pass_token else self._group_of(None).offered("templates")
        return [str(item["uriTemplate"]) for item in items]

    async def _begin_interest(self, uri: str) -> None:
        self._wanted.add(uri)
        if uri == STATUS:
            self._telling = asyncio.create_task(self._tell_status(), name="tidings bridge status")
            return
        principals = self._allowed.get(uri, set[str | None]()) if self._pass_token else {None}
        await asyncio.gather(*(self._group_of(each).watches.begin(uri) for each in principals))

    async def _end_interest(self, uri: str) -> None:
        self._wanted.discard(uri)
        self._allowed.pop(uri, None)
        if uri == STATUS and self._telling is not None:
            self._telling.cancel()
        await asyncio.gather(*(group.watches.end(uri) for group in self._groups.values()))

    async def _tell_status(self) -> None:
        """Publishes changes of the status, those of counters now and then. That a copy grows older is none."""
        told, counted, looks = None, None, 0
        while True:
            now = [group.status() for group in self._groups.values()]
            watched = [each for status in now for each in status["watched"]]
            counters = [
                [each.pop(name) for name in ("reads", "changes", "read_seconds", "lag")][:3] for each in watched
            ]
            looks += 1
            if told is not None and (told != now or (counted != counters and looks >= _COUNTERS_EVERY)):
                self._news.publish(STATUS)
                counted, looks = counters, 0
            told = now
            await asyncio.sleep(_STATUS_SECONDS)
