"""`BridgeServer`: any MCP servers, made live, in both eras, behind one address."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from tidings._kit.bounded_json import as_dict, as_list, as_text
from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.tasks import Shared
from tidings._version import __version__
from tidings.bridge.call_resources import SCHEME, arguments_for, call_template, call_uri, contents_of, split_call
from tidings.bridge.names import Json, Naming, owner_of_name, owner_of_uri
from tidings.bridge.relay import Relay, can_answer, is_modern
from tidings.bridge.settings import CallWatch, UpstreamSpec
from tidings.bridge.upstream import LISTS, Upstream
from tidings.bridge.watching import Source, Watches
from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.bus.urls import bus_from_url
from tidings.changes import ResourcesListChanged, ResourceUpdated
from tidings.client import events
from tidings.errors import ResourceNotFound, TidingsError
from tidings.server import LiveServer
from tidings.server.adapters import McpServerAdapter, list_change
from tidings.server.policy import RequestContext
from tidings.server.waking.extension import declares_tasks

logger = logging.getLogger(__name__)

STATUS: Final = "bridge://status"
_PAGE: Final = 1_000
_DEFAULT_INTERVAL: Final = 5.0
_PAGES: Final = {
    "tools/list": ("tools", "tools", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "prompts", "name"),
}
_KIND_OF: Final = {"tools": "tool", "resources": "resource", "templates": "template", "prompts": "prompt"}
_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}  # Every list and read of the modern era states this.
_MODERN_KEYS: Final = ("resultType", "ttlMs", "cacheScope")
_OWN_NOTIFICATIONS: Final = ("notifications/initialized", "notifications/cancelled", "notifications/progress")


class BridgeServer(LiveServer[None]):
    """Serves what other servers offer, and tells of their changes.

    Args:
        specs: The servers. With several, their names come first in all names.
        calls: Calls of read-only tools that are listed as resources.
        interval: The seconds between two reads of a resource that its server does not tell of.
        bus: As for `LiveServer`.
        options: As for `LiveServer`.
    """

    def __init__(
        self,
        specs: Sequence[UpstreamSpec],
        *,
        calls: Sequence[CallWatch] = (),
        interval: float = _DEFAULT_INTERVAL,
        bus: Bus | str | None = None,
        **options: Any,
    ) -> None:
        bus = bus_from_url(bus) if isinstance(bus, str) else bus
        self._specs = list(specs)
        self._calls = {call_uri(each.server, each.tool, each.arguments): each for each in calls}
        self._interval = interval
        self._relay = Relay()
        self._upstreams: dict[str, Upstream] = {}
        self._watches = Watches(
            self._source,
            self._members,
            self._publish_update,
            getattr(bus, "records", None),
            durable=bus is not None and not isinstance(bus, MemoryBus),
        )
        options = {"version": __version__} | options
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
            "logging/setLevel": self._set_level,
        }
        self._lowlevel = McpServerAdapter(self).lowlevel
        self._lowlevel.middleware.append(self._serve)

    # Its life

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        for spec in self._specs:
            self._add(spec)
        try:
            yield
        finally:
            await self._watches.aclose()
            await self._relay.aclose()
            await asyncio.gather(*(upstream.aclose() for upstream in self._upstreams.values()))
            self._upstreams.clear()

    def _add(self, spec: UpstreamSpec) -> None:
        naming = Naming(spec.name if len(self._specs) > 1 else "")
        upstream = Upstream(spec, naming, self._list_changed, lambda question: self._relay.answer(upstream, question))
        self._upstreams[spec.name] = upstream
        self._watches.hear(upstream)
        upstream.client.on(events.LogReceived, partial(self._relay.logged, upstream))
        upstream.client.on(events.NotificationReceived, self._relay.notified)
        upstream.start()

    def _list_changed(self, upstream: Upstream, name: str) -> None:
        self.notify.soon(list_change(_KIND_OF[name]))
        if name == "tools":
            for tool in filter(upstream.needs_task, upstream.tools):
                self._live.task(upstream.naming.name_out(tool))
            self.notify.soon(ResourcesListChanged())  # The calls of tools are resources, too.
        self._watches.lists_changed()

    def _publish_update(self, uri: str) -> None:
        self.notify.soon(ResourceUpdated(uri))

    # Requests

    async def _serve(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        method = ctx.method
        self._relay.heard_from(ctx)
        if ctx.request_id is None:
            await self._pass_notification(ctx)
            return await call_next(ctx)
        if method in ("initialize", "server/discover"):
            await self._tried()
            return self._introduced(await call_next(ctx))
        if (answer := self._answers.get(method)) is not None:
            return self._enveloped(ctx, await answer(ctx))
        if method.startswith("tasks/"):
            return await self._ask_about_task(ctx, call_next)
        if method != "ping" and len(self._upstreams) == 1 and self._lowlevel.get_request_handler(method) is None:
            (upstream,) = self._upstreams.values()
            return self._enveloped(ctx, await self._relay.forward(ctx, upstream, ctx.params or {}, safe=False))
        return await call_next(ctx)

    async def _tried(self) -> None:
        """Waits until every server is connected, or has failed once."""
        await asyncio.gather(*(upstream.until_tried() for upstream in self._upstreams.values()))

    async def _pass_notification(self, ctx: RequestContext) -> None:
        """Passes a notification of a client on, unless it is about its own connection."""
        method, params = ctx.method, ctx.params
        if method == "notifications/initialized" and can_answer(ctx, "roots/list"):
            method, params = "notifications/roots/list_changed", None  # The servers asked before there was a client.
        if method in _OWN_NOTIFICATIONS:
            return
        for upstream in [each for each in self._upstreams.values() if each.client.connected]:
            with suppress(TidingsError):
                await upstream.client.send_notification(method, params)

    async def _ask_about_task(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Asks about a task of the bridge itself or, if it has none of this id, of the servers."""
        try:
            return await call_next(ctx)
        except MCPError as unknown:
            if unknown.error.code != types.INVALID_PARAMS or not declares_tasks(ctx):
                raise
            for upstream in [each for each in self._upstreams.values() if each.client.era == "modern"]:
                with suppress(MCPError):
                    result = await self._relay.forward(ctx, upstream, ctx.params or {}, safe=True)
                    return self._enveloped(ctx, result)
            raise

    def _is_unknown(self, method: str) -> bool:
        return McpServerAdapter(self).lowlevel.get_request_handler(method) is None and method != "ping"

    def _enveloped(self, ctx: RequestContext, result: Json) -> Json:
        """Returns a result as the era of its request has it."""
        if not is_modern(ctx):
            return {name: value for name, value in result.items() if name not in _MODERN_KEYS}
        stamp = {types.SERVER_INFO_META_KEY: self._lowlevel.server_info_stamp}
        return {"resultType": "complete", **result, "_meta": {**stamp, **as_dict(result.get("_meta"))}}

    def _introduced(self, result: HandlerResult) -> HandlerResult:
        """Adds what the servers state about themselves to the first answer."""
        if not isinstance(result, dict):
            return result
        capabilities: Json = dict(result.get("capabilities") or {})
        stated = [up.client.capabilities for up in self._upstreams.values() if up.client.capabilities is not None]
        raw = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in stated]
        for name in ("prompts", "logging", "completions", "experimental"):
            present = [as_dict(each[name]) for each in raw if name in each]
            if present:
                merged: Json = {}
                for each in present:
                    merged |= each
                capabilities[name] = {**merged, **capabilities.get(name, {})}
            else:
                capabilities.pop(name, None)
        texts = [up.client.instructions for up in self._upstreams.values() if up.client.instructions]
        introduced = {**result, "capabilities": capabilities}
        if texts and not introduced.get("instructions"):
            introduced["instructions"] = "\n\n".join(texts)
        return introduced

    # Lists

    async def _page(self, ctx: RequestContext) -> Json:
        await self._tried()
        name, key, identity = _PAGES[ctx.method]
        items = self._offered(name)
        cursor, start = as_text((ctx.params or {}).get("cursor")), 0
        if cursor is not None:
            places = {str(item[identity]): place for place, item in enumerate(items)}
            if cursor not in places:
                raise MCPError(types.INVALID_PARAMS, "The list has changed since this cursor: begin again.")
            start = places[cursor] + 1
        page = items[start : start + _PAGE]
        more = {"nextCursor": str(page[-1][identity])} if len(items) > start + _PAGE else {}
        return {key: page, **more, **_CACHED}

    def _offered(self, name: str) -> list[Json]:
        items = [
            upstream.naming.item_out(name, item)
            for upstream in self._upstreams.values()
            for item in upstream.lists[name]
        ]
        if name == "resources":
            watched = [{"uri": uri, "name": f"{each.tool} of {each.server}"} for uri, each in self._calls.items()]
            status = {
                "uri": STATUS,
                "name": "bridge",
                "title": "Servers behind the bridge",
                "mimeType": "application/json",
            }
            return [*items, *watched, status]
        if name == "templates":
            calls = [
                call_template(up.spec.name, tool) for up in self._upstreams.values() for tool in self._readable(up)
            ]
            return [*items, *calls]
        return items

    def _readable(self, upstream: Upstream) -> list[Json]:
        """Returns the tools whose calls may be resources: they only read, or the user named them."""
        named = {each.tool for each in self._calls.values() if each.server == upstream.spec.name}
        tools = upstream.lists["tools"]
        return [
            tool
            for tool in tools
            if as_dict(tool.get("annotations")).get("readOnlyHint") is True or tool["name"] in named
        ]

    # Tools, prompts, resources

    def _named(self, kind: str, name: str) -> tuple[Upstream, str]:
        """Returns the server of a tool or prompt, and its name there. Raises `MCPError`."""
        if len(self._specs) == 1:
            (upstream,) = self._upstreams.values()
            original = name
        else:
            owner = owner_of_name(name, self._upstreams)
            if owner is None:
                names = [str(item["name"]) for item in self._offered(kind)]
                about = did_you_mean(name, names) or there_are(names)
                raise MCPError(types.INVALID_PARAMS, f"There is no {_KIND_OF[kind]} {name!r}.{about}")
            upstream, original = self._upstreams[owner], name.removeprefix(f"{owner}_")
        if not upstream.spec.offers(original):
            raise MCPError(types.INVALID_PARAMS, f"There is no {_KIND_OF[kind]} {name!r}.")
        return upstream, original

    async def _call(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        upstream, name = self._named("tools", str(params.get("name")))
        safe = upstream.is_safe(name)
        try:
            if upstream.needs_task(name) and "requestState" not in params:
                return await self._relay.call_as_task(ctx, upstream, name)
            return await self._relay.forward(ctx, upstream, {**params, "name": name}, safe=safe)
        finally:
            if not safe:
                self._watches.hurry(upstream)

    async def _get_prompt(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        upstream, name = self._named("prompts", str(params.get("name")))
        return await self._relay.forward(ctx, upstream, {**params, "name": name}, safe=True)

    async def _complete(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        ref = as_dict(params.get("ref"))
        if ref.get("type") == "ref/prompt":
            upstream, name = self._named("prompts", str(ref.get("name")))
            ref = {**ref, "name": name}
        else:
            upstream, uri = self._owner(str(ref.get("uri")))
            ref = {**ref, "uri": uri}
        return await self._relay.forward(ctx, upstream, {**params, "ref": ref}, safe=True)

    async def _set_level(self, ctx: RequestContext) -> Json:
        level: Any = (ctx.params or {}).get("level")
        for upstream in self._upstreams.values():
            if upstream.has("logging") and upstream.client.connected:
                await upstream.client.set_log_level(level)
        return {}

    def _owner(self, uri: str) -> tuple[Upstream, str]:
        """Returns the server of a resource, and its URI there. Raises `MCPError`."""
        if len(self._specs) == 1:
            (upstream,) = self._upstreams.values()
            return upstream, uri
        if (owner := owner_of_uri(uri, self._upstreams)) is None:
            raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        upstream = self._upstreams[owner]
        return upstream, upstream.naming.uri_back(uri)

    async def _read(self, ctx: RequestContext) -> Json:
        return {**_CACHED, **await self._contents(ctx)}

    async def _contents(self, ctx: RequestContext) -> Json:
        uri = str((ctx.params or {}).get("uri"))
        if uri == STATUS:
            return {
                "contents": [{"uri": uri, "mimeType": "application/json", "text": json.dumps(self.status(), indent=1)}]
            }
        if (content := self._watches.content(uri)) is not None:
            return content
        try:
            if uri.startswith(SCHEME):
                return await self._read_call(uri)
            upstream, original = self._owner(uri)
        except (TidingsError, ValueError) as error:
            code = types.INVALID_PARAMS if is_modern(ctx) else -32002
            raise MCPError(code, str(error), {"uri": uri}) from None
        return await self._relay.forward(ctx, upstream, {**(ctx.params or {}), "uri": original}, safe=True)

    async def _read_call(self, uri: str) -> Json:
        upstream, tool, arguments = self._parsed_call(uri)
        result = await upstream.client.request("tools/call", {"name": tool, "arguments": arguments}, safe=True)
        if result.get("isError"):
            texts = [str(as_dict(block).get("text")) for block in as_list(result.get("content"))]
            raise ResourceNotFound(f"{tool} of {upstream.spec.name} failed: {' '.join(texts)}", data={"uri": uri})
        return contents_of(uri, upstream.naming.result_out(result))

    def _parsed_call(self, uri: str) -> tuple[Upstream, str, Json]:
        server, tool, texts = split_call(uri)
        upstream = self._upstreams.get(server)
        tools = [] if upstream is None else self._readable(upstream)
        found = next((each for each in tools if each["name"] == tool), None)
        if upstream is None or found is None:
            raise ResourceNotFound(f"{server} has no read-only tool {tool!r}.", data={"uri": uri})
        return upstream, tool, arguments_for(found.get("inputSchema"), texts)

    # Subscriptions

    def _owns(self, uri: str) -> bool:
        if uri == STATUS:
            return True
        try:
            if uri.startswith(SCHEME):
                self._parsed_call(uri)
            else:
                self._owner(uri)
        except (TidingsError, ValueError):
            return False
        return True

    def _templates(self) -> list[str]:
        return [str(item["uriTemplate"]) for item in self._offered("templates")]

    def _members(self, prefix: str) -> list[str]:
        return [str(item["uri"]) for item in self._offered("resources") if str(item["uri"]).startswith(prefix[:-1])]

    def _source(self, uri: str) -> Source:
        if uri.startswith(SCHEME):
            upstream, _, _ = self._parsed_call(uri)
            watched = self._calls.get(uri)
            interval = watched.seconds if watched is not None else upstream.spec.interval(uri, self._interval)
            return Source(
                upstream, uri, partial(self._read_call, uri), interval, is_fixed=watched is not None, can_be_told=False
            )
        upstream, original = self._owner(uri)

        async def read() -> Json:
            result = await upstream.client.request("resources/read", {"uri": original}, safe=True)
            return upstream.naming.result_out(result)

        interval = upstream.spec.interval(original, 0.0)
        return Source(
            upstream,
            original,
            read,
            interval or self._interval,
            is_fixed=bool(interval),
            can_be_told=True,
        )

    async def _begin_interest(self, uri: str) -> None:
        if uri != STATUS:
            await self._watches.begin(uri)

    async def _end_interest(self, uri: str) -> None:
        if uri != STATUS:
            await self._watches.end(uri)

    def status(self) -> Json:
        """Returns the state of the servers and of what is watched."""
        servers = [
            {
                "name": upstream.spec.name,
                "target": upstream.client.name,
                "state": upstream.client.state,
                "era": upstream.client.era,
                "trouble": upstream.trouble or None,
                **{name: len(upstream.lists[name]) for name in LISTS},
            }
            for upstream in self._upstreams.values()
        ]
        return {"servers": servers, "watched": self._watches.describe()}
