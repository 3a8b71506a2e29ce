"""What Tidings uses of the SDK, FastMCP, Starlette and uvicorn that they do not promise to keep.

Each test pins one such thing. When one fails after an upgrade, its docstring says where to look and what to do; raise
the lower bound in `pyproject.toml` if the new shape is the only one that is supported from then on.
"""

import inspect
from types import SimpleNamespace
from typing import Any

import fastmcp
import pytest
from mcp.server import _streamable_http_modern, streamable_http
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource
from mcp.shared.exceptions import MCPDeprecationWarning
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette

from tests.server.hearing import LEGACY, Way, hearing
from tests.server.sample import build
from tidings.server.adapters import (
    LeanAnswer,
    ServerChanged,
    _wrap_made,
    adapter_for,
    connection_of,
    keep_alive_seconds,
    lighten,
    standalone_channel,
)
from tidings.server.message_pipe import Inlet, Outlet


def _nothing() -> str:
    return ""


def _echo(name: str) -> str:
    return name


def _sdk_server() -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("pinned", log_level="WARNING")
    mcp.add_tool(_nothing, name="tool")
    mcp.add_prompt(Prompt.from_function(_nothing, name="prompt"))
    mcp.add_resource(FunctionResource.from_function(_nothing, uri="note://a", name="a"))
    mcp.resource("city://{name}")(_echo)
    return mcp


def test_the_heart_of_an_mcpserver_is_a_lowlevel_server() -> None:
    """`McpServerAdapter.lowlevel` takes `_lowlevel_server`. If it is gone, look for a public name first: the SDK's own
    in-memory client must reach it too (`mcp/client/_memory.py`).
    """
    assert isinstance(_sdk_server()._lowlevel_server, Server)


def test_the_streams_of_the_sdk_carry_a_keep_alive_every_15_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`keep_alive_seconds` reads both intervals, and clients rely on them: see which the SDK's transports use now, and
    adapt the proxy settings in `docs/replicas.md`. `tests/client/test_silence.py` has streams that keep to them.
    """
    assert keep_alive_seconds() == 15
    monkeypatch.setattr(_streamable_http_modern, "_SSE_PING_INTERVAL", 20)
    assert keep_alive_seconds() == 20
    monkeypatch.delattr(_streamable_http_modern, "_SSE_PING_INTERVAL")
    assert keep_alive_seconds() is None


def test_the_sdk_answers_a_legacy_request_with_a_class_that_can_be_replaced() -> None:
    """`adapters.LeanAnswer` stands in its place for what Tidings serves. If a part is gone, its `__call__` has to
    follow that of sse-starlette; if the name is gone, the SDK answers with its own, and a call takes a tenth more CPU.
    """
    _wrap_made(_sdk_server()._lowlevel_server, "streamable_http_app", lambda app: app)
    assert streamable_http.EventSourceResponse is LeanAnswer
    parts = {"_stream_response", "_listen_for_disconnect", "_ping", "ping_interval", "_send_lock"}
    assert parts <= set(dir(EventSourceResponse([])))
    made = inspect.getsource(streamable_http.StreamableHTTPServerTransport._handle_post_request)
    assert "EventSourceResponse(" in made
    assert "data_sender_callable=" in made


@pytest.mark.anyio
async def test_a_transport_shows_what_holding_the_stream_of_a_session_needs() -> None:
    """`standalone_channel` takes a session's transport from its manager, and stands in the place of its stream. If that
    is hidden, the SDK holds these streams, and each costs 40 KB more: `tests/server/test_held_streams.py`.
    """
    server = _sdk_server()
    server.streamable_http_app()
    manager = server._lowlevel_server.session_manager
    transport = manager._admit_session(None)
    assert transport is not None
    assert transport.mcp_session_id is not None
    async with transport.connect():
        assert standalone_channel(server._lowlevel_server, 1.0, transport.mcp_session_id) is not None
        assert transport._requests_in_flight == 0
        assert transport.idle_scope is not None
    assert "GET_STREAM_KEY in self._request_streams" in inspect.getsource(type(transport)._handle_get_request)
    assert standalone_channel(server._lowlevel_server, 1.0, "another") is None


def test_an_mcpserver_keeps_its_lists_in_dictionaries() -> None:
    """`McpServerAdapter.items` gives `LiveServer.disable` and `enable` these to take from and put back into. If the SDK
    has come to remove or disable items itself, call that instead.
    """
    mcp = _sdk_server()
    assert mcp._tool_manager._tools.keys() == {"tool"}
    assert mcp._prompt_manager._prompts.keys() == {"prompt"}
    assert mcp._resource_manager._resources.keys() == {"note://a"}
    assert mcp._resource_manager._templates.keys() == {"city://{name}"}


@pytest.mark.parametrize(
    ("manager", "method", "call"),
    [
        ("_tool_manager", "add_tool", lambda mcp: mcp.add_tool(_nothing, name="more")),
        ("_tool_manager", "add_tool", lambda mcp: mcp.tool("more")(_nothing)),
        ("_tool_manager", "remove_tool", lambda mcp: mcp.remove_tool("tool")),
        ("_prompt_manager", "add_prompt", lambda mcp: mcp.prompt("more")(_nothing)),
        ("_prompt_manager", "remove_prompt", lambda mcp: mcp.remove_prompt("prompt")),
        ("_resource_manager", "add_resource", lambda mcp: mcp.resource("note://b")(_nothing)),
        ("_resource_manager", "add_template", lambda mcp: mcp.resource("more://{name}")(_echo)),
    ],
)
def test_an_mcpserver_changes_its_lists_through_its_managers(
    manager: str, method: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`McpServerAdapter.watch` wraps these methods on the managers. If the SDK goes another way, or tells of its list
    changes itself, wrap that, or listen to it; every way of adding and removing must pass through what is wrapped.
    """
    mcp = _sdk_server()
    owner, called = getattr(mcp, manager), []
    original = getattr(owner, method)
    monkeypatch.setattr(owner, method, lambda *args, **options: (called.append(method), original(*args, **options))[1])
    call(mcp)
    assert called == [method]


