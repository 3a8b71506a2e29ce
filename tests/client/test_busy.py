"""A server that does one thing at a time is busy, not gone: what it is asked has a time limit of its own.

But one whose packets vanish is gone, whatever it was asked.
"""

import asyncio
import sys
from pathlib import Path

import anyio
import pytest

from tests.client.cutting import cable
from tests.client.library import ERAS, SECONDS, Library, eventually, hear, on_the_web
from tidings.client import ClientConfig, ListChanged, Timeouts, connect
from tidings.client.events import LogReceived, StateChanged
from tidings.client.transports import http
from tidings.errors import EffectUnknown, RequestTimedOut

pytestmark = pytest.mark.anyio

HURRIED = ClientConfig(timeouts=Timeouts(ping_interval=0.05, ping=0.1))
PROGRAM = """
import json, sys, time

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            info = {"name": "one at a time", "version": "1"}
            answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": info}
        case "tools/list":
            answer = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "talk")]}
        case "tools/call":
            answer = {"content": []}
            if asked["params"]["name"] == "work":
                time.sleep(1)
        case _:
            answer = {}
    if "id" in asked:
        say(id=asked["id"], result=answer)
    if asked["method"] == "tools/call" and asked["params"]["name"] == "talk":
        until = time.monotonic() + 1
        while time.monotonic() < until:
            say(method="notifications/message", params={"level": "info", "data": "still here"})
            time.sleep(0.01)
        say(method="notifications/message", params={"level": "info", "data": "done"})
"""


async def test_a_server_that_is_busy_with_a_call_or_talks_all_the_time_is_not_lost(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    async with connect([sys.executable, str(program)], era="legacy", config=HURRIED) as client:
        states, logged = hear(client, StateChanged), hear(client, LogReceived)
        with anyio.fail_after(SECONDS):
            assert (await client.call_tool("work")).success
        assert not states
        with anyio.fail_after(SECONDS):
            assert (await client.call_tool("talk")).success
        await eventually(lambda: logged and logged[-1].data == "done")
        assert not states


@ERAS
async def test_a_web_server_that_answers_no_ping_during_a_call_is_given_the_time_of_the_call(era: str) -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=HURRIED) as client:
        gate = library.gates["t1"] = anyio.Event()
        calling = asyncio.create_task(client.call_tool("t1", timeout=2))
        await eventually(lambda: library.running["t1"])
        cut.freeze()
        with anyio.fail_after(SECONDS), pytest.raises(RequestTimedOut):  # Otherwise its effect would be unknown.
            await calling
        gate.set()


@pytest.mark.skipif(sys.platform != "linux", reason="only there can a test lose packets")
@pytest.mark.parametrize("lists", [True, False], ids=["with a stream", "without"])
@ERAS
async def test_a_network_that_swallows_everything_is_noticed_during_a_call(
    era: str, lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECT_SECONDS", 600)  # A ping that cannot connect must not be what tells.
    library = Library()
    config = ClientConfig(timeouts=Timeouts(ping_interval=1, ping=1), list_changed=ListChanged(lists, lists, lists))
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=config) as client:
        gate = library.gates["t1"] = anyio.Event()
        calling = asyncio.create_task(client.call_tool("t1", timeout=200))
        await eventually(lambda: library.running["t1"])
        cut.swallow()
        with anyio.fail_after(60), pytest.raises(EffectUnknown):
            await calling
        gate.set()
