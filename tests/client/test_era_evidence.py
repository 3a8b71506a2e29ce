"""The era that is spoken rests on answers of the server, never on its silence; on virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.client.bad_servers import LEGACY, MODERN, Behaviour, behaved, count, settings, web
from tests.client.library import Library
from tests.client.misbehaving import Asked
from tests.client.virtual_time import run
from tidings.client import Backoff, ClientConfig, Timeouts, connect
from tidings.client.sdk_seam import InMemoryTransport
from tidings.client.targets import ServerTarget
from tidings.errors import ConnectFailed, ConnectTimedOut

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
ONCE = ClientConfig(backoff=Backoff(tries=0))


def slow(server: Any, seconds: float, *, ignored: str = "") -> ServerTarget:
    """A server that is frozen for so long, and then reads what was sent meanwhile; but for a method that it ignores."""
    streams: Any = slow_streams(server, seconds, ignored)  # The SDK's client accepts them in place of a server.
    streams.name = "slow"
    return ServerTarget(streams)


@asynccontextmanager
async def slow_streams(server: Any, seconds: float, ignored: str) -> AsyncGenerator[Any]:
    async with InMemoryTransport(server) as (read, write), anyio.create_task_group() as group:
        send, receive = anyio.create_memory_object_stream[Any](100)

        async def forward() -> None:
            await asyncio.sleep(seconds)
            async for message in receive:
                if getattr(message.message, "method", "") != ignored:
                    await write.send(message)

        group.start_soon(forward)
        with send, receive:
            yield read, send
        group.cancel_scope.cancel()


@pytest.mark.parametrize("era", ["auto", MODERN])
@pytest.mark.parametrize("seconds", [9, 11, 25])
def test_a_server_that_is_slow_to_start_is_spoken_to_in_its_newest_era(era: str, seconds: float) -> None:
    async def begin() -> None:
        async with connect(slow(Library().server, seconds), era=era) as client:
            assert client.protocol_version == MODERN
            await client.subscribe("note://1")
            assert (await client.read_resource("note://1")).text
            assert asyncio.get_running_loop().time() < seconds + 2

    run(begin())


def test_a_server_that_ignores_the_question_but_shakes_hands_speaks_the_old_era() -> None:
    async def begin() -> None:
        async with connect(slow(Library().server, 0, ignored="server/discover")) as client:
            assert client.protocol_version == LEGACY
            assert (await client.read_resource("note://1")).text

    run(begin())


def test_a_server_that_never_answers_is_not_said_to_speak_another_version() -> None:
    async def begin() -> None:
        target = slow(Library().server, 0, ignored="server/discover")
        with pytest.raises(ConnectTimedOut, match="did not answer within 30 s"):
            await connect(target, era=MODERN, config=ONCE).connect()

    run(begin())


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["server/discover", "initialize"])
async def test_a_frozen_server_of_both_eras_is_spoken_to_in_the_newer(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.client.link._SILENCE", 0.1)
    monkeypatch.setattr("tidings.client.link._LATE", 30.0)  # However busy the machine is.
    both: dict[str, Behaviour] = behaved(LEGACY) | behaved(MODERN)
    thawed = {"server/discover": asyncio.Event(), "initialize": asyncio.Event()}

    def frozen(method: str) -> Any:
        async def answer(asked: Asked) -> None:
            if method == "initialize":
                thawed[first].set()
            await thawed[method].wait()
            result: Any = both[method]
            await asked.result(**result)
            await asyncio.sleep(0.05)
            for each in thawed.values():
                each.set()

        return answer

    does = both | {method: frozen(method) for method in thawed}
    async with web(does) as here, connect(here.url, config=settings(connect=30)) as client:
        assert client.protocol_version == MODERN
        assert count(here, "server/discover") == 1  # The next answer might be late, too.
        assert (await client.read_resource("note://a")).text == "content"


@pytest.mark.anyio
async def test_a_server_that_is_too_busy_to_say_is_asked_again() -> None:
    does = behaved(LEGACY) | behaved(MODERN)
    answers = [429, 503]

    async def busy(asked: Asked) -> None:
        if answers:
            await asked.answer(answers.pop())
        else:
            result: Any = behaved(MODERN)["server/discover"]
            await asked.result(**result)

    async with web(does | {"server/discover": busy}) as here, connect(here.url, config=settings()) as client:
        assert client.protocol_version == MODERN


@pytest.mark.anyio
async def test_the_era_is_decided_anew_with_each_connection() -> None:
    does = behaved(LEGACY)
    async with web(does) as here, connect(here.url, config=settings()) as client:
        assert client.protocol_version == LEGACY
        does |= behaved(MODERN)
        client._connection.link.lose(ConnectFailed("gone"))
        await client.reconnect()
        assert client.protocol_version == MODERN


def test_the_time_to_connect_is_the_only_limit_to_silence() -> None:
    async def begin() -> float:
        config = ClientConfig(timeouts=Timeouts(connect=5), backoff=Backoff(tries=0))
        with pytest.raises(ConnectTimedOut):
            await connect(slow(Library().server, 11), config=config).connect()
        return asyncio.get_running_loop().time()

    assert run(begin()) < 6