def test_the_resource_manager_and_its_templates_say_what_is_served() -> None:
    """`McpServerAdapter.exists` asks them whether a URI is there. If `matches` raises or returns otherwise, see
    `adapters._matches`; what is unsafe (`..`) must not count as served.
    """
    manager = _sdk_server()._resource_manager
    [template] = manager.list_templates()
    assert template.uri_template == "city://{name}"
    assert template.matches("city://oslo") is not None
    assert template.matches("note://a") is None
    assert [str(resource.uri) for resource in manager.list_resources()] == ["note://a"]


def test_an_mcpserver_has_a_bus_of_its_own_that_can_be_listened_to() -> None:
    """`McpServerAdapter.watch` passes on what `ctx.notify_*` publishes on `_subscriptions`. If it is gone, find where
    `Context.notify_resource_updated` publishes now.
    """
    assert callable(_sdk_server()._subscriptions.subscribe)


def test_a_lowlevel_server_takes_handlers_middleware_and_a_lifespan_after_it_was_made() -> None:
    """`Live` adds to these, and `serve_stdio` to the middleware. They are public, but that they are read at
    each use and not copied at the start is not promised.
    """
    server = _sdk_server()._lowlevel_server
    assert callable(server.add_request_handler)
    assert isinstance(server.middleware, list)
    assert callable(server.lifespan)
    server.lifespan = server.lifespan


def test_apps_are_made_by_methods_that_can_be_wrapped_on_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """`adapters._wrap_made` replaces these on the object. If `MCPServer` no longer makes its app with its lowlevel
    server, wrap the method that does, or apps come out with their streams not borrowed.
    """
    mcp = _sdk_server()
    made = Starlette()
    monkeypatch.setattr(mcp._lowlevel_server, "streamable_http_app", lambda **_: made)
    assert mcp.streamable_http_app() is made
    assert isinstance(mcp.sse_app(), Starlette)


def test_starlette_builds_its_middleware_with_a_method_when_the_first_request_comes() -> None:
    """`adapters._wrap_made` replaces `build_middleware_stack` on the app, so that the wrapper stands outside all
    middleware. If it is gone, return a Starlette that mounts the wrapped app instead.
    """
    app = Starlette()
    assert app.middleware_stack is None
    assert callable(app.build_middleware_stack())


@pytest.mark.anyio
async def test_a_legacy_request_leads_to_its_connection() -> None:
    """`adapters.connection_of` takes `ctx.session._connection`: only it can be written to outside a request, and only
    it says when it ends. If it is gone, look for what the session writes its standalone notifications with.
    """
    seen: list[Any] = []
    mcp = build(authorize=lambda ctx, _: seen.append(connection_of(ctx)) or True)
    async with hearing(Way("memory", LEGACY), mcp) as ear:
        with pytest.warns(MCPDeprecationWarning):
            await ear.subscribe("note://today")
    [connection] = seen
    assert connection.has_standalone_channel is True
    assert connection.session_id is None
    assert connection.protocol_version.startswith("2025-")
    assert callable(connection.exit_stack.push)
    assert list(inspect.signature(connection.notify).parameters)[:2] == ["method", "params"]


