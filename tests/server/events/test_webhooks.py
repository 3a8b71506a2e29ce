"""Webhooks on every bus: signed, in order, from any cursor, through restarts; and everything that is refused."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.bus.buses import BusFactory, buses_that
from tests.server.events.eventing import CREATED, TODAY, ask, get, poll, shop
from tests.server.events.hooking import as_, guarded, publish, settings, subscribe, wanted, when
from tests.server.events.receiving import Receiver, receiving
from tests.server.serving import eventually, live
from tidings import LiveServer

pytestmark = pytest.mark.anyio
OTHER = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVy"


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def mcp(bus_factory: BusFactory) -> LiveServer:
    return shop(bus=bus_factory.open(), events=settings())


@pytest.fixture
async def port(mcp: LiveServer) -> AsyncGenerator[int]:
    async with live(mcp) as port:
        yield port


async def test_events_are_posted_in_order_after_a_challenge(mcp: LiveServer, port: int, receiver: Receiver) -> None:
    await publish(mcp, "early")
    given = await subscribe(port, receiver.url())
    assert len(receiver.challenges) == 1
    assert receiver.posts == []
    assert (given["truncated"], given["id"][:4]) == (False, "sub_")
    await publish(mcp, *"abcdefgh")
    await receiver.has(lambda: len(receiver.posts) >= 8)
    assert receiver.orders() == list("abcdefgh")
    assert receiver.refused == []
    _, headers, body = receiver.posts[0]
    polled = (await poll(port, cursor=given["cursor"]))["events"]
    assert body == polled[0]
    assert (headers["webhook-id"], headers["x-mcp-subscription-id"]) == (body["eventId"], given["id"])
    await get(port, "events/unsubscribe", name=CREATED, arguments={}, delivery={"url": receiver.url()})
    await get(port, "events/unsubscribe", name=CREATED, arguments={}, delivery={"url": receiver.url()})
    await eventually(lambda: mcp.notify.subscribers() == [])


async def test_a_webhook_replays_from_a_cursor_and_a_refresh_keeps_its_place(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    cursor = (await poll(port))["cursor"]
    await publish(mcp, "1", "2")
    first = await subscribe(port, receiver.url(), cursor=cursor)
    await receiver.has(lambda: len(receiver.posts) >= 2)
    again = await subscribe(port, receiver.url(), OTHER, cursor=cursor)
    assert (again["id"], len(receiver.challenges)) == (first["id"], 1)
    await publish(mcp, "3")  # Signed with both secrets, as the old one is still known to the receiver.
    await receiver.has(lambda: len(receiver.posts) >= 3)
    assert receiver.orders() == ["1", "2", "3"]
    assert len(receiver.posts[2][1]["webhook-signature"].split(" ")) == 2
    assert (again["deliveryStatus"]["active"], receiver.refused) == (True, [])


async def test_arguments_choose_and_changes_of_resources_are_posted(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    await subscribe(port, receiver.url("/rome"), arguments={"shop": "rome"})
    await subscribe(port, receiver.url("/notes"), name="resource.updated", arguments={"uri": "note://*"})
    await publish(mcp, "no")
    await publish(mcp, "yes", shop="rome")
    await mcp.notify.resource_updated(TODAY)
    await receiver.has(lambda: len(receiver.posts) >= 2)
    assert receiver.orders("/rome") == ["yes"]
    assert [body["data"] for path, _, body in receiver.posts if path == "/notes"] == [{"uri": TODAY}]


async def test_what_the_retention_dropped_is_said_to_the_receiver(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    cursor = (await poll(port))["cursor"]
    await publish(mcp, *map(str, range(60)))
    given = await subscribe(port, receiver.url(), cursor=cursor)
    assert given["truncated"]
    await receiver.has(lambda: len(receiver.orders()) == 50)
    assert receiver.orders() == [str(number) for number in range(10, 60)]


async def test_a_failure_is_tried_again_with_the_same_id_and_nothing_passes_it(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    await subscribe(port, receiver.url())
    receiver.answering = lambda path, body: 500 if len(receiver.posts) < 2 else 200
    await publish(mcp, "1", "2")
    await receiver.has(lambda: len(receiver.posts) >= 4)
    assert [body["data"]["order"] for _, _, body in receiver.posts] == ["1", "1", "1", "2"]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.posts}) == 2
    await when(port, lambda all_: all_["subscriptions"][0]["state"] == "active")


async def test_a_receiver_in_trouble_parks_its_subscription_and_a_refresh_goes_on_with_the_same_event(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    await subscribe(port, receiver.url())
    await subscribe(port, receiver.url("/well"))
    receiver.answering = lambda path, body: 503 if path == "/hook" else 200
    await publish(mcp, "1", "2")
    await receiver.has(lambda: len(receiver.posts) >= 6)
    (state,) = await when(port, lambda all_: [each for each in all_["subscriptions"] if each["state"] == "parked"])
    assert (state["reason"], state["deliveryStatus"]["lastError"]) == ("HTTP 503", "http_5xx")
    assert receiver.orders("/well") == ["1", "2"]
    receiver.posts.clear()
    receiver.answering = lambda path, body: 200
    given = await subscribe(port, receiver.url())
    assert given["deliveryStatus"]["active"]
    await receiver.has(lambda: receiver.orders() == ["1", "2"])


@pytest.mark.parametrize("status", [410, 413, 400])
async def test_an_event_that_is_refused_is_parked_and_can_be_delivered_again(
    mcp: LiveServer, port: int, receiver: Receiver, status: int
) -> None:
    given = await subscribe(port, receiver.url())
    receiver.answering = lambda path, body: status if body["data"]["order"] == "bad" else 200
    await publish(mcp, "bad", "good")
    await receiver.has(lambda: "good" in receiver.orders())
    assert len(receiver.posts) == (5 if status == 400 else 2)
    (parked,) = await when(port, lambda all_: [each for each in all_["deliveries"] if each["state"] == "parked"])
    assert (parked["reason"], parked["response"]["status"]) == (f"HTTP {status}", status)
    assert "signature" not in str(parked)
    receiver.answering = lambda path, body: 200
    named = {"subscriptionId": given["id"], "eventId": parked["eventId"]}
    await get(port, "dev.tidings/events/redeliver", **named)
    await receiver.has(lambda: receiver.posts[-1][2]["data"]["order"] == "bad")
    lost = await ask(port, "dev.tidings/events/redeliver", subscriptionId=given["id"], eventId="evt_x")
    assert lost.json["error"]["code"] == -32011


@buses_that(lambda kind: kind.outlives)
async def test_a_subscription_outlives_the_server_and_misses_nothing(
    bus_factory: BusFactory, receiver: Receiver
) -> None:
    async with live(mcp := shop(bus=bus_factory.open(), events=settings())) as port:
        first = await subscribe(port, receiver.url())
        await publish(mcp, "1")
        await receiver.has(lambda: receiver.orders() == ["1"])
        receiver.answering = lambda path, body: 500
        await publish(mcp, "2", "3")
        await receiver.has(lambda: len(receiver.posts) > 1)
    receiver.answering = lambda path, body: 200
    async with live(mcp := shop(bus=bus_factory.open(), events=settings())) as port:
        again = await subscribe(port, receiver.url())
        await publish(mcp, "4")
        await receiver.has(lambda: receiver.orders() == ["1", "2", "3", "4"])
        assert again["id"] == first["id"]


@buses_that(lambda kind: kind.shared)
async def test_one_replica_delivers_and_another_goes_on_when_it_stops(
    bus_factory: BusFactory, receiver: Receiver
) -> None:
    one, other = (shop(bus=bus_factory.open(), events=settings()) for _ in range(2))
    async with live(other) as there:
        async with live(one) as here:
            await subscribe(there, receiver.url())
            await publish(one, "1")
            await publish(other, "2")
            await receiver.has(lambda: len(receiver.posts) >= 2)
            await asyncio.gather(subscribe(here, receiver.url()), subscribe(there, receiver.url()))
        await publish(other, "3")
        await receiver.has(lambda: len(receiver.posts) >= 3)
    assert [body["data"]["order"] for _, _, body in receiver.posts] == ["1", "2", "3"]


async def test_subscriptions_belong_to_whoever_made_them(bus_factory: BusFactory, receiver: Receiver) -> None:
    barred: set[str] = set()

    def authorize(ctx: Any, _: str) -> bool:
        return ctx.request.user.access_token.subject not in barred

    events = settings(per_client=2)
    async with live(mcp := guarded(bus=bus_factory.open(), events=events, authorize=authorize)) as port:
        mine = (await as_("ada", port, "events/subscribe", **wanted(receiver.url("/ada"))))["result"]
        theirs = (await as_("bob", port, "events/subscribe", **wanted(receiver.url("/bob"))))["result"]
        same = (await as_("bob", port, "events/subscribe", **wanted(receiver.url("/ada"))))["result"]
        assert len({mine["id"], theirs["id"], same["id"]}) == 3
        over = (await as_("bob", port, "events/subscribe", **wanted(receiver.url("/third"))))["error"]
        assert (over["code"], over["data"]["limit"], over["data"]["max"]) == (-32013, "webhooks", 2)
        listed = (await as_("ada", port, "dev.tidings/events/deliveries"))["result"]["subscriptions"]
        assert [each["id"] for each in listed] == [mine["id"]]
        await publish(mcp, "1")
        await receiver.has(lambda: len(receiver.posts) == 3)
        event_id = receiver.posts[0][1]["webhook-id"]
        foreign = {"subscriptionId": mine["id"], "eventId": event_id}
        assert (await as_("bob", port, "dev.tidings/events/redeliver", **foreign))["error"]["code"] == -32011
        ended = {"name": CREATED, "arguments": {}, "delivery": {"url": receiver.url("/bob")}}
        assert (await as_("ada", port, "events/unsubscribe", **ended))["result"].get("error") is None
        assert len((await as_("bob", port, "dev.tidings/events/deliveries"))["result"]["subscriptions"]) == 2
        barred.add("bob")
        await mcp.notify.revoke("bob")
        await when(port, lambda all_: all(each["state"] == "parked" for each in all_["subscriptions"]), "bob")
        await publish(mcp, "2")
        await receiver.has(lambda: receiver.orders("/ada")[-1] == "2")
        await eventually(lambda: [path for path, _, body in receiver.posts if body["data"]["order"] == "2"])
        assert "2" not in receiver.orders("/bob")
