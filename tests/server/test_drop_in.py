"""A `LiveServer` is an `MCPServer`: what takes the one takes the other."""

import inspect
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.sse import sse_client
from mcp.server.auth.settings import AuthSettings
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.mcpserver.tools import Tool
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_types import Icon

from tests.bus.processes import ROOT, python
from tests.ports import free_port
from tests.server.hearing import LEGACY, MODERN, connected
from tests.server.sample import FENCE, build
from tidings import Cursor, LiveServer, ResourceUpdated
from tidings.bus.sqlite import SqliteBus

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = pytest.mark.parametrize("mode", [MODERN, LEGACY], ids=["modern", "legacy"])


def _nothing() -> str:
    return "nothing"


@asynccontextmanager
async def _lifespan(_: Any) -> AsyncGenerator[dict[str, int]]:
    yield {"answer": 42}


async def _middleware(ctx: Any, call_next: Any) -> Any:
    return await call_next(ctx)


class _Verifier:
    async def verify_token(self, token: str) -> None:
        return None


class _Extension(Extension):
    identifier = "com.example/nothing"


EVERYTHING: dict[str, Any] = {
    "name": "all",
    "title": "Everything",
    "description": "With all of its parameters",
    "instructions": "Ask me",
    "website_url": "https://example.com",
    "icons": [Icon(src="https://example.com/icon.png")],
    "version": "1.2.3",
    "auth_server_provider": None,
    "token_verifier": _Verifier(),
    "tools": [Tool.from_function(_nothing, name="given")],
    "resources": [FunctionResource.from_function(_nothing, uri="note://given", name="given")],
    "extensions": [_Extension()],
    "debug": True,
    "log_level": "ERROR",
    "warn_on_duplicate_resources": False,
    "warn_on_duplicate_tools": False,
    "warn_on_duplicate_prompts": False,
    "dependencies": ["httpx"],
    "lifespan": _lifespan,
    "auth": AuthSettings.model_validate(
        {
            "issuer_url": "https://example.com",
            "resource_server_url": "https://example.com/mcp",
            "validate_token_resource": True,
        }
    ),
    "resource_security": inspect.signature(MCPServer).parameters["resource_security"].default,
    "request_state_security": None,
    "cache_hints": None,
    "subscriptions": InMemorySubscriptionBus(),
    "middleware": [_middleware],
}


def test_it_takes_every_parameter_that_an_mcpserver_takes() -> None:
    assert EVERYTHING.keys() == inspect.signature(MCPServer).parameters.keys()
    live, plain = LiveServer(**EVERYTHING), MCPServer(**EVERYTHING)
    for name in ("name", "title", "description", "instructions", "website_url", "icons", "version", "dependencies"):
        assert getattr(live, name) == getattr(plain, name)
    assert live.settings == plain.settings
    assert isinstance(live, MCPServer)


def test_it_takes_its_positional_parameters_in_the_same_places() -> None:
    live: LiveServer[Any] = LiveServer("name", "title", "description", "instructions", "https://example.com")
    assert (live.name, live.title, live.description) == ("name", "title", "description")
    assert (live.instructions, live.website_url) == ("instructions", "https://example.com")


def test_a_parameter_that_neither_has_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        LiveServer("name", colour="blue")


@pytest.mark.parametrize("method", [name for name in dir(MCPServer) if not name.startswith("_")])
def test_it_has_every_public_method_with_the_same_parameters(method: str) -> None:
    plain, live = getattr(MCPServer, method), getattr(LiveServer, method)
    if not callable(plain) or method in ("run_sse_async", "run_streamable_http_async"):
        return  # These two pass on what the app takes; they are run below.
    theirs, ours = (inspect.signature(call, eval_str=True).parameters for call in (plain, live))
    assert {name: each for name, each in ours.items() if name != "task"} == theirs


@ERAS
async def test_tools_resources_prompts_lifespan_and_completion_behave(mode: str) -> None:
    mcp: LiveServer[Any] = LiveServer("behaves", lifespan=_lifespan, log_level="WARNING")

    @mcp.tool()
    async def answer(ctx: Context) -> int:
        return ctx.request_context.lifespan_context["answer"]

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return f"about {name}"

    @mcp.prompt()
    def ask(what: str) -> str:
        return f"What about {what}?"

    async with connected(mcp, mode) as ear:
        assert await ear.call("answer") == 42
        [content] = (await ear.client.read_resource("note://oslo")).contents
        assert getattr(content, "text", None) == "about oslo"
        [message] = (await ear.client.get_prompt("ask", {"what": "rain"})).messages
        assert getattr(message.content, "text", None) == "What about rain?"


