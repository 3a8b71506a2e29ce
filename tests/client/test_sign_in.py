"""Signing in: who is refused is told so by name, once; and what one message needs costs only that message."""

import json
from collections.abc import AsyncGenerator

import anyio
import httpx2
import pytest

from tests.client.misbehaving import Asked, site
from tidings.client import Backoff, ClientConfig, State, connect
from tidings.client.events import StateChanged
from tidings.errors import ConnectFailed, NotAuthorized

pytestmark = pytest.mark.anyio

AT_ONCE = ClientConfig(backoff=Backoff(delays=(0.0,)))
SECRET = "the-secret-tool"


async def modern(asked: Asked) -> None:
    """A server with two tools, one of which needs more than the other."""
    if asked.method != "POST":
        return await asked.answer(405)
    match asked.message:
        case {"method": "server/discover"}:
            return await asked.result(supportedVersions=["2026-07-28"], capabilities={"tools": {}})
        case {"method": "tools/list"}:
            return await asked.result(tools=[{"name": name, "inputSchema": {}} for name in ("open", SECRET)])
        case {"method": "tools/call", "params": {"name": str(name)}} if name == SECRET:
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


async def test_an_answer_that_does_not_say_which_kind_it_is_counts_as_complete() -> None:
    async with site(modern) as here:
        with anyio.fail_after(10):
            async with connect(here.url) as client:
                assert client.protocol_version == "2026-07-28"
                assert [tool.name for tool in client.tools] == ["open", SECRET]
                assert (await client.call_tool("open")).success
