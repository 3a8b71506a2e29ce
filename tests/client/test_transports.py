"""The ways to a server at a URL: what is told of each exchange, what a bad answer costs, and that all ends in time."""

import asyncio
import base64
import functools
import gzip
import json
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tests.client.misbehaving import Asked, Log, Site, site
from tests.ports import free_port
from tests.server.serving import live, notes, serving
from tidings.client.config import ClientConfig
from tidings.client.targets import HttpTarget, parse_target
from tidings.client.transports.http import MAY_BE_SSE, current_call, open_transport
from tidings.client.transports.tap import BodyTooLarge
from tidings.errors import ConnectFailed, MalformedMessage, MessageTooLarge

pytestmark = pytest.mark.anyio

LIMIT = 100_000


class Way:
    """An open transport."""

    def __init__(self, streams: Any, log: Log) -> None:
        self.read, self.write = streams
        self.told = log.told
        self.errors = log.errors

    async def tell(self, method: str) -> None:
        await self.write.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method)))

    async def send(self, number: int, method: str = "ping") -> None:
        await self.write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method)))

    async def receive(self) -> Any:
        item = await self.read.receive()
        return item.message if isinstance(item, SessionMessage) else item

    async def ask(self, number: int, method: str = "ping") -> Any:
        await self.send(number, method)
        return await self.receive()

    async def refused(self, number: int) -> str:
        """Ask, and expect an error as the answer: its text."""
        answer = await self.ask(number)
        assert isinstance(answer, JSONRPCError)
        assert answer.id == number
        return answer.error.message

    async def works(self, number: int) -> bool:
        answer = await self.ask(number)
        return isinstance(answer, JSONRPCResponse) and answer.id == number


@asynccontextmanager
async def opened(
    url: str, *, limit: int = LIMIT, kind: Any = None, log: Log | None = None, **options: Any
) -> AsyncGenerator[Way]:
    target = parse_target(url, **options)
    assert isinstance(target, HttpTarget)
    log = log or Log()
    with anyio.fail_after(20):
        async with open_transport(target, ClientConfig(max_message=limit), watch=log, kind=kind) as streams:
            yield Way(streams, log)


Bad = Callable[[Asked], Awaitable[None]]


@asynccontextmanager
async def bad_once(bad: Bad) -> AsyncGenerator[Site]:
    """A server whose first answer is `bad`, and the others good."""
    first = [bad]

    async def answer(asked: Asked) -> None:
        await (first.pop()(asked) if first else asked.result())

    async with site(answer) as here:
        yield here


async def told(way: Way, count: int) -> list[tuple[Any, ...]]:
    """What the watch was told, once it is so much."""
    with anyio.fail_after(10):
        while len(way.told) < count:  # noqa: ASYNC110 - a watch is told, and tells nobody
            await anyio.sleep(0.002)
    return way.told


# Streamable HTTP


async def test_each_exchange_with_a_real_server_is_told_with_the_call_that_it_is_for() -> None:
    async with live(notes()) as port:
        log = Log()
        target = parse_target(f"http://127.0.0.1:{port}/mcp")
        assert isinstance(target, HttpTarget)
        async with Client(open_transport(target, ClientConfig(max_message=LIMIT), watch=log), mode="legacy") as client:
            current_call.set("mine")
            await client.list_tools()
            current_call.set(None)
        assert (None, "POST", 200, False) in log.told  # initialize
        assert (None, "POST", 202, True) in log.told  # initialized
        assert (None, "GET", 200, True) in log.told
        assert (None, "GET", "stream") in log.told
        assert ("mine", "POST", 200, True) in log.told
        assert ("mine", "POST", "stream") in log.told
        assert not any(told[1] == "DELETE" for told in log.told)  # It says nothing about the connection.

        log = Log()
        async with Client(open_transport(target, ClientConfig(max_message=LIMIT), watch=log), mode="auto") as client:
            await client.list_tools()
        assert log.told == [(None, "POST", 200, False)] * 2


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_calls_at_the_same_time_are_told_apart(kind: str) -> None:
    """A context variable of the sender's reaches the exchange, through the SDK's streams and tasks."""
    gate = asyncio.Event()

    async def answer(asked: Asked) -> None:
        if asked.method == "GET":
            await begin_sse(asked)
            await gate.wait()
        elif kind == "sse":
            await asked.answer(202)
        else:
            await gate.wait()
            await asked.result()

    async with site(answer) as here, opened(here.url, kind=kind) as way:

        async def call(number: int) -> None:
            current_call.set(f"call {number}")
            await way.send(number)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(call, number)
        assert current_call.get() is None
        gate.set()
        if kind == "http":
            for _ in range(5):
                await way.receive()
        status = 200 if kind == "http" else 202
        exchanges = [each for each in await told(way, 5 if kind == "http" else 7) if each[1] == "POST"]
        assert sorted(exchanges) == [(f"call {number}", "POST", status, kind == "sse") for number in range(5)]