@ERAS
async def test_one_server_object_serves_again_after_it_has_stopped(mode: str) -> None:
    mcp = build()
    for _ in range(3):
        async with connected(mcp, mode) as ear:
            await ear.subscribe(FENCE)
            await ear.touch(FENCE)
            await ear.hears(ResourceUpdated(FENCE))
        assert mcp.notify.subscribers() == []


def test_what_cannot_be_taken_off_a_list_is_an_error_that_says_what_can() -> None:
    mcp = build()
    with pytest.raises(ValueError, match=r"no resource 'note://x'\. There are: .*note://today"):
        mcp.remove_resource("note://x")
    with pytest.raises(ValueError, match=r"no template"):
        mcp.remove_resource_template("x://{y}")
    with pytest.raises(ValueError, match=r"no tool 'x'\. There are: touch"):
        mcp.disable("tool", "x")
    mcp.disable("prompt", "ask")
    with pytest.raises(ValueError, match=r"no prompt 'ask'"):
        mcp.disable("prompt", "ask")
    mcp.enable("prompt", "ask")
    with pytest.raises(ValueError, match="is not disabled"):
        mcp.enable("prompt", "ask")


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    mcp: Any = build()
    for call in (mcp.disable, mcp.enable):
        with pytest.raises(ValueError, match=r"no kind 'tols' .*\. There are: tool, resource, template, prompt"):
            call("tols", "touch")


def test_a_transport_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    mcp: Any = build()
    with pytest.raises(ValueError, match=r"no transport 'http'\. There are: stdio, sse, streamable-http"):
        mcp.run("http")


NOT_A_BUS = """
import sys
from tests.server.sample import build
from tidings.bus.sqlite import SqliteBus
build(bus=SqliteBus(sys.argv[2])).run(sys.argv[1], **({"port": int(sys.argv[3])} if sys.argv[1] != "stdio" else {}))
"""


@pytest.mark.parametrize(("transport", "code"), [("streamable-http", 3), ("sse", 3), ("stdio", 1)])
def test_a_server_whose_bus_does_not_open_says_why_and_ends(transport: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("This is no database, and is much longer than the head of one would be. " * 20)
    program = [sys.executable, "-c", NOT_A_BUS, transport, path, str(free_port())]
    run = subprocess.run(
        program, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )
    assert run.returncode == code
    assert re.search(rf"The live server cannot s\w+: The bus file {path} is not a database .*another path", run.stderr)
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


PROGRAM = """
import sys
from tests.server.sample import build
build().run({transport!r}, host="127.0.0.1", port=int(sys.argv[1]), {options})
"""


@pytest.mark.parametrize(
    ("transport", "options", "path"),
    [
        ("streamable-http", "streamable_http_path='/live', json_response=False", "/live"),
        ("sse", "sse_path='/events', message_path='/said/'", "/events"),
    ],
)
async def test_run_serves_with_the_sdks_options_until_a_signal(transport: str, options: str, path: str) -> None:
    port = free_port()
    async with python("-c", PROGRAM.format(transport=transport, options=options), str(port)) as peer:
        await _until_open(port)
        target: Any = f"http://127.0.0.1:{port}{path}"
        if transport == "sse":
            target = sse_client(target)
        async with connected(target, LEGACY) as ear:
            await ear.subscribe(FENCE)
            await ear.touch(FENCE)
            await ear.hears(ResourceUpdated(FENCE))
        peer.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            await peer.process.wait()


async def _until_open(port: int) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.05)  # Not a busy loop, which would take the time that the server needs to start.
            else:
                await stream.aclose()
                return


HELD_BACK = """
import sys
from tests.server.sample import build
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce
build(bus=SqliteBus(sys.argv[1]), coalesce=Coalesce(window=30, max_wait=30)).run({transport!r}, port=int(sys.argv[2]))
"""


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_what_is_held_back_is_published_before_a_web_server_ends(transport: str, tmp_path: Path) -> None:
    path, port = tmp_path / "bus", free_port()
    async with python("-c", HELD_BACK.format(transport=transport), str(path), str(port)) as peer:
        await _until_open(port)
        base = f"http://127.0.0.1:{port}"
        target: Any = sse_client(f"{base}/sse") if transport == "sse" else f"{base}/mcp"
        async with connected(target, LEGACY if transport == "sse" else MODERN) as ear:
            await ear.touch(FENCE, FENCE)
        peer.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            await peer.process.wait()
    async with SqliteBus(path) as bus:
        entries = await bus.since(Cursor(bus.head.epoch, 0)) or ()
    # After the three lists of each start, the first change, and in its place the one that was held back.
    assert [cursor.version for cursor, change in entries if change == ResourceUpdated(FENCE)] == [5]
