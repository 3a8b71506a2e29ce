"""Both eras over real HTTP: who is told what, in which order, and what is left when somebody goes."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import pytest
from mcp.server.mcpserver import MCPServer
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.client import virtual_time
from tests.server import wire
from tests.server.serving import AT_ONCE, eventually, live, notes, serving, sockets, tasks
from tests.server.wire import JSON, Connection, Era, Session, both_eras, changed, cursor, http, message, subscribe
from tidings import attach
from tidings.server import Limits
from tidings.server.adapters import LeanAnswer
from tidings.server.http_exchange import EXCHANGE_KEY
from tidings.server.server import _secured

pytestmark = pytest.mark.anyio

# What arrives


@both_eras
async def test_an_update_reaches_who_asked_for_it_and_nobody_else(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        mine = await subscribe(era, port, ["note://a", "note://end"])
        other = await subscribe(era, port, ["note://b", "note://end"])
        for uri in ("note://a", "note://b", "note://nobody", "note://end"):
            await mcp.notify.resource_updated(uri)
        assert await mine.until("note://end") == ["note://a", "note://end"]
        assert await other.until("note://end") == ["note://b", "note://end"]


async def test_the_acknowledgment_is_first_and_names_what_is_honoured() -> None:
    mcp = notes()
    async with live(mcp) as port:
        stream = await wire.listen(port, {"toolsListChanged": True, "resourceSubscriptions": ["note://a"]}, "mine")
        await mcp.notify.resource_updated("note://a")
        first, second = await stream.next(), await stream.next()
        assert first["method"] == wire.ACKNOWLEDGED
        assert first["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["note://a"]}
        assert first["params"]["_meta"]["dev.tidings/recovered"] is False
        assert changed(second) == "note://a"


@pytest.mark.parametrize("number", [7, "seven", 'a "quoted"\nid é'])
async def test_every_frame_names_the_listen_request(number: int | str) -> None:
    mcp = notes()
    async with live(mcp) as port:
        stream = await wire.listen(port, wire.wanted(["note://a"], ["tools"]), number)
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.tools_changed()
        await stream.until(lambda: len(stream.frames) == 3)
        await mcp.aclose()
        assert await stream.over() == "result"
        *notifications, result = stream.frames
        ids = [frame["params"]["_meta"][wire.SUBSCRIPTION_ID] for frame in notifications]
        assert ids == [number] * 3
        assert result["id"] == number
        assert result["result"]["_meta"][wire.SUBSCRIPTION_ID] == number


@both_eras
async def test_cursors_rise_on_each_stream(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a", "note://b"], ["tools"])
        for _ in range(5):
            await mcp.notify.resource_updated("note://a")
            await mcp.notify.tools_changed()
            await mcp.notify.resource_updated("note://b")
        heard = [cursor(await subscription.next()) for _ in range(15)]
        if era == "modern":
            heard.insert(0, cursor(subscription.acknowledged))
        assert len({place.epoch for place in heard}) == 1
        versions = [place.version for place in heard]
        assert versions == sorted(set(versions))


@both_eras
async def test_list_changes_arrive_by_themselves(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe(era, port, lists=["tools", "prompts", "resources"])

        def later() -> None:
            pass

        mcp.add_tool(later)
        assert changed(await subscription.next()) == "tools"
        mcp.remove_tool("later")
        assert changed(await subscription.next()) == "tools"
        mcp.prompt("hello")(lambda: "hello")
        assert changed(await subscription.next()) == "prompts"
        mcp.resource("note://fixed", name="fixed")(lambda: "text")
        assert changed(await subscription.next()) == "resources"


async def test_a_modern_stream_hears_only_of_the_lists_it_asked_for() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("modern", port, lists=["prompts"])
        await mcp.notify.tools_changed()
        await mcp.notify.resources_changed()
        await mcp.notify.prompts_changed()
        assert changed(await subscription.next()) == "prompts"


async def test_an_old_era_client_is_told_that_subscriptions_are_served() -> None:
    async with live(notes()) as port:
        session = await Session.start(port)
        assert session.capabilities["resources"] == {"subscribe": True, "listChanged": True}
        assert session.capabilities["tools"] == {"listChanged": True}
        assert session.capabilities["prompts"] == {"listChanged": True}


@both_eras
async def test_a_prefix_hears_of_every_uri_that_begins_with_it(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://work*"])
        for uri in ("note://works", "note://home", "note://work", "note://worn", "note://work-end"):
            await mcp.notify.resource_updated(uri)
        assert await subscription.until("note://work-end") == ["note://works", "note://work", "note://work-end"]


@both_eras
async def test_a_uri_that_several_subscriptions_match_arrives_once(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a", "note://*", "note://a*", "note://a"])
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.resource_updated("note://end")
        assert await subscription.until("note://end") == ["note://a", "note://end"]


async def test_keep_alive_comments_do_not_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides' keep-alives: the SDK's comments between our frames."""
    monkeypatch.setattr("mcp.server._streamable_http_modern._SSE_PING_INTERVAL", 0.01)
    monkeypatch.setattr("sse_starlette.sse.EventSourceResponse.DEFAULT_PING_INTERVAL", 0.01)
    mcp = notes()
    async with live(mcp) as port:
        subscriptions = [await subscribe(era, port, ["note://a"]) for era in ("modern", "legacy")]
        for subscription in subscriptions:
            await subscription.stream.until(lambda stream=subscription.stream: stream.comments >= 3)
        for _ in range(200):
            await mcp.notify.resource_updated("note://a")
            await anyio.lowlevel.checkpoint()
        for subscription in subscriptions:
            await subscription.stream.until(lambda mine=subscription: len(mine.news) == 200)
            assert {changed(frame) for frame in subscription.news} == {"note://a"}


