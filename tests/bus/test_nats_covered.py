"""How far back a `NatsBus` can say what changed: the argument in `_nats_stream`, tried on a real stream.

A message that was replaced is no loss, one that was dropped is, and both look the same from outside. The room beyond
the history is made small here, so that messages really are dropped.
"""

import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.bus.buses import Ear, newest
from tests.bus.nats_server import api, shared
from tidings.bus import Entry, History
from tidings.bus.nats import NatsBus
from tidings.bus.nats import stream as stream_module
from tidings.changes import Change, Cursor, ResourceUpdated

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")
MANY = [ResourceUpdated(f"note://{n}") for n in range(40)]


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "SPARE", 4)


def open_log(prefix: str, **history: Any) -> NatsBus:
    return NatsBus(shared().url, prefix=prefix, history=History(**history))


async def stream(prefix: str) -> dict[str, Any]:
    return await api(shared().url, f"STREAM.INFO.{prefix}")


async def asked_anew(prefix: str, cursor: Cursor, **history: Any) -> list[Entry] | None:
    """What a process says that has just come."""
    async with open_log(prefix, **history) as bus:
        found = await bus.since(cursor)
        return None if found is None else list(found)


@pytest.mark.usefixtures("little_room")
async def test_what_was_only_replaced_is_covered_though_the_stream_begins_later(prefix: str) -> None:
    async with open_log(prefix, entries=3) as bus:
        start = bus.head
        log: list[Entry] = [(await bus.publish(change), change) for change in [A, B, C] * 50]
        assert (await stream(prefix))["state"]["first_seq"] > start.version + 100
        assert await bus.since(start) == newest(log)
    for place in (start, log[0][0], log[70][0], log[-1][0]):
        assert await asked_anew(prefix, place, entries=3) == newest([entry for entry in log if entry[0] > place])


@pytest.mark.usefixtures("little_room")
async def test_what_was_dropped_is_not_covered_though_the_stream_looks_the_same(prefix: str) -> None:
    async with open_log(prefix, entries=3) as bus:
        start = bus.head
        log: list[Entry] = [(await bus.publish(change), change) for change in MANY]
        state = (await stream(prefix))["state"]
        assert state["messages"] <= 2 * 3 + 4
    assert await asked_anew(prefix, start, entries=3) is None
    # Nor is it if the few that are left are replaced again and again.
    async with open_log(prefix, entries=3) as bus:
        log += [(await bus.publish(change), change) for change in MANY[-3:] * 20]
    for place, _ in log[:-3]:
        expected = newest([entry for entry in log if entry[0] > place])
        found = await asked_anew(prefix, place, entries=3)
        assert found == (expected if len(expected) <= 3 else None)


@pytest.mark.usefixtures("little_room")
async def test_a_longer_history_does_not_bring_back_what_a_shorter_one_dropped(prefix: str) -> None:
    async with open_log(prefix, entries=1) as bus:
        start = bus.head
        for change in MANY:
            await bus.publish(change)
    async with open_log(prefix, entries=1000) as bus:
        assert (await stream(prefix))["config"]["max_msgs"] == 2004
        assert bus.head.epoch == start.epoch
        assert await bus.since(start) is None
        place, cursor = bus.head, await bus.publish(A)
        assert await bus.since(place) == [(cursor, A)]
    assert await asked_anew(prefix, start, entries=1000) is None
    assert await asked_anew(prefix, place, entries=1000) == [(cursor, A)]


async def test_a_shorter_history_takes_nothing_from_others(prefix: str) -> None:
    async with open_log(prefix, entries=1000) as one, open_log(prefix, entries=1) as two:
        limit = (await stream(prefix))["config"]["max_msgs"]
        assert limit > 2000
        start = one.head
        log = [(await two.publish(change), change) for change in MANY]
        assert await one.since(start) == log
        assert await two.since(start) is None
        assert await two.since(log[-2][0]) == log[-1:]


@pytest.mark.parametrize("limit", [{"max_age": 10**18}, {"max_bytes": 10**8}, {"max_msgs": 5}])
async def test_a_limit_that_would_drop_unseen_is_lifted_and_nothing_before_is_trusted(
    prefix: str, limit: dict[str, int]
) -> None:
    async with open_log(prefix) as bus:
        start = bus.head
        await bus.publish(A)
    config = (await stream(prefix))["config"]
    await api(shared().url, f"STREAM.UPDATE.{prefix}", config | limit)
    async with open_log(prefix) as bus:
        assert (await stream(prefix))["config"] == config
        assert bus.head.epoch == start.epoch
        assert await bus.since(start) is None
        assert await bus.since(bus.head) == []


