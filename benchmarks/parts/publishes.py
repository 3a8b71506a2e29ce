"""How many changes a second does one process publish, and how soon knows one that was away what it missed?

Both are of the same changes: many updates of fewer URIs, of each of which the newest is kept. Beside `notify`, which
stores each change before it returns, stands the engine alone: the same changes, written by its own driver.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.ground import Ground
from benchmarks.lab import MICRO, DeliveryLost
from benchmarks.report import Row, Target

SOON = {"nats": Target(50, "most", " ms"), "redis": Target(20, "most", " ms")}


def measure(ground: Ground) -> list[Row]:
    size, engine = ground.size, ground.engine
    uris = [f"bench://{number}" for number in range(size.uris)]
    storms: dict[str, list[Storm]] = {"storm": [], "single": [], "notify_storm": [], "raw_storm": []}
    catch_ups: list[float] = []
    with ground.handle() as here, ground.handle():  # Another process hears of it all.

        def measured(do: str, updates: int, publishers: int) -> dict[str, Any]:
            before = engine.broker_cpu()
            answer = here.ask(do, 120, uris=uris, updates=updates, publishers=publishers)
            broker = (engine.broker_cpu() - before) / updates * MICRO
            storm = Storm(updates / answer["seconds"], answer["cpu"] / updates * MICRO, broker)
            storms["single" if publishers == 1 else do].append(storm)
            return answer

        for _ in range(size.repetitions):
            storm = measured("storm", size.updates, size.publishers)
            since = here.ask("since", cursor=storm["before"], times=size.repetitions)
            if since["found"] != [size.uris]:
                raise DeliveryLost(f"{engine.name}: {size.uris} URIs changed, and since knows of {since['found']}")
            catch_ups.append(since["seconds"] * 1000)
            measured("storm", size.updates // 10, 1)
            measured("notify_storm", size.updates, size.publishers)
            if engine.shared:
                measured("raw_storm", size.updates, size.publishers)
    found = {name: Storm.median(each) for name, each in storms.items() if each}
    took = statistics.median(catch_ups)
    target = SOON.get(engine.name)
    notify, raw = found["notify_storm"], found.get("raw_storm")
    return [
        Row("publishes", f"publishes a second, {engine.name}", tidings=found["storm"].rate, note=found["storm"].cost),
        Row(
            "publishes",
            f"publishes a second, one after the other, {engine.name}",
            tidings=found["single"].rate,
            note=found["single"].cost,
        ),
        Row(
            "publishes",
            f"changes a second through notify, {engine.name}",
            tidings=notify.rate,
            others={} if raw is None else {"engine alone": raw.rate},
            value=None if raw is None else notify.all_cpu / raw.all_cpu,
            note=notify.cost
            + ("" if raw is None else f"; engine alone: {raw.cost}; judged: CPU of both, notify / alone"),
        ),
        Row(
            "catch-up",
            f"ms to catch up with {size.uris:,} URIs after {size.updates:,} updates, {engine.name}",
            tidings=took,
            value=took if target else None,
            target=target,
            note="by a process that has just come" if engine.shared else "within the process",
        ),
    ]


@dataclass(frozen=True)
class Storm:
    """Many changes at once: how many a second, and CPU microseconds for each."""

    rate: float
    cpu: float
    broker: float

    @classmethod
    def median(cls, storms: Sequence["Storm"]) -> "Storm":
        return cls(*(statistics.median(getattr(each, name) for each in storms) for name in ("rate", "cpu", "broker")))

    @property
    def all_cpu(self) -> float:
        return self.cpu + self.broker

    @property
    def cost(self) -> str:
        return f"CPU µs: {self.cpu:.0f} here" + (f", {self.broker:.0f} in the broker" if self.broker else "")
