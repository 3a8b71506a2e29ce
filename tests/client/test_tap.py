"""Who listens in on a connection: over every transport and in both eras, all is told, in order, and no secret."""

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest

from tests.client.bad_servers import MODERN, QUICK, behaved, program, settings, web
from tests.client.misbehaving import Asked, site
from tests.client.peers import LIVE, STOCK
from tests.client.ways import Way, environment, reached
from tests.ports import free_port
from tests.server.serving import eventually
from tidings.client import connect
from tidings.client.events import GarbageReceived
from tidings.client.transports.tap import Exchange, Message
from tidings.errors import TidingsError

pytestmark = pytest.mark.anyio

WAYS = [
    Way(peer, transport, era)
    for peer in (LIVE, STOCK)
    for transport in peer.transports
    for era in peer.eras
    if peer is LIVE or transport != "stdio"  # Each start of a program takes a second.
]


class Tape:
    """Writes everything down."""

    def __init__(self) -> None:
        self.told: list[Message | Exchange] = []

    def message(self, message: Message) -> None:
        self.told.append(message)

    def exchange(self, exchange: Exchange) -> None:
        self.told.append(exchange)

    @property
    def messages(self) -> list[Message]:
        return [each for each in self.told if isinstance(each, Message)]

    @property
    def exchanges(self) -> list[Exchange]:
        return [each for each in self.told if isinstance(each, Exchange)]

    def sent(self, method: str) -> list[Message]:
        return [each for each in self.messages if not each.incoming and each.body.get("method") == method]

    def heard(self, method: str) -> list[Message]:
        return [each for each in self.messages if each.incoming and each.body.get("method") == method]

    def answer(self, request: Message) -> Message:
        """The only answer to a request that was sent."""
        here = self.messages.index(request)
        answers = [
            each
            for each in self.messages[here:]
            if each.incoming and each.body.get("id") == request.body["id"] and "method" not in each.body
        ]
        assert len(answers) == 1
        return answers[0]


def _options(way: Way) -> dict[str, Any]:
    return {"era": way.era, **({"env": environment()} if way.transport == "stdio" else {})}


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_every_message_is_told_both_ways_and_in_order(way: Way) -> None:
    tape = Tape()
    with anyio.fail_after(60):
        async with reached(way) as target, connect(target, tap=tape, **_options(way)) as client:
            assert client.transport == way.transport
            hello = "initialize" if client.protocol_version != MODERN else "server/discover"
            assert tape.messages[0].body["method"] in ("initialize", "server/discover")
            assert "result" in tape.answer(tape.sent(hello)[0]).body

            call = await client.call_tool("echo", {"text": "söme words"})
            [sent] = tape.sent("tools/call")
            assert sent.body["jsonrpc"] == "2.0"
            assert sent.body["params"]["arguments"] == {"text": "söme words"}
            assert sent.size >= len('{"text":"söme words"}'.encode())
            answered = tape.answer(sent)
            assert answered.body["result"]["content"][0]["text"] == call.result.content[0].text
            assert not answered.cut
            assert len(tape.heard("notifications/progress")) == 0

            await client.call_tool(*way.peer.walk)
            [_, walked] = tape.sent("tools/call")
            assert walked.body["params"]["_meta"]["progressToken"] == walked.body["id"]
            steps = tape.heard("notifications/progress")
            assert [step.body["params"]["progress"] for step in steps] == [1, 2, 3]
            order = [tape.messages.index(each) for each in (walked, *steps, tape.answer(walked))]
            assert order == sorted(order)

            if way.subscribes:
                await client.subscribe(way.peer.uri)
                await way.peer.change(client, way.peer.uri)
                await eventually(lambda: tape.heard("notifications/resources/updated"))
                [update] = tape.heard("notifications/resources/updated")
                assert update.body["params"]["uri"] == way.peer.uri
    on_http = way.transport in ("http", "sse")
    assert all((each.exchange is not None) == on_http for each in tape.messages)
    assert bool(tape.exchanges) == on_http


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_what_the_server_asks_is_told_with_its_answer(way: Way) -> None:
    tape = Tape()
    answer: Callable[[Any], Any] = lambda _: {"name": "Ada"}  # noqa: E731
    with anyio.fail_after(60):
        async with reached(way) as target, connect(target, tap=tape, answer=answer, **_options(way)) as client:
            await client.call_tool(way.peer.form)
    texts = [str(each.body) for each in tape.messages]
    if way.era == "legacy":
        [asked] = tape.heard("elicitation/create")
        [said] = [each for each in tape.messages if not each.incoming and "result" in each.body]
        assert said.body["id"] == asked.body["id"]
        assert said.body["result"]["content"]["name"] == "Ada"
    else:  # In the modern era the question is the answer, and its answer another request.
        assert len(tape.sent("tools/call")) == 2
        assert any("elicitation/create" in text for text in texts)


@pytest.mark.parametrize("way", [way for way in WAYS if way.transport in ("http", "sse")], ids=str)
async def test_every_http_exchange_begins_is_answered_and_ends(way: Way) -> None:
    tape = Tape()
    with anyio.fail_after(60):
        async with reached(way) as target, connect(target, tap=tape, **_options(way)) as client:
            await client.read_resource(way.peer.uri)
    told: dict[int, list[Exchange]] = {}
    for each in tape.exchanges:
        told.setdefault(each.id, []).append(each)
    for steps in told.values():
        assert [each.status is not None for each in steps] in ([False, True, True], [False, False])
        last = steps[-1]
        assert last.ended is not None
        assert last.began <= (last.answered or last.began) <= last.ended
        assert last.url == target or (way.transport, last.method) == ("sse", "POST")
        assert "?" not in last.url
        assert "content-type" in last.request_headers or last.method in ("GET", "DELETE")
    by_id = {number: steps[-1] for number, steps in told.items()}
    for message in tape.messages:
        assert message.exchange in by_id
    [read] = tape.sent("resources/read")
    answer = tape.answer(read)
    carrier = by_id[answer.exchange or 0]
    assert carrier.received >= answer.size
    if way.transport == "http":
        assert answer.exchange == read.exchange
    else:
        assert carrier.is_stream
        assert carrier.method == "GET"
    # An exchange is known before what it carries, and ends after.
    for message in tape.messages:
        mine = [tape.told.index(each) for each in told[message.exchange or 0]]
        assert mine[0] < tape.told.index(message) < mine[-1]


