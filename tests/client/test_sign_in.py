"""Signing in: who is refused is told so by name, once; and what one message needs costs only that message."""

import json
from collections.abc import AsyncGenerator

import anyio
import httpx2
import pytest

from tests.client.misbehaving import Asked, site
from tidings.client import Backoff, ClientConfig, State, Timeouts, connect
from tidings.client.events import StateChanged
from tidings.errors import ConnectFailed, NotAuthorized

pytestmark = pytest.mark.anyio

AT_ONCE = ClientConfig(backoff=Backoff(delays=(0.0,)))
SECRET = "the-secret-tool"


def is_signed_in(asked: Asked) -> bool:
    return asked.headers.get("authorization") == "Bearer granted"


async def modern(asked: Asked) -> None:
    """A server with two tools, one of which needs more than the other."""
    if asked.method != "POST":
        return await asked.answer(405)
    match asked.message:
        case {"method": "server/discover"}:
            return await asked.result(supportedVersions=["2026-07-28"], capabilities={"tools": {}})
        case {"method": "tools/list"}:
            return await asked.result(tools=[{"name": name, "inputSchema": {}} for name in ("open", SECRET)])
        case {"method": "tools/call", "params": {"name": str(name)}} if name == SECRET and not is_signed_in(asked):
            return await asked.answer(403, www_authenticate='Bearer error="insufficient_scope"')
        case {"method": "tools/call"}:
            return await asked.result(content=[])
        case _:
            return await asked.answer(202)


class Consent(httpx2.Auth):
    """Asks a person when the server says 403; the person refuses."""

    def __init__(self) -> None:
        self.asked = 0

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == 403:
            self.asked += 1
            raise PermissionError("the user said no")


class Slowly(httpx2.Auth):
    """Asks a person who takes some seconds, and lets everybody else wait for them, as the SDK's providers do."""

    def __init__(self, seconds: float) -> None:
        self.asked = 0
        self._token = "Bearer old"
        self._seconds = seconds
        self._lock = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self._lock:
            request.headers["authorization"] = self._token
            response = yield request
            if response.status_code in (401, 403):
                self.asked += 1
                await anyio.sleep(self._seconds)
                request.headers["authorization"] = self._token = "Bearer granted"
                yield request


@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_refused_is_told_so_and_not_tried_again(status: int) -> None:
    async with site(lambda asked: asked.answer(status)) as here:
        with anyio.fail_after(10), pytest.raises(NotAuthorized, match=f"HTTP {status}"):
            await connect(here.url, token="old", config=AT_ONCE).connect()
        assert [asked.message["method"] for asked in here.asked] == ["server/discover", "initialize"]


async def test_a_refusal_is_the_reason_whatever_the_older_handshake_is_answered() -> None:
    async def answer(asked: Asked) -> None:
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "a header is missing"}}
        handshake = asked.message["method"] == "initialize"
        await asked.answer(400, json.dumps(error).encode()) if handshake else await asked.answer(403)

    async with site(answer) as here:
        with anyio.fail_after(10), pytest.raises(NotAuthorized, match="HTTP 403"):
            await connect(here.url, config=AT_ONCE).connect()


async def test_the_reason_why_nobody_could_sign_in_is_told_and_nobody_is_asked_twice() -> None:
    auth = Consent()
    async with site(lambda asked: asked.answer(403)) as here:
        with anyio.fail_after(10), pytest.raises(NotAuthorized, match="the user said no"):
            await connect(here.url, auth=auth, config=AT_ONCE).connect()
        assert auth.asked == len(here.asked) == 1


async def test_a_refusal_for_one_tool_costs_that_call_and_not_the_connection() -> None:
    auth, states = Consent(), list[State]()
    async with site(modern) as here:
        with anyio.fail_after(10):
            async with connect(here.url, auth=auth) as client:
                client.on(StateChanged, lambda event: states.append(event.new))
                with pytest.raises(NotAuthorized, match="the user said no"):
                    await client.call_tool(SECRET)
                await client.call_tool("open")
                assert client.connected
                assert not states
        assert auth.asked == 1


async def test_an_authorization_server_that_is_away_is_not_one_that_refuses() -> None:
    class Elsewhere(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            yield request
            raise httpx2.ConnectError("nobody there", request=request)

    async with site(lambda asked: asked.answer(401)) as here:
        with anyio.fail_after(10), pytest.raises(ConnectFailed, match="nobody there"):
            await connect(here.url, auth=Elsewhere(), config=ClientConfig(backoff=Backoff(tries=0))).connect()


async def test_a_person_may_take_longer_to_sign_in_than_a_server_to_answer() -> None:
    async def answer(asked: Asked) -> None:
        await modern(asked) if is_signed_in(asked) else await asked.answer(401)

    auth = Slowly(seconds=1.5)
    async with site(answer) as here:
        with anyio.fail_after(20):
            async with connect(here.url, auth=auth, config=ClientConfig(timeouts=Timeouts(connect=1))) as client:
                assert client.connected
                assert auth.asked == 1


async def test_neither_a_call_nor_a_connection_runs_out_of_time_while_a_person_signs_in() -> None:
    timeouts, states = Timeouts(request=1, ping=1, ping_interval=0.2), list[State]()
    async with site(modern) as here:
        with anyio.fail_after(20):
            async with connect(here.url, auth=Slowly(seconds=1.5), config=ClientConfig(timeouts=timeouts)) as client:
                client.on(StateChanged, lambda event: states.append(event.new))
                assert (await client.call_tool(SECRET)).success
        assert states == [State.DISCONNECTING, State.DISCONNECTED]


async def test_a_person_who_never_signs_in_is_not_waited_for_without_end() -> None:
    auth = Slowly(seconds=60)
    async with site(lambda asked: asked.answer(401)) as here:
        with anyio.fail_after(10), pytest.raises(NotAuthorized, match=r"longer than 0\.2 s"):
            await connect(here.url, auth=auth, config=ClientConfig(timeouts=Timeouts(answer=0.2))).connect()
        assert auth.asked == 1


async def test_an_answer_that_does_not_say_which_kind_it_is_counts_as_complete() -> None:
    async with site(modern) as here:
        with anyio.fail_after(10):
            async with connect(here.url) as client:
                assert client.protocol_version == "2026-07-28"
                assert [tool.name for tool in client.tools] == ["open", SECRET]
                assert (await client.call_tool("open")).success


class OneAfterTheOther(httpx2.Auth):
    """Lets a request through only when the one before it is answered, as the SDK's providers do."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.gate.set()
        self.waited = 0
        self.more = anyio.Event()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self.gate.is_set():
            self.waited += 1
            self.more.set()
            self.more = anyio.Event()
        await self.gate.wait()
        yield request


async def test_a_ping_that_was_never_sent_says_nothing_about_the_server() -> None:
    auth = OneAfterTheOther()
    hurried = ClientConfig(timeouts=Timeouts(ping=0.2, ping_interval=0.05))
    states: list[State] = []
    async with site(modern) as here:
        with anyio.fail_after(10):
            async with connect(here.url, auth=auth, config=hurried) as client:
                client.on(StateChanged, lambda event: states.append(event.new))
                auth.gate = anyio.Event()
                while auth.waited < 3:
                    await auth.more.wait()
                assert states == []
                auth.gate.set()
                await client.call_tool("open")
                assert client.state is State.CONNECTED