@both_eras
async def test_several_streams_of_one_client_hear_each_for_itself(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        first = await subscribe(era, port, ["note://a", "note://end"])
        second = await subscribe(era, port, ["note://a", "note://end"])
        third = await subscribe(era, port, ["note://b", "note://end"])
        await mcp.notify.resource_updated("note://a")
        second.close()
        await eventually(lambda: era == "legacy" or len(mcp.notify.subscribers()) == 2)
        await mcp.notify.resource_updated("note://end")
        assert await first.until("note://end") == ["note://a", "note://end"]
        assert await third.until("note://end") == ["note://end"]
        if era == "modern":
            ids = {frame["params"]["_meta"][wire.SUBSCRIPTION_ID] for frame in first.stream.frames}
            assert ids == {first.number} != {third.number}


async def test_both_eras_hear_of_one_publish_with_one_cursor() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscriptions = [await subscribe(era, port, ["note://a"]) for era in ("modern", "legacy")]
        await mcp.notify.resource_updated("note://a")
        first, second = [await subscription.next() for subscription in subscriptions]
        assert cursor(first) == cursor(second)


@both_eras
async def test_a_uri_of_any_script_arrives_as_it_was_published(era: Era) -> None:
    mcp = notes()
    uri = "note://Ålesund-東京-\N{SLEUTH OR SPY}%20x"
    async with live(mcp) as port:
        subscription = await subscribe(era, port, [uri])
        await mcp.notify.resource_updated(uri)
        assert changed(await subscription.next()) == uri


# Coming twice, and going


async def test_unsubscribing_stops_one_uri_and_twice_is_once() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a", "note://end"])
        assert subscription.session
        for _ in range(2):
            assert (await subscription.session.unsubscribe("note://a")).json["result"] == {}
            assert mcp.notify.subscribers("note://a") == []
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.resource_updated("note://end")
        assert await subscription.until("note://end") == ["note://end"]


async def test_subscribing_twice_is_once_and_one_unsubscribe_undoes_it() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a", "note://a", "note://a", "note://end"])
        assert subscription.session
        assert mcp.notify.counts()["note://a"] == 1
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.resource_updated("note://end")
        assert await subscription.until("note://end") == ["note://a", "note://end"]
        await subscription.session.unsubscribe("note://a")
        assert "note://a" not in mcp.notify.counts()


async def test_a_filter_that_names_a_uri_twice_names_it_once() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("modern", port, ["note://a", "note://a", "note://a"])
        assert subscription.acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["note://a"]}
        assert mcp.notify.counts()["note://a"] == 1


async def test_deleting_a_session_forgets_it_and_ends_its_stream() -> None:
    mcp = notes()
    gone: list[str] = []

    @mcp.on_last_subscriber("note://{name}")
    def note_gone(name: str) -> None:
        gone.append(name)

    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a", "note://b"])
        assert subscription.session
        assert (await subscription.session.delete()).status == 200
        assert await subscription.over() in ("end", "broken")
        await eventually(lambda: mcp.notify.subscribers() == [] and sorted(gone) == ["a", "b"])
        assert (await subscription.session.subscribe("note://a")).status == 404
        assert mcp.notify.subscribers() == []


