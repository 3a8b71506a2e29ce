"""A request whose connection broke: repeated where that does no harm, and else said to be of unknown effect."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.client.cutting import cable
from tests.client.killing import programs
from tests.client.library import ERAS, SECONDS, Library, eventually, hear, on_the_web
from tests.client.ways import environment
from tests.server.serving import ROOT
from tidings.client import Backoff, ClientConfig, State, connect
from tidings.client.events import ToolCallResultChanged
from tidings.errors import EffectUnknown

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

QUICK = ClientConfig(backoff=Backoff(delays=(0.01,), tries=None))
SAFE: dict[str, Callable[[Any], Any]] = {
    "a read": lambda client: client.read_resource("note://1"),
    "a prompt": lambda client: client.get_prompt("p1"),
    "a list": lambda client: client.list_tools(),
    "a tool that only reads": lambda client: client.call_tool("t1"),
    "a tool that may be repeated": lambda client: client.call_tool("t2"),
    "a call that may be repeated": lambda client: client.call_tool("t3", idempotent=True),
}
PLACES = ["note://1", "p1", "tools/list", "t1", "t2", "t3"]


def library_of_marked_tools() -> Library:
    library = Library()
    library.annotations["t1"] = types.ToolAnnotations(read_only_hint=True)
    library.annotations["t2"] = types.ToolAnnotations(idempotent_hint=True)
    library.annotations["t4"] = types.ToolAnnotations(destructive_hint=False)
    return library


@ERAS
@pytest.mark.parametrize("refuse", [True, False], ids=["gone", "there"])
async def test_what_does_no_harm_is_repeated_when_its_connection_broke(era: str, refuse: bool) -> None:
    library = library_of_marked_tools()
    config = ClientConfig(backoff=QUICK.backoff, concurrency=10)
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        gate = anyio.Event()
        library.gates.update(dict.fromkeys(PLACES, gate))
        asked = [asyncio.create_task(send(client)) for send in SAFE.values()]
        await eventually(lambda: all(library.running[place] for place in PLACES))
        library.gates.clear()
        await cut.cut(refuse=refuse)
        gate.set()
        if refuse:
            await eventually(lambda: client.state is State.ERROR)
            await cut.mend()
        with anyio.fail_after(SECONDS):
            await asyncio.gather(*asked)
        assert all(library.asked[place] >= 2 for place in PLACES), library.asked


@ERAS
@pytest.mark.parametrize("refuse", [True, False], ids=["gone", "there"])
@pytest.mark.parametrize("tool", ["t4", "t5"])
async def test_a_call_that_may_have_done_something_is_never_repeated(era: str, refuse: bool, tool: str) -> None:
    library = library_of_marked_tools()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=QUICK) as client:
        told = hear(client, ToolCallResultChanged)
        gate = library.gates[tool] = anyio.Event()
        calling = asyncio.create_task(client.call_tool(tool))
        await eventually(lambda: library.running[tool])
        await cut.cut(refuse=refuse)
        with anyio.fail_after(SECONDS), pytest.raises(EffectUnknown, match="may have taken effect or not") as unknown:
            await calling
        gate.set()
        assert (unknown.value.method, unknown.value.retryable) == ("tools/call", False)
        (event,) = told
        assert (event.call.success, event.call.result, event.call.error) == (False, None, unknown.value.message)
        assert client.cache.get_tool_call_result(tool) is event.call
        if refuse:
            await cut.mend()
        with anyio.fail_after(SECONDS):
            await client.read_resource("note://1")
        assert library.asked[tool] == 1


@ERAS
async def test_where_only_its_own_connection_broke_the_same_holds(era: str) -> None:
    library = library_of_marked_tools()
    config = ClientConfig(backoff=QUICK.backoff, concurrency=10)
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        gate = library.gates["note://1"] = library.gates["t1"] = library.gates["t5"] = anyio.Event()
        asked = [client.read_resource("note://1"), client.call_tool("t1"), client.call_tool("t5")]
        read, safe, unsafe = [asyncio.create_task(each) for each in asked]
        await eventually(lambda: all(library.running[place] for place in ("note://1", "t1", "t5")))
        library.gates.clear()
        for place in (b"note://1", b'"t1"', b'"t5"'):
            cut.cut_one(place)
        with anyio.fail_after(SECONDS):
            assert (await read).text
            assert (await safe).success
            with pytest.raises(EffectUnknown):
                await unsafe
        assert (library.asked["note://1"], library.asked["t1"], library.asked["t5"]) == (2, 2, 1)
        gate.set()


@ERAS
async def test_a_call_that_never_arrived_is_sent_again(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=QUICK) as client:
        await cut.cut()
        if era == "legacy":
            await eventually(lambda: client.state is State.ERROR)
        calling = asyncio.create_task(client.call_tool("t5"))
        await eventually(lambda: client.state is State.ERROR)
        await cut.mend()
        with anyio.fail_after(SECONDS):
            assert (await calling).success
        assert library.asked["t5"] == 1


@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_a_call_whose_command_died_is_of_unknown_effect(era: str) -> None:
    command = [sys.executable, "-m", "tests.client.peers", "live"]
    options: Any = {"env": environment(), "cwd": ROOT}
    async with connect(command, era=era, config=QUICK, answer="ask", **options) as client:
        calling = asyncio.create_task(client.call_tool("greet"))
        await eventually(lambda: len(client.pending))
        (child,) = programs()
        os.kill(child.pid, signal.SIGKILL)
        with anyio.fail_after(SECONDS), pytest.raises(EffectUnknown):
            await calling
        await eventually(lambda: len(client.pending) == 0)
        with anyio.fail_after(20):
            assert (await client.read_resource("city://oslo")).text == "the weather in oslo"


@ERAS
async def test_a_request_that_breaks_the_connection_each_time_is_not_repeated_for_ever(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=QUICK) as client:
        library.gates["note://1"] = anyio.Event()
        reading = asyncio.create_task(client.read_resource("note://1"))
        for attempt in range(5):
            await eventually(lambda attempt=attempt: library.asked["note://1"] > attempt)
            assert not reading.done()
            await cut.cut(refuse=False)
        await eventually(reading.done)
        assert reading.exception() is not None
        assert library.asked["note://1"] == 5
