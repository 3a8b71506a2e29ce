"""A stream of changes belongs to the session that opened it: a session's id in another request proves nothing."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tests.server import wire
from tests.server.serving import notes, serving
from tests.server.test_sessions import ADA, AUTH, Tokens
from tests.server.wire import JSON, Connection, Session, http, message
from tidings import LiveServer

pytestmark = pytest.mark.anyio

SAYS = {
    "nothing of sessions": "data: hello\r\n\r\n",
    "another's id": "data: /x?session_id={id}\r\n\r\n",
    "another's endpoint": "event: endpoint\r\ndata: /messages/?session_id={id}\r\n\r\n",
}


@asynccontextmanager
async def both_transports(**options: Any) -> AsyncGenerator[tuple[LiveServer[Any], int]]:
    """A server with streamable HTTP at /mcp, SSE at /sse, and a stream of its author's at /own."""
    mcp = notes(**options)

    async def own(request: Request) -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            yield request.query_params["says"].encode()
            await anyio.sleep_forever()

        headers = {"mcp-session-id": request.query_params["header"]} if "header" in request.query_params else None
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    mcp.custom_route("/own", methods=["GET"])(own)
    app = mcp.asgi()
    app.router.routes += [
        route for route in mcp.sse_app().routes if getattr(route, "path", "") in ("/sse", "/messages")
    ]
    async with serving(app) as port:
        try:
            yield mcp, port
        finally:
            await mcp.aclose()
            await wire.close_all()


class Thief(Connection):
    """A stream that names somebody else's session, and all that came on it."""

    got = b""

    def _take_chunk(self, chunk: bytes) -> None:
        self.got += chunk

    @classmethod
    async def steal(cls, port: int, path: str, session_id: str, **headers: str) -> "Thief":
        thief = await cls.open(port)
        own = {"Accept": "text/event-stream", "Mcp-Session-Id": session_id, **headers}
        await thief.stream(http("GET", own, path=path))
        return thief


def routes_of(session_id: str) -> list[str]:
    says = [text.format(id=session_id) for text in SAYS.values()]
    escaped = [text.replace("\r\n", "%0D%0A").replace("?", "%3F").replace(" ", "%20") for text in says]
    return ["/sse", *(f"/own?says={text}" for text in escaped)]


@pytest.mark.parametrize("place", range(len(SAYS) + 1))
@pytest.mark.parametrize("is_first", [False, True], ids=["beside the open stream", "before the stream"])
async def test_a_session_s_id_on_another_path_takes_no_stream_over(place: int, is_first: bool) -> None:
    async with both_transports() as (mcp, port):
        session = await Session.start(port)
        await session.subscribe("note://a")
        stream = None if is_first else await session.stream()
        thief = await Thief.steal(port, routes_of(cast("str", session.id))[place], cast("str", session.id))
        stream = stream or await session.stream()
        await mcp.notify.resource_updated("note://a")
        assert (await stream.next())["params"]["uri"] == "note://a"
        stream.close()
        again = await session.stream_again()
        assert "note://a" in [(await again.next())["params"].get("uri") for _ in range(4)]  # And all three lists.
        assert b"note://a" not in thief.got


@pytest.mark.parametrize("place", range(len(SAYS) + 1))
async def test_the_id_of_an_sse_session_takes_no_stream_over(place: int) -> None:
    async with both_transports() as (mcp, port), await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(http("GET", {"Accept": "text/event-stream"}, path="/sse"))
        incoming = BufferedByteReceiveStream(stream)
        with anyio.fail_after(20):
            path = (await incoming.receive_until(b"\r\n\r\n\r\n", 9999)).decode().split("data: ")[-1].split("\r\n")[0]
        session_id = path.partition("session_id=")[2]
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        said = (
            message("initialize", params, 0),
            message("notifications/initialized"),
            message("resources/subscribe", {"uri": "note://a"}, 1),
        )
        for each in said:
            assert (await wire.once(port, http("POST", JSON, each, path))).status == 202
        with anyio.fail_after(20):
            await incoming.receive_until(b'"id":1', 99_999)
        thief = await Thief.steal(port, routes_of(session_id)[place], session_id)
        await mcp.notify.resource_updated("note://a")
        with anyio.fail_after(20):
            await incoming.receive_until(b"note://a", 99_999)
        assert b"note://a" not in thief.got


async def test_somebody_else_s_token_opens_no_stream_of_a_session() -> None:
    async with both_transports(auth=AUTH, token_verifier=Tokens()) as (_, port):
        session = Session(port)
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        session.id = (await session.post(message("initialize", params, 0), **ADA)).headers["mcp-session-id"]
        for headers in ({}, {"Authorization": "Bearer eve"}):
            with pytest.raises(wire.Refused):
                await Thief.steal(port, "/mcp", session.id, **headers)
