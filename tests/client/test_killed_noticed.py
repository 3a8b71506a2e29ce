"""A server that is killed: on every transport that is noticed by the next ping at the latest, and so is its return.

How many seconds that takes is up to the machine. What is up to the client is what it waits for, and that is looked at:
how many pings go unanswered, how long a pause it announces, how many attempts it needs once the server is there.
"""

import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.client.killing import ROOT, Files, zygote
from tests.client.test_tap import Tape
from tests.client.ways import environment
from tests.server.serving import eventually
from tidings.client import Backoff, ClientConfig, ListChanged, LiveClient, State, Timeouts, connect
from tidings.client.events import StateChanged

pytestmark = pytest.mark.anyio

SECONDS = 30
BACKOFF = Backoff(delays=(0.5, 1.0), tries=None)
TIMEOUTS = Timeouts(ping_interval=1, ping=2)
CONFIG = ClientConfig(backoff=BACKOFF, timeouts=TIMEOUTS)
DEAF = ClientConfig(backoff=BACKOFF, timeouts=TIMEOUTS, list_changed=ListChanged(False, False, False))
"""Nothing is mirrored, so that in the modern era no stream is open: only a ping can tell."""

PINGS = ("ping", "server/discover")
HELLO = ("initialize", "server/discover")
LONGEST_PAUSE = 1.0 * 2
"""Seconds, with full jitter."""

WAYS = [
    ("auto", "/mcp", CONFIG),
    pytest.param("auto", "/mcp", DEAF, marks=pytest.mark.thorough),
    ("legacy", "/mcp", CONFIG),
    pytest.param("legacy", "/sse", CONFIG, marks=pytest.mark.thorough),
    ("auto", "stdio", CONFIG),
    pytest.param("legacy", "stdio", CONFIG, marks=pytest.mark.thorough),
]


@dataclass
class Victim:
    """A client, its server, and what is seen of both."""

    client: LiveClient
    tape: Tape
    kill: Callable[[], object]
    start: Callable[[], Awaitable[None]]


def _is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@asynccontextmanager
async def _victim(era: str, way: str, config: ClientConfig, folder: Path) -> AsyncGenerator[Victim]:
    tape = Tape()
    if way == "stdio":
        command = [sys.executable, "-m", "tests.client.programs", "stdio", str(folder)]
        async with connect(command, era=era, config=config, tap=tape, env=environment(), cwd=ROOT) as client:
            yield Victim(client, tape, lambda: os.kill(client.pid or 0, signal.SIGKILL), anyio.lowlevel.checkpoint)
        return
    with zygote(folder) as server:

        async def start() -> None:
            if tape.told:  # It is away for longer than the first pause.
                await eventually(lambda: client.tries >= 2, within=SECONDS)
            server.order("start")
            await eventually(lambda: _is_listening(server.port), within=SECONDS)

        client = connect(f"http://127.0.0.1:{server.port}{way}", era=era, config=config, tap=tape)
        await start()
        async with client:
            yield Victim(client, tape, lambda: server.order("kill"), start)


@pytest.mark.parametrize(("era", "way", "config"), WAYS, ids=lambda each: "deaf" if each is DEAF else str(each)[:6])
async def test_a_kill_and_the_return_are_noticed(era: str, way: str, config: ClientConfig, tmp_path: Path) -> None:
    files = Files(tmp_path / "files", 1, seed=1)
    async with _victim(era, way, config, files.folder) as victim:
        client, tape = victim.client, victim.tape
        told: list[tuple[StateChanged, int]] = []
        pauses: list[float] = []

        def hear(event: StateChanged) -> None:
            told.append((event, len(tape.messages)))
            if event.next_retry is not None:
                pauses.append((event.next_retry - datetime.now(UTC)).total_seconds())

        client.on(StateChanged, hear)
        for _ in range(2):
            told.clear()
            before = len(tape.messages)
            victim.kill()
            await eventually(lambda: client.state is not State.CONNECTED, within=SECONDS)
            lost, then = told[0]
            assert (lost.old, lost.new) == (State.CONNECTED, State.ERROR)
            assert len([each for each in tape.messages[before:then] if each.body.get("method") in PINGS]) <= 1

            await victim.start()
            there = len(tape.messages)
            await eventually(lambda: client.state is State.CONNECTED, within=SECONDS)
            # One may have been under way before it could be answered, and in the modern era a ping looks the same.
            assert len([each for each in tape.messages[there:] if each.body.get("method") in HELLO]) <= 3
            assert {event.new for event, _ in told} == {State.ERROR, State.CONNECTING, State.CONNECTED}
            assert await client.ping() > 0
        assert pauses
        assert max(pauses) <= LONGEST_PAUSE