@both_eras
@pytest.mark.parametrize("how", [Connection.close, Connection.abort])
async def test_a_client_that_closes_its_socket_is_cleaned_up_at_once(era: Era, how: Any) -> None:
    mcp = notes()
    async with live(mcp) as port:
        # The first legacy stream of an event loop starts a watcher of sse-starlette's, which stays.
        await (await subscribe("legacy", port)).leave()
        await eventually(lambda: mcp.notify.subscribers() == [] and sockets() == 1)
        before = tasks(), sockets()
        subscriptions = [await subscribe(era, port, ["note://a", "note://b*"], ["tools"]) for _ in range(20)]
        assert len(mcp.notify.subscribers("note://a")) == 20
        for subscription in subscriptions:
            how(subscription.stream)
        if era == "legacy":
            # The session outlives its stream, for a stream that may follow; the client's farewell ends it.
            for subscription in subscriptions:
                assert subscription.session
                await subscription.session.delete()
        await eventually(lambda: mcp.notify.subscribers() == [])
        await eventually(lambda: tasks() <= before[0] and sockets() == before[1])  # One that was ending may be counted.
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 0}


@both_eras
async def test_ordinary_requests_are_served_beside_streams(era: Era) -> None:
    """Nothing else of the SDK's traffic is touched."""
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a"])
        result = await wire.call_tool(port, "nothing")
        assert not result.get("isError")
        if subscription.session:
            read = await subscription.session.request("resources/read", {"uri": "note://a"})
            assert read.json["result"]["contents"][0]["text"] == "a"
        await mcp.notify.resource_updated("note://a")
        assert changed(await subscription.next()) == "note://a"


# The legacy era's own stream


async def test_what_changes_before_the_stream_is_opened_is_told_on_opening() -> None:
    mcp = notes()
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        await session.subscribe("note://b")
        for uri in ("note://a", "note://b", "note://a", "note://other"):
            await mcp.notify.resource_updated(uri)
        await mcp.notify.tools_changed()
        stream = await session.stream()
        heard = [await stream.next() for _ in range(3)]
        assert [changed(frame) for frame in heard] == ["note://b", "note://a", "tools"]
        assert [cursor(frame) for frame in heard] == sorted(cursor(frame) for frame in heard)


async def test_a_session_that_opens_its_stream_again_is_told_of_everything_it_subscribed_to() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a", "note://b", "note://c"])
        session = subscription.session
        assert session
        await mcp.notify.resource_updated("note://a")
        assert changed(await subscription.next()) == "note://a"
        subscription.stream.abort()
        await mcp.notify.resource_updated("note://b")
        stream = await session.stream_again()
        told = {changed(await stream.next()) for _ in range(6)}
        assert told == {"note://a", "note://b", "note://c", "tools", "prompts", "resources"}
        await mcp.notify.resource_updated("note://c")
        frame = await stream.next()
        assert changed(frame) == "note://c"
        # Of those told at once, only the last says where that was: whoever loses some of them does not know it.
        places = [wire.CURSOR in frame["params"]["_meta"] for frame in stream.frames[:6]]
        assert places == [False, False, False, False, False, True]
        assert cursor(frame) > cursor(stream.frames[5])


async def test_a_second_stream_is_refused_and_does_not_disturb_the_first() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert subscription.session
        with pytest.raises(wire.Refused) as refused:
            await subscription.session.stream()
        assert refused.value.response.status == 409
        await mcp.notify.resource_updated("note://a")
        assert changed(await subscription.next()) == "note://a"
        assert subscription.stream.ended is None


# Other people's apps


def stock() -> MCPServer[Any]:
    """An SDK server that is not live."""
    server = MCPServer[Any]("stock")

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return name

    return server


