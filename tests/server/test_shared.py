"""Something that runs while anybody needs it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from tidings.server.shared import Shared

pytestmark = pytest.mark.anyio


class Engine:
    """Counts how often it was started and stopped."""

    def __init__(self, *, broken: bool = False) -> None:
        self.starts = self.stops = 0
        self._broken = broken

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        self.starts += 1
        if self._broken:
            raise OSError("no fuel")
        async with anyio.create_task_group() as tasks:  # Which minds by whom it is left.
            tasks.start_soon(anyio.sleep_forever)
            yield
            tasks.cancel_scope.cancel()
        self.stops += 1


async def test_it_runs_from_the_first_who_needs_it_until_the_last() -> None:
    engine = Engine()
    shared = Shared(engine.running)
    for round_ in (1, 2):
        async with shared.use():
            async with shared.use():
                assert (engine.starts, engine.stops) == (round_, round_ - 1)
            assert engine.stops == round_ - 1
        assert engine.stops == round_


async def test_whoever_came_first_may_go_first() -> None:
    engine = Engine()
    shared = Shared(engine.running)
    second_is_there, first_has_gone = anyio.Event(), anyio.Event()

    async def first() -> None:
        async with shared.use():
            await second_is_there.wait()
        first_has_gone.set()

    async def second() -> None:
        async with shared.use():
            second_is_there.set()
            await first_has_gone.wait()
            assert engine.stops == 0

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            tasks.start_soon(second)
    assert (engine.starts, engine.stops) == (1, 1)


async def test_who_is_cancelled_leaves_it_in_order() -> None:
    engine = Engine()
    shared = Shared(engine.running)
    with anyio.CancelScope() as scope:
        async with shared.use():
            scope.cancel()
            await anyio.sleep_forever()
    assert (engine.starts, engine.stops) == (1, 1)


async def test_what_cannot_begin_says_why_to_everyone_who_needs_it() -> None:
    engine = Engine(broken=True)
    shared = Shared(engine.running)
    for _ in range(2):
        with pytest.raises(OSError, match="no fuel"):
            async with shared.use():
                pass
    assert engine.starts == 2
