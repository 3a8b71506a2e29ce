"""An open stream is held without the SDK: its tasks are gone, and nobody who reads the stream can tell."""

import asyncio
import gc
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import Context
from starlette.requests import Request

from tests.server import wire
from tests.server.serving import AT_ONCE, eventually, live, notes, serving
from tests.server.wire import Era, Refused, Session, subscribe
from tidings import LiveServer
from tidings.server import Limits

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
TASKS = {"modern": 1, "legacy": 3}
"""Of a subscriber: its response, and for a session the two with which the SDK waits for its requests."""


@ERAS
async def test_a_stream_keeps_no_task_of_the_sdk(era: Era) -> None:
    async with live(notes()) as port:
        first = await subscribe(era, port, ["note://a"])  # It starts what exists once.
        before = len(asyncio.all_tasks())
        subscriptions = [await subscribe(era, port, ["note://a"]) for _ in range(5)]
        await eventually(lambda: len(asyncio.all_tasks()) == before + 5 * TASKS[era])
        for each in (first, *subscriptions):
            assert each.stream.ended is None


@ERAS
async def test_a_reader_that_leaves_is_noticed_at_once(era: Era) -> None:
    mcp = notes(limits=Limits(liveness=0.01))
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a"])
        assert len(mcp.notify.subscribers()) == 1
        subscription.stream.abort()
        await eventually(lambda: mcp.notify.subscribers() == [])


