"""Streams of changes that never begin, end at once, flood or lie: nothing spins, and nothing goes stale unsaid."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client.bad_servers import (
    MODERN,
    QUICK,
    SUBSCRIPTION,
    acknowledge,
    asked_for,
    behaved,
    count,
    event,
    failure,
    heard_of,
    hold,
    lives,
    refused,
    settings,
    silence,
    tell,
    web,
)
from tests.client.misbehaving import Asked
from tidings.changes import ResourceUpdated
from tidings.client import connect
from tidings.client.events import NotificationReceived
from tidings.errors import (
    ConnectionLost,
    LimitReached,
    NotSubscribable,
    NotSupported,
    RequestFailed,
    RequestTimedOut,
    TidingsError,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

Answer = Callable[[Asked], Awaitable[None]]
UPDATED = "notifications/resources/updated"
LISTEN = "subscriptions/listen"


# The acknowledgment.


async def unacknowledged(asked: Asked) -> None:
    await hold(asked)


def acknowledged(*shapes: Any) -> Answer:
    async def answer(asked: Asked) -> None:
        await asked.events()
        for shape in shapes:
            await tell(asked, "notifications/subscriptions/acknowledged", notifications=shape)
        await silence(asked)

    return answer


async def cancelled(asked: Asked) -> None:
    await asked.events()
    await event(asked, {"method": "notifications/cancelled", "params": {"requestId": asked.message["id"]}})
    await silence(asked)


async def ended(asked: Asked) -> None:
    await asked.result(resultType="complete")


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (unacknowledged, RequestTimedOut, "did not acknowledge a subscription within 1 s. Give it longer with"),
        (acknowledged([1]), RequestTimedOut, "did not acknowledge"),
        (acknowledged("all", 5, None), RequestTimedOut, "did not acknowledge"),
        (acknowledged({}), NotSubscribable, "Use `watch`, which polls"),
        (acknowledged({"resourceSubscriptions": "note://a"}), NotSubscribable, "does not announce changes to note://a"),
        (acknowledged({"resourceSubscriptions": [5, None, {}]}), NotSubscribable, "does not announce changes"),
        (cancelled, ConnectionLost, "ended a stream before it began"),
        (ended, ConnectionLost, "ended a stream before it began"),
        (refused(-32601, "Method not found"), NotSupported, "has no subscriptions/listen"),
        (refused(-32603, "Subscription limit reached"), LimitReached, "Subscription limit reached. Wait"),
        (refused(-32603, "the disk is full"), RequestFailed, "the disk is full"),
    ],
)
async def test_a_stream_that_does_not_begin_is_told_by_its_fault(
    answer: Answer, kind: type[TidingsError], says: str
) -> None:
    async with web({**behaved(MODERN), LISTEN: answer}) as here:
        async with connect(here.url, config=settings(request=1)) as client:
            error = await failure(client.subscribe("note://a"))
            assert type(error) is kind
            assert says in error.message
            assert client.subscriptions == []
            await lives(client)
        assert count(here, LISTEN) <= 6


async def test_a_stream_that_is_broken_off_before_it_begins_is_opened_again() -> None:
    """As by a replica that dies: the caller of `subscribe` does not hear of it."""

    async def break_off_twice(asked: Asked) -> None:
        if count(here, LISTEN) > 2:
            await acknowledge(asked)
            await silence(asked)
        await asked.events()
        asked.writer.close()

    async with web({**behaved(MODERN), LISTEN: break_off_twice}) as here, connect(here.url, config=QUICK) as client:
        await client.subscribe("note://a")
        assert client.subscriptions == ["note://a"]
        await lives(client)


async def test_a_stream_that_is_acknowledged_twice_is_acknowledged() -> None:
    async def twice(asked: Asked) -> None:
        await acknowledge(asked)
        await tell(asked, "notifications/subscriptions/acknowledged", notifications={})
        await tell(asked, UPDATED, uri="note://a")
        await silence(asked)

    await _hears_of_a(twice)


@pytest.mark.parametrize("recovered", [True, False])
async def test_a_server_that_cannot_say_what_was_missed_is_believed_though_the_old_stream_seems_open(
    recovered: bool,
) -> None:
    """It may have been dead for a while, and its end will never be noticed: a new one takes its place."""

    async def answer(asked: Asked) -> None:
        await asked.events()
        meta = {"dev.tidings/cursor": "epoch:7", "dev.tidings/recovered": recovered}
        wanted = asked.message["params"]["notifications"]
        await tell(asked, "notifications/subscriptions/acknowledged", notifications=wanted, _meta=meta)
        await silence(asked)

    async with web(behaved(MODERN) | {LISTEN: answer}) as here, connect(here.url, config=QUICK) as client:
        await client.subscribe("note://a", refresh=True)
        await client.wait_fresh()
        reads = count(here, "resources/read")
        await client.subscribe("note://b")
        await client.wait_fresh()
        assert count(here, "resources/read") == (reads if recovered else reads + 1)


async def test_what_was_not_asked_for_is_not_heard_of() -> None:
    async def more(asked: Asked) -> None:
        await acknowledge(asked, {"toolsListChanged": True, "resourceSubscriptions": ["note://a", "note://b", "*"]})
        for uri in ("note://b", "note://b", "note://a"):
            await tell(asked, UPDATED, uri=uri)
        await silence(asked)

    does = behaved(MODERN, {"resources": {"subscribe": True}})
    async with web({**does, LISTEN: more}) as here, connect(here.url, config=QUICK) as client:
        heard = heard_of(client)
        await client.subscribe("note://a")
        assert await heard.get() == ResourceUpdated("note://a")
        await client.subscribe("note://a")  # Which is nothing new.
        assert count(here, LISTEN) == 1


async def test_lists_that_the_server_will_not_tell_of_are_loaded_none_the_less() -> None:
    async with web({**behaved(MODERN), LISTEN: acknowledged({})}) as here:
        async with connect(here.url, config=QUICK) as client:
            await lives(client)
        assert count(here, "tools/list") == 1


# What comes on it.


async def _hears_of_a(answer: Answer) -> list[NotificationReceived]:
    """An update of note://a comes through; what else came."""
    others: list[NotificationReceived] = []
    async with web({**behaved(MODERN), LISTEN: answer}) as here, connect(here.url, config=QUICK) as client:
        heard = heard_of(client)
        client.on(NotificationReceived, others.append)
        await client.subscribe("note://a")
        async with asyncio.timeout(10):
            assert await heard.get() == ResourceUpdated("note://a")
        await lives(client)
    return others


