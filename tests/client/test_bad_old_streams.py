"""Streams of the legacy era that are refused, speak nonsense or stay away: nothing spins, nothing goes stale unsaid."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.bad_servers import (
    LEGACY,
    QUICK,
    asked_for,
    behaved,
    count,
    event,
    failure,
    heard_of,
    lives,
    refused,
    settings,
    silence,
    web,
)
from tests.client.misbehaving import Asked
from tidings.changes import ResourceUpdated
from tidings.client import connect, http_health
from tidings.errors import NotSupported, RequestTimedOut, ResourceNotFound, TidingsError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

Answer = Callable[[Asked], Awaitable[None]]
UPDATED = "notifications/resources/updated"


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (silence, RequestTimedOut, "No answer to resources/subscribe within 1 s. Give it longer"),
        (refused(-32601, "Method not found"), NotSupported, "has no resources/subscribe"),
        (refused(-32002, "There is no note of this name"), ResourceNotFound, "no note of this name"),
    ],
)
async def test_an_old_subscription_that_is_refused_is_told_by_its_fault(
    answer: Answer, kind: type[TidingsError], says: str
) -> None:
    does = {**behaved(LEGACY), "resources/subscribe": answer}
    async with web(does) as here, connect(here.url, config=settings(request=1)) as client:
        error = await failure(client.subscribe("note://a"))
        assert type(error) is kind
        assert says in error.message
        await lives(client)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 405, 406])
async def test_a_server_that_opens_no_stream_is_a_server_without_subscriptions(status: int) -> None:
    async def refuse_stream(asked: Asked) -> None:
        await asked.answer(status, b"<html>", "text/html")

    async with web({**behaved(LEGACY), "GET": refuse_stream}) as here:
        async with connect(here.url, config=QUICK) as client:
            error = await failure(client.subscribe("note://a"))
            assert isinstance(error, NotSupported)
            assert "offers no subscriptions to resources. Use `watch`, which polls" in error.message
            await lives(client)
        assert (count(here, "initialize"), [each.method for each in here.asked].count("GET")) == (1, 1)


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_a_stream_that_is_refused_for_a_while_is_opened_by_a_new_connection(status: int) -> None:
    async def refuse_twice(asked: Asked) -> None:
        if sum(each.method == "GET" for each in here.asked) <= 2:
            await asked.answer(status)
            return
        await asked.events()
        await subscribed.wait()
        await event(asked, {"method": UPDATED, "params": {"uri": "note://a"}})
        await silence(asked)

    subscribed = asyncio.Event()
    async with web({**behaved(LEGACY), "GET": refuse_twice}) as here, connect(here.url, config=QUICK) as client:
        heard = heard_of(client)
        await client.subscribe("note://a")  # The SDK gives up after the second refusal, and tells nobody.
        subscribed.set()
        async with asyncio.timeout(20):
            assert await heard.get() == ResourceUpdated("note://a")
        assert count(here, "initialize") == 2


async def test_a_session_that_is_always_unknown_is_opened_anew_within_its_time() -> None:
    async def forget(asked: Asked) -> None:
        await asked.answer(404)

    does = {**behaved(LEGACY), "resources/subscribe": forget}
    async with web(does) as here, connect(here.url, config=settings(total=0.5)) as client:
        error = await failure(client.subscribe("note://a"))
        assert isinstance(error, RequestTimedOut)
        assert "accepted no subscription within 0.5 s" in error.message


async def test_a_message_on_the_old_stream_that_is_none_costs_nothing() -> None:
    async def nonsense(asked: Asked) -> None:
        await asked.events()
        await event(asked, b"{oops")
        await subscribed.wait()
        await event(asked, {"method": UPDATED, "params": {"uri": "note://a"}})
        await silence(asked)

    subscribed = asyncio.Event()
    async with web({**behaved(LEGACY), "GET": nonsense}) as here, connect(here.url, config=QUICK) as client:
        heard = heard_of(client)
        await client.subscribe("note://a")
        subscribed.set()
        async with asyncio.timeout(5):
            assert await heard.get() == ResourceUpdated("note://a")
        await lives(client)


async def test_an_old_stream_that_stays_away_costs_the_connection_rather_than_the_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_health, "_STREAM_AWAY", 0.3)

    async def too_much(asked: Asked) -> None:
        await asked.events()
        await asked.write(b"retry: 10\r\nid: 1\r\ndata:\r\n\r\n")
        await event(asked, {"method": "notifications/message", "params": {"data": "x" * 5000}})
        await silence(asked)

    does = {**behaved(LEGACY), "GET": too_much}
    async with web(does) as here, connect(here.url, config=settings(max_message=4000)) as client:
        await asked_for(here, "initialize", 2)  # The SDK gives up after the second stream, and tells nobody.
        await client.connect()
        await lives(client)


async def test_a_notification_that_is_never_accepted_costs_the_connection_rather_than_all_that_follows() -> None:
    async def never(asked: Asked) -> None:
        if count(here, "initialize") == 1:
            await silence(asked)
        await asked.answer(200, b"{}")

    does = {**behaved(LEGACY), "tools/call": never, "notifications/cancelled": silence}
    async with web(does) as here, connect(here.url, config=settings(request=0.2)) as client:
        with pytest.raises(RequestTimedOut):
            await client.call_tool("slow")  # The SDK cancels it, and sends nothing else until that is accepted.
        await asked_for(here, "initialize", 2)
        await client.connect()
        await lives(client)


async def test_a_subscription_whose_answer_is_broken_off_is_asked_for_again() -> None:
    """As by a replica that dies, while the stream is open at another one."""

    async def break_off_once(asked: Asked) -> None:
        if count(here, "resources/subscribe") > 1:
            await asked.result()
        else:
            await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\n:")
            asked.writer.close()

    does = {**behaved(LEGACY), "resources/subscribe": break_off_once}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        await client.subscribe("note://a")
        assert (count(here, "resources/subscribe"), count(here, "initialize")) == (2, 1)
        await lives(client)
