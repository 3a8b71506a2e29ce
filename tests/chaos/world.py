"""Everything of a chaos run: the truth, replicas behind a balancer, a broker, clients, and what is done to them."""

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.balancer import Balancer
from tests.chaos.brokers import Broker, broker_for
from tests.client.killing import ROOT
from tests.ports import free_port

ERAS = ("auto", "legacy")

CHANGES_ROLLED_BACK = 20
"""So many changes are no longer in a log that was rolled back."""


@dataclass(frozen=True)
class Plan:
    """How large a run is."""

    seed: int
    engine: str = "sqlite"
    seconds: float = 6.0
    replicas: int = 3
    clients: int = 50
    processes: int = 5
    notes: int = 10
    keep_alive: float = 4.0
    """Seconds between two keep-alives: fewer than in production, so that a run is shorter."""
    stock: bool = False
    """The SDK's own server, bus and client instead of Tidings: for comparison."""

    @property
    def notice_seconds(self) -> float:
        """Seconds within which a client lets go of a dead stream: twice the limit, and some for a busy machine."""
        return 2 * 2.5 * self.keep_alive + 5


@dataclass
class Told:
    """What was done, for whoever looks into a run that failed."""

    deeds: list[str] = field(default_factory=list[str])
    published: int = 0
    slowest_notice: float = 0.0
    """The longest time that a client kept a dead stream."""

    def __call__(self, deed: str) -> None:
        self.deeds.append(deed)