def closing_over_send(app: ASGIApp) -> ASGIApp:
    """Middleware as many write it: a `send` of its own around the web server's."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            await send(message)

        await app(scope, receive, counted)

    return wrapped


def based_on_starlette(app: ASGIApp) -> ASGIApp:
    async def dispatch(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    return BaseHTTPMiddleware(app, dispatch=dispatch)


behind = pytest.mark.parametrize("middleware", [closing_over_send, based_on_starlette])


@both_eras
@behind
async def test_streams_work_behind_any_middleware(era: Era, middleware: Callable[[ASGIApp], ASGIApp]) -> None:
    mcp = notes()
    async with serving(middleware(mcp.asgi())) as port:
        subscription = await subscribe(era, port, ["note://a"], ["tools"])
        leaver = await subscribe(era, port, ["note://a"], ["tools"])
        for _ in range(50):
            await mcp.notify.resource_updated("note://a")
            await mcp.notify.tools_changed()
        last = mcp._live._bus.head
        await subscription.stream.until(lambda: bool(subscription.news) and cursor(subscription.news[-1]) == last)
        versions = [cursor(frame).version for frame in subscription.news]
        assert versions == sorted(set(versions))
        await leaver.leave()
        await eventually(lambda: len(mcp.notify.subscribers()) == 1)
        await mcp.aclose()
        assert await subscription.over() == ("result" if era == "modern" else "end")
        await wire.close_all()


@both_eras
@behind
async def test_a_reader_that_stalls_behind_any_middleware_is_cut_off(
    era: Era, middleware: Callable[[ASGIApp], ASGIApp], caplog: pytest.LogCaptureFixture
) -> None:
    mcp = notes(limits=Limits(write_deadline=0.2))
    uris = [f"note://{number}-{'x' * 4_000}" for number in range(80)]
    async with serving(middleware(mcp.asgi()), send_buffer=16_384) as port:
        stalled = await subscribe(era, port, ["note://*"], receive_buffer=16_384)
        stalled.stream.stall()
        for uri in uris:
            await mcp.notify.resource_updated(uri)
            await anyio.lowlevel.checkpoint()
        await eventually(lambda: "Cut off" in caplog.text)
        # Its connection is broken though it reads nothing, so nothing of it stays here.
        await eventually(lambda: era == "legacy" or mcp.notify.subscribers() == [])
        stalled.stream.resume()
        assert await stalled.over() == "broken"
        await mcp.aclose()
        await wire.close_all()


@both_eras
async def test_an_app_that_was_made_before_attach_is_live_once_it_is_wrapped(era: Era) -> None:
    server = stock()
    app = server.streamable_http_app()
    attached = attach(server, coalesce=AT_ONCE)
    async with serving(attached.wrap(app)) as port:
        subscription = await subscribe(era, port, ["note://a"])
        await attached.notify.resource_updated("note://a")
        assert changed(await subscription.next()) == "note://a"
        [info] = attached.notify.subscribers()
        assert (info.era, info.transport) == (era, "streamable-http")
        if subscription.session:
            subscription.stream.abort()
            stream = await subscription.session.stream_again()
            assert "note://a" in [changed(await stream.next()) for _ in range(4)]
        await attached.aclose()
        await wire.close_all()


@both_eras
async def test_an_app_that_was_made_before_attach_is_live_without_being_wrapped(
    era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    """More slowly, through the SDK; legacy clients are warned of in the log, as they may miss something."""
    server = stock()
    app = server.streamable_http_app()
    attached = attach(server, coalesce=AT_ONCE)
    async with serving(app) as port:
        subscription = await subscribe(era, port, ["note://a"])
        await attached.notify.resource_updated("note://a")
        assert changed(await subscription.next()) == "note://a"
        assert "not wrapped" in caplog.text
        await attached.aclose()
        if era == "modern":
            assert await subscription.over() == "result"
        await subscription.leave()
        await wire.close_all()


@both_eras
async def test_an_app_that_is_wrapped_twice_writes_once(era: Era) -> None:
    mcp = notes()
    async with serving(mcp._live.wrap(mcp.asgi())) as port:
        subscription = await subscribe(era, port, ["note://a", "note://end"])
        await mcp.notify.resource_updated("note://a")
        await mcp.notify.resource_updated("note://end")
        assert await subscription.until("note://end") == ["note://a", "note://end"]
        await mcp.aclose()
        assert await subscription.over() == ("result" if era == "modern" else "end")
        await wire.close_all()


# Legacy sessions


async def test_a_session_without_a_stream_is_counted_as_unreachable_and_not_as_a_subscriber() -> None:
    mcp = notes()
    async with live(mcp) as port:
        subscription = await subscribe("legacy", port, ["note://a"])
        assert mcp.notify.counts() == {"tools": 1, "prompts": 1, "resources": 1, "note://a": 1, "unreachable": 0}
        subscription.close()  # As a client does that is killed: its session stays.
        await eventually(lambda: mcp.notify.counts()["unreachable"] == 1)
        assert mcp.notify.counts() == {"tools": 0, "prompts": 0, "resources": 0, "unreachable": 1}
        [info] = mcp.notify.subscribers("note://a")
        assert not info.reachable


async def test_a_session_beyond_the_limit_is_refused_with_503_and_an_idle_one_ends() -> None:
    mcp = notes(limits=Limits(sessions=1, session_idle=0.3))
    async with live(mcp) as port:
        first = await Session.start(port)
        hello = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "late", "version": "1"}}
        refused = await Session(port).post(wire.message("initialize", hello, 0))
        assert refused.status == 503
        assert refused.json["error"]["message"] == "Too many open sessions"
        await eventually(lambda: not mcp.session_manager._server_instances)
        assert (await first.request("ping")).status == 404
        assert mcp.notify.subscribers() == []


# What a request may look like


@both_eras
async def test_space_around_a_header_s_value_is_not_a_part_of_it(era: Era) -> None:
    mcp = notes()
    async with live(mcp) as port:
        spaced = {"MCP-Protocol-Version": f" \t{wire.MODERN if era == 'modern' else wire.LEGACY} \t"}
        reader = await subscribe(era, port, ["note://a"], headers=spaced)
        await mcp.notify.resource_updated("note://a")
        assert await reader.until("note://a")


async def test_a_stream_that_cannot_be_resumed_says_so() -> None:
    async with live(notes()) as port:
        session = await Session.start(port)
        with pytest.raises(wire.Refused, match=r"HTTP 400.*Open the stream without Last-Event-ID"):
            await Connection.stream(
                await Connection.open(port),
                wire.http("GET", {"Accept": "text/event-stream", "Last-Event-ID": "forged", **session.headers}),
            )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "mcp.example.com"}, 200),
        ({"Host": "mcp.example.com:8443"}, 200),
        ({"Host": "mcp.example.com", "Origin": "https://mcp.example.com"}, 200),
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "127.0.0.1:8000"}, 421),
        ({"Host": "mcp.example.com", "Origin": "https://evil.example.com"}, 403),
    ],
)
async def test_an_open_port_answers_to_the_names_that_it_was_given(headers: dict[str, str], status: int) -> None:
    options = _secured("0.0.0.0", ["mcp.example.com"], {})
    async with serving(notes().asgi(host="0.0.0.0", **options)) as port:
        body = wire.message("tools/list", {"_meta": wire.modern_meta()}, 1)
        request = wire.http("POST", wire.modern_headers("tools/list"), body).replace(b"Host: 127.0.0.1:8000\r\n", b"")
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        assert (await wire.once(port, request.replace(b"\r\n", b"\r\n" + named, 1))).status == status


@pytest.mark.parametrize(
    ("host", "hosts", "options", "warns"),
    [
        ("0.0.0.0", [], {}, True),
        ("192.0.2.7", [], {}, True),
        ("127.0.0.1", [], {}, False),
        ("localhost", [], {}, False),
        ("0.0.0.0", ["mcp.example.com"], {}, False),
        ("0.0.0.0", [], {"transport_security": None}, False),
    ],
)
def test_an_open_port_that_answers_to_any_name_is_warned_of(
    host: str, hosts: list[str], options: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    _secured(host, hosts, options)
    assert ("checks neither Host nor Origin" in caplog.text) is warns


async def test_a_legacy_call_carries_keep_alives_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on if its client disconnects. Nothing is left of either answer."""
    monkeypatch.setattr("sse_starlette.sse.EventSourceResponse.DEFAULT_PING_INTERVAL", 0.01)
    go_on, ended = anyio.Event(), 0
    mcp = notes()

    @mcp.tool()
    async def slow() -> str:
        nonlocal ended
        await go_on.wait()
        ended += 1
        return "done"

    async with live(mcp) as port:
        session = await Session.start(port)
        before = tasks()
        stays, goes = [await Connection.open(port) for _ in range(2)]
        for number, connection in enumerate((stays, goes)):
            body = message("tools/call", {"name": "slow", "arguments": {}}, f"call {number}")
            await connection.stream(http("POST", {**JSON, **session.headers}, body))
            await connection.until(lambda it=connection: it.comments >= 3)
        goes.abort()
        go_on.set()
        await stays.over()
        assert stays.frames[-1]["result"]["content"][0]["text"] == "done"
        await eventually(lambda: ended == 2 and tasks() <= before)


@pytest.mark.parametrize("scope", [{}, {EXCHANGE_KEY: None}], ids=["the SDK's", "lean"])
def test_the_first_keep_alives_of_an_answer_come_in_time(scope: Scope) -> None:
    """Also in a web server whose event loop AnyIO did not start."""
    pings: list[float] = []

    async def main() -> None:
        async def send(message: Message) -> None:
            if message.get("body", b"").startswith(b": ping"):
                pings.append(asyncio.get_running_loop().time())

        async def never() -> Any:
            await asyncio.Event().wait()

        silent, events = anyio.create_memory_object_stream[str](1)
        with silent, events:
            answer = LeanAnswer(events, data_sender_callable=never)
            with anyio.move_on_after(50):
                await answer({"type": "http", "method": "POST", **scope}, never, send)

    virtual_time.run(main())
    assert len(pings) == 3
    assert pings[0] <= 16
