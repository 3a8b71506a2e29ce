"""Small parts for asyncio."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from tidings._kit.tasks import Background, Progress, Shared, SingleFlight, Wakeup, run_to_end

pytestmark = pytest.mark.anyio


async def test_a_call_wakes_everyone_who_waits_and_nobody_later() -> None:
    wakeup = Wakeup()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await wakeup.wait()
        woken.append(number)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            assert woken == []
            wakeup()
    assert sorted(woken) == [0, 1, 2]
    with anyio.move_on_after(0) as scope:
        await wakeup.wait()
    assert scope.cancelled_caught


async def test_waiting_for_a_condition_asks_after_each_call_and_not_before() -> None:
    wakeup, asked, there = Wakeup(), 0, False

    def condition() -> bool:
        nonlocal asked
        asked += 1
        return there

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wakeup.until, condition)
            await anyio.wait_all_tasks_blocked()
            wakeup()
            await anyio.wait_all_tasks_blocked()
            assert asked == 2
            there = True
            wakeup()
        await wakeup.until(condition)
    assert asked == 4


async def test_work_in_the_background_is_waited_for_and_its_errors_logged(caplog: pytest.LogCaptureFixture) -> None:
    background, done = Background(), anyio.Event()

    async def second() -> None:
        await anyio.lowlevel.checkpoint()
        done.set()

    async def first() -> None:
        background.start(second())
        raise OSError("disk full")

    background.start(first())
    with anyio.fail_after(5):
        await background.finished()
    assert done.is_set()
    assert "first failed" in caplog.text
    assert "disk full" in caplog.text
    assert len(caplog.records) == 1


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


class Question:
    """Answers when it may, and counts how often it was asked and given up."""

    def __init__(self, answer: str | Exception = "answer") -> None:
        self.answer = answer
        self.asked = 0
        self.given_up = 0
        self.may = anyio.Event()

    async def __call__(self, tell: Progress) -> str:
        self.asked += 1
        try:
            await self.may.wait()
        except BaseException:
            self.given_up += 1
            raise
        await tell(1, 2)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_all_who_ask_get_the_one_answer_and_hear_how_far_it_is() -> None:
    flight, question = SingleFlight[str](), Question()
    answers: list[str] = []
    told: list[tuple[int, int, int | None]] = []

    async def ask(number: int) -> None:
        async def progress(done: int, whole: int | None) -> None:
            told.append((number, done, whole))

        answers.append(await flight.share("key", question, progress if number else None))

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(ask, number)
        await anyio.wait_all_tasks_blocked()
        question.may.set()

    assert (answers, question.asked) == (["answer"] * 3, 1)
    assert told == [(1, 1, 2), (2, 1, 2)]


async def test_other_questions_are_asked_for_themselves() -> None:
    flight, question = SingleFlight[str](), Question()
    question.may.set()

    await flight.share("one", question, None)
    await flight.share("two", question, None)
    await flight.share("one", question, None)

    assert question.asked == 3


async def test_an_error_is_everybodys_and_the_next_who_asks_has_another_try() -> None:
    flight, question = SingleFlight[str](), Question(ValueError("no"))
    errors: list[Exception] = []

    async def ask() -> None:
        try:
            await flight.share("key", question, None)
        except ValueError as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        question.may.set()
    question.answer = "yes"

    assert (len(errors), question.asked) == (2, 1)
    assert await flight.share("key", question, None) == "yes"


async def test_one_who_gives_up_leaves_the_others_waiting_for_their_answer() -> None:
    flight, question = SingleFlight[str](), Question()
    answers: list[str] = []
    scopes = [anyio.CancelScope() for _ in range(3)]

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            answers.append(await flight.share("key", question, None))

    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(ask, scope)
        await anyio.wait_all_tasks_blocked()
        scopes[0].cancel()
        await anyio.wait_all_tasks_blocked()
        question.may.set()

    assert (answers, question.asked, question.given_up) == (["answer"] * 2, 1, 0)


async def test_when_nobody_waits_any_more_it_is_given_up_and_asked_anew_for_the_next() -> None:
    flight, question = SingleFlight[str](), Question()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flight.share, "key", question, None)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flight.share, "key", question, None)
            await anyio.wait_all_tasks_blocked()
            question.may.set()

    assert (question.asked, question.given_up) == (2, 1)


async def test_leaving_gives_up_what_is_on_its_way() -> None:
    flight, question = SingleFlight[str](), Question()
    ended = anyio.Event()

    async def ask() -> None:
        try:
            await flight.share("key", question, None)
        except BaseException:  # noqa: BLE001 - cancelled, though not by anyone around this
            ended.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await flight.aclose()
            await ended.wait()
    await flight.aclose()
    with pytest.raises(asyncio.CancelledError):
        await flight.share("key", question, None)

    assert (question.asked, question.given_up) == (1, 1)


async def test_work_runs_to_its_end_and_the_cancellation_waits_for_it() -> None:
    may, done = anyio.Event(), False

    async def work() -> str:
        nonlocal done
        await may.wait()
        done = True
        return "result"

    task = asyncio.create_task(run_to_end(work()))
    await anyio.wait_all_tasks_blocked()
    for _ in range(2):
        task.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not task.done()
    may.set()
    with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
        await task
    assert done
    assert await run_to_end(work()) == "result"


async def test_work_that_runs_to_its_end_is_not_cut_by_a_cancelled_scope() -> None:
    may, done = anyio.Event(), False

    async def work() -> None:
        nonlocal done
        await may.wait()
        done = True

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_to_end, work())
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            asyncio.get_running_loop().call_soon(may.set)
    assert done


async def test_an_error_of_work_that_runs_to_its_end_is_the_callers() -> None:
    async def work() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await run_to_end(work())
