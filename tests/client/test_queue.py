"""The queue of requests under every order of events: nobody is overtaken, nobody is lost, nobody waits for ever."""

import asyncio
import gc
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tidings.client.queue import QueueEntry, RequestQueue, Status
from tidings.errors import Disconnected, RequestCancelled, RequestFailed

OUTCOMES: list[tuple[BaseException | None, Status]] = [
    (None, Status.COMPLETED),
    (RequestFailed("no"), Status.ERROR),
    (ValueError("no"), Status.ERROR),
    (RequestCancelled("enough"), Status.CANCELLED),
    (Disconnected("bye"), Status.CANCELLED),
    (asyncio.CancelledError(), Status.CANCELLED),
]


class QueueMachine(RuleBasedStateMachine):
    """A queue, and beside it what it should be: who asked, in order, and how each ended."""

    @initialize(concurrency=st.integers(1, 3), history=st.integers(0, 4))
    def begin(self, concurrency: int, history: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.complaints: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.concurrency, self.limit = concurrency, history
        self.queue = RequestQueue(concurrency=concurrency, history=history, on_change=self.note)
        self.tasks: list[asyncio.Task[QueueEntry]] = []
        self.entries: dict[str, QueueEntry] = {}
        self.started: list[str] = []
        self.ended: list[str] = []

    def note(self, entry: QueueEntry) -> None:
        self.entries[entry.id] = entry
        if entry.status is Status.IN_PROGRESS:
            assert entry.id not in self.started
            self.started.append(entry.id)
        elif entry.over:
            assert entry.id not in self.ended
            self.ended.append(entry.id)

    def turns(self, count: int) -> None:
        async def wait() -> None:
            for _ in range(count):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    @property
    def running(self) -> list[QueueEntry]:
        """What has begun and was not given back, in order."""
        return [self.entries[name] for name in self.started if not self.entries[name].over]

    @property
    def waiting(self) -> list[QueueEntry]:
        return [entry for entry in self.entries.values() if entry.status is Status.PENDING]

    async def entered(self, aside: bool) -> QueueEntry:
        """Waits for a turn, as every request does."""
        entry = self.queue.add("a/method", {}, aside=aside)
        try:
            await self.queue.turn(entry)
        except BaseException as error:
            self.queue.end(entry, error)
            raise
        return entry

    @rule(aside=st.booleans(), soon=st.booleans())
    def enter(self, aside: bool, soon: bool) -> None:
        self.tasks.append(self.loop.create_task(self.entered(aside)))
        self.turns(0 if soon else 3)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def end(self, data: st.DataObject, outcome: tuple[BaseException | None, Status]) -> None:
        entry = data.draw(st.sampled_from(self.running))
        error, status = outcome
        self.queue.end(entry, error)
        assert entry.status is status
        assert entry.error is error

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(list(self.entries.values())))
        over = entry.over
        assert self.queue.cancel(entry.id) is (not over)
        if entry in self.running:
            assert isinstance(entry.cancel_reason, RequestCancelled | Disconnected)

    @rule()
    def cancel_what_never_was(self) -> None:
        assert not self.queue.cancel("request-0")

    @precondition(lambda self: any(not task.done() for task in self.tasks))
    @rule(data=st.data())
    def cancel_the_task_that_waits(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([task for task in self.tasks if not task.done()])).cancel()

    @rule()
    def reject_all(self) -> None:
        self.turns(1)
        self.queue.reject_all(lambda method: Disconnected(f"{method} was rejected"))
        for entry in self.running:
            assert isinstance(entry.cancel_reason, RequestCancelled | Disconnected)
        self.turns(3)
        assert not self.waiting
        assert self.queue.status().pending == 0

    @rule(count=st.integers(1, 2))
    def wait(self, count: int) -> None:
        self.turns(count)

    @rule()
    def nobody_waits_while_there_is_room(self) -> None:
        self.turns(4)
        if len([entry for entry in self.running if not entry.aside]) < self.concurrency:
            assert not self.waiting

    @invariant()
    def as_many_run_as_may(self) -> None:
        in_queue = [entry for entry in self.running if not entry.aside]
        assert len(in_queue) <= self.concurrency

    @invariant()
    def nobody_overtakes(self) -> None:
        numbers = [int(name.partition("-")[2]) for name in self.started if not self.entries[name].aside]
        assert numbers == sorted(numbers)

    @invariant()
    def the_counts_add_up(self) -> None:
        status = self.queue.status()
        of = [entry.status for entry in self.entries.values()]
        assert status.completed == of.count(Status.COMPLETED)
        assert status.failed == of.count(Status.ERROR)
        assert status.cancelled == of.count(Status.CANCELLED)
        assert status.pending + status.in_progress <= of.count(Status.PENDING) + of.count(Status.IN_PROGRESS)
        assert {entry.id for entry in self.queue} <= self.entries.keys()

    @invariant()
    def the_past_is_remembered_as_far_as_it_may_be(self) -> None:
        remembered = [entry.id for entry in self.queue.history()]
        assert remembered == self.ended[::-1][: self.limit]
        assert self.queue.history(1) == self.queue.history()[:1]

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        for _ in range(len(self.tasks) + 1):
            self.turns(3)
            for entry in self.running:
                self.queue.end(entry)
        self.turns(3)
        assert all(task.done() for task in self.tasks)
        for task in self.tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                assert isinstance(error, RequestCancelled | Disconnected)
        status = self.queue.status()
        assert (status.pending, status.in_progress) == (0, 0)
        assert status.completed + status.failed + status.cancelled == len(self.entries)
        assert not list(self.queue)
        self.tasks.clear()
        gc.collect()
        self.loop.close()
        assert not self.complaints


@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.thorough)])
def test_nobody_is_overtaken_lost_or_left_waiting(examples: int) -> None:
    gc.freeze()  # What was there before need not be looked at again after each example.
    run_state_machine_as_test(QueueMachine, settings=settings(max_examples=examples, stateful_step_count=30))
