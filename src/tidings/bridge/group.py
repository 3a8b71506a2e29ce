"""`ServerGroup`: the sessions to all servers, for one principal or for everybody, and what they offer together."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.suggest import did_you_mean, there_are
from tidings.bridge.settings import CallWatch, Ignored, Json, UpstreamSpec, owner_of_name, owner_of_uri
from tidings.bridge.upstream import LISTS, ListName, Upstream
from tidings.bridge.watching import News, Source, WatchedSources
from tidings.errors import ResourceNotFound

STATUS: Final = "bridge://status"
SCHEME: Final = "call://"
_OTHERS_TRIED: Final = 2.0  # Seconds that first answers wait for a server after the last of the others, if one is there
KIND_OF: Final = {"tools": "tool", "resources": "resource", "templates": "template", "prompts": "prompt"}


class ServerGroup:
    """The sessions that `make` makes for one `owner`, or for everybody."""

    def __init__(
        self, owner: str | None, make: Callable[["ServerGroup", UpstreamSpec], Upstream], news: News, *, prefixed: bool
    ) -> None:
        self.owner = owner
        self.servers: dict[str, Upstream] = {}
        self.watches = WatchedSources(self.source, self._members, news, owner)
        self._make = make
        self._prefixed = prefixed

    def __iter__(self) -> Iterator[Upstream]:
        return iter(tuple(self.servers.values()))

    def start(self, specs: Mapping[str, UpstreamSpec]) -> None:
        for name, spec in specs.items():
            self.servers[name] = self._make(self, spec)
            self.servers[name].start()

    async def set_servers(self, specs: Mapping[str, UpstreamSpec]) -> None:
        """Begins sessions to new servers, and ends those to servers that are gone or have changed."""
        gone = [upstream for name, upstream in self.servers.items() if specs.get(name) != upstream.spec]
        kept = {upstream.spec.name: upstream for upstream in self if upstream not in gone}
        self.servers = {name: kept.get(name) or self._make(self, spec) for name, spec in specs.items()}
        for name, upstream in self.servers.items():
            if name not in kept:
                upstream.start()
        await asyncio.gather(*(upstream.aclose() for upstream in gone))
        await self.watches.renew(gone)

    async def tried(self) -> None:
        """Waits until every server is connected or has failed once; not for long if others are connected."""
        waits = {asyncio.ensure_future(upstream.until_tried()) for upstream in self}
        while waits:
            seconds = _OTHERS_TRIED if any(upstream.client.connected for upstream in self) else None
            done, waits = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for upstream in () if done else self:
                upstream.tried.set()

    async def aclose(self) -> None:
        await self.watches.aclose()
        await asyncio.gather(*(upstream.aclose() for upstream in self))

    def offered(self, name: ListName) -> list[Json]:
        """Returns a list of all servers, as clients see it."""
        items = [upstream.naming.item_out(name, item) for upstream in self for item in upstream.lists[name]]
        if name == "resources":
            watched = [{"uri": uri, "name": f"{each.tool} of {each.server}"} for uri, each in self._calls.items()]
            status = {"uri": STATUS, "name": "bridge", "title": "The bridge", "mimeType": "application/json"}
            return [*items, *watched, status]
        if name == "templates":
            return items + [call_template(up.spec.name, tool) for up in self for tool in _readable(up)]
        return items

    @property
    def _calls(self) -> dict[str, CallWatch]:
        watches = [watch for upstream in self for watch in upstream.spec.watches]
        return {call_uri(each.server, each.tool, each.arguments): each for each in watches}

    def find(self, kind: ListName, name: str) -> tuple[Upstream, str]:
        """Returns the server of a tool or prompt, and its name there. Raises `MCPError`."""
        owner = owner_of_name(name, self.servers) if self._prefixed else next(iter(self.servers), None)
        upstream = None if owner is None else self.servers[owner]
        if upstream is None or not upstream.spec.offers(original := upstream.naming.name_back(name)):
            names = [str(item["name"]) for item in self.offered(kind)]
            about = did_you_mean(name, names) or there_are(names)
            raise MCPError(types.INVALID_PARAMS, f"There is no {KIND_OF[kind]} {name!r}.{about}")
        return upstream, original

    def owner_of(self, uri: str) -> tuple[Upstream, str]:
        """Returns the server of a resource, and its URI there. Raises `ResourceNotFound`."""
        owner = owner_of_uri(uri, self.servers) if self._prefixed else next(iter(self.servers), None)
        if owner is None:
            raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        upstream = self.servers[owner]
        return upstream, upstream.naming.uri_back(uri)

    def source(self, uri: str) -> Source:
        """Returns where a resource comes from. Raises `ResourceNotFound` or `ValueError` if nothing is there."""
        if is_call := uri.startswith(SCHEME):
            upstream, tool, arguments = self._parsed_call(uri)
            watched = self._calls.get(uri)
            interval = watched.seconds if watched is not None else upstream.spec.interval(uri)
            rules = [*upstream.spec.ignored(uri), *(watched.ignore if watched is not None else ())]
            original, read = uri, partial(_read_call, upstream, uri, tool, arguments)
        else:
            upstream, original = self.owner_of(uri)
            interval, rules = upstream.spec.interval(original), upstream.spec.ignored(original)

            async def read() -> Json:
                result = await upstream.client.request("resources/read", {"uri": original}, safe=True)
                return upstream.naming.result_out(result)

        # Who sets an interval or a rule does not trust the server to tell of what matters.
        can_be_told = not (is_call or interval or rules)
        ignored = Ignored(rules) if rules else None
        return Source(upstream, original, read, interval or upstream.interval, bool(interval), can_be_told, ignored)

    def _members(self, prefix: str) -> list[str]:
        uris = [str(item["uri"]) for item in self.offered("resources")]
        return [uri for uri in uris if uri.startswith(prefix[:-1]) and uri != STATUS]

    def _parsed_call(self, uri: str) -> tuple[Upstream, str, Json]:
        server, tool, texts = split_call(uri)
        upstream = self.servers.get(server)
        tools = [] if upstream is None else _readable(upstream)
        found = next((each for each in tools if each["name"] == tool), None)
        if upstream is None or found is None:
            raise ResourceNotFound(f"{server} has no read-only tool {tool!r}.", data={"uri": uri})
        return upstream, tool, arguments_for(found.get("inputSchema"), texts)

    def status(self) -> Json:
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
            for upstream in self
        ]
        return {"servers": servers, "watched": self.watches.describe()}

    def introduced(self, result: Json) -> Json:
        """Returns the first answer to a client with what the servers state about themselves."""
        capabilities: Json = dict(result.get("capabilities") or {})
        stated = [each for up in self if (each := up.client.capabilities) is not None]
        raw = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in stated]
        for name in ("prompts", "logging", "completions", "experimental", "extensions"):
            merged: Json = {}
            for each in raw:
                merged |= as_dict(each.get(name))
            if any(name in each for each in raw):
                capabilities[name] = {**merged, **capabilities.get(name, {})}
            elif name != "extensions":  # The bridge has some of its own.
                capabilities.pop(name, None)
        texts = [up.client.instructions for up in self if up.client.instructions]
        told = {"instructions": "\n\n".join(texts)} if texts and not result.get("instructions") else {}
        return {**result, "capabilities": capabilities, **told}


def _readable(upstream: Upstream) -> list[Json]:
    """Returns the tools whose calls may be resources: they only read, or the user named them."""
    named = {watch.tool for watch in upstream.spec.watches}
    tools = upstream.lists["tools"]
    return [tool for tool in tools if tool["name"] in named or upstream.only_reads(str(tool["name"]))]


async def _read_call(upstream: Upstream, uri: str, tool: str, arguments: Json) -> Json:
    result = await upstream.client.request("tools/call", {"name": tool, "arguments": arguments}, safe=True)
    if result.get("isError"):
        texts = [str(as_dict(block).get("text")) for block in as_list(result.get("content"))]
        raise ResourceNotFound(f"{tool} of {upstream.spec.name} failed: {' '.join(texts)}", data={"uri": uri})
    return contents_of(uri, upstream.naming.result_out(result))


# Calls of read-only tools as resources, `call://SERVER/TOOL?ARGUMENTS`: the result of the call is the content, so that
# it can be subscribed to. An argument of the URI is a text, and becomes what the tool's schema asks for.


def call_uri(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns the URI of a call. Equal calls have equal URIs."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in sorted(arguments.items())}
    query = urlencode(texts, quote_via=quote)
    return f"{SCHEME}{quote(server, safe='')}/{quote(tool, safe='')}{'?' if query else ''}{query}"


def split_call(uri: str) -> tuple[str, str, dict[str, str]]:
    """Returns the server, the tool and the arguments of the URI of a call. Raises `ValueError`."""
    place, _, query = uri.removeprefix(SCHEME).partition("?")
    server, slash, tool = place.partition("/")
    if not uri.startswith(SCHEME) or not slash or not tool:
        raise ValueError(f"{uri!r} is not the URI of a call. Write {SCHEME}SERVER/TOOL?NAME=VALUE.")
    return unquote(server), unquote(tool), dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))


def arguments_for(schema: object, texts: Mapping[str, str]) -> Json:
    """Returns arguments as the schema of a tool asks for them. Raises `ValueError` for what it does not have."""
    properties = as_dict(as_dict(schema).get("properties"))
    arguments: Json = {}
    for name, text in texts.items():
        if properties and name not in properties:
            raise ValueError(f"The tool has no argument {name!r}. It has: {', '.join(properties) or 'none'}.")
        kind = as_dict(properties.get(name)).get("type", "string")
        kinds: list[Any] = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
        if "string" in kinds:
            arguments[name] = text
            continue
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            raise ValueError(f"The argument {name!r} must be {' or '.join(map(str, kinds))}, not {text!r}.") from None
    return arguments


def call_template(server: str, tool: Mapping[str, Any]) -> Json:
    """Returns the resource template for the calls of a tool."""
    names = list(as_dict(as_dict(tool.get("inputSchema")).get("properties")))
    query = f"{{?{','.join(names)}}}" if names and all(name.replace("_", "a").isalnum() for name in names) else ""
    described = str(tool.get("description") or tool.get("title") or tool["name"]).partition("\n")[0]
    return {
        "uriTemplate": f"{SCHEME}{quote(server, safe='')}/{quote(str(tool['name']), safe='')}{query}",
        "name": f"call {tool['name']}",
        "description": f"The result of the tool, as a resource that can be subscribed to: {described}",
    }


def contents_of(uri: str, result: Mapping[str, Any]) -> Json:
    """Returns the result of a call as the contents of a resource."""
    structured = result.get("structuredContent")
    if structured is not None:
        text = json.dumps(structured, indent=1, ensure_ascii=False)
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
    blocks = cast("Sequence[Any]", result.get("content") or [])
    contents: list[Json] = []
    for block in map(as_dict, blocks):
        match block.get("type"):
            case "text":
                contents.append({"uri": uri, "mimeType": "text/plain", "text": str(block.get("text", ""))})
            case "resource":
                contents.append({**as_dict(block.get("resource")), "uri": uri})
            case "image" | "audio":
                contents.append({"uri": uri, "mimeType": block.get("mimeType"), "blob": block.get("data")})
            case _:
                contents.append({"uri": uri, "mimeType": "application/json", "text": json.dumps(block)})
    return {"contents": contents}
