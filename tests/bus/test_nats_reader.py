"""How a `NatsBus` reads a stream: what the broker sends besides messages, and what it fails to send."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.msg import Msg

from tidings.bus.nats.errors import Interrupted
from tidings.bus.nats.transfer import StreamDelivery, StreamReader

pytestmark = pytest.mark.anyio


class Broker:
    """Both the connection and the stream of a reader, as far as it needs them."""

    name = "news"

    def __init__(self) -> None:
        self.connection = self
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.said: list[str] = []
        self.heard: dict[str, Callable[[Msg], Awaitable[None]]] = {}

    def inbox(self) -> str:
        return "inbox"

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Any:
        self.heard[subject] = heard

    async def read_from(self, *_: object, **__: object) -> int:
        return 0

    async def send(self, subject: str) -> None:
        self.said.append(subject)

    def fail(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def deliver(self, reply: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.heard["inbox"](Msg(None, "news.tools", reply, b"tools", named or None))  # type: ignore[arg-type]

    async def message(self, seq: int, count: int) -> None:
        await self.deliver(f"$JS.ACK.news.me.1.{seq}.{count}.77.3")


async def reading() -> tuple[Broker, StreamReader, list[StreamDelivery]]:
    broker, read = Broker(), list[StreamDelivery]()
    reader = StreamReader(broker, read.append)  # type: ignore[arg-type]
    await reader.open(1, beat=1, watch=True)
    return broker, reader, read


async def test_messages_are_handed_on_with_what_the_broker_says_of_them() -> None:
    broker, _, read = await reading()
    await broker.message(5, 1)
    await broker.message(9, 2)
    # Over a leaf node the domain and the account come first.
    await broker.deliver("$JS.ACK.domain.account.news.me.1.11.3.78.0.x")
    assert [(one.seq, one.at, one.pending) for one in read] == [(5, 77, 3), (9, 77, 3), (11, 78, 0)]
    assert {(one.subject, one.data) for one in read} == {("news.tools", b"tools")}


async def test_a_message_that_got_lost_ends_the_connection_and_nothing_is_read_after_it() -> None:
    broker, _, read = await reading()
    await broker.message(5, 1)
    await broker.message(9, 3)
    await broker.message(10, 4)
    assert [one.seq for one in read] == [5]
    assert isinstance(broker.ended.result(), Interrupted)


async def test_a_sign_of_life_tells_of_messages_that_got_lost() -> None:
    broker, reader, _ = await reading()
    await broker.message(5, 1)
    for _ in range(10):
        reader.check()
        await broker.deliver(Status="100", Nats_Last_Consumer="1")
    assert not broker.ended.done()
    await broker.deliver(Status="100", Nats_Last_Consumer="2")
    assert "were lost" in str(broker.ended.result())


async def test_a_broker_that_gives_no_sign_of_life_is_given_up() -> None:
    broker, reader, _ = await reading()
    for _ in range(3):
        reader.check()
    assert not broker.ended.done()
    reader.check()
    assert "sends no heartbeats" in str(broker.ended.result())


async def test_the_broker_is_told_that_everything_has_arrived() -> None:
    broker, _, _ = await reading()
    await broker.deliver("$JS.FC.one", Status="100")
    await broker.deliver(Status="100", Nats_Last_Consumer="0", Nats_Consumer_Stalled="$JS.FC.two")
    assert broker.said == ["$JS.FC.one", "$JS.FC.two"]


async def test_a_reader_that_the_broker_gives_up_ends_the_connection() -> None:
    broker, _, _ = await reading()
    await broker.deliver(Status="409")
    assert "409" in str(broker.ended.result())
    broker, _, _ = await reading()
    [advisory] = [subject for subject in broker.heard if subject != "inbox"]
    await broker.heard[advisory](Msg(None, advisory, "", b""))  # type: ignore[arg-type]
    assert "dropped its reader" in str(broker.ended.result())
