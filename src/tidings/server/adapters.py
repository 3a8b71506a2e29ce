"""What Tidings needs to know of each kind of server: the only file that looks inside them.

A server can be the SDK's `MCPServer`, its lowlevel `Server`, or a `fastmcp.FastMCP`. Each has a lowlevel server at its
heart. The two with lists of their own are watched for additions and removals, and their HTTP apps come out wrapped.
"""

# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, cast

from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

from tidings.changes import Change, PromptsListChanged, ResourcesListChanged, ToolsListChanged
from tidings.server.borrowed_stream import ASGIApp

Kind = Literal["tool", "resource", "template", "prompt"]
Soon = Callable[[Change], None]
Wrap = Callable[[ASGIApp], ASGIApp]

_TOOLS, _PROMPTS, _RESOURCES = ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()


class Adapter(Protocol):
    """One kind of server, as Tidings sees it."""

    lowlevel: Server[Any]

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        """Those of `subscriptions` that name nothing which is served; none if only serving them could tell."""
        ...

    def watch(self, soon: Soon) -> None:
        """Call `soon` whenever one of the server's lists changes, or somebody publishes on the SDK's own bus."""
        ...

    def wrap_apps(self, wrap: Wrap) -> None:
        """Let the HTTP apps that the server makes come out wrapped."""
        ...


def adapter_for(server: object) -> Adapter:
    """The adapter for `server`.

    Raises:
        TypeError: It is no server that Tidings knows.
    """
    if isinstance(server, MCPServer):
        return McpServerAdapter(cast("MCPServer[Any]", server))
    if isinstance(server, Server):
        return LowlevelAdapter(cast("Server[Any]", server))
    if any(kind.__module__.startswith("fastmcp.") and kind.__name__ == "FastMCP" for kind in type(server).__mro__):
        return FastMcpAdapter(server)
    raise TypeError(
        f"attach() takes an mcp MCPServer, an mcp lowlevel Server or a fastmcp FastMCP (4.x), "
        f"not {type(server).__module__}.{type(server).__qualname__}"
    )


class LowlevelAdapter:
    """A lowlevel `Server`: its lists are whatever its handlers answer, so it says itself when they change."""

    def __init__(self, server: Server[Any]) -> None:
        self.lowlevel = server

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        return []

    def watch(self, soon: Soon) -> None:
        pass

    def wrap_apps(self, wrap: Wrap) -> None:
        _wrap_made(self.lowlevel, "streamable_http_app", wrap)


class McpServerAdapter:
    """The SDK's `MCPServer`."""

    def __init__(self, server: MCPServer[Any]) -> None:
        self._server = server
        self.lowlevel = server._lowlevel_server

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        resources = self._server._resource_manager
        templates = resources.list_templates()
        uris = sorted(resources._resources) if any(text.endswith("*") for text in subscriptions) else []
        heads = {template.uri_template.split("{", 1)[0] for template in templates}

        def exists(text: str) -> bool:
            if text.endswith("*"):
                return _could_match(text[:-1], uris, heads)
            return text in resources._resources or any(_matches(template, text) for template in templates)

        return [text for text in subscriptions if not exists(text)]

    def items(self, kind: Kind) -> dict[str, Any]:
        """The server's tools, resources, templates or prompts. The SDK can add them, and remove some; it has no way to
        take one off and put it back.
        """
        return {
            "tool": self._server._tool_manager._tools,
            "resource": self._server._resource_manager._resources,
            "template": self._server._resource_manager._templates,
            "prompt": self._server._prompt_manager._prompts,
        }[kind]

    def watch(self, soon: Soon) -> None:
        server = self._server
        for manager, methods, change in (
            (server._tool_manager, ("add_tool", "remove_tool"), _TOOLS),
            (server._prompt_manager, ("add_prompt", "remove_prompt"), _PROMPTS),
            (server._resource_manager, ("add_resource", "add_template"), _RESOURCES),
        ):
            for method in methods:
                _after(manager, method, functools.partial(_say, soon, change))
        server._subscriptions.subscribe(soon)

    def wrap_apps(self, wrap: Wrap) -> None:
        _wrap_made(self.lowlevel, "streamable_http_app", wrap)
        _wrap_made(self._server, "sse_app", wrap)


class FastMcpAdapter:
    """A `fastmcp.FastMCP`. Its resources come from providers that may ask a network: nothing is asked of them here."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.lowlevel: Server[Any] = server._mcp_server

    def missing(self, subscriptions: Sequence[str]) -> list[str]:
        return []

    def watch(self, soon: Soon) -> None:
        _watch_provider(self._server, soon)

    def wrap_apps(self, wrap: Wrap) -> None:
        _wrap_made(self._server, "http_app", wrap)


def _watch_provider(provider: Any, soon: Soon) -> None:
    """Watch where a FastMCP server has its components from: it is a provider itself, with others in it, mounted servers
    among them.
    """

    def added(component: Any) -> None:
        soon(_list_of(component.key))

    def removed(key: str) -> None:
        soon(_list_of(key))

    def provider_added(provider: Any, **_: Any) -> None:
        _watch_provider(provider, soon)

    for method, then in (("_add_component", added), ("_remove_component", removed), ("add_provider", provider_added)):
        if hasattr(provider, method):
            _after(provider, method, then)
    for method in ("enable", "disable", "add_provider", "add_transform"):
        if hasattr(provider, method):
            _after(provider, method, functools.partial(_say, soon, _TOOLS, _PROMPTS, _RESOURCES))
    inside = (*getattr(provider, "providers", ()), getattr(provider, "server", None), getattr(provider, "_inner", None))
    for each in inside:
        if hasattr(each, "add_transform"):  # It is a provider too.
            _watch_provider(each, soon)


def _say(soon: Soon, *changes: Any, **_: Any) -> None:
    for change in changes:
        if isinstance(change, ToolsListChanged | PromptsListChanged | ResourcesListChanged):
            soon(change)


def _list_of(key: str) -> Change:
    """The list in which FastMCP keeps a component: its key begins with the kind."""
    return {"tool": _TOOLS, "prompt": _PROMPTS}.get(key.partition(":")[0], _RESOURCES)


def _after(owner: Any, method: str, then: Callable[..., None]) -> None:
    """Call `then` with the same arguments whenever `owner.method` has succeeded."""
    call = getattr(owner, method)

    @functools.wraps(call)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        then(*arguments, **options)
        return result

    setattr(owner, method, wrapped)


def _wrap_made(owner: Any, factory: str, wrap: Wrap) -> None:
    """Let `owner.factory()` make apps that are wrapped outside all their middleware."""
    make = getattr(owner, factory)

    @functools.wraps(make)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        app: Starlette = make(*arguments, **options)
        build = app.build_middleware_stack
        # Built when the first request comes, so middleware can still be added, and stays inside.
        app.build_middleware_stack = lambda: wrap(build())  # type: ignore[method-assign,assignment]
        return app

    setattr(owner, factory, wrapped)


def _matches(template: Any, uri: str) -> bool:
    try:
        return template.matches(uri) is not None
    except ValueError:
        return False  # The SDK found it unsafe, and would not serve it.


def _could_match(prefix: str, uris: Sequence[str], heads: Iterable[str]) -> bool:
    """Whether one of the sorted `uris`, or what a template with one of these beginnings expands to, may begin so."""
    place = bisect_left(uris, prefix)
    return (place < len(uris) and uris[place].startswith(prefix)) or any(
        head.startswith(prefix) or prefix.startswith(head) for head in heads
    )
