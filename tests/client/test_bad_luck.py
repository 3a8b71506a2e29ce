"""What cannot be sent, and what does not get through: the caller's mistakes, and those of whoever is in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp_types import PromptReference

from tests.client.bad_servers import ERAS, LEGACY, QUICK, behaved, count, failure, lives, refused, settings, web
from tests.client.misbehaving import Asked
from tidings.client import LiveClient, State, connect
from tidings.errors import GaveUp

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("value", ["\ud800", object(), b"\xff", {("a", "b"): object()}])
async def test_what_cannot_be_sent_is_the_callers_mistake_and_costs_nothing(era: str, value: Any) -> None:
    async with web(behaved(era)) as here:
        async with connect(here.url, config=QUICK) as client:
            for attempt in (
                client.call_tool("tool", {"a": value}),
                client.call_tool("tool", metadata={"a": value}),
                client.read_resource("note://a", {"a": value}),
            ):
                with pytest.raises(ValueError, match="cannot be sent as JSON"):
                    await attempt
            with pytest.raises(ValueError, match="needs a name and a value"):
                await client.complete(PromptReference(name="p"), {"name": "a"})
            for attempt in (client.call_tool("tool", {1: 2}), client.call_tool("\ud800")):  # type: ignore[dict-item]
                with pytest.raises(ValueError, match=r"must have strings for names|cannot be sent"):
                    await attempt
            await lives(client)
        assert (count(here, "tools/call"), count(here, "resources/read")) == (0, 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_gateway_that_does_not_get_through_is_not_taken_for_the_server(era: str) -> None:
    away = False

    def unless_away(result: Any) -> Callable[[Asked], Awaitable[None]]:
        async def answer(asked: Asked) -> None:
            await (asked.answer(503, b"<html>", "text/html") if away else asked.result(**result))

        return answer

    does = behaved(era)
    does |= {method: unless_away(does[method]) for method in does.keys() - {"subscriptions/listen", "GET"}}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        away = True
        error = await failure(client.call_tool("tool"))  # Which has not arrived, and so waits.
        assert isinstance(error, GaveUp)
        assert "is away (HTTP 503). Wait, or check whether it runs" in error.message
        assert client.state is State.DISCONNECTED
        away = False
        await client.reconnect()
        assert (await client.call_tool("tool")).success
        await lives(client)


async def test_an_error_answer_to_a_ping_is_an_answer() -> None:
    does = {**behaved(LEGACY), "ping": refused(-32000, "I know no ping")}
    times = settings(ping_interval=0.05)
    async with web(does) as here, connect(here.url, config=times) as client:
        await here.until(12)
        assert count(here, "ping") > 2
        await lives(client)


async def test_whoever_reads_events_comes_to_an_end_with_the_client() -> None:
    async def read(client: LiveClient) -> list[str]:
        return [type(event).__name__ async for event in client.events()]

    async with web(behaved(LEGACY)) as here:
        client = connect(here.url, config=QUICK)
        for _ in range(2):
            reading = asyncio.create_task(read(client))
            await asyncio.sleep(0)
            async with client:
                await lives(client)
            async with asyncio.timeout(5):
                seen = await reading
            assert (seen[0], seen[-1]) == ("StateChanged", "StateChanged")
