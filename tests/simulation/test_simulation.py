"""The simulation itself, and as many seeds as fit into some seconds. `make simulate` runs more.

Whole worlds run in processes of their own, in which the hashes of texts are the same each time.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.clock import simulated
from tests.simulation.loop import Node, Stuck, VirtualLoop
from tests.simulation.mutants import MUTANTS
from tests.simulation.network import Connection

ROOT = Path(__file__).parents[2]
SEEDS = 20


def program(module: str, *arguments: str, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tests.simulation.{module}", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


# Whole worlds


@pytest.fixture(scope="module")
def batch() -> subprocess.CompletedProcess[str]:
    return program("run", "--seeds", str(SEEDS), "--trace", "--no-shrink")


@pytest.mark.timeout(300)
def test_every_copy_equals_the_truth_after_the_faults_of_some_seeds(batch: subprocess.CompletedProcess[str]) -> None:
    assert batch.returncode == 0, [line for line in batch.stdout.splitlines() if "FAILED" in line] or batch.stderr
    assert f"{SEEDS} seeds, 0 failed" in batch.stdout


@pytest.mark.timeout(600)
def test_a_seed_gives_the_same_trace_in_every_process(batch: subprocess.CompletedProcess[str]) -> None:
    alone = program("run", "--seed", str(SEEDS), "--trace").stdout.splitlines()[:-1]
    assert len(alone) > 50
    assert alone == batch.stdout.splitlines()[-len(alone) - 1 : -1]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_within_a_thousand_seeds(mutant: str) -> None:
    done = program("mutants", mutant, seconds=1700)
    assert done.returncode == 0, done.stdout + done.stderr


# Time and nodes


def simulate(loop: VirtualLoop, work: Coroutine[Any, Any, Any]) -> Any:
    with simulated(loop, 1):
        return loop.run_until_complete(work)


def test_a_day_passes_in_no_time() -> None:
    loop = VirtualLoop(1)

    async def sleep() -> tuple[float, float]:
        began = time.monotonic(), time.time()
        await asyncio.sleep(86_400)
        return time.monotonic() - began[0], time.time() - began[1]

    assert simulate(loop, sleep()) == (86_400, 86_400)


def test_a_deadlock_is_found() -> None:
    with pytest.raises(Stuck):
        simulate(VirtualLoop(1), asyncio.Event().wait())


def test_a_paused_node_stands_still_and_a_dead_one_does_not_clean_up() -> None:
    loop, node = VirtualLoop(1), Node("node")
    ticks: list[float] = []

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())
        finally:
            ticks.append(-1)

    async def main() -> list[float]:
        loop.on(node, tick())
        await asyncio.sleep(2.5)
        loop.pause(node)
        await asyncio.sleep(10)
        loop.resume(node)
        await asyncio.sleep(1.2)
        loop.kill(node)
        await asyncio.sleep(5)
        return list(ticks)

    assert simulate(loop, main()) == [1, 2, 12.5, 13.5]


def test_the_wall_clock_of_one_node_jumps() -> None:
    loop, node = VirtualLoop(1), Node("node")

    async def read() -> float:
        return time.time()

    async def main() -> float:
        node.clock_offset = 3600
        return await loop.on(node, read()) - time.time()

    assert simulate(loop, main()) == 3600


# The network


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Ear(asyncio.Protocol):
    """Remembers what it gets, and how the connection ended."""

    def __init__(self) -> None:
        self.heard = b""
        self.end: object = "open"

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.end = exc


FAULTS: dict[str, tuple[Callable[[VirtualLoop, Connection, Node], object], bytes, bool]] = {
    "none": (lambda loop, connection, server: None, b"one three", False),
    "cut": (lambda loop, connection, server: connection.cut(), b"one ", True),
    "cut mid-frame": (lambda loop, connection, server: setattr(connection, "bytes_left", 7), b"one th", True),
    "half open": (lambda loop, connection, server: connection.half_open(), b"one ", False),
    "half open one way": (lambda loop, connection, server: connection.half_open(to_client=False), b"one ", False),
    "pause": (lambda loop, connection, server: loop.pause(server), b"one ", False),
    "kill": (lambda loop, connection, server: loop.kill(server), b"one ", True),
    "power cut": (lambda loop, connection, server: loop.kill(server, told=False), b"one ", False),
}
"""For each fault, what does it, what a client then hears of an echo, and whether it is told of the end."""


def converse(fault: Callable[[VirtualLoop, Connection, Node], object]) -> Ear:
    """Has a client say two words to an echo, with a fault between them, and returns what it heard after a minute."""
    loop = VirtualLoop(1)
    server, client = Node("server"), Node("client")

    async def main() -> Ear:
        await loop.on(server, loop.create_server(Echo, "127.0.0.1", 80))
        transport, ear = await loop.on(client, loop.create_connection(Ear, "127.0.0.1", 80))
        transport.write(b"one ")
        await asyncio.sleep(1)
        [connection] = loop.network.connections.values()
        fault(loop, connection, server)
        transport.write(b"three")
        await asyncio.sleep(60)
        return ear

    return simulate(loop, main())


@pytest.mark.parametrize("name", FAULTS)
def test_a_connection_meets_a_fault(name: str) -> None:
    fault, heard, is_told = FAULTS[name]
    ear = converse(fault)
    assert ear.heard == heard
    assert isinstance(ear.end, ConnectionResetError) == is_told


def test_nobody_listens_at_a_dead_node() -> None:
    loop, server = VirtualLoop(1), Node("server")

    async def main() -> None:
        await loop.on(server, loop.create_server(Echo, "127.0.0.1", 80))
        loop.kill(server)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Ear, "127.0.0.1", 80)

    simulate(loop, main())
