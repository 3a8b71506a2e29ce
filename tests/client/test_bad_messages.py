"""Answers that are broken, wrong, too large, too late or cut off: each costs its request, and only what it must."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.client.bad_servers import ERAS, QUICK, behaved, count, event, failure, settings, silence, web
from tests.client.misbehaving import Asked
from tidings.client import LiveClient, State, connect
from tidings.errors import (
    ConnectionLost,
    EffectUnknown,
    LimitReached,
    MalformedMessage,
    MessageTooLarge,
    NotAuthorized,
    RequestFailed,
    RequestTimedOut,
    TidingsError,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("tidy"),
    pytest.mark.parametrize("era", ERAS),
]

HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
CONTENT = {"uri": "note://a", "text": "content"}
Answer = Callable[[Asked], Awaitable[None]]


def body(message: dict[str, Any] | bytes) -> Answer:
    """An answer of one message, whose id is the right one unless it says another."""

    async def answer(asked: Asked) -> None:
        whole = {"jsonrpc": "2.0", "id": asked.message["id"]} | message if isinstance(message, dict) else message
        await asked.answer(body=whole if isinstance(whole, bytes) else json.dumps(whole).encode())

    return answer


def stream(*messages: dict[str, Any] | bytes) -> Answer:
    """An answer that is a stream of these, and ends."""

    async def answer(asked: Asked) -> None:
        await asked.events()
        for message in messages:
            await event(asked, {"id": asked.message["id"]} | message if isinstance(message, dict) else message)
        asked.writer.close()

    return answer


def page(status: int) -> Answer:
    async def answer(asked: Asked) -> None:
        await asked.answer(status, b"<html>", "text/html")

    return answer


async def cut(asked: Asked) -> None:
    """Break off in the middle of an answer."""
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    asked.writer.close()


async def stall(asked: Asked) -> None:
    """Begin to answer, and say no more."""
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    await silence(asked)


async def still_lists(client: LiveClient) -> None:
    """The connection is none the worse."""
    assert client.state is State.CONNECTED
    assert [tool.name for tool in await client.list_tools()] == ["tool"]


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (body(b'{"jsonrpc"'), MalformedMessage, "Invalid JSON: EOF while parsing an object"),
        (body({"result": [1]}), MalformedMessage, "not JSON-RPC"),
        (body({"error": {"message": "no code"}}), MalformedMessage, "not JSON-RPC"),
        (body({}), MalformedMessage, "not JSON-RPC"),
        (body({"jsonrpc": "1.0", "result": {}}), MalformedMessage, "not JSON-RPC"),
        (stream(b"{oops"), MalformedMessage, "Invalid JSON: key must be a string"),
        (body({"result": HINTS}), MalformedMessage, "contents: Field required"),
        (
            body({"result": {**HINTS, "contents": [{"uri": 5}]}}),
            MalformedMessage,
            "uri: Input should be a valid string",
        ),
        (body({"result": {**HINTS, "contents": {"uri": "note://a"}}}), MalformedMessage, "contents: Input should be"),
        (page(200), MalformedMessage, "Unexpected content type: text/html"),
        (page(202), MalformedMessage, "202 Accepted"),
        (page(500), RequestFailed, "with HTTP 500, and nothing else. Its log may say why"),
        (page(403), NotAuthorized, "Pass others: token=..."),
        (page(429), LimitReached, "Wait, and try again"),
        (page(413), MessageTooLarge, "Send less at once"),
        (body({"error": {"code": -32000, "message": "Session not found: sign in first"}}), RequestFailed, "sign in"),
        (
            body(
                {
                    "error": {
                        "code": 1,
                        "message": "I am not connected to my database",
                        "data": {"code": "not-connected"},
                    }
                }
            ),
            RequestFailed,
            "I am not connected",
        ),
    ],
)
async def test_an_answer_that_is_none_is_told_by_its_fault(
    era: str, answer: Answer, kind: type[TidingsError], says: str
) -> None:
    async with web({**behaved(era), "resources/read": answer}) as here:
        async with connect(here.url, config=QUICK) as client:
            error = await failure(client.read_resource("note://a"))
            assert type(error) is kind
            assert says in error.message
            assert (error.method, error.server) == ("resources/read", here.url)
            await still_lists(client)
        assert count(here, "resources/read") == 1


@pytest.mark.parametrize("answer", [silence, stall, body({"id": 999, "result": {**HINTS, "contents": [CONTENT]}})])
async def test_an_answer_that_does_not_come_is_waited_for_and_no_longer(era: str, answer: Answer) -> None:
    async with web({**behaved(era), "tools/call": answer}) as here, connect(here.url, config=QUICK) as client:
        error = await failure(client.call_tool("tool", timeout=0.3))
        assert isinstance(error, RequestTimedOut)
        assert "No answer to tools/call within 0.3 s; the connection stays open" in error.message
        assert error.elapsed is not None
        assert error.elapsed >= 0.3
        await still_lists(client)


async def test_an_answer_on_a_stream_of_its_own_is_taken_whatever_its_id(era: str) -> None:
    answer = stream({"id": 999, "result": {**HINTS, "contents": [CONTENT]}})
    async with web({**behaved(era), "resources/read": answer}) as here, connect(here.url, config=QUICK) as client:
        assert (await client.read_resource("note://a")).text == "content"


@pytest.mark.parametrize("ttl", [-5, -1e300, 10**400])
async def test_how_long_an_answer_holds_is_believed_within_reason(era: str, ttl: float) -> None:
    answer = {**HINTS, "contents": [CONTENT], "ttlMs": ttl}
    async with web({**behaved(era), "resources/read": answer}) as here, connect(here.url, config=QUICK) as client:
        assert (await client.read_resource("note://a")).text == "content"
        cached = client.cache.get_resource("note://a")
        assert cached is not None
        assert cached.text == "content"


# Cut off.


@pytest.mark.parametrize("answer", [cut, stream()])
async def test_an_answer_that_is_cut_off_is_asked_for_again_where_that_does_no_harm(era: str, answer: Answer) -> None:
    times = 0

    async def once(asked: Asked) -> None:
        nonlocal times
        times += 1
        await (answer if times == 1 else body({"result": {**HINTS, "contents": [CONTENT]}}))(asked)

    async with web({**behaved(era), "resources/read": once}) as here:
        async with connect(here.url, config=QUICK) as client:
            assert (await client.read_resource("note://a")).text == "content"
            await still_lists(client)
        assert count(here, "resources/read") == 2


async def test_an_answer_that_is_always_cut_off_is_given_up(era: str) -> None:
    async with web({**behaved(era), "resources/read": cut}) as here:
        async with connect(here.url, config=QUICK) as client:
            error = await failure(client.read_resource("note://a"))
            assert isinstance(error, ConnectionLost)
            assert "broke the connection off (RemoteProtocolError)" in error.message
            await client.reconnect()
            await still_lists(client)
        assert count(here, "resources/read") == 5


@pytest.mark.parametrize("answer", [cut, stream(), Asked.reset])
async def test_a_tool_whose_answer_is_cut_off_is_not_called_again(era: str, answer: Any) -> None:
    async def answers(asked: Asked) -> None:
        if (outcome := answer(asked)) is not None:
            await outcome

    async with web({**behaved(era), "tools/call": answers}) as here:
        async with connect(here.url, config=QUICK) as client:
            error = await failure(client.call_tool("tool"))
            assert isinstance(error, EffectUnknown)
            assert "check the server before you repeat it" in error.message
            assert isinstance(error.__cause__, ConnectionLost)
            await client.reconnect()
            await still_lists(client)
        assert count(here, "tools/call") == 1


# Too large.


@pytest.mark.parametrize("way", ["length", "chunks", "events"])
async def test_a_message_of_fifty_megabytes_is_refused(era: str, way: str) -> None:
    await _too_large(era, way, 50 * 2**20, QUICK.max_message)


@pytest.mark.parametrize("way", ["length", "chunks", "events"])
async def test_the_limit_of_a_message_can_be_set(era: str, way: str) -> None:
    await _too_large(era, way, 20_000, 10_000)


async def _too_large(era: str, way: str, size: int, limit: int) -> None:
    begin = {
        "length": f"content-type: application/json\r\ncontent-length: {size}\r\n\r\n",
        "chunks": "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        "events": "content-type: text/event-stream\r\n\r\ndata: ",
    }

    async def answer(asked: Asked) -> None:
        await asked.write(b"HTTP/1.1 200 OK\r\n" + begin[way].encode())
        piece = b"x" * min(size, 2**20)
        chunk = piece if way != "chunks" else b"%x\r\n%s\r\n" % (len(piece), piece)
        await asked.write(*[chunk] * (size // len(piece)))
        asked.writer.close()

    async with web({**behaved(era), "resources/read": answer}) as here:
        async with connect(here.url, config=settings(max_message=limit)) as client:
            error = await failure(client.read_resource("note://a"))
            assert isinstance(error, MessageTooLarge)
            assert str(limit) in error.message.replace(",", "")
            assert "Ask for less, or raise ClientConfig.max_message" in error.message
            await still_lists(client)
        assert count(here, "resources/read") == 1
