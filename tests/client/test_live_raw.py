"""Any request by its name, a ping, and how a connection stands."""

import os
import signal
from typing import Any

import anyio
import pytest

from tests.client.bad_servers import LEGACY, MODERN, QUICK, behaved, program, refuse, settings, silence, web
from tests.client.misbehaving import Asked
from tests.client.peers import LIVE
from tests.client.test_tap import Tape
from tests.client.ways import Way, environment, reached
from tests.ports import free_port
from tests.server.serving import eventually
from tidings.client import Backoff, ClientConfig, LiveClient, State, connect
from tidings.errors import Cancelled, EffectUnknown, RequestTimedOut, TidingsError

pytestmark = pytest.mark.anyio

WAYS = [Way(LIVE, transport, era) for transport in LIVE.transports for era in LIVE.eras]


def _options(way: Way) -> dict[str, Any]:
    return {"era": way.era, **({"env": environment()} if way.transport == "stdio" else {})}


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_any_request_can_be_sent_as_it_is_and_sent_again_as_it_was_seen(way: Way) -> None:
    tape = Tape()
    with anyio.fail_after(60):
        async with reached(way) as target, connect(target, tap=tape, **_options(way)) as client:
            params = {"name": "echo", "arguments": {"text": "hello"}}
            result = await client.request("tools/call", params)
            assert "hello" in result["content"][0]["text"]
            assert params == {"name": "echo", "arguments": {"text": "hello"}}
            [entry] = [each for each in client.queue.history() if each.method == "tools/call"]
            assert entry.result == result
            assert not entry.aside
            # With all that the connection had added, as a tap shows it.
            again = await client.request("tools/call", tape.sent("tools/call")[0].body["params"])
            assert again["content"] == result["content"]


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_ping_says_how_long_the_answer_took(way: Way) -> None:
    tape = Tape()
    with anyio.fail_after(60):
        async with reached(way) as target, connect(target, tap=tape, **_options(way)) as client:
            before = len(tape.messages)
            assert 0 < await client.ping() < 30
            [sent] = [each for each in tape.messages[before:] if not each.incoming]
            assert sent.body["method"] == ("ping" if client.protocol_version == LEGACY else "server/discover")


async def test_an_error_is_an_answer_to_a_ping_and_silence_is_none() -> None:
    does = behaved(MODERN)
    with anyio.fail_after(60):
        async with web(does) as here, connect(here.url, config=settings(ping=0.3)) as client:
            does["server/discover"] = lambda asked: refuse(asked, -32603, "not now")
            assert await client.ping() > 0
            does["server/discover"] = silence
            with pytest.raises(RequestTimedOut):
                await client.ping()


async def test_what_cannot_be_sent_is_refused_before_it_is() -> None:
    async with web(behaved(MODERN)) as here, connect(here.url, config=QUICK) as client:
        with pytest.raises(ValueError, match="notification"):
            await client.request("notifications/initialized")
        with pytest.raises(ValueError, match="cannot be sent as JSON"):
            await client.request("tools/call", {"name": "\ud800"})
        with pytest.raises(TidingsError, match="not found"):
            await client.request("no/such/method")
        assert client.connected


@pytest.mark.parametrize("safe", [True, False])
async def test_a_request_is_sent_again_only_if_it_is_said_to_be_safe(safe: bool) -> None:
    does = behaved(LEGACY)
    times = 0

    async def once(asked: Asked) -> None:
        nonlocal times
        times += 1
        if times == 1:
            await asked.answer(404)  # The session is gone: that proves that it was not heeded.
        elif times == 2:
            asked.reset()
        else:
            await asked.answer(body=f'{{"jsonrpc":"2.0","id":{asked.message["id"]},"result":{{}}}}'.encode())

    does["odd/one"] = once
    with anyio.fail_after(60):
        async with web(does) as here, connect(here.url, era="legacy", config=QUICK) as client:
            if safe:
                assert await client.request("odd/one", safe=True) == {}
            else:
                with pytest.raises(EffectUnknown):
                    await client.request("odd/one")


async def test_a_request_can_be_cancelled_by_its_id() -> None:
    does = behaved(MODERN)
    does["tools/call"] = silence
    failed: list[TidingsError] = []

    async def call(client: LiveClient) -> None:
        try:
            await client.request("tools/call", {"name": "tool"})
        except TidingsError as error:
            failed.append(error)

    with anyio.fail_after(60):
        async with web(does) as here, connect(here.url, config=QUICK) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(call, client)
            await eventually(lambda: [each for each in client.queue if not each.aside])
            [entry] = [each for each in client.queue if not each.aside]
            assert client.cancel(entry.id)
            await eventually(lambda: failed)
            assert isinstance(failed[0], Cancelled)
            assert not client.cancel(entry.id)


async def test_a_client_says_which_process_its_server_is() -> None:
    with anyio.fail_after(60):
        async with connect(program(""), config=QUICK) as client:
            assert client.transport == "stdio"
            first = client.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await eventually(lambda: client.pid not in (None, first))
        assert client.pid is None


async def test_a_client_says_when_it_tries_again_and_how_often_it_has() -> None:
    config = ClientConfig(backoff=Backoff(delays=(0.01, 0.01, 600), tries=3))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            client = connect(f"http://127.0.0.1:{free_port()}/mcp", config=config)
            assert (client.tries, client.next_retry, client.transport, client.pid) == (0, None, "http", None)

            async def try_it() -> None:
                with pytest.raises(TidingsError):
                    await client.connect()

            tasks.start_soon(try_it)
            await eventually(lambda: client.tries == 3)
            assert client.state is State.ERROR
            assert client.next_retry is not None
            await client.aclose()
