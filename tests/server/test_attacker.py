"""Eve has an account, Ada's session ids, her URIs and her cursor. She learns nothing, and takes nothing over."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.server import wire
from tests.server.test_sessions import ADA, AUTH, EVE, Tokens
from tests.server.test_stream_owners import Thief, both_transports
from tests.server.wire import JSON, Session, Subscription, http, message, subscribe
from tidings import LiveServer
from tidings.server.policy import RequestContext

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

DIARY = "note://ada-diary"
HANDSHAKE = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
GUESSES = [DIARY, "note://ada*", "note://*", "note*", "note://{name}", "note://ada-diar%79", "NOTE://ada-diary"]


def own_notes_only(ctx: RequestContext, uri: str) -> bool:
    assert ctx.request is not None
    return uri.startswith(f"note://{ctx.request.user.access_token.subject}-")


class SseSession:
    """A session of the SSE transport, and all that came on its stream."""

    def __init__(self, port: int, stream: Any, headers: dict[str, str]) -> None:
        self.port, self.headers, self.path = port, headers, ""
        self._stream = stream
        self._incoming = BufferedByteReceiveStream(stream)

    async def start(self) -> None:
        await self._stream.send(http("GET", {"Accept": "text/event-stream", **self.headers}, path="/sse"))
        self.path = (await self.until(b"\r\n\r\n\r\n")).decode().split("data: ")[-1].split("\r\n")[0]
        for each in (message("initialize", HANDSHAKE, 0), message("notifications/initialized")):
            assert (await self.post(each)).status == 202
        await self.until(b'"id":0')

    @property
    def id(self) -> str:
        return self.path.partition("session_id=")[2]

    async def post(self, body: bytes) -> wire.Response:
        return await wire.once(self.port, http("POST", {**JSON, **self.headers}, body, self.path))

    async def until(self, text: bytes) -> bytes:
        with anyio.fail_after(20):
            return await self._incoming.receive_until(text, 1_000_000)


@dataclass
class Scene:
    """Ada's streams over all transports, and everything that Eve was sent."""

    mcp: LiveServer[Any]
    port: int
    modern: Subscription
    legacy: Subscription
    sse: SseSession
    thieves: list[Thief] = field(default_factory=list[Thief])
    answers: list[wire.Response] = field(default_factory=list[wire.Response])

    async def ask(self, verb: str, headers: dict[str, str], body: bytes = b"", path: str = "/mcp") -> wire.Response:
        """A request of Eve's, with her own token."""
        answer = await wire.once(self.port, http(verb, {**JSON, **headers, **EVE}, body, path))
        self.answers.append(answer)
        return answer

    async def open(self, request: bytes) -> None:
        """A stream of Eve's, if she is given one."""
        thief = await Thief.open(self.port)
        try:
            await thief.stream(request)
            self.thieves.append(thief)
        except wire.Refused as refused:
            self.answers.append(refused.response)
            thief.close()

    async def change_and_check(self) -> None:
        """Ada hears of her diary on each of her streams, and Eve does not."""
        await self.mcp.notify.resource_updated(DIARY)
        assert await self.modern.until(DIARY)
        assert await self.legacy.until(DIARY)
        await self.sse.until(DIARY.encode())
        told = b"".join(thief.got for thief in self.thieves) + b"".join(each.body for each in self.answers)
        assert b"resources/updated" not in told
        for thief in self.thieves:
            assert DIARY.encode() not in thief.got

    @property
    def session(self) -> Session:
        assert self.legacy.session is not None
        return self.legacy.session


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    async with (
        both_transports(auth=AUTH, token_verifier=Tokens(), authorize=own_notes_only) as (mcp, port),
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        modern = await subscribe("modern", port, [DIARY], headers=ADA)
        legacy = await subscribe("legacy", port, [DIARY], headers=ADA)
        sse = SseSession(port, stream, ADA)
        await sse.start()
        assert (await sse.post(message("resources/subscribe", {"uri": DIARY}, 1))).status == 202
        await sse.until(b'"id":1')
        found = Scene(mcp, port, modern, legacy, sse)
        await found.change_and_check()
        yield found


async def listen(found: Scene) -> None:
    for guess in GUESSES:
        for since in (None, found.modern.acknowledged["params"]["_meta"]["dev.tidings/cursor"], "0", "x:1:1"):
            meta = {} if since is None else {"dev.tidings/since": since}
            await found.open(wire.listen_request(wire.wanted([guess], ["tools"]), 7, headers=EVE, **meta))


async def subscribe_in_a_session(found: Scene) -> None:
    eve = await Session.start(found.port, headers=EVE)
    for guess in GUESSES:
        found.answers.append(await eve.subscribe(guess))
    await found.open(http("GET", {"Accept": "text/event-stream", **eve.headers}))
    await found.open(http("GET", {"Accept": "text/event-stream", **eve.headers, "Last-Event-ID": "1"}))


async def use_her_session(found: Scene) -> None:
    for session_id in (found.session.id or "", found.sse.id):
        named = {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": wire.LEGACY}
        for body in (
            message("ping", number=1),
            message("initialize", HANDSHAKE, 1),
            message("resources/subscribe", {"uri": "note://eve-a"}, 1),
            message("resources/unsubscribe", {"uri": DIARY}, 1),
            message("resources/read", {"uri": DIARY}, 1),
            message("logging/setLevel", {"level": "debug"}, 1),
            message("notifications/cancelled", {"requestId": 1}),
            b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        ):
            assert (await found.ask("POST", named, body)).status in (400, 404)
        await found.open(http("GET", {"Accept": "text/event-stream", **named, **EVE}))
        await found.open(http("GET", {"Accept": "text/event-stream", **named, **EVE, "Last-Event-ID": "1"}))
        assert (await found.ask("DELETE", named)).status in (400, 404)


async def use_her_sse_session(found: Scene) -> None:
    for session_id in (found.sse.id, found.session.id or ""):
        path = f"/messages/?session_id={session_id}"
        for body in (
            message("resources/unsubscribe", {"uri": DIARY}, 1),
            message("notifications/cancelled", {"requestId": 1}),
            b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        ):
            assert (await found.ask("POST", {}, body, path)).status in (400, 403, 404)
        await found.open(http("GET", {"Accept": "text/event-stream", "Mcp-Session-Id": session_id, **EVE}, path="/sse"))


async def come_without_a_token(found: Scene) -> None:
    named = {"Mcp-Session-Id": found.session.id or "", "MCP-Protocol-Version": wire.LEGACY}
    for verb, path in (("GET", "/mcp"), ("GET", "/sse"), ("DELETE", "/mcp")):
        answer = await wire.once(found.port, http(verb, {**JSON, **named}, path=path))
        found.answers.append(answer)
        assert answer.status == 401
    path = f"/messages/?session_id={found.sse.id}"
    assert (await wire.once(found.port, http("POST", JSON, message("ping", number=1), path))).status == 401


@pytest.mark.parametrize(
    "attack", [listen, subscribe_in_a_session, use_her_session, use_her_sse_session, come_without_a_token]
)
async def test_eve_learns_nothing_and_takes_nothing_over(attack: Callable[[Scene], Awaitable[None]]) -> None:
    async with scene() as found:
        await attack(found)
        await found.change_and_check()
        found.legacy.stream.abort()
        found.legacy.stream = await found.session.stream_again()
        await attack(found)
        await found.change_and_check()


async def test_eve_hears_of_her_own_notes_over_the_same_means() -> None:
    """The attacks above could fail for another reason than that they are refused."""
    async with scene() as found:
        modern = await subscribe("modern", found.port, ["note://eve-a"], headers=EVE)
        legacy = await subscribe("legacy", found.port, ["note://eve-a"], headers=EVE)
        await found.mcp.notify.resource_updated("note://eve-a")
        assert await modern.until("note://eve-a")
        assert await legacy.until("note://eve-a")
