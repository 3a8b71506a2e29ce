"""Addresses at which there is no server, or none that speaks MCP: by its name, in time, with nothing left behind."""

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.client.bad_servers import (
    ERAS,
    LEGACY,
    MODERN,
    ONCE,
    QUICK,
    behaved,
    count,
    refusal,
    refuse,
    settings,
    silence,
    web,
)
from tests.client.misbehaving import Asked, site
from tests.ports import free_port
from tidings.client import connect
from tidings.errors import (
    ConnectFailed,
    ConnectTimedOut,
    LimitReached,
    MalformedMessage,
    NotAuthorized,
    RequestFailed,
    SignInNeeded,
    TidingsError,
    UnsupportedVersion,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

PAGE = b"<!DOCTYPE html><html><body>Welcome</body></html>"


async def test_a_host_that_does_not_exist_is_named() -> None:
    error = await refusal("http://nowhere.invalid/mcp")
    assert isinstance(error, ConnectFailed)
    assert "No host of this name" in error.message
    assert error.server == "http://nowhere.invalid/mcp"


async def test_nobody_at_a_port_is_said_at_once_and_tried_again_as_often_as_is_set() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    error = await refusal(url)
    assert isinstance(error, ConnectFailed)
    assert f"Nothing answers at {url}. Is the server running" in error.message
    error = await refusal(url, config=QUICK)
    assert isinstance(error, ConnectFailed)
    assert error.message.endswith("Tried 3 times: Backoff(tries=...) sets how often.")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_host_that_accepts_and_says_nothing_has_its_time_and_no_more(scheme: str) -> None:
    async with site(silence) as here:
        url = here.url.replace("http:", f"{scheme}:")
        error = await refusal(url, seconds=2, config=settings(backoff=ONCE, connect=0.2))
    assert isinstance(error, ConnectTimedOut)
    assert error.elapsed == 0.2
    assert "did not answer within 0.2 s. Give it longer with Timeouts(connect=...)" in error.message


# What speaks TLS, and what does not.


async def _serve(answer: bytes, **options: Any) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(answer)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0, **options)


@pytest.mark.parametrize(
    ("scheme", "answer", "says"),
    [
        ("https", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "does not speak https://"),
        ("http", bytes.fromhex("15030100020246"), "broke the connection off"),  # An alert, in TLS.
    ],
)
async def test_a_server_that_speaks_tls_or_does_not_is_told_from_one_that_is_away(
    scheme: str, answer: bytes, says: str
) -> None:
    async with await _serve(answer) as server:
        error = await refusal(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    assert isinstance(error, ConnectFailed)
    assert says in error.message
    assert "http://" in error.message.partition(says)[2]


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_self_signed(tmp_path))
    async with await _serve(b"", ssl=context) as server:
        error = await refusal(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    assert isinstance(error, ConnectFailed)
    assert "has no certificate that this machine trusts" in error.message


def _self_signed(folder: Path) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    day = dt.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day).add_extension(here, False)
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = folder / "certificate.pem"
    file.write_bytes(secret + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return file


# What speaks HTTP, and no MCP.


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (200, MalformedMessage, "Unexpected content type: text/html"),
        (202, MalformedMessage, "202 Accepted"),
        (400, MalformedMessage, "HTTP 400, as no MCP server does. Is the path right?"),
        (404, MalformedMessage, "HTTP 404, as no MCP server does. Is the path right?"),
        (405, MalformedMessage, "HTTP 405, as no MCP server does. Is the path right?"),
        (401, SignInNeeded, "wants a sign-in, and no token was sent (HTTP 401). Run `tidings "),
        (403, NotAuthorized, "refused these credentials (HTTP 403). Pass others: token=..."),
        (421, NotAuthorized, "does not answer to this host"),
        (429, LimitReached, "HTTP 429). Wait"),
        (500, RequestFailed, "failed (HTTP 500). Its log says why"),
        (503, ConnectFailed, "is away (HTTP 503)"),
    ],
)
async def test_a_web_server_that_is_no_mcp_server_is_told_by_what_it_answers(
    status: int, kind: type[TidingsError], says: str
) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(status, PAGE, "text/html")

    async with site(answer) as here:
        error = await refusal(here.url)
        assert error.server == here.url
    assert type(error) is kind
    assert says in error.message


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("application/json", b'{"error": "Ask Ann for one."}', " It says: Ask Ann for one."),
        ("application/json", b'{"error": "invalid", "error_description": "Ask Ann."}', " It says: Ask Ann."),
        ("application/problem+json", b'{"detail": "Ask\\n Ann."}', " It says: Ask Ann."),
        ("application/json", b'{"error": {"code": -32000, "message": "Ask Ann."}}', " It says: Ask Ann."),
        ("text/plain; charset=utf-8", b"Ask Ann.\x1b[31m\n", " It says: Ask Ann. [31m"),
        ("text/plain", b"long " * 1000, " It says: " + "long " * 39 + "long…"),
        ("application/json", b"{", ""),
        ("application/json", b"[1]", ""),
        ("text/html", PAGE, ""),
        ("text/event-stream", b"data: x\n\n", ""),
    ],
)
async def test_a_server_that_wants_a_token_and_got_none_is_quoted(era: str, kind: str, body: bytes, words: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(401, body, kind)

    async with site(answer) as here:
        error = await refusal(here.url, era=era)
        assert (type(error), error.server) == (SignInNeeded, here.url)
        assert error.message.partition('token="...").')[2] == words
        refused = await refusal(here.url, era=era, token="a-secret-token")
        assert "refused these credentials (HTTP 401)" in refused.message


async def test_a_server_of_the_oldest_kind_that_wants_a_token_is_quoted(tmp_path: Path) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(401, b"Ask Ann.", "text/plain")

    async with site(answer) as here:
        servers = tmp_path / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"old": {"type": "sse", "url": here.url}}}))
        error = await refusal(servers)
    assert type(error) is SignInNeeded
    assert error.message.endswith("It says: Ask Ann.")