class World:
    """A run in progress."""

    def __init__(self, plan: Plan, folder: Path, broker: Broker, zygote: "subprocess.Popen[str]") -> None:
        self.plan = plan
        self.folder = folder
        self._routes = self.dice("routes")
        self.told = Told()
        self._broker = broker
        self._zygote = zygote
        self._balancer = Balancer(self.dice("balancer"))
        self._replicas: dict[int, int | None] = {}
        """The port of each replica, and its pid while it runs."""
        self._hung: int | None = None
        self._is_hidden = False
        """No replica is in rotation."""
        self._listeners: list[tuple[dict[str, Any], int]] = []
        self.names = [f"n{number}" for number in range(plan.notes)]

    def dice(self, part: str) -> random.Random:
        """The chances of one part of the run: no other part, and no delay, shifts what it draws."""
        return random.Random(f"{self.plan.seed} {part}")

    # Setting it up.

    async def begin(self) -> None:
        for part in ("truth", "copies", "state"):
            (self.folder / part).mkdir()
        for name in self.names:
            self._write(name, "0")
        for _ in range(self.plan.replicas):
            self._replicas[free_port()] = None
        for port in self._replicas:
            self._start_replica(port)
        everyone = [await self._client(number) for number in range(self.plan.clients)]
        share = -(-len(everyone) // self.plan.processes)
        for start in range(0, len(everyone), share):
            await self._start_listeners(everyone[start : start + share])

    async def _client(self, number: int) -> dict[str, Any]:
        era = ERAS[number % 2]
        port = await self._balancer.listen()
        return {
            "name": f"c{number}",
            "era": era,
            "url": f"http://127.0.0.1:{port}/mcp",
            "keeps_state": number % 3 == 0,
        }

    async def _start_listeners(self, clients: list[dict[str, Any]]) -> None:
        order = {"clients": clients, "uris": [f"note://{name}" for name in self.names], "folder": str(self.folder)}
        kind = "stock-listeners" if self.plan.stock else "listeners"
        self._listeners.append((order, self._order({"start": kind, **order})))

    def _start_replica(self, port: int) -> None:
        kind = "stock-replica" if self.plan.stock else "replica"
        options = {"port": port, "folder": str(self.folder / "truth"), "bus": self._broker.url}
        self._replicas[port] = self._order({"start": kind, "keep_alive": self.plan.keep_alive, **options})
        self._set_rotation()

    def _set_rotation(self) -> None:
        self._balancer.replicas = [
            each
            for each, pid in self._replicas.items()
            if pid is not None and each != self._hung and not self._is_hidden
        ]

    def _order(self, order: dict[str, Any]) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(order) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    # What changes.

    def _write(self, name: str, text: str) -> None:
        scratch = self.folder / f".{name}"
        scratch.write_text(text)
        scratch.replace(self.folder / "truth" / name)

    async def change(self, name: str, text: str) -> None:
        """Change the truth, and have it published: whoever does that asks until somebody says it is done."""
        self._write(name, text)
        replicas = [port for port in self._replicas if port != self._hung]
        while not await self._publish(self._routes.choice(replicas), f"note://{name}"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.told.published += 1

    async def _publish(self, port: int, uri: str) -> bool:
        try:
            async with asyncio.timeout(6):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    path = f"/publish?uri={urllib.parse.quote(uri)}"
                    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
                    return b" 200 " in await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    # What is done to it.

    async def misdeed(self, dice: random.Random) -> None:
        """Something that should not happen, and does."""
        deeds = [self.kill_replica, self.pause_replica, self.cut, self.stall, self.kill_listeners, self.kill_broker]
        deeds += [self.swallow, self.hang_replica]
        await dice.choice(deeds)(dice)

    async def silent_misdeed(self, dice: random.Random) -> None:
        """One after which streams are dead, and nobody is told."""
        if self._hung is None and dice.random() < 0.5:
            await self.hang_replica(dice)
        else:
            await self.swallow(dice)

    async def kill_replica(self, dice: random.Random) -> None:
        port = dice.choice(list(self._replicas))
        if (pid := self._replicas[port]) is None:
            return
        self.told(f"replica {port} killed")
        self._kill(port, pid)
        await asyncio.sleep(dice.uniform(0, 0.3))
        self._start_replica(port)

    def _kill(self, port: int, pid: int) -> None:
        self._order({"kill": pid})
        self._replicas[port] = None
        self._hung = None if self._hung == port else self._hung
        self._set_rotation()

    async def pause_replica(self, dice: random.Random) -> None:
        port = dice.choice(list(self._replicas))
        if (pid := self._replicas[port]) is None or port == self._hung:
            return
        self.told(f"replica {port} stopped for a while")
        process = psutil.Process(pid)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(dice.uniform(0, 1.5))
        process.send_signal(signal.SIGCONT)

    async def hang_replica(self, dice: random.Random) -> None:
        """Stops a replica for good, and takes it out of rotation: only the streams that it holds remain."""
        port = dice.choice(list(self._replicas))
        if (pid := self._replicas[port]) is None or self._hung is not None:
            return
        self.told(f"replica {port} hangs")
        psutil.Process(pid).send_signal(signal.SIGSTOP)
        self._hung = port
        self._set_rotation()
        self._balancer.hung(port)

    async def swallow(self, dice: random.Random) -> None:
        share = dice.random()
        self.told(f"{share:.0%} of the streams swallowed")
        self._balancer.swallow(share)

    async def cut(self, dice: random.Random) -> None:
        share = dice.random()
        self.told(f"{share:.0%} of the connections cut")
        self._balancer.cut(share)

    async def stall(self, dice: random.Random) -> None:
        seconds = dice.uniform(0, 1.5)
        self.told(f"the balancer stalls for {seconds:.1f} s")
        await self._balancer.stall(seconds)

    async def kill_listeners(self, dice: random.Random) -> None:
        place = dice.randrange(len(self._listeners))
        order, pid = self._listeners[place]
        self.told(f"clients {order['clients'][0]['name']} and following killed")
        self._order({"kill": pid})
        await asyncio.sleep(dice.uniform(0, 0.2))
        kind = "stock-listeners" if self.plan.stock else "listeners"
        self._listeners[place] = (order, self._order({"start": kind, **order}))

    async def kill_broker(self, dice: random.Random) -> None:
        if self._broker.can_be_killed and not self.plan.stock:
            self.told("the broker killed")
            await self._broker.kill()
            await asyncio.sleep(dice.uniform(0, 1))
            await self._broker.start()

    async def save_log(self) -> None:
        """Keeps a copy of the log. Nobody runs that uses it."""
        async with self._all_down():
            shutil.copytree(self._broker.home, self.folder / "older log")

    async def roll_back_log(self, dice: random.Random) -> None:
        """Puts the copy in place of the log. Clients come back when it has grown past the place that they know."""
        self.told("the log rolled back")
        self._is_hidden = True
        async with self._all_down():
            shutil.rmtree(self._broker.home)
            shutil.copytree(self.folder / "older log", self._broker.home)
        for name in self.names:
            await self.change(name, "after the rollback")
        for count in range(CHANGES_ROLLED_BACK):
            await self.change(self.names[0], f"{count} after the rollback")
        await self.kill_listeners(dice)
        self._is_hidden = False
        self._set_rotation()

    @asynccontextmanager
    async def _all_down(self) -> AsyncGenerator[None]:
        for port, pid in self._replicas.items():
            if pid is not None:
                self._kill(port, pid)
        await self._broker.kill()
        yield
        await self._broker.start()
        for port in self._replicas:
            self._start_replica(port)

    # What came of it.

    def stale(self) -> dict[str, list[str]]:
        """The notes of which a client's copy is not the truth, by client."""
        truth = {f"note://{name}": (self.folder / "truth" / name).read_text() for name in self.names}
        wrong: dict[str, list[str]] = {}
        for number in range(self.plan.clients):
            path = self.folder / "copies" / f"c{number}"
            copies = json.loads(path.read_text()) if path.exists() else {}
            if bad := [uri for uri, text in truth.items() if copies.get(uri) != text]:
                wrong[f"c{number}"] = bad
        return wrong

    @property
    def dead_streams(self) -> int:
        return self._balancer.dead

    @property
    def slowest_notice(self) -> float:
        return self._balancer.slowest

    async def aclose(self) -> None:
        await self._balancer.aclose()


@asynccontextmanager
async def world(plan: Plan, folder: Path) -> AsyncGenerator[World]:
    with subprocess.Popen(  # noqa: ASYNC220 - before anything else runs
        [sys.executable, "-m", "tests.chaos.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as zygote:
        try:
            async with broker_for(plan.engine, folder) as broker:
                run = World(plan, folder, broker, zygote)
                try:
                    await run.begin()
                    yield run
                finally:
                    await run.aclose()
        finally:
            assert zygote.stdin is not None
            zygote.stdin.close()
            zygote.wait(20)
