"""The borrowed stream: what passes through untouched, and what is written between the SDK's own events."""

import asyncio
import gc
import json
import math
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import anyio
import pytest
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from tests.server.doubles import turns
from tidings.errors import BusMismatch, LimitReached
from tidings.server.borrowed_stream import SCOPE_KEY, WRAPPED_KEY, BorrowedStream
from tidings.server.http_exchange import EXCHANGE_KEY, Message, Receive, Scope, Send
from tidings.server.stop import BrokenOff
from tidings.server.wrapper import Borrowing, PassedRequests

pytestmark = pytest.mark.anyio

EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
START = {"type": "http.response.start", "status": 200, "headers": [EVENTS, (b"mcp-session-id", b"abc")]}
LISTEN = {"type": "http", "method": "POST", "headers": [(b"mcp-method", b"subscriptions/listen")]}
SESSION = {
    "type": "http",
    "method": "GET",
    "headers": [(b"accept", b"text/event-stream"), (b"mcp-session-id", b"abc")],
}
SSE = {"type": "http", "method": "GET", "headers": [(b"accept", b"text/event-stream")]}

linux = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="needs TCP_USER_TIMEOUT, which Linux has")


def body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Wire:
    """What a web server's `send` has put on its socket, and whether the socket is full."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.writable = asyncio.Event()
        self.writable.set()
        self.breaks: Exception | None = None
        self.tasks: list[asyncio.Task[Any] | None] = []

    async def send(self, message: Message) -> None:
        self.tasks.append(asyncio.current_task())
        if self.breaks is not None:
            raise self.breaks
        self.sent.append(message)
        # Twice, so that a write is suspended more than once.
        await self.writable.wait()
        await self.writable.wait()

    @property
    def data(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Cycle(Wire):
    """A request and its response, as uvicorn has them: `send` is its method, and its connection can be seen."""

    __module__ = "uvicorn.protocols.http.double"

    def __init__(self) -> None:
        super().__init__()
        self.transport: Any = Transport()


class Transport:
    def __init__(self, sock: object = None) -> None:
        self.aborted = False
        self.sock = sock

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> object:
        return {"socket": self.sock}[name]


def borrowing(app: Any, live: Any, keep_alive: float | None = None) -> Borrowing:
    return Borrowing(app, live, live, keep_alive)


class Live:
    """Whom the wrapper tells; remembers it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.streams: list[BorrowedStream] = []
        self.weights: list[tuple[str, int]] = []
        self.is_full = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        self.told.append("run")
        yield
        self.told.append("stop")

    async def aclose(self) -> None:
        self.told.append("close")

    def request_started(self) -> PassedRequests:
        return PassedRequests(BrokenOff())

    def admit_stream(self, session_id: str | None, stream: BorrowedStream, scope: Scope) -> None:
        if self.is_full:
            raise LimitReached("Full.", data={"limit": "streams", "max": 1, "scope": "server"})

    def sse_message_came(self, session_id: str, weight: int) -> None:
        self.weights.append((session_id, weight))

    def stream_started(self, stream: BorrowedStream) -> None:
        self.told.append("started")
        self.streams.append(stream)

    def stream_opened(self, session_id: str, stream: BorrowedStream, scope: Scope, *, begins: bool) -> None:
        assert stream.session_id == session_id
        self.told.append(f"{'begun' if begins else 'opened'} {session_id}")

    def stream_closed(self, stream: BorrowedStream) -> None:
        self.told.append("closed")


class App:
    """The SDK's app: opens a stream, writes what a test tells it to, and ends with it."""

    def __init__(self, *opening: Message) -> None:
        self.opening = opening or (START,)
        self.send: Send | None = None
        self.scope: Scope = {}
        self.open = asyncio.Event()
        self.end = asyncio.Event()
        self.cancelled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.send = scope, send
        try:
            for message in self.opening:
                await send(message)
            self.open.set()
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await send(body(b"result", more=False))


async def nothing() -> Message:
    return {"type": "http.disconnect"}


