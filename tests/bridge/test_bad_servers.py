"""Servers that misbehave: the others go on, the client learns which one fails and why, and memory is bounded."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psutil
import pytest

from tests.bridge.upstreams import ERAS, Shop, spec, text, until, using
from tests.client.bad_servers import LEGACY, behaved, count, program, web
from tests.ports import free_port
from tidings import LiveClient
from tidings.bridge import BridgeServer, UpstreamSpec
from tidings.bridge import upstream as upstream_module
from tidings.client.config import Timeouts
from tidings.errors import TidingsError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
TOOL = {"inputSchema": {"type": "object"}}

GARBAGE = """
say("Welcome! Starting up...")
for line in sys.stdin:
    say("<html>not json</html>")
"""
SILENT = """
for line in sys.stdin:
    pass
"""
HANGS = """
def odd(method, id, params):
    return method == "tools/call"
"""
DIES = """
def odd(method, id, params):
    if method == "tools/call":
        sys.exit("out of memory")
    return False
"""
RESTLESS = """
does["initialize"]["capabilities"] = {"tools": {}}
number = 0
def odd(method, id, params):
    global number
    if method == "tools/list":
        number += 1
        does["tools/list"]["tools"] = [{"name": f"t{number}", "inputSchema": {"type": "object"}}]
    if method == "tools/call":
        send(method="notifications/tools/list_changed")
    return False
"""
STORM = """
import threading, time
does["initialize"]["capabilities"] = {"tools": {"listChanged": True}}
number = 0
def storm():
    while True:
        for _ in range(50):
            send(method="notifications/tools/list_changed")
        time.sleep(0.02)
def odd(method, id, params):
    global number
    if method == "tools/list":
        if not number:
            threading.Thread(target=storm, daemon=True).start()
        number += 1
        tools = [{"name": f"t{number}_{each}", "inputSchema": {"type": "object"}} for each in range(100)]
        does["tools/list"]["tools"] = tools
    return False
"""
FLOOD = """
def odd(method, id, params):
    if method == "tools/call":
        text = "x" * 10_000
        for number in range(20_000):
            send(method="notifications/message", params={"level": "info", "data": text})
            send(method="notifications/resources/updated", params={"uri": f"note://{number}"})
    return False
"""
HUGE = """
def odd(method, id, params):
    if method in ("tools/call", "resources/read"):
        sys.stdout.write('{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "' % id)
        for _ in range(100):
            sys.stdout.write("x" * 1_000_000)
        say('"}], "contents": []}}')
        return True
    return False
"""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a server that does not answer."""
    monkeypatch.setattr(upstream_module, "_FIRST_TRY", 1.0)


