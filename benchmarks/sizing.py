"""How many server processes a number of subscribers needs: a small model, fed by what the benchmarks measured.

    python -m benchmarks.sizing --subscribers 1000000 --changes 20 --interested 5000

Each process hears of every change on its bus (`hear`), the one that publishes it pays for that (`publish`), and each
interested stream gets a delivery (`deliver`). The broker hands each change to each process (`broker`). A stream weighs
what it weighs, whether anything happens or not. Neither the network is in the model, nor TLS, nor what clients read.

`benchmarks.scale` measures all of it, fits the three costs, and tries the model on a point that it was not fitted to.
"""

import argparse
import math
import sys
from dataclasses import dataclass

MICRO = 1e6


@dataclass(frozen=True)
class Costs:
    """CPU microseconds, for one change."""

    publish: float
    """In the process that publishes it."""
    hear: float
    """In each process on the bus."""
    deliver: float
    """For each stream that is told."""


@dataclass(frozen=True)
class Machine:
    """What a process was measured to need. The defaults are of the run in `benchmarks/README.md`."""

    costs: Costs = Costs(publish=45, hear=22, deliver=12)
    """Of NATS; a delivery as in `benchmarks.fanout`, where one change goes to 10,000 streams at once."""
    broker: float = 34
    """CPU microseconds of the broker, for each change and each process, where changes come one by one."""
    bus_publishes: float = 12_000
    """A second, from one process that publishes."""
    stream_kb: float = 15
    process_mb: float = 80
    opening: float = 1_350
    """CPU microseconds to open a stream."""
    streams: int = 10_000
    """That one process has been tried with."""


@dataclass(frozen=True)
class Load:
    """What is asked for: changes a second (after merging), and how many subscribers a change is told to on average."""

    subscribers: int
    changes: float
    interested: float


@dataclass(frozen=True)
class Need:
    """What it takes."""

    processes: int
    cores: float
    """That are busy on average."""
    memory_gb: float
    broker_cores: float
    """That the broker keeps busy."""
    bus: float
    """The share of what one publisher can have the bus take."""
    seconds: float
    """Until the last of those interested is told of one change, if nothing else happens."""
    comeback: float
    """Seconds of CPU in each other process, when the streams of one that died come to them."""
    bound_by: str


class TooMany(ValueError):
    """No number of processes is enough."""


def fit(*, publisher: float, hearer: float, alone: float, changes: int, streams: int) -> Costs:
    """The costs, from the CPU seconds that `changes` took.

    `publisher` and `hearer` are two servers with one stream each, of which the first published; `alone` is a server
    with so many `streams`, which published too.
    """
    deliver = (alone - publisher) / (changes * (streams - 1))
    hear = hearer / changes - deliver
    publish = (publisher - hearer) / changes
    return Costs(*(max(0.0, cost) * MICRO for cost in (publish, hear, deliver)))


def cpu(costs: Costs, *, servers: int, streams: int, changes: float) -> float:
    """CPU seconds of all `servers` together, each with so many `streams` that want to hear of every change."""
    return changes * (costs.publish + servers * (costs.hear + streams * costs.deliver)) / MICRO


def plan(load: Load, machine: Machine | None = None, *, busy: float = 0.5) -> Need:
    """The processes for a load, each `busy` for no more than that share of a core.

    Raises:
        TooMany: To hear of all changes is more than a process may do: give each group of resources a bus of its own.
    """
    machine = machine or Machine()
    costs = machine.costs
    hearing = load.changes * costs.hear / MICRO
    if hearing >= busy:
        raise TooMany(f"to hear of {load.changes:g} changes a second takes {hearing:.0%} of a core in each process")
    telling = load.changes * (costs.publish + load.interested * costs.deliver) / MICRO
    for_streams = math.ceil(load.subscribers / machine.streams)
    for_cpu = math.ceil(telling / (busy - hearing))
    processes = max(for_streams, for_cpu, 1)
    return Need(
        processes=processes,
        cores=telling + processes * hearing,
        memory_gb=(load.subscribers * machine.stream_kb / 1e6) + processes * machine.process_mb / 1e3,
        broker_cores=load.changes * processes * machine.broker / MICRO,
        bus=load.changes / machine.bus_publishes,
        seconds=load.interested / processes * costs.deliver / MICRO,
        comeback=load.subscribers / processes * machine.opening / MICRO / max(processes - 1, 1),
        bound_by="streams" if for_streams >= for_cpu else "CPU",
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.sizing", description="How many processes so many subscribers need.")
    parser.add_argument("--subscribers", type=int, default=1_000_000)
    parser.add_argument("--changes", type=float, default=20, help="a second, after merging")
    parser.add_argument("--interested", type=float, default=5_000, help="subscribers told of each, on average")
    parser.add_argument("--busy", type=float, default=0.5, help="the most of its core that a process may use")
    chosen = parser.parse_args(argv)
    try:
        need = plan(Load(chosen.subscribers, chosen.changes, chosen.interested), busy=chosen.busy)
    except TooMany as error:
        print(f"No number of processes is enough: {error}. Give each group of resources a bus of its own.")
        return 1
    print(
        f"{need.processes:,} processes (for their {need.bound_by}), {need.cores:.1f} cores busy, "
        f"{need.memory_gb:.1f} GB; {need.broker_cores:.1f} cores of the broker, {need.bus:.1%} of what it takes from "
        f"one publisher; a change is told to all within {need.seconds * 1000:.1f} ms; "
        f"the streams of one that dies cost each other {need.comeback:.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
