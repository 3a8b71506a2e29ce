"""Servers that know only the older transport, one stream for all and a POST for each message, and that badly."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp_types import PromptReference

from tests.client.bad_servers import (
    LEGACY,
    MODERN,
    ONCE,
    QUICK,
    behaved,
    event,
    failure,
    lives,
    refusal,
    settings,
    silence,
)
from tests.client.misbehaving import Asked, site
from tidings.client import connect
from tidings.client.events import GarbageReceived
from tidings.errors import (
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    EffectUnknown,
    MalformedMessage,
    NotAuthorized,
    RequestFailed,
    SessionExpired,
    TidingsError,
    UnsupportedVersion,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

Odd = Callable[[dict[str, Any], Asked], Awaitable[int | None]]
"""What is done instead of an answer: with the message and the stream; the status of the POST."""


class OldServer:
    """Does what it should, but for one method."""

    def __init__(
        self, method: str = "", odd: Odd | None = None, endpoint: str | None = "/messages?session_id=1"
    ) -> None:
        self._method = method
        self._odd = odd
        self._endpoint = endpoint
        self._streams: list[Asked] = []
        self._does: dict[str, Any] = {name: does for name, does in behaved(LEGACY).items() if not callable(does)}
        self.count = 0

    async def __call__(self, asked: Asked) -> None:
        if asked.method == "GET":
            await asked.events()
            self._streams.append(asked)
            if self._endpoint is not None:
                await asked.write(f"event: endpoint\r\ndata: {self._endpoint}\r\n\r\n".encode())
            await silence(asked)
        elif asked.path.startswith("/mcp"):
            await asked.answer(405)
        else:
            await self._take(asked, asked.message, self._streams[-1])

    async def _take(self, asked: Asked, message: dict[str, Any], stream: Asked) -> None:
        method = message.get("method", "")
        if method == self._method and self._odd is not None:
            self.count += 1
            await asked.answer(await self._odd(message, stream) or 202)
            return
        await asked.answer(202)
        if "id" in message:
            known = {"result": self._does[method]} if method in self._does else None
            await event(stream, {"id": message["id"], **(known or {"error": {"code": -32601, "message": "no"}})})


async def speak_of_1999(message: dict[str, Any], stream: Asked) -> None:
    result = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
    await event(stream, {"id": message["id"], "result": result})


async def fail(_: dict[str, Any], __: Asked) -> int:
    return 500


@pytest.mark.parametrize(
    ("server", "kind", "says"),
    [
        (OldServer(endpoint=None), ConnectTimedOut, "did not answer within"),
        (OldServer(endpoint="http://elsewhere.invalid/x"), MalformedMessage, "sent to another host, elsewhere.invalid"),
        (OldServer(endpoint="http://[bad"), ConnectFailed, "Invalid IPv6 URL"),
        (OldServer("initialize", speak_of_1999), UnsupportedVersion, "1999-01-01. Tidings speaks"),
        (OldServer("initialize", fail), RequestFailed, "failed (HTTP 500). Its log says why"),
    ],
)
async def test_an_old_server_that_cannot_be_connected_to_is_told_by_its_fault(
    server: OldServer, kind: type[TidingsError], says: str
) -> None:
    async with site(server) as here:
        error = await refusal(here.url, config=settings(backoff=ONCE, connect=3))
    assert type(error) is kind
    assert says in error.message


def status(number: int) -> Odd:
    async def answer(_: dict[str, Any], __: Asked) -> int:
        return number

    return answer


async def too_large(message: dict[str, Any], stream: Asked) -> None:
    await event(stream, {"id": message["id"], "result": {"content": [{"type": "text", "text": "x" * 20_000}]}})


async def ended(_: dict[str, Any], stream: Asked) -> None:
    stream.writer.close()


async def reset(_: dict[str, Any], stream: Asked) -> None:
    stream.reset()


@pytest.mark.parametrize(
    ("odd", "kind", "says", "times"),
    [
        (status(500), RequestFailed, "with HTTP 500, and nothing else", 1),
        (status(401), NotAuthorized, "Pass others", 1),
        (status(404), SessionExpired, "no longer knows this session", 5),
        (too_large, EffectUnknown, "Raise ClientConfig.max_message", 1),
        (ended, EffectUnknown, "closed the connection", 1),
        (reset, EffectUnknown, "is away: ReadError", 1),
    ],
)
async def test_an_old_server_that_fails_a_call_is_told_by_its_fault(
    odd: Odd, kind: type[TidingsError], says: str, times: int
) -> None:
    server = OldServer("tools/call", odd)
    async with site(server) as here, connect(here.url, config=settings(max_message=10_000)) as client:
        error = await failure(client.call_tool("tool"))
        assert type(error) is kind
        assert says in error.message
        assert server.count == times
        await client.reconnect()
        await lives(client)


async def test_what_breaks_off_is_asked_for_again_a_few_times() -> None:
    server = OldServer("completion/complete", ended)
    async with site(server) as here, connect(here.url, config=QUICK) as client:
        error = await failure(client.complete(PromptReference(name="p"), {"name": "a", "value": "b"}))
        assert isinstance(error, ConnectionLost)
        assert server.count == 5
        await client.reconnect()
        await lives(client)


async def test_what_is_no_message_is_told_and_passed_over() -> None:
    async def nonsense(message: dict[str, Any], stream: Asked) -> None:
        await event(stream, b"{oops")
        await event(stream, {"id": message["id"], "result": {"content": []}})

    async with site(OldServer("tools/call", nonsense)) as here, connect(here.url, config=QUICK) as client:
        told: list[str] = []
        client.on(GarbageReceived, lambda event: told.append(event.text))
        assert (await client.call_tool("tool")).success
        assert told == ["Invalid JSON: key must be a string at line 1 column 2: '{oops'"]
        await lives(client)


async def test_a_server_that_comes_back_with_the_newer_transport_is_found_again() -> None:
    old, has_moved = OldServer(), False
    does = behaved(MODERN)

    async def answer(asked: Asked) -> None:
        if not has_moved:
            await old(asked)
        elif asked.method == "POST":
            behaviour = does.get(asked.message["method"])
            await (behaviour(asked) if callable(behaviour) else asked.result(**(behaviour or {})))
        else:
            await asked.answer(405)

    async with site(answer) as here, connect(here.url, config=QUICK) as client:
        assert client.transport == "sse"
        has_moved = True
        link = client._connection.link
        assert link is not None
        link.lose(ConnectionLost("gone"))
        await client.reconnect()
        assert (client.transport, client.protocol_version) == ("http", MODERN)