@pytest.mark.anyio
async def test_the_messages_of_a_legacy_connection_pass_a_stream_that_can_be_replaced() -> None:
    """`adapters.lighten` replaces it, and messages are emptied once they are passed on. If a name is gone, a session
    keeps its last message: see whether the loop of `JSONRPCDispatcher.run` still does, and
    `tests/server/test_filling_up.py`.
    """
    seen: list[Any] = []
    mcp = build(authorize=lambda ctx, _: seen.append(connection_of(ctx)) or True)
    async with hearing(Way("memory", LEGACY), mcp) as ear:
        with pytest.warns(MCPDeprecationWarning):
            await ear.subscribe("note://today")
        [connection] = seen
        forgetful = connection.outbound._read_stream._inner
        assert callable(forgetful.aclose)
        lighten(mcp._lowlevel_server, connection)
        assert connection.outbound._read_stream._inner is forgetful
    lighten(mcp._lowlevel_server, SimpleNamespace(outbound=None, session_id=None))  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_four_streams_between_the_tasks_of_a_session_can_be_replaced() -> None:
    """`adapters.lighten` replaces the `_inner` of each. If a name is gone, a session takes 9 KB more: see what
    `StreamableHTTPServerTransport.connect` makes now, and `tests/server/test_message_pipe.py`.
    """
    server = _sdk_server()
    server.streamable_http_app()
    transport: Any = server._lowlevel_server.session_manager._admit_session(None)
    async with transport.connect() as (read, write):
        names = ("_read_stream_writer", "_read_stream", "_write_stream", "_write_stream_reader")
        streams = [getattr(transport, name) for name in names]
        assert (read, write) == (streams[1], streams[2])
        connection: Any = SimpleNamespace(outbound=None, session_id=transport.mcp_session_id)
        lighten(server._lowlevel_server, connection)
        assert [type(stream._inner) for stream in streams] == [Inlet, Outlet] * 2


@pytest.mark.anyio
async def test_a_legacy_http_connection_has_the_id_of_its_session() -> None:
    """`legacy._session_id` ties a session to its event stream by it. If it is None over streamable HTTP, nothing is
    written to the borrowed stream: take the id from the request's `mcp-session-id` header.
    """
    seen: list[Any] = []
    mcp = build(authorize=lambda ctx, _: seen.append((connection_of(ctx), ctx.request)) or True)
    async with hearing(Way("http", LEGACY), mcp) as ear:
        with pytest.warns(MCPDeprecationWarning):
            await ear.subscribe("note://today")
    [(connection, request)] = seen
    assert connection.session_id == request.headers["mcp-session-id"]


def test_the_heart_of_a_fastmcp_is_a_lowlevel_server() -> None:
    """`FastMcpAdapter.lowlevel` takes `_mcp_server`. If it is gone, find what FastMCP's `run_stdio_async` runs."""
    assert isinstance(fastmcp.FastMCP("pinned")._mcp_server, Server)


def test_fastmcp_changes_its_lists_through_its_local_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """`FastMcpAdapter.watch` wraps `_add_component` and `_remove_component`, and reads the list from the beginning of
    a component's key. If FastMCP goes another way, or tells of its list changes itself, wrap that or listen to it.
    """
    mcp = fastmcp.FastMCP("pinned")
    provider = mcp.local_provider
    added: list[str] = []
    removed: list[str] = []
    add, remove = provider._add_component, provider._remove_component
    monkeypatch.setattr(provider, "_add_component", lambda each: (added.append(each.key), add(each))[1])
    monkeypatch.setattr(provider, "_remove_component", lambda key: (removed.append(key), remove(key))[1])
    mcp.tool(_nothing, name="a")
    mcp.prompt(_nothing, name="a")
    mcp.resource("note://a")(_nothing)
    mcp.resource("city://{name}")(_echo)
    assert [key.partition(":")[0] for key in added] == ["tool", "prompt", "resource", "template"]
    provider.remove_tool("a")
    provider.remove_prompt("a")
    provider.remove_resource("note://a")
    provider.remove_template("city://{name}")
    assert [key.partition(":")[0] for key in removed] == ["tool", "prompt", "resource", "template"]


@pytest.mark.parametrize("namespace", [None, "child"])
def test_fastmcp_leads_from_a_server_to_those_mounted_in_it(namespace: str | None) -> None:
    """`adapters._watch_provider` goes from `providers` through `_inner` (where there is a namespace) and `server`. If a
    mounted server is found in another way, follow that; else its changes are not told.
    """
    mcp, child = fastmcp.FastMCP("pinned"), fastmcp.FastMCP("child")
    mcp.mount(child, namespace=namespace)
    local, mounted = mcp.providers
    assert local is mcp.local_provider
    assert getattr(mounted, "_inner", mounted).server is child


@pytest.mark.parametrize("method", ["enable", "disable", "add_provider", "add_transform", "http_app"])
def test_fastmcp_has_the_public_methods_that_are_watched(method: str) -> None:
    """`FastMcpAdapter.watch` skips `enable` and the like where they are missing, so that nobody would notice."""
    assert callable(getattr(fastmcp.FastMCP("pinned"), method))


def test_fastmcps_app_is_a_starlette() -> None:
    """`adapters._wrap_made` needs one: see the test of `build_middleware_stack`."""
    assert isinstance(fastmcp.FastMCP("pinned").http_app(), Starlette)


@pytest.mark.parametrize("name", ["_lowlevel_server", "_tool_manager", "_prompt_manager", "_subscriptions"])
def test_an_mcpserver_without_a_name_that_is_needed_is_refused_with_the_cure(name: str) -> None:
    mcp = _sdk_server()
    delattr(mcp, name)
    with pytest.raises(ServerChanged, match=rf"MCPServer has no '{name}'.* Install a version that Tidings was tested"):
        adapter_for(mcp).watch(lambda change: None)
