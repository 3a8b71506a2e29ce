"""Changes that wait for a server, without one."""

import asyncio

import pytest
from anyio.lowlevel import checkpoint

from tidings.bus.shared import NotStored, Waiting
from tidings.changes import Cursor, ResourceUpdated

pytestmark = pytest.mark.anyio

A, B, C, D = (ResourceUpdated(f"note://{name}") for name in "abcd")


def made(limit: int = 3) -> Waiting:
    return Waiting(limit, lambda: None)


async def asking(waiting: Waiting, *changes: ResourceUpdated, seconds: float = 10) -> list[asyncio.Task[Cursor]]:
    tasks = [asyncio.create_task(waiting.put(change, seconds)) for change in changes]
    await checkpoint()
    return tasks


async def test_they_go_out_in_order_and_equal_ones_once_with_an_answer_for_each() -> None:
    waiting = made()
    tasks = await asking(waiting, A, B, A)
    first, second = waiting.take(10)
    assert (first.change, second.change) == (A, B)
    waiting.done([first, second])
    first.stored(Cursor("e", 1))
    second.stored(Cursor("e", 2))
    assert [(await task).version for task in tasks] == [1, 2, 1]
    assert len(waiting) == 0


async def test_what_is_given_back_is_the_first_to_go_again_and_takes_equal_ones_with_it() -> None:
    waiting = made(limit=4)
    tasks = await asking(waiting, A, B)
    under_way = waiting.take(2)
    tasks += await asking(waiting, C, B)
    assert len(waiting) == 4
    waiting.give_back(under_way)
    again = waiting.take(10)
    assert [held.change for held in again] == [A, B, C]
    waiting.done(again)
    for n, held in enumerate(again):
        held.stored(Cursor("e", n))
    assert [(await task).version for task in tasks] == [0, 1, 2, 1]
    # All the room is free again, and no more than that.
    await asking(waiting, A, B, C, D, ResourceUpdated("note://e"))
    assert len(waiting) == 4


async def test_a_limit_is_kept_and_those_without_room_come_in_turn() -> None:
    waiting = made(limit=1)
    tasks = await asking(waiting, A, B, C)
    for n, change in enumerate((A, B, C)):
        (held,) = waiting.take(10)
        assert held.change == change
        waiting.done([held])
        held.stored(Cursor("e", n))
        await checkpoint()
        await checkpoint()
    assert [(await task).version for task in tasks] == [0, 1, 2]


async def test_equal_changes_that_waited_for_room_take_no_more_of_it_than_one() -> None:
    waiting = made(limit=2)
    tasks = await asking(waiting, A, B, C, C)
    first = waiting.take(10)
    waiting.done(first)
    for held in first:
        held.stored(Cursor("e", 1))
    for _ in range(5):
        await checkpoint()
    tasks += await asking(waiting, D)
    second = waiting.take(10)
    assert [held.change for held in second] == [C, D]
    waiting.done(second)
    for held in second:
        held.stored(Cursor("e", 2))
    assert [(await task).version for task in tasks] == [1, 1, 2, 2, 2]


async def test_whoever_gives_up_leaves_the_change_and_nothing_else() -> None:
    waiting = made()
    for _ in range(5):
        with pytest.raises(NotStored) as caught:
            await waiting.put(A, 0)
        assert caught.value.args[0]
        waiting.give_back(waiting.take(1))
    (held,) = waiting.take(10)
    assert not held.askers


async def test_clearing_sends_everyone_away() -> None:
    waiting = made(limit=1)
    tasks = await asking(waiting, A, B, C)
    waiting.refuse(lambda: ZeroDivisionError("on purpose"))
    assert waiting.clear() == 1
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ZeroDivisionError, NotStored, NotStored]
    assert not any(result.args[0] for result in results if isinstance(result, NotStored))
