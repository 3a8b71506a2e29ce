"""A server that does one thing at a time is busy, not gone: what it is asked has a time limit of its own."""

import sys
from pathlib import Path

import anyio
import pytest

from tests.client.library import SECONDS, eventually, hear
from tidings.client import ClientConfig, Timeouts, connect
from tidings.client.events import LogReceived, StateChanged

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