@asynccontextmanager
async def request(
    app: Callable[[Scope, Receive, Send], Awaitable[None]], inner: App, scope: Scope, send: Send
) -> AsyncGenerator[asyncio.Event]:
    """A request under way; the event says that its response is over."""
    over = asyncio.Event()

    async def run() -> None:
        await app({**scope, "headers": list(scope["headers"])}, nothing, send)
        over.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await inner.open.wait()
            yield over
            inner.end.set()


# What passes through


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "http", "method": "POST", "headers": [(b"mcp-method", b"tools/call")]},
        {"type": "http", "method": "GET", "headers": [(b"accept", b"text/html")]},
        {"type": "http", "method": "GET", "headers": [(b"accept", b"application/json"), (b"mcp-session-id", b"abc")]},
        {"type": "http", "method": "DELETE", "headers": [(b"mcp-session-id", b"abc")]},
        {"type": "websocket", "headers": []},
    ],
    ids=lambda scope: f"{scope['type']} {scope.get('method', '')} {scope['headers']}",
)
async def test_every_other_request_passes_through_unchanged(scope: Scope) -> None:
    app, live, wire = App(), Live(), Cycle()
    async with request(borrowing(app, live), app, scope, wire.send):
        assert {key: value for key, value in app.scope.items() if key != WRAPPED_KEY} == scope
    assert live.told == []
    assert wire.sent == [START, body(b"result", more=False)]


async def test_the_server_is_live_for_as_long_as_the_application() -> None:
    app, live, wire = App(), Live(), Cycle()
    app.opening = ({"type": "lifespan.startup.complete"},)
    async with request(borrowing(app, live), app, {"type": "lifespan", "headers": []}, wire.send):
        assert live.told == ["run"]
    assert live.told == ["run", "stop"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BusMismatch("The file is no bus."), r"^The live server cannot start: The file is no bus\.$"),
        (PermissionError(13, "Permission denied", "/bus"), r"^The live server cannot start: .*denied: '/bus'$"),
        (ZeroDivisionError("a mistake"), r"(?s)Traceback .*ZeroDivisionError: a mistake"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_server_that_cannot_start_says_why_when_the_web_server_asks(error: Exception, said: str) -> None:
    app, wire, told = App(), Wire(), list[str]()

    class Broken(Live):
        def running(self) -> Any:
            raise error

    async def receive() -> Message:
        told.append("asked")
        assert wire.sent == []
        return {"type": "lifespan.startup"}

    await borrowing(app, Broken())({"type": "lifespan"}, receive, wire.send)
    [answer] = wire.sent
    assert (answer["type"], told) == ("lifespan.startup.failed", ["asked"])
    assert re.search(said, answer["message"])
    assert app.send is None


FAILED = {"type": "lifespan.startup.failed", "message": "Traceback and so on"}


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (BusMismatch("The file is no store."), False, ["The live server cannot start: The file is no store."]),
        (ZeroDivisionError("a mistake"), True, ["Traceback and so on"]),
        (None, False, ["Traceback and so on"]),
    ],
    ids=["named", "mistake", "none"],
)
async def test_an_application_that_cannot_start_says_why_without_a_traceback_if_the_error_explains_itself(
    error: Exception | None, raised: bool, said: list[str]
) -> None:
    wire = Wire()

    async def app(_: Any, __: Any, send: Any) -> None:
        await send(dict(FAILED))
        if error is not None:
            raise error

    with pytest.raises(ZeroDivisionError) if raised else nullcontext():
        await borrowing(app, Live())({"type": "lifespan"}, None, wire.send)  # type: ignore[arg-type]
    assert [(message["type"], message["message"]) for message in wire.sent] == [(FAILED["type"], text) for text in said]


async def test_an_error_of_an_application_that_has_started_is_nobody_elses() -> None:
    async def app(*_: Any) -> None:
        raise OSError("later")

    wire = Wire()
    with pytest.raises(OSError, match="later"):
        await borrowing(app, Live())({"type": "lifespan"}, None, wire.send)  # type: ignore[arg-type]
    assert wire.sent == []


