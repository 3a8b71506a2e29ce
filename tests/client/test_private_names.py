"""What the client uses of the SDK that it does not promise to keep.

Each test pins one such thing. When one fails after an upgrade, its docstring says where to look and what to do; raise
the lower bound in `pyproject.toml` if the new shape is the only one that is supported from then on.
"""

import inspect
from importlib import import_module
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import Dispatcher
from mcp_types import ListToolsResult, Tool

from tidings.client import connect


def _server() -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("pinned", log_level="WARNING")
    mcp.add_tool(lambda: "", name="tool")
    return mcp


def test_the_client_opens_its_connection_with_a_function_that_can_be_wrapped() -> None:
    """`Link._client` wraps `Client._connect`, to have its dispatcher. If it is gone, make the dispatcher
    (`JSONRPCDispatcher` over the transport's streams) and give it to a `ClientSession`.
    """
    assert callable(Client(_server())._connect)


def test_a_dispatcher_runs_with_a_hook_for_notifications_in_order_of_arrival() -> None:
    """`Link._watch` replaces `run` on the object: it puts its own hook before the session's, and learns of the end. If
    the hook has another place, find what the session gives its `_intercept_notification` to.
    """
    parameters = list(inspect.signature(Dispatcher.run).parameters)
    assert parameters[:4] == ["self", "on_request", "on_notify", "on_notify_intercept"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_session_stamps_what_is_sent_with_its_version(mode: str) -> None:
    """`Link.send_raw` has requests stamped by `ClientSession._stamp`, as its own `listen` does. If it is gone, look
    there (`mcp/client/subscriptions.py`) for how it is done now.
    """
    async with Client(_server(), mode=mode) as client:
        data: dict[str, Any] = {"method": "tools/list", "params": {}}
        options: Any = {}
        client.session._stamp(data, options)
    assert options["headers"]["mcp-protocol-version"] == client_version(mode)
    assert ("_meta" in data["params"]) == (mode == "auto")


def client_version(mode: str) -> str:
    return "2026-07-28" if mode == "auto" else "2025-11-25"


@pytest.mark.anyio
async def test_a_session_takes_a_list_of_tools_that_was_loaded_elsewhere() -> None:
    """`Link.absorb_tools` gives the mirror's tools to `_absorb_tool_listing`: the session checks results by their
    schemas, and sends headers that they ask for. If it is gone, let the mirror load tools with `session.list_tools`.
    `output.py` takes the schemas from `_tool_output_schemas`, and replaces `validate_tool_result`.
    """
    tool = Tool(name="other", input_schema={"type": "object"})
    async with Client(_server()) as client:
        kept = client.session._absorb_tool_listing(ListToolsResult(tools=[tool]), complete=True)
        assert kept.tools == [tool]
        assert client.session._tool_output_schemas.keys() == {"other"}
        assert callable(client.session.validate_tool_result)


@pytest.mark.anyio
async def test_a_session_takes_another_log_level_when_it_is_adopted_anew() -> None:
    """`Link.stamp_log_level` sets `_log_level` and adopts the same discovery again. If that no longer does it, pass the
    level in the `_meta` of each request.
    """
    async with Client(_server()) as client:
        session = client.session
        session._log_level = "debug"
        assert session.discover_result is not None
        session.adopt(session.discover_result)
        data: dict[str, Any] = {"method": "tools/list", "params": {}}
        session._stamp(data, {})
    assert data["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("mcp.client._input_required", ["InputRequiredRoundsExceededError"]),
        ("mcp.client._memory", ["InMemoryTransport"]),
        ("mcp.client._transport", ["ReadStream", "TransportStreams", "WriteStream"]),
        ("mcp.shared._context_streams", ["ContextSendStream", "ContextReceiveStream", "create_context_streams"]),
        ("mcp.shared._httpx_utils", ["request_within_origin", "sse_within_origin"]),
    ],
)
def test_modules_that_are_not_public_have_what_is_taken_from_them(module: str, names: list[str]) -> None:
    """`failures`, `link`, `stdio`, `sse`, `tapped_memory` and `transports` import these. If one has moved, import it
    from there.
    """
    assert [name for name in names if not hasattr(import_module(module), name)] == []


@pytest.mark.anyio
async def test_whoever_insists_on_the_modern_version_knows_what_the_server_can_do() -> None:
    """The SDK, told a version, asks the server nothing: `Link` negotiates, and looks at the outcome."""
    with anyio.fail_after(10):
        async with connect(_server(), era="2026-07-28") as client:
            assert client.protocol_version == "2026-07-28"
            assert client.capabilities is not None
            assert client.capabilities.tools is not None
            assert [tool.name for tool in client.tools] == ["tool"]
