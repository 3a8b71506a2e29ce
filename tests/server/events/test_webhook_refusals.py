"""What goes wrong with a webhook: each has its code, nothing is sent where it must not go, nobody else is delayed."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.server.events.eventing import ask, shop
from tests.server.events.hooking import as_, guarded, publish, settings, subscribe, told, wanted
from tests.server.events.receiving import SECRET, Receiver, receiving
from tests.server.serving import live
from tests.server.wire import Json
from tidings import LiveServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def mcp() -> LiveServer:
    return shop(events=settings())


@pytest.fixture
async def port(mcp: LiveServer) -> AsyncGenerator[int]:
    async with live(mcp) as port:
        yield port


async def refused(port: int, params: Json, **more: Any) -> Json:
    answer = (await ask(port, "events/subscribe", **params, **more)).json
    assert "error" in answer, answer
    return answer["error"]


async def test_what_a_subscriber_gets_wrong_has_its_code_and_sends_nothing(
    port: int, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = receiver.url()
    short = "whsec_c2hvcnQ="
    cases: list[tuple[Json, int]] = [
        (wanted(url, short), -32602),
        (wanted(url, "c2VjcmV0"), -32602),
        (wanted("ftp://example.com/"), -32602),
        (wanted("http://10.0.0.1/"), -32602),
        (wanted("http://169.254.169.254/latest"), -32602),
        (wanted("http://u:p@127.0.0.1/"), -32602),
        (wanted("https://example.com:22/"), -32602),
        (wanted("https://[::"), -32602),
        (wanted(url, cursor="forged"), -32602),
        (wanted(url, arguments={"nothing": 1}), -32602),
        (wanted(url, name="order.lost"), -32011),
        (wanted(url) | {"delivery": {"mode": "mail", "url": url, "secret": SECRET}}, -32014),
        (wanted(url) | {"delivery": {"mode": "webhook", "secret": SECRET}}, -32602),
    ]
    for params, code in cases:
        error = await refused(port, params)
        assert error["code"] == code, (params, error)
        assert short not in str(error)
        assert SECRET not in str(error)
    assert receiver.challenges == []
    assert receiver.posts == []
    assert short not in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (500, "http_5xx"),
        (403, "http_4xx"),
        (b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "challenge_failed"),
        ('{"challenge": "another"}', "challenge_failed"),
        ("[" * 60_000, "challenge_failed"),
        ('"' + "x" * 200_000, "challenge_failed"),
        (b"no http at all\r\n\r\n", "connection_refused"),
    ],
)
async def test_a_receiver_that_fails_the_challenge_gets_nothing(
    mcp: LiveServer, port: int, receiver: Receiver, answer: Any, reason: str
) -> None:
    receiver.answering = lambda path, body: answer
    error = await refused(port, wanted(receiver.url()))
    assert (error["code"], error["data"]["reason"]) == (-32015, reason)
    await publish(mcp, "1")
    assert (await told(port))["subscriptions"] == []
    assert receiver.posts == []


async def test_nobody_answers_at_all(port: int, free_tcp_port: int) -> None:
    error = await refused(port, wanted(f"http://127.0.0.1:{free_tcp_port}/"))
    assert error["data"]["reason"] == "connection_refused"
    error = await refused(port, wanted("http://no.such.host.invalid/"))
    assert error["data"]["reason"] == "connection_refused"


async def test_a_receiver_that_hangs_or_sends_without_end_delays_nobody_else(
    mcp: LiveServer, port: int, receiver: Receiver
) -> None:
    done = asyncio.Event()

    async def hang() -> int:
        await done.wait()
        return 200

    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 300_000
    for path in ("/hangs", "/endless", "/well"):
        await subscribe(port, receiver.url(path))
    receiver.answering = lambda path, body: {"/hangs": hang, "/endless": lambda: endless}.get(path, lambda: 200)()
    await publish(mcp, "1", "2")
    await receiver.has(lambda: receiver.orders("/well") == ["1", "2"] == receiver.orders("/endless"), within=5)
    done.set()


async def test_without_the_switch_for_development_nothing_local_is_reached(receiver: Receiver) -> None:
    async with live(guarded(events=settings(local=False))) as port:
        for url in (receiver.url(), f"https://127.0.0.1:{receiver.port}/", "https://localhost/", "https://[::1]/"):
            assert (await as_("ada", port, "events/subscribe", **wanted(url)))["error"]["code"] == -32602
    async with live(shop(events=settings(local=False))) as port:
        assert (await refused(port, wanted("https://example.com/")))["code"] == -32012
    assert receiver.challenges == []


async def test_a_subscription_lapses_with_its_time(port: int, receiver: Receiver) -> None:
    first = await subscribe(port, receiver.url(), ttlMs=90_000)
    asked = await subscribe(port, receiver.url("/longest"), ttlMs=None)
    assert first["refreshBefore"] < asked["refreshBefore"]