async def test_a_listen_request_carries_its_stream_and_what_the_sdk_writes_goes_through_unchanged() -> None:
    app, live, wire = App(START, body(b"ack")), Live(), Cycle()
    async with request(borrowing(app, live), app, LISTEN, wire.send):
        assert live.told == ["started"]
        assert app.scope[SCOPE_KEY] is live.streams[0]
    assert wire.sent == [START, body(b"ack"), body(b"result", more=False)]
    assert live.told == ["started", "closed"]


@pytest.mark.parametrize("name", ["LISTEN", "SESSION", "SSE"])
async def test_a_stream_states_how_often_it_carries_a_keep_alive(name: str) -> None:
    scope = {"LISTEN": LISTEN, "SESSION": SESSION, "SSE": SSE}[name]
    app, wire = App(START, body(b"event")), Cycle()
    async with request(borrowing(app, Live(), keep_alive=15.0), app, scope, wire.send):
        pass
    assert wire.sent[0]["headers"] == [*START["headers"], (b"tidings-keep-alive", b"15")]
    assert wire.sent[1] == body(b"event")


async def test_an_answer_that_is_no_stream_states_no_keep_alives() -> None:
    refusal = {**START, "status": 404}
    app, wire = App(refusal), Cycle()
    async with request(borrowing(app, Live(), keep_alive=15.0), app, LISTEN, wire.send):
        pass
    assert wire.sent[0] == refusal


async def test_an_old_era_stream_is_named_by_its_session_header() -> None:
    app, live, wire = App(), Live(), Cycle()
    async with request(borrowing(app, live), app, SESSION, wire.send):
        assert live.told == ["started", "opened abc"]
    assert live.told[-1] == "closed"


async def test_an_sse_stream_is_named_by_its_first_event() -> None:
    app, live, wire = App(START, body(b": ping\r\n\r\n"), body(b"")), Live(), Cycle()
    async with request(borrowing(app, live), app, SSE, wire.send):
        assert live.told == ["started"]
        assert app.send is not None
        await app.send(body(b"event: endpoint\r\ndata: /messages/?session_id=%032d\r\n\r\n" % 7))
        assert live.told == ["started", f"begun {7:032}"]
        await app.send(body(b"event: endpoint\r\ndata: /messages/?session_id=%032d\r\n\r\n" % 8))
    assert live.told == ["started", f"begun {7:032}", "closed"]


@pytest.mark.parametrize("named", [None, b"abd"])
async def test_an_old_era_stream_whose_answer_does_not_name_the_session_stays_unnamed(named: bytes | None) -> None:
    """As that of another route: the header of a request proves nothing."""
    headers = [EVENTS] if named is None else [EVENTS, (b"mcp-session-id", named)]
    app, live, wire = App({**START, "headers": headers}), Live(), Cycle()
    async with request(borrowing(app, live), app, SESSION, wire.send):
        assert live.told == ["started"]


async def test_a_stream_whose_first_event_names_no_session_stays_unnamed() -> None:
    app, live, wire = App(START, body(b"data: hello\r\n\r\n")), Live(), Cycle()
    async with request(borrowing(app, live), app, SSE, wire.send):
        assert live.told == ["started"]
    assert live.told == ["started", "closed"]


@pytest.mark.parametrize("accept", [b"*/*", b"text/*", b"text/html, Text/Event-Stream;q=0.5", None])
async def test_a_client_that_takes_any_kind_of_answer_has_its_stream_borrowed_too(accept: bytes | None) -> None:
    app, live, wire = App(), Live(), Cycle()
    headers = [(b"mcp-session-id", b"abc")] + ([] if accept is None else [(b"accept", accept)])
    async with request(borrowing(app, live), app, {**SESSION, "headers": headers}, wire.send):
        assert live.told == ["started", "opened abc"]


