"""What clients see of events before they get any: the capability, the list, errors in both numberings, permissions."""

from typing import Any

import pytest
from pydantic import BaseModel

import tidings
from tests.server.events.eventing import CREATED, OrderCreated, ask, bearer, get, orders, poll, shop
from tests.server.events.hooking import guarded, settings
from tests.server.serving import live
from tests.server.wire import Json
from tidings import LiveServer
from tidings.server import Events

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_the_capability_is_where_each_draft_has_it(era: str) -> None:
    async with live(shop()) as port:
        seen: list[Any] = []

        class Tap:
            def message(self, message: Any) -> None:
                if message.incoming and "capabilities" in (message.body.get("result") or {}):
                    seen.append(message.body["result"]["capabilities"])

            def exchange(self, exchange: Any) -> None: ...

        async with tidings.connect(f"http://127.0.0.1:{port}/mcp", era=era, tap=Tap()):
            pass
    assert seen[0]["events"] == {}
    assert seen[0]["extensions"]["io.modelcontextprotocol/events"] == {}


async def test_a_server_without_events_says_nothing_of_them() -> None:
    async with live(LiveServer("plain", events=None)) as port:
        found = await get(port, "server/discover")
        assert "events" not in found["capabilities"]
        assert (await ask(port, "events/list")).json["error"]["code"] == -32601


async def test_types_are_listed_with_their_schemas() -> None:
    async with live(shop()) as port:
        kinds = {each["name"]: each for each in (await get(port, "events/list"))["events"]}
    assert {"resource.updated", "tools.list_changed", CREATED} <= kinds.keys()
    created = kinds[CREATED]
    assert (created["description"], created["delivery"]) == ("An order came in.", ["poll", "push", "webhook"])
    assert created["payloadSchema"]["required"] == ["order"]
    assert created["inputSchema"]["properties"].keys() == {"shop"}


@pytest.mark.parametrize(("codes", "missing"), [("sketch", -32011), ("sep-3415", -32023)])
async def test_errors_have_the_numbers_of_the_chosen_draft(codes: Any, missing: int) -> None:
    async with live(shop(events=Events(error_codes=codes))) as port:
        error = (await ask(port, "events/poll", name="order.creatd", cursor=None)).json["error"]
        assert (error["code"], error["data"]["kind"]) == (missing, "event")
        assert "Did you mean 'order.created'?" in error["message"]
        wrongs: list[dict[str, Any]] = [{"cursor": "forged"}, {"arguments": {"shp": 1}}, {"arguments": {"shop": 1}}]
        for wrong in wrongs:
            asked: Json = {"name": CREATED, "cursor": None} | wrong
            error = (await ask(port, "events/poll", **asked)).json["error"]
            assert error["code"] == -32602


async def test_an_author_is_told_what_is_wrong_with_an_event() -> None:
    async with live(mcp := shop()):
        with pytest.raises(ValueError, match=r"declare it.*Did you mean 'order.created'"):
            await mcp.notify.event("order.creatd", {})
        with pytest.raises(ValueError, match="order: Field required"):
            await mcp.notify.event(CREATED, {"shop": "oslo"})
        with pytest.raises(ValueError, match="Put the content into a resource"):
            await mcp.notify.event(CREATED, OrderCreated(order="x" * 300_000))
        with pytest.raises(ValueError, match="There is already an event"):
            mcp.event(CREATED)(OrderCreated)
        assert await mcp.notify.event(CREATED, {"order": "1"}, event_id="mine") == "mine"


async def test_a_rule_of_the_author_chooses_events() -> None:
    mcp = shop()

    class Price(BaseModel):
        price: float

    class Below(BaseModel):
        limit: float

        def matches(self, payload: Price) -> bool:
            return payload.price < self.limit

    mcp.event("price.changed", arguments=Below)(Price)
    async with live(mcp) as port:
        cursor = (await poll(port, "price.changed", arguments={"limit": 10}))["cursor"]
        for price in (5, 15):
            await mcp.notify.event("price.changed", Price(price=price))
        page = await poll(port, "price.changed", cursor, arguments={"limit": 10})
        assert [each["data"]["price"] for each in page["events"]] == [5]


async def test_nobody_learns_of_a_type_or_an_event_that_is_not_theirs() -> None:
    def authorize(ctx: Any, uri: str) -> bool:
        return ctx.request.user.access_token.subject == "ada" or uri not in (f"event:{CREATED}", "note://ada")

    async with live(mcp := guarded(events=settings(), authorize=authorize)) as port:
        mcp.event("note.read")(OrderCreated)
        error = (await ask(port, "events/poll", headers=bearer("bob"), name=CREATED, cursor=None)).json["error"]
        assert error["code"] == -32011
        listed = (await ask(port, "events/list", headers=bearer("bob"))).json["result"]["events"]
        assert CREATED not in [each["name"] for each in listed]
        start = (await ask(port, "events/poll", headers=bearer("bob"), name="note.read", cursor=None)).json["result"]
        await mcp.notify.event("note.read", OrderCreated(order="hers"), about="note://ada")
        await mcp.notify.event("note.read", OrderCreated(order="all"))
        for user, seen in (("bob", ["all"]), ("ada", ["hers", "all"])):
            asked = {"name": "note.read", "cursor": start["cursor"]}
            page = (await ask(port, "events/poll", headers=bearer(user), **asked)).json["result"]
            assert orders(page["events"]) == seen