async def test_a_limit_that_comes_while_the_bus_is_used_is_noticed_before_an_answer_is_given(prefix: str) -> None:
    async with open_log(prefix) as bus:
        start = bus.head
        await bus.publish(A)
        config = (await stream(prefix))["config"]
    async with open_log(prefix) as bus:
        await api(shared().url, f"STREAM.UPDATE.{prefix}", config | {"max_msgs": 1})
        assert await bus.since(start) is None
        await bus.publish(B)
        assert await bus.since(start) is None
        assert (await stream(prefix))["config"]["max_msgs"] == config["max_msgs"]


async def test_an_unlimited_stream_stays_so(prefix: str) -> None:
    async with open_log(prefix):
        config = (await stream(prefix))["config"] | {"max_msgs": -1}
    await api(shared().url, f"STREAM.UPDATE.{prefix}", config)
    async with open_log(prefix, entries=2) as bus:
        start, cursor = bus.head, await bus.publish(A)
        assert await bus.since(start) == [(cursor, A)]
        assert (await stream(prefix))["config"]["max_msgs"] == -1


async def test_the_age_goes_by_the_time_of_the_broker(prefix: str) -> None:
    async with open_log(prefix) as bus:
        start, cursor = bus.head, await bus.publish(A)
        assert await asked_anew(prefix, start, age=3600) == [(cursor, A)]
        # Everything is too old for this one, but nothing is missed by whoever has heard it all.
        assert await asked_anew(prefix, start, age=1e-9) is None
        assert await asked_anew(prefix, cursor, age=1e-9) == []
        assert await bus.since(start) == [(cursor, A)]


@pytest.mark.usefixtures("little_room")
async def test_the_mark_is_written_anew_before_it_is_dropped(prefix: str) -> None:
    async with open_log(prefix, entries=30) as one, open_log(prefix, entries=30) as two:
        ear, start = Ear(), one.head
        two.subscribe(ear)
        for n in range(10):
            await asyncio.gather(*(one.publish(ResourceUpdated(f"note://{n}/{m}")) for m in range(10)))
        last = await one.publish(A)
        await ear.until_after(last)
        assert last.epoch == start.epoch
        assert None not in ear.changes
    assert (await stream(prefix))["state"]["first_seq"] > 2
    async with open_log(prefix, entries=30) as late:
        assert late.head.epoch == start.epoch


@pytest.mark.usefixtures("little_room")
async def test_whoever_fell_behind_the_log_is_told(prefix: str) -> None:
    async with open_log(prefix, entries=2) as bus:
        ear = Ear()
        bus.subscribe(ear)
        session = bus._session
        assert session is not None
        assert session._link is not None
        before = await bus.publish(A)
        # As if this process had not read for a while: what is then read first may not be what came first.
        reader = session._link.reader
        reader._closed = True
        async with open_log(prefix, entries=2) as other:
            for change in MANY:
                await other.publish(change)
        reader._closed = False
        await ear.until(lambda ear: None in ear.changes)
        last = await bus.publish(C)
        assert ear.changes == [A, None, C]
        assert ear.in_order
        assert last.epoch == before.epoch


class Walk(RuleBasedStateMachine):
    """Publishes at random, and asks processes that have just come about any place there ever was."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.prefix = uuid.uuid4().hex
        self.log: list[Entry] = []
        self.runner.run(self.begin())

    async def begin(self) -> None:
        self.bus = await self.stack.enter_async_context(open_log(self.prefix, entries=3))
        self.start = self.bus.head

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    @rule(batch=st.lists(st.sampled_from(MANY[:14]), min_size=1, max_size=12))
    def publish(self, batch: list[Change]) -> None:
        async def publish() -> None:
            self.log += [(await self.bus.publish(change), change) for change in batch]

        self.runner.run(publish())

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from([self.start, *(cursor for cursor, _ in self.log)]))
        expected = newest([entry for entry in self.log if entry[0] > place])
        found = self.runner.run(asked_anew(self.prefix, place, entries=3))
        assert found == (expected if len(expected) <= 3 else None)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("walks", [10, pytest.param(50, marks=pytest.mark.thorough)])
def test_a_random_walk_never_takes_a_dropped_message_for_a_replaced_one(walks: int) -> None:
    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=walks, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