async def test_an_answer_that_is_no_stream_of_events_is_not_written_to() -> None:
    page = {**START, "headers": [(b"content-type", b"text/html")]}
    app, live, wire = App(page, body(b"<a href='?session_id=0af7'>")), Live(), Cycle()
    async with request(borrowing(app, live), app, {**SSE, "headers": [(b"accept", b"text/html,*/*")]}, wire.send):
        pass
    assert live.told == ["closed"]


@pytest.mark.parametrize("status", [202, 400, 401, 406, 503])
async def test_an_answer_that_is_no_success_opens_nothing(status: int) -> None:
    app, live, wire = App({**START, "status": status}, body(b"no")), Live(), Cycle()
    async with request(borrowing(app, live), app, SESSION, wire.send):
        pass
    assert live.told == ["closed"]
    assert wire.data == b"noresult"


@pytest.mark.parametrize(
    ("scope", "completed"), [(SESSION, True), (LISTEN, False), ({**SESSION, "headers": []}, False)]
)
async def test_an_old_era_stream_that_the_sdk_leaves_incomplete_is_ended_in_good_order(
    scope: Scope, completed: bool
) -> None:
    """As it does when the process stops. Of other answers it is not known whether all of them went out."""
    live, wire = Live(), Cycle()

    async def leave(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"event"))

    await borrowing(leave, live)({**scope}, nothing, wire.send)
    assert wire.sent == [START, body(b"event"), *([body(b"", more=False)] if completed else [])]
    assert live.told[-1] == "closed"


async def test_a_stream_that_was_cut_off_is_not_ended_in_good_order() -> None:
    live, wire = Live(), Cycle()

    async def leave(_: Scope, __: Receive, send: Send) -> None:
        await send(START)
        live.streams[0].abort()

    await borrowing(leave, live)({**SESSION}, nothing, wire.send)
    assert wire.sent == [START]


async def test_a_failure_of_the_app_reaches_the_web_server_and_the_stream_is_closed() -> None:
    live = Live()

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        raise LookupError(scope["method"], await receive())

    with pytest.raises(LookupError):
        await borrowing(fail, live)({**LISTEN}, nothing, Cycle().send)
    assert live.told == ["started", "closed"]


async def test_a_request_that_the_web_server_cancels_stays_cancelled() -> None:
    app, live, wire = App(), Live(), Cycle()
    task = asyncio.ensure_future(borrowing(app, live)({**LISTEN}, nothing, wire.send))
    with anyio.fail_after(5):
        await app.open.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert live.told == ["started", "closed"]


# Writing


async def test_a_write_to_an_idle_stream_is_done_when_it_returns_and_costs_no_task() -> None:
    wire = Cycle()
    stream, tasks = BorrowedStream(wire.send), asyncio.all_tasks()
    assert stream.write(b"event") is None
    assert wire.sent == [body(b"event")]
    assert asyncio.all_tasks() == tasks


async def test_a_write_to_a_full_socket_is_begun_at_once_and_goes_on_when_there_is_room() -> None:
    wire = Cycle()
    stream = BorrowedStream(wire.send)
    wire.writable.clear()
    writing = stream.write(b"event")
    assert writing is not None
    assert wire.sent == [body(b"event")]
    await turns()
    assert not writing.done()
    wire.writable.set()
    with anyio.fail_after(5):
        await writing
    assert wire.sent == [body(b"event")]


async def test_room_that_comes_before_the_rest_of_a_write_has_begun_is_not_missed() -> None:
    wire = Cycle()
    wire.writable.clear()
    writing = BorrowedStream(wire.send).write(b"event")
    assert writing is not None
    wire.writable.set()
    with anyio.fail_after(5):
        await writing


async def test_a_suspended_write_can_be_called_off() -> None:
    wire = Cycle()
    wire.writable.clear()
    writing = BorrowedStream(wire.send).write(b"event")
    assert writing is not None
    await turns()
    writing.cancel()
    await turns()
    assert writing.cancelled()


