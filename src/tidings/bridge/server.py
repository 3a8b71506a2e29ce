"""`BridgeServer`: any MCP servers, made live, in both eras, behind one address."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from tidings._kit.bounded_json import as_dict, as_list, as_text
from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.tasks import Background, Shared
from tidings._version import __version__
from tidings.bridge.call_resources import SCHEME, arguments_for, call_template, call_uri, contents_of, split_call
from tidings.bridge.ignoring import Ignored
from tidings.bridge.names import Json, Naming, owner_of_name, owner_of_uri
from tidings.bridge.relay import Relay, can_answer, is_modern
from tidings.bridge.settings import CallWatch, UpstreamSpec
from tidings.bridge.upstream import LISTS, Observe, Upstream
from tidings.bridge.watching import Read, Source, WatchedSources
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
_STATUS_SECONDS: Final = 1.0  # Between two looks at the status, while somebody subscribes to it.
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
_KIND_OF: Final = {"tools": "tool", "resources": "resource", "templates": "template", "prompts": "prompt"}
_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}  # Every list and read of the modern era states this.
_MODERN_KEYS: Final = ("resultType", "ttlMs", "cacheScope")
_OWN_NOTIFICATIONS: Final = ("notifications/initialized", "notifications/cancelled", "notifications/progress")


class BridgeServer(LiveServer[None]):
    """Serves what other servers offer, and tells of their changes.

    Args:
        specs: The servers.
        prefixed: Put the names of the servers in front of all names. By default, if there are several.
        interval: The seconds between two reads of a resource that its server does not tell of.
        observe: Called with the name of each server as its client is made. Returns the tap for it, and a function that
            gets the client: for a recorder.
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
        self._records = getattr(bus, "records", None)
        self._durable = bus is not None and not isinstance(bus, MemoryBus)
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

    # Its life

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
        """Replaces the servers while the bridge runs. Those that stay the same keep their sessions.

        Raises `ValueError` if they begin, or cease, to get the tokens of clients: that takes a new bridge.
        """
        if any(spec.pass_token for spec in specs) != self._pass_token:
            raise ValueError("pass_token cannot be changed while the bridge runs. Start it again.")
        self._specs = {spec.name: spec for spec in specs}
        await asyncio.gather(*(group.set_servers(self._specs) for group in self._groups.values()))
        for kind in ("tool", "resource", "prompt"):
            self.notify.soon(list_change(kind))

    def _open_group(self, authorization: str | None) -> "ServerGroup":
        def watch(group: ServerGroup) -> WatchedSources:
            find, members = partial(self._source, group), partial(self._members, group)
            publish, records = self._publish_update, self._records
            return WatchedSources(find, members, publish, records, owner=authorization, durable=self._durable)

        group = ServerGroup(partial(self._made, authorization), watch)
        self._groups[authorization] = group
        group.start(self._specs)
        while len(self._groups) > _MOST_GROUPS:
            idle = [key for key, each in self._groups.items() if not each.watches and each is not group]
            if not idle:
                break
            self._background.start(self._groups.pop(idle[0]).aclose())
        return group

    def _made(self, authorization: str | None, group: "ServerGroup", spec: UpstreamSpec) -> Upstream:
        upstream = Upstream(
            spec,
            Naming(spec.name if self._prefixed else ""),
            partial(self._list_changed, group),
            lambda question: self._relay.answer(upstream, question),
            lambda feature: any(each.reachable for each in self.notify.subscribers(feature)),
            self._interval,
            authorization,
            self._observe,
        )
        group.watches.hear(upstream)
        upstream.client.on(events.LogReceived, partial(self._relay.logged, upstream))
        upstream.client.on(events.NotificationReceived, partial(self._relay.notified, upstream))
        return upstream

    def _principal(self, ctx: RequestContext) -> str | None:
        """Returns what tells the sender of a request from others: the header that is sent on, if there is one."""
        return ctx.request.headers.get("authorization") if self._pass_token and ctx.request is not None else None

    def _group(self, ctx: RequestContext) -> "ServerGroup":
        """Returns the sessions for the sender of a request."""
        return self._group_of(self._principal(ctx))

    def _group_of(self, principal: str | None) -> "ServerGroup":
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
                await self._source(group, uri).read()
            except (TidingsError, ValueError):
                return False
        self._allowed.setdefault(uri, set()).add(principal)
        self._allowed.move_to_end(uri)
        for old in [each for each in self._allowed if each not in self._wanted][:-_MOST_ALLOWED]:
            del self._allowed[old]
        if uri in self._wanted:
            await group.watches.begin(uri)  # Each with its own rights: the resource may be another one for this client.
        return True

    def _list_changed(self, group: "ServerGroup", upstream: Upstream, name: str) -> None:
        self.notify.soon(list_change(_KIND_OF[name]))
        if name == "tools":
            for tool in filter(upstream.needs_task, upstream.tools):
                self._live.task(upstream.naming.name_out(tool))
            self.notify.soon(ResourcesListChanged())  # The calls of tools are resources, too.
        group.watches.lists_changed()

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
            group = self._group(ctx)
            await group.tried()
            return _introduced(group, await call_next(ctx))
        if method == "logging/setLevel" and not is_modern(ctx):
            return await self._set_level(ctx)
        if method.startswith("tasks/"):
            return await self._ask_about_task(ctx, call_next)
        answer = self._answers.get(method)
        if answer is None and not self._prefixed and self._lowlevel.get_request_handler(method) is None:
            answer = self._pass_request
        return await call_next(ctx) if answer is None else self._enveloped(ctx, await answer(ctx))

    async def _pass_request(self, ctx: RequestContext) -> Json:
        """Passes a request on that the bridge does not know."""
        (upstream,) = self._group(ctx)
        return await self._relay.forward(ctx, upstream, ctx.params or {}, safe=False)

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
        stamp = {types.SERVER_INFO_META_KEY: self._lowlevel.server_info_stamp}
        return {"resultType": "complete", **result, "_meta": {**stamp, **as_dict(result.get("_meta"))}}

    # Lists

    async def _page(self, ctx: RequestContext) -> Json:
        group = self._group(ctx)
        await group.tried()
        name, key, identity = _PAGES[ctx.method]
        items = self._offered(group, name)
        cursor, start = as_text((ctx.params or {}).get("cursor")), 0
        if cursor is not None:
            places = {str(item[identity]): place for place, item in enumerate(items)}
            if cursor not in places:
                raise MCPError(types.INVALID_PARAMS, "The list has changed since this cursor: begin again.")
            start = places[cursor] + 1
        page = items[start : start + _PAGE]
        more = {"nextCursor": str(page[-1][identity])} if len(items) > start + _PAGE else {}
        return {key: page, **more, **_CACHED}

    def _offered(self, group: "ServerGroup", name: str) -> list[Json]:
        items = [upstream.naming.item_out(name, item) for upstream in group for item in upstream.lists[name]]
        if name == "resources":
            watched = [{"uri": uri, "name": f"{each.tool} of {each.server}"} for uri, each in self._calls.items()]
            status = {"uri": STATUS, "name": "bridge", "title": "The bridge", "mimeType": "application/json"}
            return [*items, *watched, status]
        if name == "templates":
            return items + [call_template(up.spec.name, tool) for up in group for tool in _readable(up)]
        return items

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema by which the SDK checks the headers of a call, whoever sends it."""
        for group in self._groups.values():
            for upstream in group:
                if (original := upstream.naming.name_back(name)) in upstream.tools:
                    return as_dict(upstream.tools[original].get("inputSchema"))
        return None

    @property
    def _calls(self) -> dict[str, CallWatch]:
        watches = [watch for spec in self._specs.values() for watch in spec.watches]
        return {call_uri(each.server, each.tool, each.arguments): each for each in watches}

    # Tools, prompts, resources

    def _named(self, ctx: RequestContext, kind: str, name: str) -> tuple[Upstream, str]:
        """Returns the server of a tool or prompt, and its name there. Raises `MCPError`."""
        group = self._group(ctx)
        owner = owner_of_name(name, group.servers) if self._prefixed else next(iter(group.servers), None)
        upstream = None if owner is None else group.servers[owner]
        original = name.removeprefix(f"{owner}_") if self._prefixed else name
        if upstream is None or not upstream.spec.offers(original):
            names = [str(item["name"]) for item in self._offered(group, kind)]
            about = did_you_mean(name, names) or there_are(names)
            raise MCPError(types.INVALID_PARAMS, f"There is no {_KIND_OF[kind]} {name!r}.{about}")
        return upstream, original

    async def _call(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        upstream, name = self._named(ctx, "tools", str(params.get("name")))
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
        upstream, name = self._named(ctx, "prompts", str(params.get("name")))
        return await self._relay.forward(ctx, upstream, {**params, "name": name}, safe=True)

    async def _complete(self, ctx: RequestContext) -> Json:
        params = dict(ctx.params or {})
        ref = as_dict(params.get("ref"))
        if ref.get("type") == "ref/prompt":
            upstream, name = self._named(ctx, "prompts", str(ref.get("name")))
            ref = {**ref, "name": name}
        else:
            upstream, uri = self._owner(self._group(ctx), str(ref.get("uri")))
            ref = {**ref, "uri": uri}
        return await self._relay.forward(ctx, upstream, {**params, "ref": ref}, safe=True)

    async def _set_level(self, ctx: RequestContext) -> Json:
        level: Any = (ctx.params or {}).get("level")
        for upstream in self._group(ctx):
            if upstream.has("logging") and upstream.client.connected:
                await upstream.client.set_log_level(level)
        return {}

    def _owner(self, group: "ServerGroup", uri: str) -> tuple[Upstream, str]:
        """Returns the server of a resource, and its URI there. Raises `ResourceNotFound`."""
        owner = owner_of_uri(uri, group.servers) if self._prefixed else next(iter(group.servers), None)
        if owner is None:
            raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        upstream = group.servers[owner]
        return upstream, upstream.naming.uri_back(uri)

    async def _read(self, ctx: RequestContext) -> Json:
        return {**_CACHED, **await self._contents(ctx)}

    async def _contents(self, ctx: RequestContext) -> Json:
        uri = str((ctx.params or {}).get("uri"))
        if uri == STATUS:
            text = json.dumps(self.status(self._group(ctx)), indent=1)
            return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
        if (content := self._group(ctx).watches.content(uri)) is not None:
            return content
        try:
            if uri.startswith(SCHEME):
                return await self._read_call(self._group(ctx), uri)
            upstream, original = self._owner(self._group(ctx), uri)
        except (TidingsError, ValueError) as error:
            code = types.INVALID_PARAMS if is_modern(ctx) else -32002
            raise MCPError(code, str(error), {"uri": uri}) from None
        return await self._relay.forward(ctx, upstream, {**(ctx.params or {}), "uri": original}, safe=True)

    async def _read_call(self, group: "ServerGroup", uri: str) -> Json:
        upstream, tool, arguments = _parsed_call(group, uri)
        result = await upstream.client.request("tools/call", {"name": tool, "arguments": arguments}, safe=True)
        if result.get("isError"):
            texts = [str(as_dict(block).get("text")) for block in as_list(result.get("content"))]
            raise ResourceNotFound(f"{tool} of {upstream.spec.name} failed: {' '.join(texts)}", data={"uri": uri})
        return contents_of(uri, upstream.naming.result_out(result))

    # Subscriptions

    def _owns(self, uri: str) -> bool:
        if uri == STATUS or self._pass_token:  # Then each subscription is tried with the rights of its sender.
            return True
        try:
            self._source(self._group_of(None), uri)
        except (TidingsError, ValueError):
            return False
        return True

    def _templates(self) -> list[str]:
        if self._pass_token:
            return []
        return [str(item["uriTemplate"]) for item in self._offered(self._group_of(None), "templates")]

    def _members(self, group: "ServerGroup", prefix: str) -> list[str]:
        uris = [str(item["uri"]) for item in self._offered(group, "resources")]
        return [uri for uri in uris if uri.startswith(prefix[:-1]) and uri != STATUS]

    def _source(self, group: "ServerGroup", uri: str) -> Source:
        if uri.startswith(SCHEME):
            upstream, _, _ = _parsed_call(group, uri)
            watched = self._calls.get(uri)
            interval = watched.seconds if watched is not None else upstream.spec.interval(uri)
            rules = [*upstream.spec.ignored(uri), *(watched.ignore if watched is not None else ())]
            original, read = uri, cast("Read", partial(self._read_call, group, uri))
        else:
            upstream, original = self._owner(group, uri)
            interval, rules = upstream.spec.interval(original), upstream.spec.ignored(original)
            read = partial(_read_from, upstream, original)
        # Who sets an interval or a rule does not trust the server to tell of what matters.
        can_be_told = not (uri.startswith(SCHEME) or interval or rules)
        ignored = Ignored(rules) if rules else None
        return Source(upstream, original, read, interval or self._interval, bool(interval), can_be_told, ignored)

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
        """Publishes changes of the status. That a copy grows older is none."""
        told = None
        while True:
            now = [self.status(group) for group in self._groups.values()]
            for watched in [each for status in now for each in status["watched"]]:
                del watched["lag"]
            if told is not None and told != now:
                self._publish_update(STATUS)
            told = now
            await asyncio.sleep(_STATUS_SECONDS)

    def status(self, group: "ServerGroup") -> Json:
        """Returns the state of the servers and of what is watched."""
        servers = [
            {
                "name": upstream.spec.name,
                "target": upstream.client.name,
                "state": upstream.client.state,
                "era": upstream.client.era,
                "trouble": upstream.trouble or None,
                "notices": [text for text in upstream.notices.values() if text],
                **{name: len(upstream.lists[name]) for name in LISTS},
            }
            for upstream in group
        ]
        return {"servers": servers, "watched": group.watches.describe()}


class ServerGroup:
    """The sessions to all servers, for one principal or for everybody."""

    def __init__(
        self,
        make: Callable[["ServerGroup", UpstreamSpec], Upstream],
        watch: Callable[["ServerGroup"], WatchedSources],
    ) -> None:
        self._make = partial(make, self)
        self.servers: dict[str, Upstream] = {}
        self.watches = watch(self)

    def __iter__(self) -> Iterator[Upstream]:
        return iter(tuple(self.servers.values()))

    def start(self, specs: Mapping[str, UpstreamSpec]) -> None:
        for name, spec in specs.items():
            self.servers[name] = self._make(spec)
            self.servers[name].start()

    async def set_servers(self, specs: Mapping[str, UpstreamSpec]) -> None:
        """Begins sessions to new servers, and ends those to servers that are gone or have changed."""
        gone = [upstream for name, upstream in self.servers.items() if specs.get(name) != upstream.spec]
        kept = {upstream.spec.name: upstream for upstream in self if upstream not in gone}
        self.servers = {name: kept.get(name) or self._make(spec) for name, spec in specs.items()}
        for name, upstream in self.servers.items():
            if name not in kept:
                upstream.start()
        await asyncio.gather(*(upstream.aclose() for upstream in gone))
        await self.watches.renew(gone)

    async def tried(self) -> None:
        """Waits until every server is connected, or has failed once."""
        await asyncio.gather(*(upstream.until_tried() for upstream in self))

    async def aclose(self) -> None:
        await self.watches.aclose()
        await asyncio.gather(*(upstream.aclose() for upstream in self))


async def _read_from(upstream: Upstream, uri: str) -> Json:
    return upstream.naming.result_out(await upstream.client.request("resources/read", {"uri": uri}, safe=True))


def _readable(upstream: Upstream) -> list[Json]:
    """Returns the tools whose calls may be resources: they only read, or the user named them."""
    named = {watch.tool for watch in upstream.spec.watches}
    tools = upstream.lists["tools"]
    return [tool for tool in tools if tool["name"] in named or upstream.only_reads(str(tool["name"]))]


def _parsed_call(group: ServerGroup, uri: str) -> tuple[Upstream, str, Json]:
    server, tool, texts = split_call(uri)
    upstream = group.servers.get(server)
    tools = [] if upstream is None else _readable(upstream)
    found = next((each for each in tools if each["name"] == tool), None)
    if upstream is None or found is None:
        raise ResourceNotFound(f"{server} has no read-only tool {tool!r}.", data={"uri": uri})
    return upstream, tool, arguments_for(found.get("inputSchema"), texts)


def _introduced(group: ServerGroup, result: HandlerResult) -> HandlerResult:
    """Adds what the servers state about themselves to the first answer."""
    if not isinstance(result, dict):
        return result
    capabilities: Json = dict(result.get("capabilities") or {})
    stated = [up.client.capabilities for up in group if up.client.capabilities is not None]
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
    texts = [up.client.instructions for up in group if up.client.instructions]
    introduced = {**result, "capabilities": capabilities}
    if texts and not introduced.get("instructions"):
        introduced["instructions"] = "\n\n".join(texts)
    return introduced