async def test_updates_of_what_is_no_uri_are_passed_over() -> None:
    async def odd(asked: Asked) -> None:
        await acknowledge(asked)
        for uri in (
            5,
            None,
            ["note://a"],
            {"a": 1},
            "",
            "no scheme",
            "note://a\n",
            "/" * 500_000,
            "note:" + "/" * 8000,
        ):
            await tell(asked, UPDATED, uri=uri)
        for message in (
            {"method": UPDATED},
            {"method": UPDATED, "params": {"_meta": 5}},
            {"method": "notifications/x"},
        ):
            await event(asked, message)
        await event(asked, {"method": "notifications/message", "params": {"level": 7, "logger": []}})
        await event(asked, {"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}})
        await event(asked, {"method": "notifications/cancelled", "params": {"requestId": {}}})
        await tell(asked, UPDATED, uri="note://a")
        await silence(asked)

    others = await _hears_of_a(odd)
    assert {each.method for each in others} == {UPDATED, "notifications/x"}


async def test_a_flood_of_updates_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # Or what takes its time is to log each of them.

    async def flood(asked: Asked) -> None:
        await acknowledge(asked)
        names = {SUBSCRIPTION: asked.message["id"]}
        for number in range(20_000):
            params = {"uri": "note://a" if number % 100 == 0 else f"note://{number}", "_meta": names}
            message = {"jsonrpc": "2.0", "method": UPDATED, "params": params}
            asked.writer.write(b"data: " + json.dumps(message).encode() + b"\r\n\r\n")
            if number % 100 == 0:
                await asked.writer.drain()
        await silence(asked)

    async with web({**behaved(MODERN), LISTEN: flood}) as here, connect(here.url, config=QUICK) as client:
        watching = client.watch("note://a")
        async with asyncio.timeout(10):
            assert (await anext(watching)).text == "content"
            await lives(client)
            await client.wait_fresh()
        await watching.aclose()
        assert count(here, "resources/read") <= 2 * 200 + 2  # Of two streams, one update in a hundred.


# Streams that end.


async def ends_at_once(asked: Asked) -> None:
    await acknowledge(asked)
    await event(asked, {"id": asked.message["id"], "result": {"resultType": "complete"}})
    asked.writer.close()


async def ends_in_the_same_breath(asked: Asked) -> None:
    names = {SUBSCRIPTION: asked.message["id"]}
    wanted = asked.message["params"]["notifications"]
    params = {"notifications": wanted, "_meta": names}
    messages: list[dict[str, Any]] = [
        {"method": "notifications/subscriptions/acknowledged", "params": params},
        {"method": "notifications/cancelled", "params": {"requestId": asked.message["id"]}},
    ]
    data = [b"data: " + json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\r\n\r\n" for each in messages]
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + b"".join(data))
    await silence(asked)


async def breaks_off(asked: Asked) -> None:
    await acknowledge(asked)
    asked.writer.close()


async def says_nonsense(asked: Asked) -> None:
    await acknowledge(asked)
    await event(asked, b"{oops")
    await silence(asked)


async def says_too_much(asked: Asked) -> None:
    await acknowledge(asked)
    await event(asked, {"method": "notifications/message", "params": {"data": "x" * 5000}})
    await silence(asked)


@pytest.mark.parametrize("answer", [ends_at_once, ends_in_the_same_breath, breaks_off, says_nonsense, says_too_much])
async def test_a_stream_that_ends_at_once_is_opened_again_and_again_but_not_in_haste(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings._kit.backoff.jittered", lambda delay, **_: delay)
    async with web({**behaved(MODERN), LISTEN: answer}) as here:
        async with connect(here.url, config=settings(max_message=4000)) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asked_for(here, LISTEN, 5)
            assert loop.time() - began > 1  # After 0.2, 0.2, 0.5 and 1 seconds.
            await lives(client)
        assert count(here, LISTEN) <= 6
        assert count(here, "tools/list") <= 6


async def test_a_server_that_refuses_everything_is_not_asked_about_each_resource() -> None:
    for text in ("Subscription limit reached", "the disk is full"):
        async with web({**behaved(MODERN), LISTEN: refused(-32603, text)}) as here:
            async with connect(here.url, config=QUICK) as client:
                await failure(client.subscribe([f"note://{number}" for number in range(1000)]))
            assert count(here, LISTEN) < 80


async def test_a_server_that_has_no_room_for_a_stream_is_not_asked_for_smaller_ones() -> None:
    async def full(asked: Asked) -> None:
        data = {"code": "limit-reached", "retryable": True, "limit": "streams", "max": 1, "scope": "server"}
        error = {"code": -32603, "message": "Full.", "data": data}
        body = json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}).encode()
        await asked.answer(503, body, retry_after="60")

    async with web({**behaved(MODERN), LISTEN: full}) as here:
        async with connect(here.url, config=QUICK) as client:
            error = await failure(client.subscribe([f"note://{number}" for number in range(1000)]))
            assert (type(error), error.retry_after) == (LimitReached, 60)
        assert count(here, LISTEN) <= 3  # For the lists, for these, and for the lists again.


async def test_a_resource_that_could_not_be_read_after_its_change_is_read_with_the_next_connection() -> None:
    """As from a replica of a version without resources: the change was announced, and its log has no other."""
    does, streams = dict(behaved(MODERN)), list[Asked]()

    async def listen(asked: Asked) -> None:
        await asked.events()
        wanted, first = asked.message["params"]["notifications"], not streams
        meta = {"dev.tidings/cursor": "log:1", "dev.tidings/recovered": not first}
        await tell(asked, "notifications/subscriptions/acknowledged", notifications=wanted, _meta=meta)
        if wanted.get("resourceSubscriptions"):
            streams.append(asked)
        await silence(asked)

    does[LISTEN] = listen
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        copies = client.watch("note://a")
        async with asyncio.timeout(20):
            assert (await anext(copies)).text == "content"
            readable: Any = does.pop("resources/read")
            connected = count(here, "server/discover")
            await tell(streams[0], UPDATED, uri="note://a", _meta={"dev.tidings/cursor": "log:1"})
            await asked_for(here, "resources/read", 2)
            does["resources/read"] = {**readable, "contents": [{"uri": "note://a", "text": "new"}]}
            while (read := await anext(copies)).text != "new":
                pass
        assert read.text == "new"
        assert count(here, "server/discover") > connected
