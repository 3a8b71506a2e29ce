"""A `LiveServer` as a process that talks over standard input and output: how it ends."""

import json
import signal
from typing import Any

import anyio
import pytest

from tests.bus.processes import Peer, python
from tests.server.sample import TODAY
from tests.server.serving import PROMPT

pytestmark = pytest.mark.anyio

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
}
LISTEN = {
    "jsonrpc": "2.0",
    "id": "mine",
    "method": "subscriptions/listen",
    "params": {"notifications": {"resourceSubscriptions": [TODAY], "toolsListChanged": True}, "_meta": META},
}
STOPS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


def sample(*arguments: str) -> Any:
    return python("-m", "tests.server.sample", *arguments)


async def read(peer: Peer) -> dict[str, Any]:
    return json.loads(await peer.line())


async def ask(peer: Peer, message: dict[str, Any]) -> None:
    await peer.write_line(json.dumps({"jsonrpc": "2.0", **message}))


async def call(peer: Peer, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> None:
    params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    await ask(peer, {"id": tool, "method": "tools/call", "params": params})


async def shake_hands(peer: Peer) -> None:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    await ask(peer, {"id": 0, "method": "initialize", "params": client})
    assert (await read(peer))["result"]["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    await ask(peer, {"method": "notifications/initialized"})


async def ended(peer: Peer) -> int:
    with anyio.fail_after(PROMPT):
        return await peer.process.wait()


@STOPS
async def test_a_signal_ends_an_open_stream_with_its_result_and_then_the_process(number: int) -> None:
    async with sample() as peer:
        await ask(peer, LISTEN)
        assert (await read(peer))["method"] == "notifications/subscriptions/acknowledged"
        peer.process.send_signal(number)
        assert await ended(peer) == 0
        [result] = [json.loads(line) for line in await peer.rest()]
        assert result["id"] == "mine"
        assert result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "mine"


@STOPS
async def test_what_was_published_before_a_signal_comes_before_the_result(number: int) -> None:
    async with sample() as peer:
        await ask(peer, LISTEN)
        await read(peer)
        await call(peer, "touch", META, uris=[TODAY, TODAY, TODAY])
        # The first is told at once, what follows is held back to be merged.
        said = [await read(peer), await read(peer)]
        peer.process.send_signal(number)
        assert await ended(peer) == 0
        said += [json.loads(line) for line in await peer.rest()]
        assert [message["method"] for message in said if "method" in message] == ["notifications/resources/updated"] * 2
        assert said[-1]["id"] == "mine"
        assert "result" in said[-1]


@STOPS
async def test_a_signal_ends_a_process_whose_input_is_idle(number: int) -> None:
    async with sample() as peer:
        await ask(peer, {"id": 1, "method": "server/discover", "params": {"_meta": META}})
        assert "result" in await read(peer)
        peer.process.send_signal(number)
        assert await ended(peer) == 0
        assert await peer.rest() == []


@STOPS
async def test_an_old_era_process_writes_what_it_held_back_before_it_ends(number: int) -> None:
    async with sample() as peer:
        await shake_hands(peer)
        await ask(peer, {"id": 1, "method": "resources/subscribe", "params": {"uri": TODAY}})
        assert (await read(peer))["result"] == {}
        await call(peer, "touch", uris=[TODAY, TODAY])
        said = [await read(peer), await read(peer)]
        peer.process.send_signal(number)
        assert await ended(peer) == 0
        said += [json.loads(line) for line in await peer.rest()]
        told = [message for message in said if message.get("method") == "notifications/resources/updated"]
        assert [message["params"]["uri"] for message in told] == [TODAY, TODAY]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_process_ends_when_its_client_closes_the_input(era: str) -> None:
    async with sample() as peer:
        if era == "modern":
            await ask(peer, LISTEN)
            assert (await read(peer))["method"] == "notifications/subscriptions/acknowledged"
        else:
            await shake_hands(peer)
        assert peer.process.stdin is not None
        await peer.process.stdin.aclose()
        assert await ended(peer) == 0


async def test_a_process_whose_client_reads_nothing_still_ends_at_a_signal() -> None:
    uris = [f"city://{number:0>500}" for number in range(1_000)]
    async with sample() as peer:
        await ask(peer, LISTEN | {"params": {"notifications": {"resourceSubscriptions": uris}, "_meta": META}})
        assert "acknowledged" in await peer.line()
        await call(peer, "touch", META, uris=uris)
        # It has begun to write: a pipe holds some 64 KiB, and 600 KB are on their way.
        while "updated" not in await peer.line():
            pass
        peer.process.send_signal(signal.SIGTERM)
        assert await ended(peer) == 0