async def test_credentials_reach_the_server_and_not_its_address() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    async with site(answer) as here:
        async with opened(here.url + "?team=blue", token="tok", headers={"X-Team": "blue"}) as way:
            assert await way.works(1)
        bearer = await here.until(1)
        async with opened(here.url.replace("//", "//ada:lovel%40ce@")) as way:
            assert await way.works(1)
        basic = await here.until(2)
    assert bearer.path == "/mcp?team=blue"
    assert (bearer.headers["authorization"], bearer.headers["x-team"]) == ("Bearer tok", "blue")
    assert basic.headers["authorization"] == "Basic " + base64.b64encode(b"ada:lovel@ce").decode()
    assert basic.path == "/mcp"


class SignIn(httpx2.Auth):
    """Asks for a token when it is refused."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == 401:
            token = yield httpx2.Request("GET", request.url.join("/token"))
            request.headers["authorization"] = (await token.aread()).decode()
            yield request


async def test_how_somebody_signs_in_is_not_told_only_what_came_of_it() -> None:
    async def answer(asked: Asked) -> None:
        if asked.path == "/token":
            await asked.answer(200, b"let me in", kind="text/plain")
        elif "authorization" in asked.headers:
            await asked.result()
        else:
            await asked.answer(401)

    async with site(answer) as here, opened(here.url, auth=SignIn()) as way:
        assert await way.works(1)
        assert way.told == [(None, "POST", 200, False)]
        assert len(here.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 429, 500, 503])
async def test_a_status_is_told_and_fails_the_request_alone(status: int) -> None:
    async def bad(asked: Asked) -> None:
        await asked.answer(status, b"<html>", kind="text/html")

    async with bad_once(bad) as here, opened(here.url) as way:
        await way.refused(1)
        assert await way.works(2)
        assert way.told == [(None, "POST", status, False), (None, "POST", 200, False)]


@functools.cache
def packed(size: int) -> bytes:
    return gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "result": {"text": "' + b"x" * size + b'"}}')


async def large_with_length(asked: Asked) -> None:
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50000000\r\n\r\n", b"{")


async def large_to_the_end(asked: Asked) -> None:
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", *[b"x" * 100_000] * 500)


async def large_in_chunks(asked: Asked) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    await asked.write(head, *[b"186a0\r\n" + b"x" * 100_000 + b"\r\n"] * 500)


async def large_when_unpacked(asked: Asked) -> None:
    await asked.answer(200, packed(50_000_000), content_encoding="gzip")


async def large_error(asked: Asked) -> None:
    await asked.answer(500, b"x" * 1_000_000)


@pytest.mark.parametrize("bad", [large_with_length, large_to_the_end, large_in_chunks, large_when_unpacked])
async def test_an_answer_that_is_too_large_fails_the_request_alone_in_bounded_memory(bad: Bad) -> None:
    packed(50_000_000)  # That is the test's own memory.
    async with bad_once(bad) as here, opened(here.url) as way:
        tracemalloc.start()
        try:
            text = await way.refused(1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert text.startswith("Failed to parse JSON response: Body too large: ")
        assert peak < 4_000_000
        assert isinstance(way.errors[0], BodyTooLarge)
        assert await way.works(2)
        assert way.told == [
            (None, "POST", 200, False),
            (None, "POST", "BodyTooLarge", True),
            (None, "POST", 200, False),
        ]


async def test_an_error_that_is_too_large_is_an_error_none_the_less() -> None:
    async with bad_once(large_error) as here, opened(here.url) as way:
        assert await way.refused(1) == "Server returned an error response"
        assert await way.works(2)


async def test_an_answer_may_be_packed_and_as_large_as_the_limit() -> None:
    whole = gzip.decompress(packed(LIMIT - 51))
    assert len(whole) == LIMIT
    members = gzip.compress(whole[:1000]) + gzip.compress(whole[1000:])
    for body, encoding in ((packed(LIMIT - 51), "gzip"), (members, "gzip"), (whole, "identity")):

        async def answer(asked: Asked, body: bytes = body, encoding: str = encoding) -> None:
            assert asked.headers["accept-encoding"] == "gzip"
            await asked.answer(200, body, content_encoding=encoding)

        async with site(answer) as here, opened(here.url) as way:
            got = await way.ask(1)
            assert got.result == {"text": "x" * (LIMIT - 51)}


@pytest.mark.parametrize(
    ("encoding", "body", "says"),
    [
        ("br", b"x", "compressed with br"),
        ("gzip", b"not gzip", "Body corrupt"),
        ("gzip", packed(9)[:40], "Failed to parse"),
    ],
    ids=["another way", "not at all", "not to its end"],
)
async def test_an_answer_that_cannot_be_unpacked_fails_the_request_alone(encoding: str, body: bytes, says: str) -> None:
    async def bad(asked: Asked) -> None:
        await asked.answer(200, body, content_encoding=encoding)

    async with bad_once(bad) as here, opened(here.url) as way:
        assert says in await way.refused(1)
        assert await way.works(2)


async def test_a_stream_of_events_may_be_packed_and_of_any_length() -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
    note = json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"text": "x" * 1000}}).encode()
    stream = b"".join(b"data: %s\n\n" % event for event in (*[note] * 200, answer))

    async def serve(asked: Asked) -> None:
        await asked.answer(200, gzip.compress(stream), kind="text/event-stream", content_encoding="gzip")

    async with site(serve) as here, opened(here.url) as way:
        await way.send(1)
        assert [type(await way.receive()) for _ in range(201)] == [JSONRPCNotification] * 200 + [JSONRPCResponse]
        assert way.told == [(None, "POST", 200, False), (None, "POST", "stream")]


async def test_an_event_that_is_too_large_fails_the_request_alone() -> None:
    async def large(asked: Asked) -> None:
        await asked.events()
        await asked.write(b"data: ", *[b"x" * 100_000] * 3)

    async with bad_once(large) as here, opened(here.url) as way:
        assert (await way.refused(1)).startswith("SSE stream failed: Server-sent event exceeded")
        assert await way.works(2)


async def broken(url: str, **options: Any) -> tuple[BaseException, list[tuple[Any, ...]]]:
    """Send a message that ends the transport: the reason, and what the watch was told."""
    log = Log()

    async def ask() -> None:
        async with opened(url, log=log, **options) as way:
            current_call.set("mine")
            await way.ask(1)

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.create_task(ask())
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error, log.told


async def garbage(asked: Asked) -> None:
    await asked.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def reset(asked: Asked) -> None:
    asked.reset()


async def reset_in_the_body(asked: Asked) -> None:
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    asked.reset()


async def end_in_the_body(asked: Asked) -> None:
    await asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    asked.writer.close()


@pytest.mark.parametrize(
    ("bad", "kinds"),
    [
        (garbage, {"RemoteProtocolError"}),
        (reset, {"ReadError", "RemoteProtocolError"}),
        (reset_in_the_body, {"ReadError", "RemoteProtocolError"}),
        (end_in_the_body, {"RemoteProtocolError"}),
    ],
)
async def test_a_connection_that_breaks_is_told_and_the_request_may_have_arrived(bad: Bad, kinds: set[str]) -> None:
    async with bad_once(bad) as here:
        error, exchanges = await broken(here.url)
    assert isinstance(error, httpx2.TransportError)
    call, method, kind, sent = exchanges[-1]
    assert (call, method, sent) == ("mine", "POST", True)
    assert kind in kinds


async def test_a_server_that_is_not_there_is_told_and_nothing_can_have_arrived() -> None:
    error, exchanges = await broken(f"http://127.0.0.1:{free_port()}/mcp")
    assert isinstance(error, httpx2.ConnectError)
    assert exchanges == [("mine", "POST", "ConnectError", False)]


async def test_a_server_that_never_answers_is_left_at_once() -> None:
    never = asyncio.Event()

    async def answer(_: Asked) -> None:
        await never.wait()

    async with site(answer) as here:
        async with opened(here.url) as way:
            await way.send(1)
            await here.until(1)
            began = time.monotonic()
        assert time.monotonic() - began < 5


async def test_a_server_that_does_not_take_leave_is_left_after_a_second() -> None:
    never = asyncio.Event()

    async def answer(asked: Asked) -> None:
        if asked.method == "DELETE":
            await never.wait()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
        await asked.answer(200, body, mcp_session_id="a-session")

    async with site(answer) as here:
        async with opened(here.url) as way:
            assert isinstance(await way.ask(1, "initialize"), JSONRPCResponse)
            began = time.monotonic()
        assert 0.5 < time.monotonic() - began < 5
        assert here.asked[-1].headers["mcp-session-id"] == "a-session"
    assert way.told[-1] == (None, "POST", 200, False)


async def test_a_hundred_silent_streams_do_not_keep_a_request_waiting() -> None:
    never = asyncio.Event()

    async def answer(asked: Asked) -> None:
        if asked.message["method"] == "ping":
            await asked.result()
        else:
            await asked.events()
            await never.wait()

    async with site(answer) as here, opened(here.url) as way:
        for number in range(120):
            await way.send(number, "subscriptions/listen")
        await here.until(120)
        assert await way.works(200)


# Proxies


async def test_the_proxy_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    async with site(answer) as here:
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{here.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with opened("http://mcp.example/mcp") as way:
            assert await way.works(1)
        assert here.asked[0].path == "http://mcp.example/mcp"
        async with opened(here.url) as way:
            assert await way.works(2)
        assert here.asked[1].path == "/mcp"


async def test_a_proxy_that_cannot_be_used_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "gopher://ada:hunter22@proxy.example:70")
    with pytest.raises(ConnectFailed) as caught:
        async with opened("http://mcp.example/mcp"):
            pass
    assert "gopher" in caught.value.message
    assert "hunter22" not in caught.value.message


# The older transport


@pytest.mark.parametrize(
    ("status", "older"), [(400, True), (404, True), (405, True), (406, True), (415, True), (401, False), (500, False)]
)
def test_some_answers_may_come_from_a_server_of_the_older_transport(status: int, older: bool) -> None:
    assert (status in MAY_BE_SSE) is older


async def begin_sse(asked: Asked, endpoint: str = "/messages?session_id=1") -> None:
    await asked.events()
    await asked.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())


def event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"


class Older:
    """A server of the older transport that answers each message on its stream, unless a test does that."""

    def __init__(self, post: Bad | None = None) -> None:
        self._post = post
        self.stream: Asked

    async def __call__(self, asked: Asked) -> None:
        if asked.method == "GET":
            self.stream = asked
            await begin_sse(asked)
            await asyncio.Event().wait()
        elif self._post is not None:
            await self._post(asked)
        else:
            await asked.answer(202)
            await self.stream.write(event({"id": asked.message["id"], "result": {}}))


async def test_the_sdk_talks_to_a_real_server_of_the_older_transport() -> None:
    mcp: MCPServer[Any] = MCPServer("older", log_level="WARNING")

    @mcp.tool()
    def much(size: int) -> str:
        return "x" * size

    async with serving(mcp.sse_app()) as port:
        target = parse_target(f"http://127.0.0.1:{port}/sse")
        assert isinstance(target, HttpTarget)
        log = Log()
        way = open_transport(target, ClientConfig(max_message=8 * 1024 * 1024), watch=log, kind="sse")
        with anyio.fail_after(20):
            async with Client(way, mode="legacy") as client:
                # The SDK's own transport takes 1 MiB.
                result = await client.call_tool("much", {"size": 2 * 1024 * 1024})
                assert not result.is_error
    assert log.told[:3] == [(None, "GET", 200, False), (None, "GET", "stream"), (None, "POST", 202, True)]


async def test_the_kind_of_a_target_is_the_transport_that_is_opened() -> None:
    async with site(Older()) as here:
        log = Log()
        async with open_transport(
            HttpTarget(here.url, kind="sse"), ClientConfig(max_message=LIMIT), watch=log
        ) as streams:
            assert await Way(streams, log).works(1)
        assert [asked.method for asked in here.asked] == ["GET", "POST"]
        assert here.asked[1].headers["content-type"] == "application/json"


@pytest.mark.parametrize(("status", "says"), [(404, "Session terminated"), (500, "error response (500)")])
async def test_a_message_that_is_refused_fails_alone(status: int, says: str) -> None:
    refused = [1]

    async def post(asked: Asked) -> None:
        if refused and asked.message.get("id") == refused[0]:
            refused.pop()
            await asked.answer(status)
        elif "id" not in asked.message:
            await asked.answer(status)
        else:
            await asked.answer(202)
            await older.stream.write(event({"id": 2, "result": {}}))

    older = Older(post)
    async with site(older) as here, opened(here.url, kind="sse") as way:
        assert says in await way.refused(1)
        await way.tell("hello")
        assert await way.works(2)
        assert [each for each in way.told if each[1] == "POST"] == [
            (None, "POST", status, True),
            (None, "POST", status, True),
            (None, "POST", 202, True),
        ]


async def test_requests_are_posted_at_the_same_time_and_the_handshake_in_its_order() -> None:
    taken: list[Any] = []
    both = asyncio.Event()

    async def post(asked: Asked) -> None:
        message = asked.message
        if message.get("id") in (2, 3):
            taken.append(message["id"])
            if len(taken) == 4:
                both.set()
            await both.wait()  # Neither is taken before both are there.
        else:
            await asyncio.sleep(0)
            taken.append(message["method"])
        await asked.answer(202)
        if "id" in message:
            await older.stream.write(event({"id": message["id"], "result": {}}))

    older = Older(post)
    async with site(older) as here, opened(here.url, kind="sse") as way:
        assert isinstance(await way.ask(1, "initialize"), JSONRPCResponse)
        await way.tell("notifications/initialized")
        await way.send(2)
        await way.send(3)
        assert {(await way.receive()).id, (await way.receive()).id} == {2, 3}
    assert taken[:2] == ["initialize", "notifications/initialized"]


async def test_what_cancels_a_request_is_posted_after_it() -> None:
    order: list[str] = []
    go_on = asyncio.Event()

    async def post(asked: Asked) -> None:
        message = asked.message
        order.append(message["method"])
        if message["method"] == "slow":
            await go_on.wait()
            order.append("taken")
        elif message["method"] == "quick":
            go_on.set()
        await asked.answer(202)
        if message["method"] == "notifications/cancelled":
            await older.stream.write(event({"id": 1, "result": {}}))

    older = Older(post)
    async with site(older) as here, opened(here.url, kind="sse") as way:
        await way.send(1, "slow")
        params = {"requestId": 1}
        cancel = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        await way.write.send(SessionMessage(cancel))
        await way.send(2, "quick")
        assert (await way.receive()).id == 1
    assert sorted(order[:2]) == ["quick", "slow"]
    assert order[2:] == ["taken", "notifications/cancelled"]


async def test_a_message_that_cannot_be_sent_ends_the_older_transport() -> None:
    async with site(Older(reset)) as here:
        error, exchanges = await broken(here.url, kind="sse")
    assert isinstance(error, httpx2.TransportError)
    assert exchanges[-1] == ("mine", "POST", type(error).__name__, True)


async def test_what_is_no_message_is_passed_on_as_an_error_and_the_stream_goes_on() -> None:
    older = Older()
    async with site(older) as here, opened(here.url, kind="sse") as way:
        await older.stream.write(b"data: nonsense\n\n", b"event: news\ndata: x\n\n", b"data:\n\n", b": comment\n\n")
        assert isinstance(await way.receive(), ValueError)
        assert await way.works(1)


async def test_a_large_event_ends_the_older_transport_with_the_reason() -> None:
    older = Older()
    async with site(older) as here, opened(here.url, kind="sse") as way:
        await older.stream.write(b"data: " + b"x" * (LIMIT + 1))
        error = await way.receive()
        assert isinstance(error, MessageTooLarge)
        assert "100000 byte limit" in error.message
        with pytest.raises(anyio.EndOfStream):
            await way.receive()


async def test_a_stream_that_breaks_is_the_end_of_the_older_transport() -> None:
    older = Older()
    async with site(older) as here, opened(here.url, kind="sse") as way:
        older.stream.reset()
        with pytest.raises(anyio.EndOfStream):
            await way.receive()
        assert way.told[-1] in [(None, "GET", "ReadError", True), (None, "GET", "RemoteProtocolError", True)]


async def connect_error(answer: Bad) -> Exception:
    """Why no stream of the older transport is opened."""
    with pytest.raises(ExceptionGroup) as caught:
        async with site(answer) as here, opened(here.url, kind="sse"):
            pytest.fail("it was opened")
    (error,) = caught.value.exceptions
    return error


async def test_messages_are_not_sent_to_another_host() -> None:
    for endpoint in ("http://evil.example/steal", "//127.0.0.2/steal", "https://127.0.0.1/x"):
        error = await connect_error(lambda asked, endpoint=endpoint: begin_sse(asked, endpoint))
        assert isinstance(error, MalformedMessage)
        assert "another host" in error.message


async def test_a_stream_that_says_nothing_is_not_the_older_transport() -> None:
    error = await connect_error(lambda asked: asked.answer(200, b": hello\n\n", kind="text/event-stream"))
    assert isinstance(error, ConnectFailed)
    assert "before it named the address for messages" in error.message


@pytest.mark.parametrize("end", [reset, end_in_the_body])
async def test_a_stream_that_breaks_before_it_begins_is_an_error(end: Bad) -> None:
    async def answer(asked: Asked) -> None:
        await asked.events()
        await end(asked)

    with pytest.raises((ExceptionGroup, httpx2.TransportError, ConnectFailed)):
        async with site(answer) as here, opened(here.url, kind="sse"):
            pytest.fail("it was opened")


async def test_an_address_without_a_stream_is_told_with_its_status() -> None:
    log = Log()
    async with site(lambda asked: asked.answer(404)) as here:
        with pytest.raises(httpx2.HTTPStatusError):
            async with open_transport(HttpTarget(here.url), ClientConfig(max_message=LIMIT), watch=log, kind="sse"):
                pytest.fail("it was opened")
    assert log.told == [(None, "GET", 404, False)]


async def test_what_answers_the_older_transport_with_json_is_none() -> None:
    error = await connect_error(lambda asked: asked.answer(200, b"{}"))
    assert isinstance(error, httpx2.SSEError)
