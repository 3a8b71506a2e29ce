"""The same question, asked by several at once."""

import asyncio

import anyio
import pytest

from tidings.web.sharing import Progress, SingleFlight

pytestmark = pytest.mark.anyio


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
    flights, question = SingleFlight[str](), Question()
    answers: list[str] = []
    told: list[tuple[int, int, int | None]] = []

    async def ask(number: int) -> None:
        async def progress(done: int, whole: int | None) -> None:
            told.append((number, done, whole))

        answers.append(await flights.share("key", question, progress if number else None))

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(ask, number)
        await anyio.wait_all_tasks_blocked()
        question.may.set()

    assert (answers, question.asked) == (["answer"] * 3, 1)
    assert told == [(1, 1, 2), (2, 1, 2)]


async def test_other_questions_are_asked_for_themselves() -> None:
    flights, question = SingleFlight[str](), Question()
    question.may.set()

    await flights.share("one", question, None)
    await flights.share("two", question, None)
    await flights.share("one", question, None)

    assert question.asked == 3


async def test_an_error_is_everybodys_and_the_next_who_asks_has_another_try() -> None:
    flights, question = SingleFlight[str](), Question(ValueError("no"))
    errors: list[Exception] = []

    async def ask() -> None:
        try:
            await flights.share("key", question, None)
        except ValueError as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        question.may.set()
    question.answer = "yes"

    assert (len(errors), question.asked) == (2, 1)
    assert await flights.share("key", question, None) == "yes"


async def test_one_who_gives_up_leaves_the_others_waiting_for_their_answer() -> None:
    flights, question = SingleFlight[str](), Question()
    answers: list[str] = []
    scopes = [anyio.CancelScope() for _ in range(3)]

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            answers.append(await flights.share("key", question, None))

    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(ask, scope)
        await anyio.wait_all_tasks_blocked()
        scopes[0].cancel()
        await anyio.wait_all_tasks_blocked()
        question.may.set()

    assert (answers, question.asked, question.given_up) == (["answer"] * 2, 1, 0)


async def test_when_nobody_waits_any_more_it_is_given_up_and_asked_anew_for_the_next() -> None:
    flights, question = SingleFlight[str](), Question()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flights.share, "key", question, None)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flights.share, "key", question, None)
            await anyio.wait_all_tasks_blocked()
            question.may.set()

    assert (question.asked, question.given_up) == (2, 1)


async def test_leaving_gives_up_what_is_on_its_way() -> None:
    flights, question = SingleFlight[str](), Question()
    ended = anyio.Event()

    async def ask() -> None:
        try:
            await flights.share("key", question, None)
        except BaseException:  # noqa: BLE001 - cancelled, though not by anyone around this
            ended.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await flights.aclose()
            await ended.wait()
    await flights.aclose()
    with pytest.raises(asyncio.CancelledError):
        await flights.share("key", question, None)

    assert (question.asked, question.given_up) == (1, 1)