async def test_a_server_of_the_oldest_kind_that_answers_with_a_page_is_no_mcp_server(tmp_path: Path) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(200, PAGE, "text/html")

    async with site(answer) as here:
        servers = tmp_path / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"old": {"type": "sse", "url": here.url}}}))
        error = await refusal(servers)
    assert type(error) is MalformedMessage
    assert "answered with no stream of events. Is the path right?" in error.message
    assert len(here.asked) == 1


@pytest.mark.parametrize("retried", [429, 503])
async def test_only_what_may_pass_is_tried_again(retried: int) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(status, PAGE, "text/html")

    for status in (retried, 404, 500, 401):
        async with site(answer) as here:
            error = await refusal(here.url, config=QUICK)
        assert ("Tried 3 times" in error.message) is (status == retried)
        assert len(here.asked) == (3 if status in (retried, 404) else 2)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_elsewhere_is_named_and_not_followed(status: int) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(status, location="https://elsewhere.invalid/login?next=secret")

    async with site(answer) as here:
        error = await refusal(here.url, headers={"X-Key": "of-this-host"})
    assert isinstance(error, MalformedMessage)
    assert "Redirect to https://elsewhere.invalid/login not followed" in error.message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{not json", "Invalid JSON: key must be a string at line 1 column 2: b'{not json'"),
        (b"", "Invalid JSON: EOF while parsing"),
        (b'{"hello": "world"}', "not JSON-RPC: {'hello': 'world'}"),
        (b"[]", "not JSON-RPC"),
        (b'"\xff"', "Invalid JSON"),
    ],
)
async def test_what_is_no_message_is_shown(body: bytes, says: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(body=body)

    async with site(answer) as here:
        error = await refusal(here.url)
    assert isinstance(error, MalformedMessage)
    assert says in error.message
    assert "fault of the server" in error.message


@pytest.mark.parametrize(
    "answer", [b"", b"220 mail.example.com ESMTP\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"]
)
async def test_a_server_that_breaks_off_is_said_to_have_done_so(answer: bytes) -> None:
    async with await _serve(answer) as server:
        error = await refusal(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    assert type(error) in (ConnectFailed, MalformedMessage)
    assert "Is it an MCP server" in error.message or "Is the path right?" in error.message


# Versions that nobody speaks.


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_version_from_the_past_is_not_spoken(era: str) -> None:
    does = behaved(LEGACY)
    does["initialize"] = {**does["initialize"], "protocolVersion": "1999-01-01"}  # type: ignore[dict-item]
    async with web(does) as here:
        error = await refusal(here.url, era=era)
    assert isinstance(error, UnsupportedVersion)
    assert "1999-01-01. Tidings speaks 2024-11-05 to 2026-07-28: upgrade whichever is older" in error.message


@pytest.mark.parametrize("era", ["auto", MODERN])
@pytest.mark.parametrize("refuses", [True, False])
async def test_a_version_from_the_future_is_not_spoken(era: str, refuses: bool) -> None:
    async def refuse_version(asked: Asked) -> None:
        await refuse(asked, -32022, data={"supported": ["2099-01-01"], "requested": MODERN})

    does = behaved(MODERN)
    future = {**does["server/discover"], "supportedVersions": ["2099-01-01"]}  # type: ignore[dict-item]
    does["server/discover"] = refuse_version if refuses else future
    async with web(does) as here:
        error = await refusal(here.url, era=era)
    assert isinstance(error, UnsupportedVersion)
    assert "speaks 2099-01-01; Tidings speaks 2024-11-05 to 2026-07-28" in error.message
    assert "2099-01-01" in str(error.data)


@pytest.mark.parametrize(("spoken", "asked"), [(MODERN, "legacy"), (LEGACY, MODERN)])
async def test_an_era_that_the_server_does_not_know_is_not_taken_for_another(spoken: str, asked: str) -> None:
    async with web(behaved(spoken)) as here:
        error = await refusal(here.url, era=asked)
        assert isinstance(error, UnsupportedVersion)
        assert "Leave era out" in error.message
        async with connect(here.url, config=QUICK) as client:
            assert client.protocol_version == spoken


# What is only odd.


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_answers_more_than_it_should_is_a_server(era: str) -> None:
    does = behaved(era)
    first = "server/discover" if era == MODERN else "initialize"
    does[first] = {**does[first], "unknown": {"a": [1]}, "instructions": "Ask.", "_meta": {"x": 1}}  # type: ignore[dict-item]
    async with web(does) as here:
        async with connect(here.url, config=QUICK) as client:
            assert (client.instructions, [tool.name for tool in client.tools]) == ("Ask.", ["tool"])
        assert count(here, first) == 1
