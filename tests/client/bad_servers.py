"""Servers that speak just enough MCP to misbehave: over HTTP byte by byte, over stdio as programs of a few lines."""

import asyncio
import gc
import json
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from tests.client.misbehaving import Asked, Site, site
from tidings.changes import ResourceUpdated
from tidings.client import Backoff, ClientConfig, LiveClient, State, Timeouts, connect
from tidings.errors import TidingsError, leaves

ONCE = Backoff(delays=(0.01,), tries=0, lost_tries=0)
QUICK = ClientConfig(
    backoff=Backoff(delays=(0.01,), tries=2, lost_tries=2), timeouts=Timeouts(connect=5, request=5, total=10, ping=2)
)
MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = [MODERN, LEGACY]
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
TOOL = {"name": "tool", "inputSchema": {"type": "object"}}
RESOURCE = {"uri": "note://a", "name": "a"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

Behaviour = Mapping[str, Any] | Callable[[Asked], Awaitable[None]]
"""What a server does when it is asked: the result that it answers with, or a function that does something else."""


def settings(base: ClientConfig = QUICK, **changes: Any) -> ClientConfig:
    """`base`, with other timeouts where a name is one of theirs."""
    times = {name: changes.pop(name) for name in tuple(changes) if hasattr(base.timeouts, name)}
    values = {name: getattr(base, name) for name in base.__slots__} | changes
    old = {name: getattr(base.timeouts, name) for name in base.timeouts.__slots__}
    return ClientConfig(**values | {"timeouts": Timeouts(**old | times)})


# Over HTTP.


async def refuse(asked: Asked, code: int, message: str = "no", data: Any = None) -> None:
    """Answer with a JSON-RPC error."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    await asked.answer(body=json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}).encode())


async def event(asked: Asked, message: Mapping[str, Any] | bytes) -> None:
    """Send an event on a stream that has begun."""
    data = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
    await asked.write(b"event: message\r\ndata: " + data + b"\r\n\r\n")


async def silence(_: Asked) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def hold(asked: Asked) -> None:
    """Open a stream, and say nothing on it."""
    await asked.events()
    await silence(asked)


async def tell(asked: Asked, method: str, **params: Any) -> None:
    """Send a notification on the stream that answers this listen request."""
    meta = {SUBSCRIPTION: asked.message["id"], **params.pop("_meta", {})}
    await event(asked, {"method": method, "params": {**params, "_meta": meta}})


async def acknowledge(asked: Asked, honoured: Any = None) -> None:
    """Begin the stream of a listen request as it should."""
    await asked.events()
    wanted = asked.message["params"]["notifications"]
    await tell(asked, "notifications/subscriptions/acknowledged", notifications=honoured or wanted)


async def listen(asked: Asked) -> None:
    """Answer a listen request as a server should that never has news."""
    await acknowledge(asked)
    await silence(asked)


def behaved(era: str, capabilities: Mapping[str, Any] | None = None) -> dict[str, Behaviour]:
    """What a server of this era does that does nothing wrong."""
    can = dict(EVERYTHING if capabilities is None else capabilities)
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    does: dict[str, Behaviour] = {
        "tools/list": {**hints, "tools": [TOOL]},
        "resources/list": {**hints, "resources": [RESOURCE]},
        "resources/templates/list": {**hints, "resourceTemplates": []},
        "prompts/list": {**hints, "prompts": []},
        "tools/call": {"resultType": "complete", "content": [{"type": "text", "text": "done"}]},
        "resources/read": {**hints, "contents": [{"uri": "note://a", "text": "content"}]},
    }
    if era == MODERN:
        does["server/discover"] = {**hints, "supportedVersions": [MODERN], "capabilities": can}
        does["subscriptions/listen"] = listen
    else:
        info = {"name": "bad", "version": "1"}
        does["initialize"] = {"protocolVersion": era, "capabilities": can, "serverInfo": info}
        does |= {"ping": {}, "resources/subscribe": {}, "resources/unsubscribe": {}, "GET": hold}
    return does


@asynccontextmanager
async def web(does: Mapping[str, Behaviour]) -> AsyncGenerator[Site]:
    """A server of streamable HTTP that does `does`, by the name of the method or of the HTTP verb."""

    async def answer(asked: Asked) -> None:
        message = asked.message if asked.method == "POST" else {}
        method = message.get("method", asked.method)
        behaviour = does.get(method)
        if callable(behaviour):
            await behaviour(asked)
        elif "id" not in message:
            await asked.answer(405 if asked.method == "GET" else 202)
        elif behaviour is None:
            await refuse(asked, -32601, "Method not found")
        else:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": behaviour}).encode()
            session = {"mcp_session_id": "one"} if method == "initialize" else {}
            await asked.answer(body=body, **session)

    async with site(answer) as here:
        yield here


async def asked_for(here: Site, method: str, times: int) -> None:
    """Wait until a server was asked this so often."""
    async with asyncio.timeout(10):
        while count(here, method) < times:
            await here.until(len(here.asked) + 1)


def refused(code: int, text: str) -> Callable[[Asked], Awaitable[None]]:
    """To answer with this error."""
    return lambda asked: refuse(asked, code, text)


async def lives(client: LiveClient) -> None:
    """The connection works, and the lists were loaded."""
    assert client.state is State.CONNECTED
    assert (await client.read_resource("note://a")).text == "content"
    assert [tool.name for tool in client.tools] == ["tool"]
    assert [str(resource.uri) for resource in client.resources] == ["note://a"]


def heard_of(client: LiveClient) -> "asyncio.Queue[ResourceUpdated]":
    """The updates that a client is told of."""
    heard: asyncio.Queue[ResourceUpdated] = asyncio.Queue()
    client.on(ResourceUpdated, heard.put_nowait)
    return heard


def count(here: Site, method: str) -> int:
    """How often a server was asked this."""
    return sum(asked.method == "POST" and asked.message.get("method") == method for asked in here.asked)


# Over stdio.

_PROGRAM = """
import json, sys, time
does = json.loads(sys.argv[1])
def say(text):
    sys.stdout.write(text + "\\n"); sys.stdout.flush()
def send(**message):
    say(json.dumps({"jsonrpc": "2.0", **message}))
def odd(method, id, params):
    return False
"""
_LOOP = """
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if id is None or odd(method, id, params):
        continue
    if method in does:
        send(id=id, result=does[method])
    else:
        send(id=id, error={"code": -32601, "message": "Method not found"})
"""


def program(code: str, era: str = LEGACY) -> list[str]:
    """The command of a program that runs `code`, which may end it, or define `odd`, and then behaves."""
    does = {method: does for method, does in behaved(era).items() if not callable(does)}
    return [sys.executable, "-I", "-S", "-c", _PROGRAM + code + _LOOP, json.dumps(does)]


# What is left behind.


def resources() -> dict[str, int]:
    """What this process has open."""
    me = psutil.Process()
    return {
        "tasks": len(asyncio.all_tasks()),
        "children": len(me.children(recursive=True)),
        "files and sockets": me.num_fds(),
    }


@pytest.fixture
async def tidy(
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> AsyncGenerator[None]:
    """A test leaves no task, process, socket or file behind, and nothing was logged or printed that worries anyone."""
    caplog.set_level(logging.DEBUG)
    gc.collect()
    gc.freeze()  # What was there before need not be looked at again, which takes longer than the test.
    before = resources()
    yield
    async with asyncio.timeout(5):
        while any(now > before[name] for name, now in resources().items()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    gc.collect()  # A task or a future that failed unseen complains now.
    worrying = [each for each in caplog.get_records("call") + caplog.records if each.levelno >= logging.WARNING]
    assert not worrying, [each.getMessage() for each in worrying]
    assert "Traceback" not in "".join(capfd.readouterr())


async def refusal(target: Any, seconds: float = 10, **options: Any) -> TidingsError:
    """The error with which `target` cannot be connected to, in time."""
    options.setdefault("config", settings(backoff=ONCE))
    async with asyncio.timeout(seconds):
        with pytest.raises(TidingsError) as caught:
            async with connect(target, **options):
                pass
    return checked(caught.value)


async def failure(attempt: Awaitable[object], seconds: float = 10) -> TidingsError:
    """The error with which something fails, in time."""
    async with asyncio.timeout(seconds):
        with pytest.raises(TidingsError) as caught:
            await attempt
    return checked(caught.value)


def checked(error: TidingsError) -> TidingsError:
    """`error`, which is one that is raised by name, and says something in a few lines."""
    assert type(error) in leaves()
    assert error.args == (error.message,)
    assert 10 < len(error.message) < 2500
    assert error.message.count("\n") < 10
    return error
