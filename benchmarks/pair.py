"""The bench on which two clients are measured: processes that hold them, and servers that come and go."""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from benchmarks.process import Process


@dataclass(frozen=True)
class PairSize:
    """How much is measured."""

    pairs: int = 150
    """Blocks of requests by each client, in turn."""
    requests: int = 10
    """Requests in a block."""
    hits: int = 20_000
    watched: int = 1_000
    updates: int = 300
    rounds: int = 5
    kept: int = 200
    """Resources that are watched when the server is killed."""
    kills: int = 3
    crowd: int = 1_000
    """Clients that lose one server."""


QUICK = PairSize(pairs=20, watched=200, updates=50, rounds=3, kept=50, kills=1, crowd=100)


class Pair:
    """Holds the processes; whatever happens, they are stopped at the end."""

    def __init__(self, size: PairSize) -> None:
        self.size = size
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def caller(self) -> Process:
        """A process for clients."""
        caller = self._stack.enter_context(Process("benchmarks.caller"))
        caller.answer(30)
        return caller

    def serve(self, port: int = 0) -> tuple[Process, int]:
        """A server to call, and its port."""
        server = self._stack.enter_context(Process("benchmarks.server", "callee", "--port", str(port)))
        return server, server.answer(30)["port"]


def ratios(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """How much more one costs than the other: the median, and between what half of the pairs lie.

    Neighbours in time are compared, so that a change in the machine's pace does not pass for one of the client.
    """
    lower, median, upper = statistics.quantiles(
        (one / other for one, other in zip(mine, theirs, strict=True)), n=4, method="inclusive"
    )
    return median, lower, upper
