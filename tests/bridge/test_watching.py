"""Changes of the servers behind a bridge reach its clients: told by the server, or found by reading."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import TextResource

from tests.bridge.upstreams import ERAS, Shop, spec, text, until, using
from tests.client.bad_servers import LEGACY, behaved, count, web
from tidings import LiveServer, ResourceUpdated, attach, connect
from tidings.bridge import BridgeServer, CallWatch, UpstreamSpec
from tidings.bridge import server as server_module
from tidings.bus.sqlite import SqliteBus
from tidings.client import ClientConfig
from tidings.client.config import ListChanged
from tidings.client.events import ResourcesChanged, ToolsChanged
from tidings.errors import BusUnavailable, TidingsError

pytestmark = pytest.mark.anyio
ABOVE = pytest.mark.parametrize("above", ERAS)
BELOW = pytest.mark.parametrize("below", ERAS)


class Heard:
    """Counts the changes that a client hears of."""

    def __init__(self, client: Any) -> None:
        self.uris: list[str] = []
        client.on(ResourceUpdated, lambda change: self.uris.append(change.uri))

    async def until(self, number: int) -> None:
        await until(lambda: len(self.uris) >= number)


@ABOVE
@BELOW
async def test_what_a_server_is_silent_about_is_read_and_compared(above: str, below: str) -> None:
    shop = Shop()  # In the modern era, it accepts subscriptions all the same.
    async with using(BridgeServer([spec(shop, below)], interval=0.05), above) as client:
        heard = Heard(client)
        await client.subscribe("stock://apples")
        reads = shop.reads
        await until(lambda: shop.reads >= reads + 2)  # Nothing has changed.
        assert heard.uris == []
        shop.texts["apples"] = "2 apples"
        await heard.until(1)
        assert (await client.read_resource("stock://apples")).text == "2 apples"
        await client.unsubscribe("stock://apples")
        await client.subscribe("stock://pears")
        shop.read.clear()
        await until(lambda: shop.read.count("pears") > 3)
        assert "apples" not in shop.read, "nobody listens"


@BELOW
async def test_a_server_is_read_until_it_notifies_and_no_more_from_then_on(below: str) -> None:
    shop = Shop()
    live = attach(shop.mcp)
    async with using(BridgeServer([spec(shop, below)], interval=0.05)) as client:
        heard = Heard(client)
        await client.subscribe(["stock://apples", "stock://pears"])
        await until(lambda: shop.read.count("pears") > 3)
        await live.notify.resource_updated("stock://apples")
        await heard.until(1)
        watched = json.loads((await client.read_resource("bridge://status")).text)["watched"]
        assert [each["by"] for each in watched] == ["subscription", "subscription"]


@BELOW
async def test_any_number_of_clients_cost_one_read_in_each_interval(below: str) -> None:
    shop = Shop()
    bridge = BridgeServer([spec(shop, below)], interval=3600)
    async with using(bridge, "legacy") as one, using(bridge) as two, using(bridge) as three:
        for client in (one, two, three):
            await client.subscribe("stock://apples")
            assert (await client.read_resource("stock://apples")).text == "3 apples"
        assert shop.reads == 1


async def test_a_call_that_may_change_something_is_followed_by_a_read_at_once() -> None:
    bridge = BridgeServer([spec(Shop(), "legacy")], interval=3600)
    async with using(bridge) as client:
        heard = Heard(client)
        await client.subscribe("stock://apples")
        await client.call_tool("put", {"item": "apples", "text": "none"})
        await heard.until(1)
        assert (await client.read_resource("stock://apples")).text == "none"


@ABOVE
async def test_a_call_of_a_read_only_tool_is_a_resource(above: str) -> None:
    shop = Shop()
    watched = CallWatch("shop", "count", {"item": "pears", "times": 2}, seconds=0.05)
    async with using(BridgeServer([spec(shop, watches=[watched])]), above) as client:
        uri = "call://shop/count?item=pears&times=2"
        assert uri in [str(each.uri) for each in client.resources]
        heard = Heard(client)
        await client.subscribe([uri, "call://shop/count?item=apples"])
        assert '"result": "2 x 1 pear"' in (await client.read_resource(uri)).text
        shop.texts["pears"] = "2 pears"
        await heard.until(1)
        assert heard.uris == [uri]
        for wrong in (
            "call://shop/put?item=x",
            "call://shop/nothing",
            "call://shop/count?colour=red",
            "call://other/a",
        ):
            with pytest.raises(TidingsError):
                await client.read_resource(wrong)
            with pytest.raises(TidingsError):
                await client.subscribe(wrong)


@ABOVE
@BELOW
async def test_what_a_server_tells_is_passed_on_once_for_all(above: str, below: str) -> None:
    live = LiveServer("live")

    @live.resource("note://{name}")
    def note(name: str) -> str:
        return name

    begun: list[str] = []

    @live.on_first_subscriber("note://{name}")
    def begin(name: str) -> None:
        begun.append(name)

    bridge = BridgeServer([UpstreamSpec("live", live, era=below)])
    async with using(bridge, above) as one, using(bridge, above) as two:
        heard = [Heard(one), Heard(two)]
        for client in (one, two):
            await client.subscribe("note://a")
        assert begun == ["a"]
        await live.notify.resource_updated("note://a")
        for each in heard:
            await each.until(1)

        changed = anyio.Event()
        one.on(ToolsChanged, lambda _: changed.set())
        live.add_tool(lambda: "x", name="added")
        await changed.wait()
        assert "added" in [tool.name for tool in one.tools]


async def test_a_prefix_covers_what_is_listed_under_it() -> None:
    shop = Shop()
    async with using(BridgeServer([spec(shop, "legacy")], interval=0.05)) as client:
        heard = Heard(client)
        await client.subscribe("stock://*")
        shop.texts["apples"] = "7 apples"
        await heard.until(1)
        assert heard.uris == ["stock://apples"]


async def test_an_agent_waits_for_a_server_that_knows_no_waiting() -> None:
    shop = Shop()
    async with using(BridgeServer([spec(shop, "legacy")], interval=0.05)) as client:
        call = client.start_call("wait_for_change", {"uris": ["stock://apples"]})
        await until(lambda: shop.reads > 1)
        shop.texts["apples"] = "5 apples"
        assert "+5 apples" in text(await call)


async def test_replicas_on_one_bus_divide_the_reads_and_all_tell(tmp_path: Path) -> None:
    shop, bus = Shop(), f"sqlite:///{tmp_path}/bus.db"
    bridges = [BridgeServer([spec(shop, "legacy")], interval=0.5, bus=bus) for _ in range(3)]
    async with using(bridges[0]) as one, using(bridges[1]) as two, using(bridges[2]) as three:
        heard = [Heard(client) for client in (one, two, three)]
        for client in (one, two, three):
            await client.subscribe("stock://apples")
        began, first = anyio.current_time(), shop.reads
        await until(lambda: shop.reads - first >= 4)
        assert anyio.current_time() - began > 1, "three replicas, each for itself, read six times a second"
        shop.texts["apples"] = "4 apples"
        for each in heard:
            await each.until(1)


async def test_a_bus_that_is_away_for_a_while_does_not_end_the_reads(tmp_path: Path) -> None:
    shop, bus = Shop(), SqliteBus(tmp_path / "bus.db")
    async with using(BridgeServer([spec(shop, "legacy")], interval=0.05, bus=bus)) as client:
        heard = Heard(client)
        await client.subscribe("stock://apples")
        get, away = bus.records.get, anyio.Event()

        async def fail(_: str) -> Any:
            away.set()
            raise BusUnavailable("The bus is away.")

        bus.records.get = fail  # type: ignore[method-assign]
        with anyio.fail_after(30):
            await away.wait()
        bus.records.get = get  # type: ignore[method-assign]
        shop.texts["apples"] = "2 apples"
        await heard.until(1)


async def test_a_change_while_no_bridge_ran_is_found_by_the_next(tmp_path: Path) -> None:
    shop, bus = Shop(), f"sqlite:///{tmp_path}/bus.db"
    for era, uri in (("legacy", "stock://apples"), ("2026-07-28", "stock://pears")):
        async with using(BridgeServer([spec(shop, era)], interval=0.05, bus=bus)) as client:
            await client.subscribe(uri)
            await until(lambda: shop.reads)
        shop.reads = 0
        shop.texts[uri.removeprefix("stock://")] = "changed"
        async with using(BridgeServer([spec(shop, era)], interval=0.05, bus=bus)) as client:
            heard = Heard(client)
            await client.subscribe(uri)
            await heard.until(1)


async def test_the_status_says_what_is_watched_and_how() -> None:
    async with using(BridgeServer([spec(Shop(), "legacy")])) as client:
        await client.subscribe("stock://apples")
        status = (await client.read_resource("bridge://status")).text
        assert '"state": "connected"' in status
        assert '"by": "a read every 5 s"' in status


@ABOVE
async def test_the_status_can_be_subscribed_to(above: str) -> None:
    bridge = BridgeServer([spec(Shop())], prefixed=True)
    async with using(bridge, above) as client:
        heard = Heard(client)
        await client.subscribe("bridge://status")
        await bridge.set_servers([UpstreamSpec("missing", ["no-such-program-at-all"])])
        await heard.until(1)
        assert set(heard.uris) == {"bridge://status"}
        (server,) = json.loads((await client.read_resource("bridge://status")).text)["servers"]
        assert server["name"] == "missing"


async def test_counters_of_the_status_are_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_STATUS_SECONDS", 0.001)
    monkeypatch.setattr(server_module, "_COUNTERS_EVERY", 10**9)
    shop = Shop()
    async with using(BridgeServer([spec(shop, "legacy")], interval=0.01)) as client:
        heard, before = Heard(client), shop.reads
        await client.subscribe("stock://apples")
        await client.subscribe("bridge://status")
        await until(lambda: shop.reads >= before + 20)
        assert len(heard.uris) <= 1  # The subscription itself may be news.
        monkeypatch.setattr(server_module, "_COUNTERS_EVERY", 1)
        await heard.until(4)


async def test_lists_of_a_new_server_are_announced() -> None:
    bridge = BridgeServer([spec(Shop())], prefixed=True)
    async with using(bridge) as client:
        told = anyio.Event()
        client.on(ResourcesChanged, lambda _: told.set())
        await bridge.set_servers([spec(Shop()), spec(Shop("other"), name="other")])
        await told.wait()
        await until(lambda: "other+stock://apples" in [str(each.uri) for each in client.resources])


@ABOVE
async def test_what_is_ignored_is_no_change(above: str) -> None:
    clock, state = MCPServer("clock"), {"at": 0, "value": 1}

    @clock.resource("clock://now")
    def now() -> str:
        state["at"] += 1
        return json.dumps(state)

    server = UpstreamSpec("clock", clock, ignores={"clock://*": ["$.at"]})
    async with using(BridgeServer([server], interval=0.05), above) as client:
        heard = Heard(client)
        await client.subscribe("clock://now")
        read = state["at"]
        await until(lambda: state["at"] > read + 2)
        assert heard.uris == []
        state["value"] = 2
        await heard.until(1)


async def test_what_is_ignored_of_a_watched_call_is_no_change() -> None:
    shop = Shop()
    watch = CallWatch("shop", "count", {"item": "apples"}, 0.05, [r"\d+ apples"])
    async with using(BridgeServer([spec(shop, watches=[watch])])) as client:
        heard = Heard(client)
        await client.subscribe("call://shop/count?item=apples")
        calls = shop.calls
        shop.texts["apples"] = "17 apples"
        await until(lambda: shop.calls > calls + 2)
        assert heard.uris == []
        shop.texts["apples"] = "sold out"
        await heard.until(1)


@ABOVE
async def test_a_list_whose_changes_a_server_does_not_tell_is_loaded_again(above: str) -> None:
    shop = Shop()
    async with using(BridgeServer([spec(shop, "legacy")], interval=0.05), above) as client:
        shop.mcp.add_tool(lambda: "x", name="late")
        shop.mcp.add_resource(TextResource(uri="stock://plums", name="plums", text="no plums"))
        await until(lambda: "late" in [tool.name for tool in client.tools])
        await until(lambda: "stock://plums" in [str(each.uri) for each in client.resources])


async def test_a_list_is_not_loaded_again_while_nobody_listens() -> None:
    async with web(behaved(LEGACY, {"tools": {}, "resources": {}})) as site:
        deaf = ClientConfig(list_changed=ListChanged(tools=False, resources=False, prompts=False))
        bridge = BridgeServer([UpstreamSpec("site", site.url)], interval=0.05)
        with anyio.fail_after(30):
            async with connect(bridge, config=deaf) as client:
                await client.subscribe("note://a")
                loads = count(site, "tools/list")
                await until(lambda: count(site, "resources/read") > 6)
                assert count(site, "tools/list") == loads
            async with connect(bridge):
                await until(lambda: count(site, "tools/list") > loads + 2)


async def test_the_status_says_how_old_a_copy_is() -> None:
    async with using(BridgeServer([spec(Shop(), "legacy")])) as client:
        await client.subscribe("stock://apples")
        await client.read_resource("stock://apples")
        (watched,) = json.loads((await client.read_resource("bridge://status")).text)["watched"]
        assert 0 <= watched["lag"] < 5
        assert watched["reads"] == 1
        assert watched["trouble"] is None


async def test_a_watched_tool_that_a_server_does_not_have_is_reported() -> None:
    watch = CallWatch("shop", "cuont", {"item": "apples"})
    async with using(BridgeServer([spec(Shop(), watches=[watch])])) as client:
        (server,) = json.loads((await client.read_resource("bridge://status")).text)["servers"]
        (notice,) = server["notices"]
        assert "no tool 'cuont'" in notice
        assert "'count'" in notice
