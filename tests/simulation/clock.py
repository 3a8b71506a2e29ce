"""Replaces what the loop does not simulate: clocks, chance, threads, and what is ordered by address."""

import contextlib
import datetime as dt
import gc
import itertools
import logging
import os
import random
import ssl
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Self
from unittest import mock

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp.client.subscriptions
import rich.logging  # noqa: F401 - it draws a number when it is imported
import sse_starlette.sse
from anyio._backends._asyncio import CancelScope
from anyio._backends._asyncio import _task_states as anyio_tasks

from tests.simulation.bus import SimulatedBus
from tests.simulation.loop import CURRENT, VirtualLoop
from tidings.bus.memory import MemoryBus
from tidings.bus.shared import Engine
from tidings.client import modern, watching
from tidings.client.cache import ContentCache
from tidings.server import subscriber
from tidings.server.notify import Times

BEGINNING = 1_000_000_000.0
"""The wall clock when a simulation begins, in seconds since 1970."""


_WITH_CLOCKS: Final = (
    Times.__init__,
    MemoryBus.__init__,
    SimulatedBus.__init__,
    Engine.__init__,
    ContentCache.__init__,
)
"""Functions that have a clock as the default of a parameter."""

_SSL: Final = ssl.create_default_context()
"""One for all clients: to read the certificates takes longer than a small run, and nothing is encrypted."""


class VirtualDate(dt.datetime):
    """A date that takes the time from `time.time`."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)


class OrderedSet(dict[Any, None]):
    """A set in the order of insertion."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]

    def discard(self, item: Any) -> None:
        self.pop(item, None)


async def _inline(func: Callable[..., Any], *args: Any, **_: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return func(*args)


def _patches(loop: VirtualLoop, seed: int) -> Iterator[Any]:
    def wall() -> float:
        node = CURRENT.get()
        return BEGINNING + loop.time() + (node.clock_offset if node else 0.0)

    clocks = {time.monotonic: loop.time, time.perf_counter: loop.time, time.time: wall}
    for function in _WITH_CLOCKS:
        for kind in ("__defaults__", "__kwdefaults__"):
            yield _replaced(function, kind, clocks)
    for clock, virtual in clocks.items():
        yield mock.patch.object(time, clock.__name__, virtual)
    yield mock.patch.object(anyio.to_thread, "run_sync", _inline)
    dice = random.Random(f"{seed} urandom")
    yield mock.patch.object(os, "urandom", dice.randbytes)
    yield mock.patch.object(random, "_urandom", dice.randbytes)
    yield mock.patch.object(ssl, "create_default_context", return_value=_SSL)
    yield mock.patch.object(subscriber, "_numbers", itertools.count(1))
    yield mock.patch.object(subscriber.Subscriber, "__hash__", lambda self: self.id)
    yield mock.patch.object(modern, "_ids", itertools.count(1))
    yield mock.patch.object(mcp.client.subscriptions, "_listen_ids", itertools.count(1))
    # Its task ends streams when a signal arrives, and is one for all nodes.
    yield mock.patch.object(sse_starlette.sse, "_ensure_watcher_started_on_this_loop", return_value=None)
    # Streams of nodes that were killed stay in its list, and the next server in this thread would wake them.
    yield mock.patch.object(sse_starlette.sse, "_thread_state", threading.local())
    yield mock.patch.object(sse_starlette.sse, "datetime", VirtualDate)
    numbers = itertools.count(1)
    for kind in (modern._FilterPart, watching.Watcher):
        yield _numbered(kind, numbers)
    made = CancelScope.__init__

    def make(self: Any, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self._child_scopes = OrderedSet()

    yield mock.patch.object(CancelScope, "__init__", make)


def _replaced(function: Any, kind: str, clocks: dict[Any, Any]) -> Any:
    """Replaces clocks among the defaults of a function."""
    values = getattr(function, kind)
    if isinstance(values, dict):
        return mock.patch.object(function, kind, {name: _clock_for(value, clocks) for name, value in values.items()})
    return mock.patch.object(function, kind, values and tuple(_clock_for(value, clocks) for value in values))


def _clock_for(value: Any, clocks: dict[Any, Any]) -> Any:
    return clocks.get(value, value) if callable(value) else value


def _numbered(kind: type, numbers: Iterator[int]) -> Any:
    """Hashes objects by a number in the order in which they are first hashed. They are few, and are kept."""
    known: list[tuple[Any, int]] = []

    def number(self: Any) -> int:
        for each, its_number in known:
            if each is self:
                return its_number
        known.append((self, next(numbers)))
        return known[-1][1]

    return mock.patch.object(kind, "__hash__", number)


@contextlib.contextmanager
def simulated(loop: VirtualLoop, seed: int) -> Generator[None]:
    """Within it, clocks are the loop's, threads run inline, and all chances come from the seed.

    Garbage is collected at the end, and not before: the end of a forgotten generator is an event, too.
    """
    state = random.getstate()
    level = logging.root.manager.disable
    random.seed(f"{seed} product")
    logging.disable(logging.CRITICAL)
    gc.freeze()  # What was there before need not be looked at again.
    gc.disable()
    with contextlib.ExitStack() as patches:
        for patch in _patches(loop, seed):
            patches.enter_context(patch)
        try:
            yield
        finally:
            _throw_away(loop)
            random.setstate(state)
            logging.disable(level)
            gc.enable()


def _throw_away(loop: VirtualLoop) -> None:
    """Forgets all tasks. Those of dead nodes clean up now, outside of any loop, which nobody needs to read about."""
    with mock.patch.object(sys, "unraisablehook"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # A coroutine that a dead node was about to start.
        for task in loop.tasks:
            task._log_destroy_pending = False
        loop.tasks.clear()
        anyio_tasks.clear()  # It never forgets a task that did not end: the state of each holds the task itself.
        loop._ready.clear()
        loop._scheduled.clear()
        loop.network.connections.clear()
        loop.close()
        gc.collect()
