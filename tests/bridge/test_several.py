"""Several servers behind one bridge: their names, their failures, and servers that come and go."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bridge.upstreams import ERAS, Shop, sessions, spec, text, until, using
from tests.client.bad_servers import LEGACY, behaved, web
from tests.server.serving import serving
from tidings import connect
from tidings.bridge import BridgeServer, UpstreamSpec
from tidings.client import ClientConfig
from tidings.errors import RequestFailed, TidingsError

pytestmark = pytest.mark.anyio
ABOVE = pytest.mark.parametrize("above", ERAS)

MORTAL = """
import os, sys
from mcp.server.mcpserver import MCPServer
mcp = MCPServer("mortal")
@mcp.resource("life://{name}")
def life(name: str) -> str:
    return open(sys.argv[1]).read()
@mcp.tool()
def die() -> str:
    os._exit(1)
@mcp.tool()
def pid() -> str:
    return str(os.getpid())
mcp.run()
"""


def mortal(tmp_path: Path, name: str = "mortal") -> UpstreamSpec:
    """A server that can be killed, and that reads a file."""
    program, file = tmp_path / "mortal.py", tmp_path / f"{name}.txt"
    program.write_text(MORTAL)
    file.write_text("one")
    return UpstreamSpec(name, [sys.executable, str(program), str(file)], polls={"life://*": 0.1})


@ABOVE
async def test_names_are_told_apart_and_lead_back(above: str) -> None:
    one, two = Shop("one"), Shop("two")
    two.texts["apples"] = "no apples"
    async with using(BridgeServer([spec(one, name="one"), spec(two, name="two")]), above) as client:
        names = [tool.name for tool in client.tools]
        assert names[:2] == ["one_count", "one_put"]
        assert "two_count" in names
        assert [str(each.uri) for each in client.resources] == [
            "one+stock://apples",
            "two+stock://apples",
            "bridge://status",
        ]
        assert (await client.read_resource("two+stock://apples")).text == "no apples"
        assert (await client.read_resource("one+stock://pears")).uri == "one+stock://pears"
        assert text(await client.call_tool("two_count", {"item": "apples"})) == "1 x no apples"
        with pytest.raises(RequestFailed, match="Did you mean 'two_count'"):
            await client.call_tool("too_count")
        with pytest.raises(TidingsError):
            await client.read_resource("three+stock://apples")


@ABOVE
async def test_a_server_that_fails_hides_no_other(above: str) -> None:
    bad = [
        UpstreamSpec("missing", ["no-such-program-at-all"]),
        UpstreamSpec("ends", [sys.executable, "-c", "raise SystemExit('no licence')"]),
        UpstreamSpec("nobody", "http://127.0.0.1:9/mcp"),
    ]
    async with using(BridgeServer([*bad, spec(Shop())]), above) as client:
        assert text(await client.call_tool("shop_count", {"item": "apples"})) == "1 x 3 apples"
        status = (await client.read_resource("bridge://status")).text
        assert "no licence" in status
        assert status.count('"trouble": null') == 1


async def test_what_is_denied_is_neither_listed_nor_called() -> None:
    bridge = BridgeServer([spec(Shop(), allow=["p*", "co*"], deny=["put"])])
    async with using(bridge) as client:
        assert [tool.name for tool in client.tools] == ["count", "wait_for_change"]
        with pytest.raises(RequestFailed, match="no tool 'put'"):
            await client.call_tool("put", {"item": "x", "text": "y"})


async def test_servers_come_and_go_while_it_runs() -> None:
    first, second = spec(Shop("one"), name="one"), spec(Shop("two"), name="two")
    bridge = BridgeServer([first], prefixed=True)
    async with using(bridge) as client:
        await bridge.set_servers([first, second])
        await until(lambda: "two_put" in [tool.name for tool in client.tools])
        await bridge.set_servers([second])
        await until(lambda: "one_put" not in [tool.name for tool in client.tools])
        assert text(await client.call_tool("two_put", {"item": "x", "text": "y"})) == "done"


@ABOVE
async def test_a_server_that_dies_is_started_again_and_its_copies_become_fresh(above: str, tmp_path: Path) -> None:
    bridge = BridgeServer([mortal(tmp_path), spec(Shop())])
    async with using(bridge, above) as client:
        watching: list[str] = []

        async def watch() -> None:
            async for read in client.watch("mortal+life://x"):
                watching.append(read.text)  # noqa: PERF401 - seen meanwhile

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await until(lambda: watching == ["one"])
            with pytest.raises(TidingsError, match="mortal"):
                await client.call_tool("mortal_die")
            assert text(await client.call_tool("shop_count", {"item": "apples"})) == "1 x 3 apples"
            (tmp_path / "mortal.txt").write_text("two")
            await until(lambda: watching[-1] == "two")
            assert int(text(await client.call_tool("mortal_pid"))) > 0
            tasks.cancel_scope.cancel()


async def test_a_server_that_is_replaced_is_watched_again() -> None:
    old, new = Shop("old"), Shop("new")
    new.texts["apples"] = "new apples"
    bridge = BridgeServer([spec(old, "legacy")], prefixed=True, interval=0.05)
    async with using(bridge) as client:
        seen: list[str] = []

        async def watch() -> None:
            async for read in client.watch("shop+stock://apples"):
                seen.append(read.text)  # noqa: PERF401 - seen meanwhile

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await until(lambda: seen == ["3 apples"])
            await bridge.set_servers([])
            await bridge.set_servers([spec(new, "legacy")])
            await until(lambda: seen[-1] == "new apples")
            new.texts["apples"] = "newer apples"
            await until(lambda: seen[-1] == "newer apples")
            tasks.cancel_scope.cancel()


async def test_a_server_with_too_much_is_cut_and_one_that_repeats_itself_is_not_believed() -> None:
    does = behaved(LEGACY, {"tools": {}})
    tool = {"inputSchema": {"type": "object"}}
    tools = [{"name": f"t{number}", **tool} for number in range(20_000)] + [{"name": "t1", **tool}]
    does["tools/list"] = {"tools": tools}
    async with web(does) as site:
        bridge = BridgeServer([UpstreamSpec("much", site.url), spec(Shop())])
        async with using(bridge) as client:
            names = [each.name for each in client.tools]
            assert len(names) == len(set(names))
            assert sum(name.startswith("much_") for name in names) == 10_000
            assert text(await client.call_tool("shop_count", {"item": "apples"})) == "1 x 3 apples"


@pytest.mark.thorough
@pytest.mark.timeout(300)
async def test_eight_servers_of_which_one_is_killed_each_second(tmp_path: Path) -> None:
    specs = [mortal(tmp_path, f"m{number}") for number in range(8)]
    bridge = BridgeServer([*specs, spec(Shop())])
    failed, asked, copies = list[str](), 0, dict[str, str]()
    with anyio.fail_after(280):
        async with connect(bridge, config=ClientConfig(concurrency=16)) as client, anyio.create_task_group() as tasks:

            async def watch(name: str) -> None:
                async for read in client.watch(f"{name}+life://x"):
                    copies[name] = read.text

            async def ask() -> None:
                nonlocal asked
                while True:
                    asked += 1
                    if text(await client.call_tool("shop_count", {"item": "apples"})) != "1 x 3 apples":
                        failed.append("shop")
                    await anyio.sleep(0.05)

            for each in specs:
                tasks.start_soon(watch, each.name)
            await until(lambda: len(copies) == 8)
            tasks.start_soon(ask)
            for second in range(60):
                name = f"m{second % 8}"
                (upstream,) = [each for each in sessions(bridge) if each.spec.name == name]
                if upstream.client.pid is not None:
                    os.kill(upstream.client.pid, signal.SIGKILL)
                (tmp_path / f"{name}.txt").write_text(f"after {second}")
                await anyio.sleep(1)
            await until(lambda: all(copies[name] == (tmp_path / f"{name}.txt").read_text() for name in copies))
            tasks.cancel_scope.cancel()
    assert not failed
    assert asked > 100


async def test_each_token_has_a_session_of_its_own() -> None:
    seen: list[str] = []
    shop = Shop()

    class Guard:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
            await self.app(scope, receive, send)

    async with serving(Guard(shop.mcp.streamable_http_app())) as port:
        bridge = BridgeServer([UpstreamSpec("shop", f"http://127.0.0.1:{port}/mcp", pass_token=True)])
        async with serving(bridge.asgi()) as outside:
            for name in ("ada", "eve"):
                seen.clear()
                async with connect(f"http://127.0.0.1:{outside}/mcp", token=name) as client:
                    assert text(await client.call_tool("count", {"item": "apples"})) == "1 x 3 apples"
                assert set(seen) == {f"Bearer {name}"}
