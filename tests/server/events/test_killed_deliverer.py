"""Three replicas and one receiver: whichever replica delivers is killed, again and again, and nothing is lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from tests.forking import Forked
from tests.ports import free_port
from tests.server import wire
from tests.server.events.eventing import ask
from tests.server.events.hooking import subscribe
from tests.server.events.receiving import Receiver, receiving
from tests.server.test_killed_publisher import Engine, nats, redis, sqlite

pytestmark = [pytest.mark.anyio, pytest.mark.thorough, pytest.mark.timeout(300)]
ORDERS = str(Path(__file__).parents[2] / "cli/orders.py")
ROUNDS, EACH = 10, 8


class Replicas:
    """Three servers on one bus, which can be killed and started again."""

    def __init__(self, bus: str) -> None:
        self.bus = bus
        self.running: dict[int, Forked] = {}

    async def start(self) -> None:
        port = free_port()
        self.running[port] = Forked(ORDERS, str(port), self.bus)
        with anyio.fail_after(60):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                except OSError:
                    await anyio.sleep(0.02)  # Nobody says when it listens.
                else:
                    return

    def delivering(self, receiver: Receiver) -> int:
        """The port of the replica from which the last event came."""
        for port, process in self.running.items():
            ours = psutil.Process(process.pid).net_connections(kind="tcp")
            if any(each.laddr and each.laddr.port == receiver.peer for each in ours):
                return port
        raise AssertionError("no replica holds the connection of the last event")

    async def kill(self, port: int) -> None:
        self.running.pop(port).stop()
        await wire.close_all()

    async def publish(self, name: str, *, but: int = 0) -> None:
        port = next(each for each in self.running if each != but)
        named = {"Mcp-Name": "order"}
        answer = await ask(port, "tools/call", headers=named, name="order", arguments={"name": name})
        assert "result" in answer.json, answer


@asynccontextmanager
async def replicas(bus: str) -> AsyncGenerator[Replicas]:
    all_ = Replicas(bus)
    try:
        for _ in range(3):
            await all_.start()
        yield all_
    finally:
        for process in all_.running.values():
            process.stop()
        await wire.close_all()


@pytest.mark.parametrize(
    ("engine", "part"), [*((sqlite, part) for part in range(5)), *((each, 0) for each in (nats, redis))]
)
async def test_a_killed_deliverer_loses_nothing_and_keeps_the_order(engine: Engine, part: int, tmp_path: Path) -> None:
    published: list[str] = []
    async with engine(tmp_path) as bus, replicas(bus) as all_, receiving() as receiver:
        await subscribe(next(iter(all_.running)), receiver.url())
        for number in range(ROUNDS):
            published.append(f"{part}.{number}.first")
            await all_.publish(published[-1])
            await receiver.has(lambda: len(receiver.orders()) >= len(published))
            victim = all_.delivering(receiver)
            for each in range(EACH):
                published.append(f"{part}.{number}.{each}")
                await all_.publish(published[-1], but=victim)
                if each == number % EACH:
                    await all_.kill(victim)
                    victim = 0
            await receiver.has(lambda: len(receiver.orders()) >= len(published))
            await all_.start()
    assert receiver.orders() == published
    ids = [headers["webhook-id"] for _, headers, _ in receiver.posts]
    assert len(set(ids)) == len(published)
    assert receiver.refused == []
