"""Limits hold at every moment: while somebody is asked, and for what is told to those who return."""

import asyncio
from typing import Any

import anyio
import pytest

from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.wire import Session, changed, subscribe
from tidings.server import Limits

pytestmark = pytest.mark.anyio

MANY = 10


class Gate:
    """An `authorize` that answers nobody before so many have asked."""

    def __init__(self, many: int = MANY) -> None:
        self._asked = 0
        self._many = many
        self._all = asyncio.Event()

    async def authorize(self, ctx: Any, uri: str) -> bool:
        self._asked += 1
        if self._asked == self._many:
            self._all.set()
        await self._all.wait()
        return True


@pytest.mark.parametrize(("limit", "number"), [("streams", 4), ("streams_per_client", 2)])
async def test_no_more_streams_than_the_limit_come_by_asking_at_the_same_time(limit: str, number: int) -> None:
    mcp = notes(limits=Limits(**{limit: number}), authorize=Gate(2).authorize)
    refusals: list[wire.Json] = []

    async with live(mcp) as port:

        async def ask() -> None:
            try:
                await (await wire.listen(port, wire.wanted(["note://a"], []))).next()
            except wire.Refused as refused:
                refusals.append(refused.response.error)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for _ in range(MANY):
                    tasks.start_soon(ask)
        assert len(mcp.notify.subscribers()) == 2
        assert [error["data"]["limit"] for error in refusals] == [limit] * (MANY - 2)
        assert all(error["data"]["retryable"] for error in refusals)


async def test_no_more_subscriptions_than_the_limit_come_by_asking_at_the_same_time() -> None:
    mcp = notes(limits=Limits(subscriptions=2), authorize=Gate().authorize)
    async with live(mcp) as port:
        session = await Session.start(port)
        with anyio.fail_after(10):
            answers = await asyncio.gather(*(session.subscribe(f"note://{number}") for number in range(MANY)))
        assert len([answer for answer in answers if answer.json.get("result") == {}]) == 2
        refused = [answer.error["data"]["limit"] for answer in answers if "error" in answer.json]
        assert refused == ["subscriptions"] * (MANY - 2)
        [info] = mcp.notify.subscribers()
        assert len(info.subscriptions) == 2


@pytest.mark.parametrize(
    ("missed", "subscriptions", "recovered"),
    [
        (10, ["note://*"], True),
        (11, ["note://*"], False),
        (20, [f"note://{number}" for number in range(20)], True),
    ],
    ids=["what may wait", "one more", "what was named"],
)
async def test_a_replay_is_no_longer_than_what_may_wait(missed: int, subscriptions: list[str], recovered: bool) -> None:
    mcp = notes(limits=Limits(backlog=10))
    async with live(mcp) as port:
        first = await subscribe("modern", port, subscriptions)
        since = first.acknowledged["params"]["_meta"][wire.CURSOR]
        await first.leave()
        await eventually(lambda: mcp.notify.subscribers() == [])
        uris = [f"note://{number}" for number in range(missed)]
        for uri in uris:
            await mcp.notify.resource_updated(uri)
        stream = await wire.listen(port, wire.wanted(subscriptions, []), **{"dev.tidings/since": since})
        assert (await stream.next())["params"]["_meta"]["dev.tidings/recovered"] is recovered
        await mcp.notify.resource_updated("note://0")
        heard = [changed(await stream.next()) for _ in range(missed + 1 if recovered else 1)]
        assert heard == ([*uris, "note://0"] if recovered else ["note://0"])
