"""Random walks on every bus, compared with a log that forgets nothing.

A bus may say "I cannot know" (None) of what its history has no room for, and of nothing else. Whatever it does say is
the truth of the full log.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.bus.buses import BUSES, BusFactory, Ear, name_of, newest
from tidings.bus import Bus, Entry, History
from tidings.changes import Change, Cursor, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

HISTORY = History(entries=4, age=100.0)

uris = st.sampled_from(["note://a", "note://b", "note://æ/🎈", "tools:", "x:" + "y" * 3000, "note://it's;\x00--"])
changes: st.SearchStrategy[Change] = st.one_of(
    uris.map(ResourceUpdated), st.sampled_from([ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()])
)


class Log:
    """The naive model: every entry with its time, and the highest version that a history may have dropped."""

    def __init__(self, start: Cursor) -> None:
        self.start = start
        self.entries: list[Entry] = []
        self.times: dict[Cursor, float] = {}
        self.floor = start.version

    def add(self, entry: Entry, now: float) -> None:
        self.entries.append(entry)
        self.times[entry[0]] = now
        self.forget(now)

    def forget(self, now: float) -> None:
        kept = [cursor for cursor, _ in newest(self.entries) if cursor.version > self.floor]
        while kept and (len(kept) > HISTORY.entries or self.times[kept[0]] < now - HISTORY.age):
            self.floor = kept.pop(0).version


class Walk(RuleBasedStateMachine):
    """Two handles on one log where the bus can share it, one where it cannot."""

    kind: type[BusFactory]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.now = 1_000_000.0
        self.runner.run(self.begin())

    async def begin(self) -> None:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.factory = await self.stack.enter_async_context(self.kind.start(Path(folder)))
        self.buses = [await self.enter() for _ in range(2 if self.kind.shared else 1)]
        self.ears = [Ear() for _ in self.buses]
        for bus, ear in zip(self.buses, self.ears, strict=True):
            bus.subscribe(ear)
        self.log = Log(self.buses[0].head)

    async def enter(self) -> Bus:
        return await self.stack.enter_async_context(self.factory.open(history=HISTORY, clock=lambda: self.now))

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    @rule(change=changes, which=st.integers(0, 1))
    def publish(self, change: Change, which: int) -> None:
        bus = self.buses[which % len(self.buses)]
        cursor = self.runner.run(bus.publish(change))
        assert cursor > (self.log.entries[-1][0] if self.log.entries else self.log.start)
        assert bus.head >= cursor
        self.log.add((cursor, change), self.now)

    @rule(batch=st.lists(changes, min_size=2, max_size=8))
    def publish_many_at_once(self, batch: list[Change]) -> None:
        async def publish() -> list[Cursor]:
            return await asyncio.gather(*(self.buses[n % len(self.buses)].publish(c) for n, c in enumerate(batch)))

        cursors = self.runner.run(publish())
        stored = dict(zip(cursors, batch, strict=True))  # Equal changes may have one cursor.
        assert all(stored[cursor] == change for cursor, change in zip(cursors, batch, strict=True))
        for entry in sorted(stored.items(), key=lambda entry: entry[0]):
            self.log.add(entry, self.now)

    @rule(seconds=st.floats(0.0, 150.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.log.entries)
    @rule(data=st.data(), which=st.integers(0, 1))
    def ask_since(self, data: st.DataObject, which: int) -> None:
        cursor = data.draw(st.sampled_from([self.log.start, *(cursor for cursor, _ in self.log.entries)]))
        found = self.runner.run(self.buses[which % len(self.buses)].since(cursor))
        self.log.forget(self.now)
        if found is None:
            assert cursor.version < self.log.floor
        else:
            assert list(found) == newest([entry for entry in self.log.entries if entry[0] > cursor])

    @precondition(lambda self: self.log.entries)
    @rule(ahead=st.integers(1, 2**70), epoch=st.text(max_size=12))
    def ask_the_unknowable(self, ahead: int, epoch: str) -> None:
        last = self.log.entries[-1][0]
        for cursor in (Cursor(last.epoch, last.version + ahead), Cursor(epoch, last.version)):
            assert self.runner.run(self.buses[0].since(cursor)) is None

    @precondition(lambda self: self.kind.outlives)
    @rule()
    def come_back(self) -> None:
        """A process that starts later finds the same log."""

        async def look() -> Cursor:
            async with self.factory.open(history=HISTORY, clock=lambda: self.now) as bus:
                return bus.head

        assert self.runner.run(look()) == (self.log.entries[-1][0] if self.log.entries else self.log.start)

    @invariant()
    def every_listener_hears_of_all_in_order(self) -> None:
        if not self.log.entries:
            return
        for ear in self.ears:
            self.runner.run(ear.until_after(self.log.entries[-1][0]))
            assert ear.in_order
            # Equal changes may be merged into the later one, so only the newest of each is sure to be heard; a
            # history that was cut before a handle looked is told as None.
            assert set(ear.heard) <= set(self.log.entries) | {(cursor, None) for cursor, _ in ear.heard}
            lost = [cursor for cursor, change in ear.heard if change is None]
            seen_from = max(lost, default=self.log.start)
            expected = {entry for entry in newest(self.log.entries) if entry[0] > seen_from}
            assert expected <= set(ear.heard)


@pytest.mark.parametrize("walks", [10, pytest.param(100, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", BUSES, ids=name_of)
def test_a_random_walk_never_contradicts_the_full_log(kind: type[BusFactory], walks: int) -> None:
    walk = type("Walk", (Walk,), {"kind": kind})
    run_state_machine_as_test(
        walk,
        settings=settings(
            max_examples=walks, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
