"""One POST to a webhook: to a checked address or to none, bounded in time and size, and each failure in its word."""

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.bus.nats_server import certificate
from tests.server.events.receiving import receiving
from tidings._kit.event_wire import secret_key
from tidings.server.events.posting import Answer, Poster

pytestmark = pytest.mark.anyio
KEYS = [secret_key("whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=")]


async def posted(poster: Poster, url: str) -> Answer:
    answer, headers = await poster.post(url, "evt_1", "sub_1", b'{"data": {"order": "1"}}', KEYS)
    assert "webhook-signature" not in headers
    return answer


async def test_a_name_that_begins_to_lead_inside_is_refused_at_delivery() -> None:
    asked: list[str] = []
    inside = False

    async def resolver(host: str) -> Sequence[Any]:
        asked.append(host)
        return [ip_address("10.0.0.1" if inside else "2001:db8::1" if len(asked) > 5 else "93.184.215.14")]

    poster = Poster(seconds=0.2, local=False, resolver=resolver)
    assert await poster.check("https://hooks.example/") == ""
    inside = True
    assert "public internet" in await poster.check("https://hooks.example/")
    answer = await posted(poster, "https://hooks.example/")
    assert (answer.error, answer.status) == ("address_refused", 0)
    assert "10.0.0.1" not in answer.reason
    for url in ("https://127.0.0.1/", "https://[::ffff:169.254.169.254]/", "http://93.184.215.14/", "https://x:25/"):
        assert (await posted(poster, url)).error == "address_refused"
    await poster.aclose()


async def test_a_name_that_answers_with_both_kinds_of_addresses_is_refused() -> None:
    async def resolver(_: str) -> Sequence[Any]:
        return [ip_address("93.184.215.14"), ip_address("192.168.1.1")]

    poster = Poster(seconds=0.2, local=False, resolver=resolver)
    assert (await posted(poster, "https://hooks.example/")).error == "address_refused"


async def test_what_a_receiver_does_has_a_word() -> None:
    poster = Poster(seconds=1.0, local=True)
    done = asyncio.Event()
    async with receiving() as receiver:
        endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 200_000
        redirect = b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"

        async def hang() -> int:
            await done.wait()
            return 200

        cases: list[tuple[Any, str, int]] = [
            (204, "", 204),
            (404, "http_4xx", 404),
            (503, "http_5xx", 503),
            (redirect, "http_4xx", 307),
            (endless, "", 200),
            (b"SSH-2.0\r\n\r\n", "connection_refused", 0),
            (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", "connection_refused", 0),
            (hang, "timeout", 0),
        ]
        for answer, error, status in cases:
            receiver.answering = lambda path, body, answer=answer: answer() if callable(answer) else answer
            found = await posted(poster, receiver.url())
            assert (found.error, found.status) == (error, status)
            assert len(found.body) <= 65_536
        done.set()

    async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 X\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    plain = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    async with plain:
        port = plain.sockets[0].getsockname()[1]
        assert (await posted(poster, f"https://127.0.0.1:{port}/")).error == "tls_error"
    assert (await posted(poster, receiver.url())).error == "connection_refused"
    await poster.aclose()


async def test_the_certificate_has_to_be_of_the_host_in_the_url(tmp_path: Path) -> None:
    async def resolver(_: str) -> Sequence[Any]:
        return [ip_address("127.0.0.1")]

    key, made = certificate(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made, key)
    trusting = ssl.create_default_context(cafile=str(made))
    async with receiving(serving) as receiver:
        poster = Poster(seconds=5.0, local=True, resolver=resolver, tls=trusting)
        found = await posted(poster, f"https://localhost:{receiver.port}/hook")
        assert (found.status, found.error, receiver.posts[0][1]["host"]) == (200, "", f"localhost:{receiver.port}")
        assert (await posted(poster, f"https://hooks.example:{receiver.port}/")).error == "tls_error"
        await poster.aclose()
        distrustful = Poster(seconds=5.0, local=True)
        assert (await posted(distrustful, f"https://127.0.0.1:{receiver.port}/")).error == "tls_error"
        await distrustful.aclose()
        assert len(receiver.posts) == 1