@asynccontextmanager
async def beside(bad: UpstreamSpec, above: str = "auto", **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of a bridge with a bad server and a good one. The good one works, before and after."""
    async with using(BridgeServer([bad, spec(Shop())], **options), above) as client:
        await works(client)
        yield client
        await works(client)


async def works(client: LiveClient) -> None:
    assert text(await client.call_tool("shop_count", {"item": "apples"})) == "1 x 3 apples"


async def status(client: LiveClient) -> dict[str, Any]:
    """What the bridge says of the bad server, which is its first one."""
    return json.loads((await client.read_resource("bridge://status")).text)["servers"][0]


@pytest.mark.parametrize("above", ERAS)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sys.exit('no licence')", "no licence"),
        (GARBAGE, "not answered yet"),
        (SILENT, "not answered yet"),
    ],
    ids=["ends", "garbage", "silent"],
)
async def test_a_server_that_cannot_be_used_is_named_with_the_reason(above: str, code: str, words: str) -> None:
    async with beside(UpstreamSpec("bad", program(code)), above) as client:
        assert words in (await status(client))["trouble"]
        with pytest.raises(TidingsError, match="bad"):
            await client.call_tool("bad_tool")


async def test_a_call_that_hangs_ends_with_the_name_of_its_server() -> None:
    async with beside(UpstreamSpec("bad", program(HANGS), timeout=0.5)) as client:
        with pytest.raises(TidingsError, match=r"bad: No answer to tools/call within 0\.5 s"):
            await client.call_tool("bad_tool")


async def test_a_server_that_dies_at_each_call_is_started_again() -> None:
    async with beside(UpstreamSpec("bad", program(DIES))) as client:
        for _ in range(2):
            with pytest.raises(TidingsError, match=r"(?s)bad: .*out of memory"):
                await client.call_tool("bad_tool")


async def test_a_tool_that_is_named_twice_is_offered_once() -> None:
    does = behaved(LEGACY, {"tools": {}})
    does["tools/list"] = {"tools": [{"name": "a", **TOOL}, {"name": "a", "title": "The last", **TOOL}]}
    async with web(does) as site, beside(UpstreamSpec("bad", site.url)) as client:
        assert [tool.title for tool in client.tools if tool.name == "bad_a"] == ["The last"]
        assert (await status(client))["notices"] == [
            "It has several tools of the name 'a': only the last of them is offered."
        ]


async def test_a_list_that_differs_each_time_is_passed_on_as_it_is_last() -> None:
    async with beside(UpstreamSpec("bad", program(RESTLESS)), interval=0.05) as client:
        await until(lambda: any(tool.name == "bad_t3" for tool in client.tools))
        assert sum(tool.name.startswith("bad_") for tool in client.tools) == 1
        await client.call_tool("bad_t3")


async def test_a_server_that_refuses_a_log_level_keeps_it_from_no_other(caplog: pytest.LogCaptureFixture) -> None:
    refuses, takes = behaved(LEGACY, {"logging": {}}), behaved(LEGACY, {"logging": {}})
    takes["logging/setLevel"] = {}
    async with web(refuses) as one, web(takes) as two:
        bridge = BridgeServer([UpstreamSpec("bad", one.url), UpstreamSpec("good", two.url)])
        async with using(bridge, "legacy") as client:
            before = count(two, "logging/setLevel")
            await client.set_log_level("error")
            await until(lambda: count(two, "logging/setLevel") > before)
            assert count(one, "logging/setLevel")
    assert "Traceback" not in caplog.text


async def test_a_storm_of_list_changes_does_not_hold_up_other_servers() -> None:
    async with beside(UpstreamSpec("bad", program(STORM))) as client:

        def first() -> str | None:
            return next((tool.name for tool in client.tools if tool.name.startswith("bad_")), None)

        await until(first)
        seen = first()
        await until(lambda: first() not in (None, seen))
        for _ in range(5):
            await works(client)


@pytest.mark.thorough
async def test_a_million_tools_are_cut_and_memory_is_bounded() -> None:
    does = behaved(LEGACY, {"tools": {}})
    pages = 0

    async def page(asked: Any) -> None:
        nonlocal pages
        pages += 1
        tools = [{"name": f"t{pages}-{number}", "description": "x" * 100, **TOOL} for number in range(5_000)]
        result = {"tools": tools, "nextCursor": str(pages)}
        await asked.answer(body=json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": result}).encode())

    does["tools/list"] = page
    before = psutil.Process().memory_info().rss
    async with web(does) as site, beside(UpstreamSpec("bad", site.url)) as client:
        assert sum(tool.name.startswith("bad_") for tool in client.tools) == 10_000
        assert pages == 3
        assert "more than 10,000 tools" in (await status(client))["notices"][0]
    assert psutil.Process().memory_info().rss - before < 300 * 2**20


@pytest.mark.thorough
@pytest.mark.parametrize("above", ERAS)
async def test_a_flood_costs_neither_memory_nor_other_servers(above: str) -> None:
    before = psutil.Process().memory_info().rss
    async with beside(UpstreamSpec("bad", program(FLOOD), timeout=60), above) as client:
        flood = client.start_call("bad_tool")
        await works(client)
        await flood
        assert psutil.Process().memory_info().rss - before < 300 * 2**20


@pytest.mark.thorough
@pytest.mark.parametrize("above", ERAS)
async def test_an_answer_of_100_megabytes_is_refused_by_name(above: str) -> None:
    before = psutil.Process().memory_info().rss
    async with beside(UpstreamSpec("bad", program(HUGE), timeout=60), above) as client:
        with pytest.raises(TidingsError, match=r"bad: .*too large"):
            await client.call_tool("bad_tool", timeout=60)
        with pytest.raises(TidingsError, match=r"bad: .*too large"):
            await client.read_resource("bad+note://a", timeout=60)
    assert psutil.Process().memory_info().rss - before < 300 * 2**20


async def test_a_server_that_does_not_answer_is_logged_at_the_first_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async with beside(UpstreamSpec("bad", f"http://127.0.0.1:{free_port()}/mcp")):
        await until(lambda: "bad cannot be reached" in caplog.text)
    assert "Tried" not in caplog.text


async def test_a_server_that_hangs_is_not_waited_for_long_once_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upstream_module, "_FIRST_TRY", 3600.0)
    async with beside(UpstreamSpec("bad", program(SILENT))) as client:  # Whose first answers would wait for an hour.
        assert (await status(client))["trouble"] == "It has not answered yet."
    assert "Traceback" not in caplog.text


async def test_the_advice_about_a_server_that_hangs_fits_who_runs_a_bridge(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upstream_module, "Timeouts", partial(Timeouts, connect=0.3))
    async with beside(UpstreamSpec("bad", program(SILENT))) as client:
        await until(lambda: "did not answer within" in caplog.text)
        trouble = (await status(client))["trouble"]
    for told in (trouble, caplog.text):
        assert "It is tried again; check that it is an MCP server." in told
        assert "Timeouts(" not in told