@ERAS
@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_held_stream_carries_keep_alives(era: Era, http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = notes()
    monkeypatch.setattr("tidings.server.live.keep_alive_seconds", lambda: 0.01)
    async with serving(mcp.asgi(), http=http) as port:
        subscription = await subscribe(era, port, ["note://a"])
        await subscription.stream.until(lambda: subscription.stream.comments >= 3)
        await mcp.notify.resource_updated("note://a")
        assert await subscription.until("note://a")
        await mcp.aclose()
        await subscription.over()
        await wire.close_all()


async def test_the_result_of_a_held_stream_is_that_of_the_sdk() -> None:
    async def result_of(wrapped: bool) -> wire.Json:
        mcp = notes(waking=None)  # There is no wrapper around the one that is taken off.
        app: Any = mcp.asgi()
        if not wrapped:
            built = app.build_middleware_stack()
            app.build_middleware_stack = lambda: built.app
        async with serving(app) as port:
            stream = await wire.listen(port, wire.wanted(["note://a"], []), 7)
            await stream.next()
            await eventually(lambda: len(mcp.notify.subscribers()) == 1)
            await mcp.aclose()
            assert await stream.over() == "result"
            await wire.close_all()
            return stream.frames[-1]

    assert await result_of(wrapped=True) == await result_of(wrapped=False)


async def test_a_stream_that_is_revoked_while_it_opens_ends_with_the_reason() -> None:
    mcp = notes()
    asked, go_on = anyio.Event(), anyio.Event()

    @mcp.on_first_subscriber("note://a")
    async def watch() -> None:
        asked.set()
        await go_on.wait()

    async with live(mcp) as port, anyio.create_task_group() as tasks:
        frames: list[wire.Json] = []

        async def listen() -> None:
            stream = await wire.listen(port, wire.wanted(["note://a"], []), 7)
            assert await stream.over() == "end"
            frames.extend(stream.frames)

        tasks.start_soon(listen)
        await asked.wait()
        await mcp.notify.revoke()
        go_on.set()
    assert frames[-1]["error"]["data"]["code"] == "not-authorized"


# The SDK's own messages, which travel on the stream of a legacy session


def talkative(**options: Any) -> LiveServer[Any]:
    """A server that can speak to a session outside of its requests."""
    mcp = notes(**options)

    @mcp.tool()
    async def speak(ctx: Context[Any, Any], size: int = 1) -> None:
        connection: Any = ctx.session._connection
        await connection.notify("notifications/message", {"level": "info", "data": "x" * size})

    return mcp


async def speak(session: Session, **arguments: Any) -> None:
    response = await session.request("tools/call", {"name": "speak", "arguments": arguments})
    assert not response.json["result"].get("isError"), response.body


async def test_what_the_sdk_sends_outside_of_requests_arrives_on_a_held_stream() -> None:
    mcp = talkative()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session is not None
        await eventually(lambda: "_GET_stream" in streams_of(mcp, subscription.session))
        await speak(subscription.session)
        assert (await subscription.stream.next())["params"]["data"] == "x"
        await mcp.notify.resource_updated("note://a")
        assert await subscription.until("note://a")


def transport_of(mcp: LiveServer[Any], session: Session | None) -> Any:
    assert session is not None
    return mcp.session_manager._server_instances[session.id or ""]


def streams_of(mcp: LiveServer[Any], session: Session | None) -> dict[str, Any]:
    streams: dict[str, Any] = transport_of(mcp, session)._request_streams
    return streams


async def test_a_session_still_has_one_event_stream_at_a_time() -> None:
    async with live(notes()) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session is not None
        with pytest.raises(Refused) as refused:
            await subscription.session.stream()
        assert refused.value.response.status == 409
        subscription.stream.abort()
        again = await subscription.session.stream_again()
        assert (await again.next())["method"].startswith("notifications/")


async def test_a_session_that_is_deleted_ends_its_held_stream() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session is not None
        await eventually(lambda: "_GET_stream" in streams_of(mcp, subscription.session))
        assert (await subscription.session.delete()).status == 200
        assert await subscription.over() == "end"
        await eventually(lambda: mcp.notify.subscribers() == [])


async def test_a_session_is_not_idle_while_its_stream_is_held() -> None:
    mcp = notes(limits=Limits(session_idle=0.2))
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session is not None
        transport = transport_of(mcp, subscription.session)
        await eventually(lambda: "_GET_stream" in transport._request_streams)
        assert transport.idle_scope.deadline == float("inf")
        await subscription.session.request("ping")
        assert transport.idle_scope.deadline == float("inf")
        subscription.stream.abort()
        await eventually(lambda: subscription.session.id not in mcp.session_manager._server_instances)


async def test_a_reader_that_takes_nothing_of_the_sdks_is_cut_off() -> None:
    mcp = talkative(limits=Limits(write_deadline=0.2))
    async with live(mcp, send_buffer=4096) as port:
        session = await Session.start(port)
        stream = await session.stream(receive_buffer=4096)
        await eventually(lambda: "_GET_stream" in streams_of(mcp, session))
        stream.stall()
        with anyio.fail_after(30):
            while (taker := mcp._live._legacy._sessions[session.id or ""].stream) is not None and not taker.ended:
                await speak(session, size=200_000)
        stream.resume()
        assert await stream.over() == "broken"


async def test_the_last_request_of_a_session_does_not_keep_its_connection() -> None:
    mcp = notes(coalesce=AT_ONCE)
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.request("ping")
        await eventually(lambda: _requests_with_a_connection() == 0)


def _requests_with_a_connection() -> int:
    gc.collect()
    requests = [each for each in gc.get_objects() if isinstance(each, Request)]
    return sum(_leads_to_a_connection(each) for each in requests)


def _leads_to_a_connection(start: object) -> bool:
    """Whether the web server's part can be reached over `receive` and what is enclosed in it."""
    found: list[Any] = [start._receive]  # type: ignore[attr-defined]
    for call in found:
        owner = getattr(call, "__self__", call)
        if type(owner).__module__.startswith("uvicorn."):
            return True
        found += [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]
        found += [owner._receive] if hasattr(owner, "_receive") else []
    return False


async def test_a_server_whose_sdk_hides_its_sessions_leaves_their_streams_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidings.server.adapters._CHANNEL", ("_gone_in_the_next_version",))
    mcp = talkative()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session is not None
        await eventually(lambda: "_GET_stream" in streams_of(mcp, subscription.session))
        await speak(subscription.session)
        assert (await subscription.stream.next())["params"]["data"] == "x"
        await mcp.notify.resource_updated("note://a")
        assert await subscription.until("note://a")
