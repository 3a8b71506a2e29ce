"""Who may come in where a command serves, and how it ends."""

import os
import signal
from typing import Any

import anyio
import httpx2
import pytest
from sse_starlette.sse import AppStatus

from tidings.cli.exits import Refusal
from tidings.cli.serving import BearerToken, Http, HttpAddress, listen, serve_app, until_stopped
from tidings.errors import BusUnavailable

pytestmark = pytest.mark.anyio


async def status_of(scope: dict[str, Any]) -> int:
    """What a request is answered with by an app that says 200 to all it gets, behind the token 's3cret'."""
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
