"""Where buses are measured: processes with a handle each, and servers that share one bus."""

import statistics
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks.engines import Engine
from benchmarks.lab import Lab, Size, Subject
from benchmarks.process import Process
from benchmarks.report import say


@dataclass(frozen=True)
class ScaleSize:
    """How much is measured."""

    samples: int = 400
    """Changes whose way is timed, one after the other."""
    uris: int = 1_000
    updates: int = 50_000
    publishers: int = 100
    """At the same time, in one process."""
    repetitions: int = 3
    servers: tuple[int, ...] = (1, 2, 4)
    streams: int = 50
    """For each server."""
    changes: int = 100
    """Of as many URIs, in one turn."""
    turns: int = 9
    paced: int = 2_000
    """Changes that come one by one, for the broker's share."""
    weighed: int = 2_000
    """Streams whose weight is measured."""


QUICK = ScaleSize(samples=100, updates=4_000, streams=20, changes=50, turns=3, paced=500, weighed=500)


@dataclass
class Turns:
    """What some servers needed for each turn: seconds, and CPU seconds of each server and of the broker."""

    deliveries: int
    """In one turn."""
    seconds: list[float] = field(default_factory=list[float])
    cpu: list[list[float]] = field(default_factory=list[list[float]])
    broker: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self.deliveries / statistics.median(self.seconds)

    def server(self, number: int) -> float:
        """CPU seconds of one server for a turn. The first is the one that publishes."""
        return statistics.median(turn[number] for turn in self.cpu)

    @property
    def servers(self) -> float:
        """CPU seconds of all servers for a turn."""
        return statistics.median(map(sum, self.cpu))


class Ground:
    """One engine, and how much of it is measured."""

    def __init__(self, engine: Engine, size: ScaleSize) -> None:
        self.engine, self.size = engine, size

    @contextmanager
    def handle(self, options: str = "") -> Generator[Process]:
        """A process with the bus open."""
        with Process("benchmarks.handle", self.engine.url + options) as process:
            process.answer(30)
            yield process

    def turns(self, servers: int, streams: int) -> Turns:
        """Let so many servers tell so many streams each of every change, turn by turn."""
        uris = [f"bench://{number}" for number in range(self.size.changes)]
        turns = Turns(servers * streams * len(uris))
        with Lab(Size()) as lab, ExitStack() as stack:
            say(f"{self.engine.name}: {servers} servers, {streams} streams each")
            options = ("--bus", self.engine.url, "--anywhere")
            subjects = [stack.enter_context(lab.serve("tidings", *options, name=f"s{n}")) for n in range(servers)]
            for subject in subjects:
                subject.open("modern", [uris] * streams)
            self._turn(subjects, uris, streams, Turns(0))  # What is made once is not the cost of a turn.
            for _ in range(self.size.turns):
                self._turn(subjects, uris, streams, turns)
            for subject in subjects:
                subject.check()
        return turns

    def _turn(self, subjects: list[Subject], uris: list[str], streams: int, turns: Turns) -> None:
        broker, before = self.engine.broker_cpu(), [subject.cpu() for subject in subjects]
        start = time.monotonic()
        subjects[0].server.ask("publish", uris=uris, times=len(uris), together=True)
        for subject in subjects:
            subject.reach(streams * len(uris))
        turns.seconds.append(time.monotonic() - start)
        turns.cpu.append([subject.cpu() - used for subject, used in zip(subjects, before, strict=True)])
        turns.broker.append(self.engine.broker_cpu() - broker)
