"""Serving: addresses, tokens, sockets, and the end."""

import asyncio
import os
import signal
import socket
from typing import Any

import anyio
import httpx2
import pytest
from sse_starlette.sse import AppStatus

from tidings.cli.exits import Refusal
from tidings.cli.serving import (
    BearerToken,
    Http,
    HttpAddress,
    check_token,
    listen,
    parse_address,
    serve_app,
    until_stopped,
)
from tidings.errors import BusUnavailable

pytestmark = pytest.mark.anyio


async def status_of(scope: dict[str, Any]) -> int:
    """Returns the status of a request to an app that always answers 200, behind the token 's3cret'."""
    answers: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Any:
        raise AssertionError("nothing is read of what is refused")

    async def send(message: Any) -> None:
        answers.append(message)

    await BearerToken(app, "s3cret")(scope, receive, send)
    return answers[0]["status"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"authorization", b"Bearer s3cret")], 200),
        ([(b"authorization", b"bearer s3cret")], 200),
        ([(b"authorization", b"Bearer S3CRET")], 401),
        ([(b"authorization", b"Bearer s3cre")], 401),
        ([(b"authorization", b"Bearer ")], 401),
        ([(b"authorization", b"Basic s3cret")], 401),
        ([(b"authorization", b"s3cret")], 401),
        ([(b"authorization", b"Bearer \xff")], 401),
        ([(b"authorization", b"Bearer s3cret"), (b"authorization", b"Bearer other")], 401),
        ([(b"x-authorization", b"Bearer s3cret")], 401),
        ([], 401),
    ],
)
async def test_only_a_request_with_the_token_comes_in(headers: list[tuple[bytes, bytes]], status: int) -> None:
    assert await status_of({"type": "http", "headers": headers}) == status


async def test_what_is_no_request_passes() -> None:
    assert await status_of({"type": "lifespan"}) == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_to_be_asked_to_stop_is_no_failure(number: int) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def serve() -> None:
        os.kill(os.getpid(), number)
        await anyio.sleep(60)

    until_stopped(serve)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_task_that_runs_when_the_process_is_asked_to_stop_ends_at_its_next_wait(number: int) -> None:
    steps: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), number)
        steps.extend(str(step) for step in range(100))
        steps.append("done")
        await anyio.sleep(60)
        steps.append("too late")

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)

    until_stopped(serve)
    assert steps[-1] == "done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_web_server_that_is_asked_to_stop_ends_in_good_order(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # For the library that serves streams, a process that was asked to stop is about to end; this one goes on.
    monkeypatch.setattr(AppStatus, "should_exit", False)
    listening, address = listen(HttpAddress("127.0.0.1", 0))

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async def ask() -> None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.get(address.url)).status_code == 204
        os.kill(os.getpid(), number)

    async def serve() -> None:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await serve_app(app, Http(address, listening, None))

    until_stopped(serve)


def test_an_error_that_explains_itself_is_all_that_is_told_of_what_the_tasks_ended_with() -> None:
    async def serve() -> None:
        async with anyio.create_task_group():
            raise BusUnavailable("Nothing listens there.")

    with pytest.raises(Refusal, match=r"^Nothing listens there\.$"):
        until_stopped(serve)


# Addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8000", HttpAddress("127.0.0.1", 8000)),
        (":9000", HttpAddress("127.0.0.1", 9000)),
        ("9000", HttpAddress("127.0.0.1", 9000)),
        ("localhost:0", HttpAddress("localhost", 0)),
        ("[::1]:8000", HttpAddress("::1", 8000)),
        ("0.0.0.0:80", HttpAddress("0.0.0.0", 80)),
        ("0.0.0.0", HttpAddress("0.0.0.0", 8000)),
        ("localhost", HttpAddress("localhost", 8000)),
        ("[::1]", HttpAddress("::1", 8000)),
        ("::", HttpAddress("::", 8000)),
        ("my-host.example:8000", HttpAddress("my-host.example", 8000)),
        ("/srv/Notes", None),
        ("Notes", None),
        ("localhost:abc", None),
        ("C:\\Notes", None),
        ("./8000", None),
        ("", None),
    ],
)
def test_an_address_is_told_from_a_folder(text: str, address: HttpAddress | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["65536", "localhost:99999"])
def test_a_port_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="is not a valid port"):
        parse_address(text)


def test_its_url_is_one_that_clients_can_use() -> None:
    assert HttpAddress("127.0.0.1", 8000).url == "http://127.0.0.1:8000/mcp"
    assert HttpAddress("::1", 8000).url == "http://[::1]:8000/mcp"
    assert HttpAddress("0.0.0.0", 8000).url == f"http://{socket.gethostname()}:8000/mcp"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.2"])
def test_an_address_beyond_this_machine_needs_a_token(host: str) -> None:
    with pytest.raises(Refusal, match="TIDINGS_TOKEN"):
        check_token(HttpAddress(host, 8000), None)
    check_token(HttpAddress(host, 8000), "s3cret")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_alone_needs_none(host: str) -> None:
    check_token(HttpAddress(host, 8000), None)


@pytest.mark.parametrize("token", ["two words", "Ümlaut", "line\nbreak"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_token(HttpAddress("127.0.0.1", 8000), token)
    assert token not in caught.value.message


def test_port_0_is_any_that_is_free() -> None:
    listening, address = listen(HttpAddress("127.0.0.1", 0))
    with listening:
        assert address.port == listening.getsockname()[1] > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_what_is_accepted_holds_no_small_answer_back(host: str) -> None:
    listening, address = listen(HttpAddress(host, 0))
    heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with asyncio.timeout(20), await asyncio.start_server(accepted, sock=listening):
        _, writer = await asyncio.open_connection(host, address.port)
        assert await heard
        writer.close()
        await writer.wait_closed()


def test_a_port_that_is_in_use_is_named_with_another() -> None:
    listening, address = listen(HttpAddress("127.0.0.1", 0))
    with listening, pytest.raises(Refusal, match=f"Port {address.port} of 127.0.0.1 is in use.*choose another"):
        listen(address)


def test_a_host_that_is_not_there_is_named() -> None:
    with pytest.raises(Refusal, match=r"There is no host 'no-such-host\.invalid'"):
        listen(HttpAddress("no-such-host.invalid", 0))


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example"])
def test_a_host_that_cannot_be_is_named(host: str) -> None:
    with pytest.raises(Refusal, match="There is no host '"):
        listen(HttpAddress(host, 0))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Refusal, match=r"Cannot listen on 192\.0\.2\.1:0: .*Choose another"):
        listen(HttpAddress("192.0.2.1", 0))