async def test_an_exchange_that_fails_says_why() -> None:
    tape = Tape()
    with anyio.fail_after(30), pytest.raises(TidingsError):
        async with connect(f"http://127.0.0.1:{free_port()}/mcp", config=QUICK, tap=tape):
            pass
    ended = [each for each in tape.exchanges if each.ended is not None]
    assert ended
    assert all(each.status is None and each.error is not None and "ConnectError" in each.error for each in ended)


async def test_no_secret_is_told() -> None:
    secrets = ["hunter2-secret", "sk-live-0123456789", "tok.very.secret", "x-value-777777", "12345678"]

    async def echo(asked: Asked) -> None:
        said = {"secrets": secrets, "number": 12345678, "lines": "one\n" + secrets[3], secrets[1]: 1}
        error = {"code": -32000, "message": str(secrets), "data": said}
        body = json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}).encode()
        await asked.answer(200, body, set_cookie="session=abcdef", x_said=secrets[2])

    tape = Tape()
    async with site(echo) as here:
        place = here.url.partition("://")[2]
        url = f"http://{place}?key={secrets[1]}"
        headers = {"X-Value": secrets[3], "X-Pin": "12345678", "X-Mode": "ab", "Authorization": f"Bearer {secrets[2]}"}
        with anyio.fail_after(30), pytest.raises(TidingsError):
            async with connect(url, headers=headers, config=QUICK, tap=tape):
                pass
    assert tape.messages
    text = repr(tape.told)
    for secret in (*secrets[1:], "session=abcdef"):
        assert secret not in text
    began = tape.exchanges[0]
    assert began.url == here.url
    assert {began.request_headers[name] for name in ("x-value", "x-pin", "x-mode", "authorization")} == {"***"}
    heard = next(each for each in tape.messages if each.incoming)
    assert heard.body["error"]["data"]["number"] == "***"
    assert heard.body["jsonrpc"] == "2.0"
    assert heard.body["error"]["data"]["secrets"][0] == "hunter2-secret"  # It is not one of this target's.


async def test_a_token_that_was_got_by_signing_in_is_masked_too() -> None:
    class Auth(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["authorization"] = "Bearer got-by-signing-in"
            yield request

    does = behaved(MODERN)
    does["tools/call"] = {"resultType": "complete", "content": [{"type": "text", "text": "you are got-by-signing-in"}]}
    tape = Tape()
    with anyio.fail_after(30):
        async with web(does) as here, connect(here.url, auth=Auth(), config=QUICK, tap=tape) as client:
            await client.call_tool("tool")
    assert "got-by-signing-in" not in repr(tape.told)
    assert "you are ***" in repr(tape.told)


@pytest.mark.parametrize("way", [way for way in WAYS if way.peer is LIVE], ids=str)
async def test_a_tap_that_raises_is_logged_and_harms_nothing(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def message(self, message: Message) -> None:
            raise RuntimeError("no tape")

        def exchange(self, exchange: Exchange) -> None:
            raise RuntimeError("no tape")

    with anyio.fail_after(60), caplog.at_level(logging.ERROR, "tidings.client.transports.tap"):
        async with reached(way) as target, connect(target, tap=Broken(), **_options(way)) as client:
            call = await client.call_tool("echo", {"text": "hello"})
            assert "hello" in call.result.content[0].text
    assert "A tap failed" in caplog.text


async def test_a_message_that_is_too_large_is_told_as_cut() -> None:
    tape = Tape()
    does = behaved(MODERN)

    async def huge(asked: Asked) -> None:
        await asked.events()
        await asked.write(b"data: " + b"x" * 5000 + b"\r\n\r\n")

    does["tools/call"] = huge
    with anyio.fail_after(30):
        async with web(does) as here, connect(here.url, config=settings(max_message=4096), tap=tape) as client:
            with pytest.raises(TidingsError):
                await client.call_tool("tool")
    [cut] = [each for each in tape.messages if each.cut]
    assert cut.size > 4096
    assert cut.incoming
    assert cut.body == {"jsonrpc": "2.0"}
    assert cut.exchange == tape.sent("tools/call")[0].exchange


_LARGE = """
def odd(method, id, params):
    if method == "tools/call":
        say("this is no message")
        send(id=id, result={"content": [{"type": "text", "text": "x" * 5000}]})
        return True
"""


async def test_of_a_line_that_is_too_long_its_size_and_its_id_are_told_and_garbage_is_no_message() -> None:
    tape = Tape()
    garbage: list[str] = []
    with anyio.fail_after(30):
        async with connect(program(_LARGE), config=settings(max_message=4096), tap=tape) as client:
            client.on(GarbageReceived, lambda event: garbage.append(event.text))
            with pytest.raises(TidingsError):
                await client.call_tool("tool")
            await eventually(lambda: garbage)
    [cut] = [each for each in tape.messages if each.cut]
    assert cut.size > 5000
    assert cut.body == {"jsonrpc": "2.0", "id": tape.sent("tools/call")[0].body["id"]}
    assert garbage == ["this is no message"]
    assert "this is no message" not in repr(tape.told)