async def test_a_suspended_write_that_fails_says_so() -> None:
    class Failing(Cycle):
        __module__ = "uvicorn.protocols.http.double"

        async def send(self, message: Message) -> None:
            await self.writable.wait()
            raise ConnectionResetError(message["type"])

    wire = Failing()
    wire.writable.clear()
    writing = BorrowedStream(wire.send).write(b"event")
    assert writing is not None
    wire.writable.set()
    with anyio.fail_after(5), pytest.raises(ConnectionResetError):
        await writing


async def test_a_write_that_fails_at_once_says_so_at_once() -> None:
    wire = Cycle()
    wire.breaks = ConnectionResetError("gone")
    with pytest.raises(ConnectionResetError):
        BorrowedStream(wire.send).write(b"event")


async def test_a_middlewares_send_is_called_in_a_task_of_its_own() -> None:
    wire = Wire()
    writing = BorrowedStream(wire.send).write(b"event")
    assert writing is not None
    assert wire.sent == []
    with anyio.fail_after(5):
        await writing
    assert wire.sent == [body(b"event")]
    assert wire.tasks == [writing]


async def test_a_middlewares_send_may_hold_a_cancel_scope_while_it_waits() -> None:
    """A cancel scope belongs to the task that entered it: one that began in the publisher's could not be left."""
    wire = Wire()

    async def send(message: Message) -> None:
        with anyio.move_on_after(60):
            await wire.send(message)

    wire.writable.clear()
    with anyio.fail_after(5):
        with anyio.CancelScope() as publishing:
            writing = BorrowedStream(send).write(b"event")
            await turns()
        assert writing is not None
        wire.writable.set()
        await writing
    assert not publishing.cancelled_caught
    assert wire.sent == [body(b"event")]


async def test_frames_travel_through_starlettes_middleware_between_the_sdks_own() -> None:
    app, live, wire = App(START, body(b"ack;")), Live(), Cycle()

    async def dispatch(request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)

    outside = BaseHTTPMiddleware(borrowing(app, live), dispatch)  # type: ignore[arg-type]
    scope = {**LISTEN, "path": "/mcp", "query_string": b""}
    async with request(outside, app, scope, wire.send) as over:
        for number in range(3):
            if (writing := live.streams[0].write(b"frame %d;" % number)) is not None:
                await writing
        app.end.set()
        await over.wait()
    assert wire.data == b"ack;frame 0;frame 1;frame 2;result"


async def test_a_stream_is_called_back_after_the_event_is_out_and_only_once() -> None:
    wire = Cycle()
    stream, heard = BorrowedStream(wire.send), list[tuple[bytes, bytes]]()
    stream.after_next_event(lambda event: heard.append((event, wire.data)))
    for message in (START, body(b": ping"), body(b"ack"), body(b"more")):
        await stream.send(message)
    assert heard == [(b"ack", b": pingack")]


# The end


async def test_to_finish_ends_the_response_in_good_order_and_lets_the_sdks_side_go() -> None:
    app, live, wire = App(), Live(), Cycle()
    async with request(borrowing(app, live), app, LISTEN, wire.send) as over:
        live.streams[0].finish()
        live.streams[0].finish()
        await over.wait()
    assert app.cancelled
    assert wire.sent == [START, body(b"", more=False)]
    assert not wire.transport.aborted
    assert live.told[-1] == "closed"


async def test_to_abort_breaks_the_connection_and_nothing_more_is_written() -> None:
    app, live, wire = App(), Live(), Cycle()
    async with request(borrowing(app, live), app, LISTEN, wire.send) as over:
        live.streams[0].abort()
        assert wire.transport.aborted
        live.streams[0].abort()
        live.streams[0].finish()
        app.end.set()
        await over.wait()
    assert wire.sent == [START]


async def test_to_abort_where_the_connection_is_not_shown_leaves_the_response_incomplete() -> None:
    app, live, wire = App(), Live(), Wire()
    async with request(borrowing(app, live), app, LISTEN, wire.send) as over:
        live.streams[0].abort()
        await over.wait()
    assert app.cancelled
    assert wire.sent == [START]


