"""What the client uses of its dependencies that is not public API: of the SDK, of httpx2, of jsonschema and of FastMCP.

Each test pins one such thing. When one fails after an upgrade, its docstring says where to look and what to do; raise
the lower bound in `pyproject.toml` if the new shape is the only one that is supported from then on.
"""

import inspect
import re
import ssl
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jsonschema
import pytest
from fastmcp import FastMCP
from mcp import Client, ClientSession
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import Dispatcher
from mcp_types import Tool

import tidings.client
from tidings.client import Timeouts, connect, sdk_seam
from tidings.client.targets import parse_target
from tidings.client.transports.http import _transport, watch_sockets
from tidings.errors import BadTarget


def _server() -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("pinned", log_level="WARNING")
    mcp.add_tool(lambda: "", name="tool")
    return mcp


def test_private_modules_of_the_sdk_are_imported_in_one_file_only() -> None:
    folder = Path(tidings.client.__file__).parent
    users = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*.py")
        if re.search(r"^\s*(from|import) (mcp|httpx2|httpcore2|jsonschema)[\w.]*\._", file.read_text(), re.MULTILINE)
    }
    assert users == {"sdk_seam.py"}


def test_the_client_opens_its_connection_with_a_function_that_can_be_wrapped() -> None:
    """`sdk_seam.wrap_connect` wraps `Client._connect`, to have its dispatcher. If it is gone, make the dispatcher
    (`JSONRPCDispatcher` over the transport's streams) and give it to a `ClientSession`.
    """
    assert callable(Client(_server())._connect)


def test_the_capabilities_of_a_session_are_built_by_a_function_that_can_be_replaced() -> None:
    """`sdk_seam.add_capabilities` replaces it, to state experimental ones. If the SDK takes them itself, pass them."""
    assert callable(Client(_server())._build_session)
    assert callable(ClientSession._build_capabilities)


def test_a_dispatcher_runs_with_a_hook_for_notifications_in_order_of_arrival() -> None:
    """`Link._watch` replaces `run` on the object: it puts its own hook before the session's, and learns of the end. If
    the hook has another place, find what the session gives its `_intercept_notification` to.
    """
    parameters = list(inspect.signature(Dispatcher.run).parameters)
    assert parameters[:4] == ["self", "on_request", "on_notify", "on_notify_intercept"]


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_session_stamps_what_is_sent_with_its_version(mode: str, version: str) -> None:
    """`sdk_seam.stamp` has requests stamped by `ClientSession._stamp`, as its own `listen` does. If it is gone, look
    there (`mcp/client/subscriptions.py`) for how it is done now.
    """
    async with Client(_server(), mode=mode) as client:
        data: dict[str, Any] = {"method": "tools/list", "params": {}}
        options: Any = {}
        sdk_seam.stamp(client.session, data, options)
    assert options["headers"]["mcp-protocol-version"] == version
    assert ("_meta" in data["params"]) == (mode == "auto")


@pytest.mark.anyio
async def test_a_session_takes_a_list_of_tools_that_was_loaded_elsewhere() -> None:
    """`sdk_seam.absorb_tools` gives the mirror's tools to `_absorb_tool_listing`: the session checks results by their
    schemas (`_tool_output_schemas`, `validate_tool_result`), and sends headers that they ask for. If it is gone, let
    the mirror load tools with `session.list_tools`.
    """
    tool = Tool(name="other", input_schema={"type": "object"})
    async with Client(_server()) as client:
        assert sdk_seam.absorb_tools(client.session, [tool]) == (tool,)
        assert sdk_seam.output_schemas(client.session).keys() == {"other"}
        assert callable(client.session.validate_tool_result)


@pytest.mark.anyio
async def test_a_session_takes_another_log_level_when_it_is_adopted_anew() -> None:
    """`sdk_seam.set_log_level` sets `_log_level` and adopts the same discovery again. If that no longer does it, pass
    the level in the `_meta` of each request.
    """
    async with Client(_server()) as client:
        sdk_seam.set_log_level(client.session, "debug")
        data: dict[str, Any] = {"method": "tools/list", "params": {}}
        sdk_seam.stamp(client.session, data, {})
    assert data["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"


class _Unknown:
    """A session of an SDK in which everything private has moved."""

    discover_result = "discovered"


def test_a_missing_name_of_the_sdk_is_named_in_the_error() -> None:
    session: Any = _Unknown()
    with pytest.raises(RuntimeError, match=r"_Unknown has no _stamp\. Install"):
        sdk_seam.stamp(session, {}, {})
    with pytest.raises(RuntimeError, match="_Unknown has no _connect"):
        sdk_seam.wrap_connect(session, lambda dispatcher: dispatcher)
    with pytest.raises(RuntimeError, match="_Unknown has no _log_level"):
        sdk_seam.set_log_level(session, "debug")


def test_without_the_session_s_list_of_tools_results_are_not_checked() -> None:
    session: Any = _Unknown()
    tool = Tool(name="tool", input_schema={"type": "object"})
    assert sdk_seam.absorb_tools(session, [tool]) == (tool,)
    assert sdk_seam.output_schemas(session) == {}


@pytest.mark.anyio
async def test_whoever_insists_on_the_modern_version_knows_what_the_server_can_do() -> None:
    """The SDK, told a version, asks the server nothing: `Link` negotiates, and looks at the outcome."""
    with anyio.fail_after(10):
        async with connect(_server(), era="2026-07-28") as client:
            assert (client.protocol_version, client.era) == ("2026-07-28", "modern")
            assert client.capabilities is not None
            assert client.capabilities.tools is not None
            assert [tool.name for tool in client.tools] == ["tool"]


def test_connections_share_the_certificates_that_they_trust() -> None:
    # To load them takes 40 ms and 0.7 MB, which a thousand clients that come back would pay for again.
    pools: list[Any] = [getattr(_transport(httpx2.URL("http://a.test"), Timeouts()), "_pool") for _ in range(2)]  # noqa: B009
    first, second = (pool._ssl_context for pool in pools)
    assert first is second
    assert first.verify_mode is ssl.CERT_REQUIRED


def test_the_sockets_of_httpx_are_reached_through_its_pool() -> None:
    """`watch_sockets` needs `_network_backend` of the pool. If it has moved, look for what opens sockets."""
    transport = watch_sockets(httpx2.AsyncHTTPTransport(), Timeouts())
    assert transport._pool._network_backend.connect_tcp.__module__ == "tidings.client.transports.http"


def test_an_httpx_without_that_pool_is_used_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    transport = httpx2.AsyncHTTPTransport()
    del transport._pool
    assert watch_sockets(transport, Timeouts()) is transport
    assert "not known" in caplog.text


def test_a_validator_of_jsonschema_has_the_resolver_that_it_was_given() -> None:
    """`schema.py` passes `_resolver` on to the validators that it makes. If it is gone, see how `evolve` does it."""
    validator = jsonschema.Draft202012Validator({})
    assert validator.evolve(_resolver=validator._resolver)._resolver is validator._resolver


def test_a_server_of_fastmcp_has_the_sdk_s_server_in_it() -> None:
    """`targets` takes `_mcp_server` and `_lifespan_manager`. If they have moved, see how FastMCP's own client runs a
    server in memory.
    """
    target: Any = parse_target(FastMCP("pinned"))
    assert target.server is not None
    assert callable(target.lifespan)


def test_a_server_of_an_unknown_fastmcp_is_refused_with_a_way_out() -> None:
    kind = type("FastMCP", (), {"__module__": "fastmcp.server"})
    with pytest.raises(BadTarget, match=r"version of FastMCP.*Serve it over HTTP"):
        parse_target(kind())
