"""The bench on which servers are measured: one client process, and servers that come and go."""

import contextlib
import statistics
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from benchmarks.process import Process

MICRO = 1e6


class DeliveryLost(Exception):
    """A delivery was lost, doubled or misdirected: the figures of this run mean nothing."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    streams: tuple[int, ...] = (500, 1000)
    events: int = 10
    repetitions: int = 15
    crowd: int = 20_000
    burst: int = 10_000
    burst_streams: int = 100
    interest: int = 4_000
    waits: int = 10_000


QUICK = Size(streams=(500,), events=8, repetitions=3, crowd=1_000, burst_streams=20, interest=1_000, waits=1_000)


@dataclass
class Subject:
    """A server under test, and its streams in the client."""

    name: str
    server: Process
    reader: Process
    port: int
    expected: int = 0
    samples: list[float] = field(default_factory=list[float])
    groups: set[str] = field(default_factory=set[str])

    def open(self, era: str, streams: list[list[str]], *, group: str = "", **options: Any) -> None:
        """Open one stream for each list of URIs.

        Raises:
            DeliveryLost: Not all of them could be opened.
        """
        self.groups.add(group)
        answer = self.reader.ask(
            "open", 200, group=self.name + group, port=self.port, era=era, streams=streams, **options
        )
        if answer["opened"] != len(streams):
            raise DeliveryLost(f"{self.name}: {answer['opened']} of {len(streams)} streams opened {answer['why']}")
        # The SDK's legacy stream has its queue a moment after its head is out; what comes before that is dropped.
        time.sleep(0.1)

    def close(self, *, group: str = "") -> None:
        self.groups.discard(group)
        self.reader.ask("close", group=self.name + group)
        self.expected = 0 if not group else self.expected

    def cpu(self) -> float:
        usage: float = self.server.ask("usage")["cpu"]
        return usage

    def publish_one(self, uri: str, deliveries: int) -> None:
        """Publish one change and wait until the client has all its deliveries."""
        self.server.ask("publish", uris=[uri])
        self.reach(deliveries)

    def publish_many(self, uris: list[str], times: int, deliveries: int, *, pause: bool) -> None:
        """Publish changes one after the other, and wait until the client has them all."""
        self.server.ask("publish", uris=uris, times=times, pause=pause)
        self.reach(deliveries)

    def reach(self, deliveries: int) -> None:
        """Wait until the client has had so many more."""
        self.expected += deliveries
        delivered = self.reader.ask("reach", group=self.name, goal=self.expected)["delivered"]
        if delivered < self.expected:
            raise DeliveryLost(f"{self.name}: {self.expected - delivered} of {self.expected} deliveries did not arrive")

    def cost(self, uri: str, *, streams: int, events: int) -> float:
        """CPU microseconds of the server for each delivery, of `events` changes that all `streams` wait for."""
        before = self.cpu()
        # In one go: a command for each change would add its own cost, which the cheapest server would feel most.
        self.publish_many([uri], events, events * streams, pause=True)
        return (self.cpu() - before) / (events * streams) * MICRO

    def check(self) -> None:
        """Raises:
        DeliveryLost: Not every stream got the same, or something arrived that nobody waited for.
        """
        counts = self.reader.ask("counts", group=self.name)
        if counts["strays"] or counts["ended"] or counts["delivered"] != self.expected:
            raise DeliveryLost(f"{self.name}: expected {self.expected} deliveries, got {counts}")

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def times(self, other: "Subject") -> float:
        """How much more this one costs than `other`.

        Neighbours in time are compared, so that a change in the machine's pace does not pass for one of the server.
        """
        return statistics.median(mine / theirs for mine, theirs in zip(self.samples, other.samples, strict=True))


class Lab:
    """Holds the processes; whatever happens, they are stopped at the end."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.reader = self._stack.enter_context(Process("benchmarks.reader"))
        self.open_files: int = self.reader.answer()["open_files"]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def serve(self, variant: str, *options: str, name: str = "") -> Generator[Subject]:
        with Process("benchmarks.server", variant, *options) as server:
            subject = Subject(name or variant, server, self.reader, server.answer(30)["port"])
            yield subject
            for group in tuple(subject.groups):
                subject.close(group=group)