async def test_a_last_write_that_fails_still_lets_the_sdks_side_go_and_troubles_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, live, wire = App(), Live(), Cycle()
    async with request(borrowing(app, live), app, LISTEN, wire.send) as over:
        wire.breaks = ConnectionResetError("gone")
        live.streams[0].finish()
        await over.wait()
    wire.tasks.clear()
    gc.collect()
    assert caplog.records == []


# Peers that say nothing


@linux
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize(
    ("seconds", "milliseconds"), [(60.0, 60_000), (0.25, 250), (0.0001, 1), (1e9, 2**31 - 1), (math.inf, 2**31 - 1)]
)
async def test_the_system_gives_up_a_peer_that_acknowledges_nothing_in_time(
    family: int, seconds: float, milliseconds: int
) -> None:
    wire = Cycle()
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        wire.transport.sock = sock
        BorrowedStream(wire.send).give_up_after(seconds)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == milliseconds


@linux
async def test_a_connection_that_takes_no_time_limit_is_left_as_it_is() -> None:
    wire, closed = Cycle(), socket.socket()
    closed.close()
    with socket.socket(socket.AF_UNIX) as local:
        for sock in (None, local, closed):
            wire.transport.sock = sock
            BorrowedStream(wire.send).give_up_after(60)
    BorrowedStream(Wire().send).give_up_after(60)


# What is refused


@pytest.mark.parametrize("scope", [SESSION, SSE], ids=["SESSION", "SSE"])
async def test_a_stream_for_which_there_is_no_room_never_begins(scope: Scope) -> None:
    app, live, wire = App(), Live(), Wire()
    live.is_full = True
    async with request(borrowing(app, live), app, scope, wire.send):
        await app.send(body(b"data: {}\r\n\r\n"))
    start, rest = wire.sent
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert json.loads(rest["body"])["error"]["data"]["limit"] == "streams"
    assert live.told == ["closed"]


async def test_an_answer_that_is_a_whole_event_needs_no_room() -> None:
    app, live, wire = App(), Live(), Wire()
    live.is_full = True
    start = {"type": "http.response.start", "status": 200, "headers": [EVENTS, (b"content-length", b"9")]}
    app.opening = (start, body(b"retry: 5\n", more=False))
    async with request(borrowing(app, live), app, SESSION, wire.send):
        assert wire.sent[0] == start


async def test_a_message_of_the_sse_transport_is_weighed() -> None:
    live, session = Live(), "0123456789abcdef" * 2
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": f"session_id={session}".encode()}
    parts = [{"type": "http.request", "body": b'{"a":[1', "more_body": True}, {"type": "http.request", "body": b",2]}"}]

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        while (await receive()).get("more_body"):
            assert live.weights == []
        assert (await receive())["type"] == "http.disconnect"

    async def receive() -> Message:
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    await borrowing(app, live)(scope, receive, Wire().send)
    [(named, weight)] = live.weights
    assert named == session
    assert weight == 4 * 11 + 80 * 4


@pytest.mark.parametrize("is_gone", [False, True], ids=["answered", "gone"])
async def test_a_handshake_that_is_refused_does_not_seem_to_succeed_even_if_its_client_is_gone(is_gone: bool) -> None:
    wire, kept = Wire(), list[str]()

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        scope[EXCHANGE_KEY].refuse(LimitReached("Full.", data={"limit": "streams", "max": 1, "scope": "client"}), 7)
        await send(START)
        with suppress(ConnectionError):
            await send(body(b"data: {}\r\n\r\n"))
        kept.append("a session")

    if is_gone:
        wire.breaks = ConnectionError("gone")
    await borrowing(app, Live())({"type": "http", "method": "POST", "headers": []}, nothing, wire.send)
    assert kept == []
    assert [message.get("status") for message in wire.sent] == ([] if is_gone else [429, None])
