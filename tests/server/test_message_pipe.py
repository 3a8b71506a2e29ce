"""The lighter ends of a stream behave as those of anyio's, which they replace; the sessions of the SDK have them."""

import asyncio
import gc
import logging
from collections.abc import Awaitable
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import BrokenResourceError, BusyResourceError, ClosedResourceError, EndOfStream
from anyio.streams import memory
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.shared.message import SessionMessage

from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.wire import Session, subscribe
from tidings.server.adapters import connection_of
from tidings.server.message_pipe import lighter_ends

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("kind", ["anyio", "lighter", "replaced while awaited"])


class Pair:
    """The two ends, and the tasks of a test."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ends: Any = anyio.create_memory_object_stream[Any](0)
        self.replaced: Any = ()
        if kind == "lighter":
            self.replace()

    def replace(self) -> None:
        self.replaced, self.ends = self.ends, lighter_ends(self.ends)

    async def send(self, message: Any) -> None:
        await self.ends[0].send(("context", message))

    async def receive(self) -> Any:
        return (await self.ends[1].receive())[1]

    async def started(self, waiting: Awaitable[Any]) -> asyncio.Task[Any]:
        """A task that has come to wait."""
        task = asyncio.ensure_future(waiting)
        for _ in range(5):
            await asyncio.sleep(0)
        if self.kind == "replaced while awaited" and not self.replaced:
            if self.ends[0].statistics().tasks_waiting_send:
                assert lighter_ends(self.ends) is None  # What is sent already must be received there.
            else:
                self.replace()
        return task

    def close(self) -> None:
        for end in (*self.ends, *self.replaced):
            end.close()


@pytest.fixture
async def pair(kind: str) -> Any:
    made = Pair(kind)
    yield made
    made.close()


@BOTH
async def test_a_task_that_waits_gets_what_is_sent_and_the_next_thing_too(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    await pair.send("a")
    assert await receiving == "a"
    receiving = await pair.started(pair.receive())
    await pair.send("b")
    assert await receiving == "b"


@BOTH
async def test_senders_wait_until_their_messages_are_taken_in_order(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    senders = [await pair.started(pair.send(number)) for number in range(4)]
    assert [each.done() for each in senders] == [True, False, False, False]
    assert [await receiving, *[await pair.receive() for _ in range(3)]] == [0, 1, 2, 3]
    await asyncio.gather(*senders)


@BOTH
async def test_a_message_whose_sender_was_cancelled_does_not_arrive(pair: Pair) -> None:
    senders = [await pair.started(pair.send(number)) for number in range(3)]
    senders[0].cancel()
    senders[1].cancel()
    await asyncio.wait(senders[:2])
    assert await pair.receive() == 2
    receiving = await pair.started(pair.receive())
    await pair.send(3)
    assert await receiving == 3


@BOTH
async def test_no_message_is_lost_when_the_task_that_waits_is_cancelled(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pair.send("never sent")
    receiving.cancel()
    sending = await pair.started(pair.send("a"))
    assert receiving.cancelled()
    assert not sending.done()
    assert await pair.receive() == "a"
    await sending


@BOTH
async def test_when_the_sender_closes_its_end_the_stream_is_over(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    pair.ends[0].close()
    for waiting in (receiving, pair.receive()):
        with pytest.raises(EndOfStream):
            await waiting
    with pytest.raises(ClosedResourceError):
        await pair.send("a")


@BOTH
async def test_when_the_receiver_closes_its_end_the_stream_is_broken(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    await pair.ends[1].aclose()
    for waiting in (receiving, pair.receive()):
        with pytest.raises(ClosedResourceError):
            await waiting
    with pytest.raises(BrokenResourceError):
        await pair.send("a")


@BOTH
@pytest.mark.parametrize(("end", "error"), [(0, ClosedResourceError), (1, BrokenResourceError)])
async def test_senders_that_wait_learn_that_an_end_is_closed(pair: Pair, end: int, error: type[Exception]) -> None:
    senders = [await pair.started(pair.send(number)) for number in range(2)]
    await pair.ends[end].aclose()
    for each in senders:
        with pytest.raises(error):
            await each


@pytest.mark.parametrize("kind", ["lighter"])
async def test_only_one_task_at_a_time_receives(pair: Pair) -> None:
    receiving = await pair.started(pair.receive())
    with pytest.raises(BusyResourceError):
        await pair.receive()
    await pair.send("a")
    assert await receiving == "a"


@BOTH
async def test_nothing_is_complained_about_when_a_task_is_cancelled_at_the_moment_of_the_end(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    receiving = await pair.started(pair.receive())
    pair.ends[0].close()
    receiving.cancel()
    await asyncio.wait([receiving])
    del receiving
    gc.collect()
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("kind", ["lighter", "replaced while awaited"])
async def test_a_message_is_emptied_when_the_next_one_is_asked_for(pair: Pair) -> None:
    message = SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/x"))
    receiving = await pair.started(pair.receive())
    await pair.send(message)
    assert await receiving is message
    assert message.message is not None
    (await pair.started(pair.receive())).cancel()
    assert message.message is None


# Sessions


def _streams_of_anyio() -> int:
    gc.collect()
    return sum(isinstance(each, memory._MemoryObjectStreamState) for each in gc.get_objects())


async def test_a_session_keeps_no_stream_of_anyios() -> None:
    async with live(notes()) as port:
        await subscribe("legacy", port, ["note://a"])
        before = _streams_of_anyio()
        for _ in range(5):
            await subscribe("legacy", port, ["note://a"])
        await eventually(lambda: _streams_of_anyio() == before)


async def test_a_kept_session_notifies_and_asks_its_client_later_from_another_task() -> None:
    mcp, kept = notes(), list[ServerSession]()

    @mcp.tool()
    async def keep(ctx: Context[Any, Any]) -> None:
        kept.append(ctx.session)

    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        session = subscription.session
        assert session is not None
        await session.request("tools/call", {"name": "keep", "arguments": {}})
        background = [asyncio.ensure_future(kept[0].send_resource_updated(f"note://{n}")) for n in range(50)]
        told = [(await subscription.stream.next())["params"]["uri"] for _ in background]
        assert told == [f"note://{n}" for n in range(50)]
        asking = asyncio.ensure_future(kept[0].send_ping())
        question = await subscription.stream.next()
        assert question["method"] == "ping"
        answer = f'{{"jsonrpc": "2.0", "id": {question["id"]}, "result": {{}}}}'.encode()
        assert (await session.post(answer)).status == 202
        assert await asking == types.EmptyResult()
        assert (await session.delete()).status == 200
        await eventually(lambda: mcp.notify.subscribers() == [])
        await kept[0].send_resource_updated("note://a")  # It goes nowhere, and does not wait.


async def test_sessions_with_equal_handshakes_share_what_the_sdk_keeps_of_them() -> None:
    connections: dict[str, list[Any]] = {}

    def seen(ctx: Any, _: str) -> bool:
        connection = connection_of(ctx)
        connections.setdefault(connection.client_params.client_info.name, []).append(connection)
        return True

    async def open_one(port: int, name: str) -> None:
        session = Session(port)
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        session.id = (await session.post(wire.message("initialize", params, 0))).headers["mcp-session-id"]
        assert (await session.post(wire.message("notifications/initialized"))).status == 202
        assert (await session.subscribe("note://a")).status == 200

    long = "l" * 3000
    async with live(notes(authorize=seen)) as port:
        for name in ("a", "b", "a", long, long):
            await open_one(port, name)
        (first, second), [other] = connections["a"], connections["b"]
        assert first.client_params is second.client_params
        assert (first.client_params.client_info.name, other.client_params.client_info.name) == ("a", "b")
        assert connections[long][0].client_params is not connections[long][1].client_params
        assert first.initialized is other.initialized
        with anyio.fail_after(5):
            await other.initialized.wait()


async def test_many_requests_of_one_session_at_the_same_time_are_all_answered() -> None:
    async with live(notes()) as port:
        session = await Session.start(port)
        answers: list[wire.Response] = []

        async def ask() -> None:
            answers.append(await session.request("ping"))

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(ask)
        assert [each.status for each in answers] == [200] * 100
