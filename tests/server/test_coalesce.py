"""Merging changes that follow each other quickly on their way out, on a clock that moves when a test says so."""

import asyncio
import itertools
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.doubles import Clock
from tidings.changes import Change, Cursor, PromptsListChanged, ResourceUpdated, ToolsListChanged
from tidings.server.config import Coalesce, CoalesceSetting
from tidings.server.hub import Coalescer

pytestmark = pytest.mark.anyio

A, B = ResourceUpdated("note://a"), ResourceUpdated("note://b")
RULE = Coalesce(window=1.0, max_wait=5.0)


def place(version: int) -> Cursor:
    return Cursor("log", version)


class Bench:
    """A coalescer on its own clock, and when it delivered what, in seconds after the beginning."""

    def __init__(self, setting: CoalesceSetting = RULE) -> None:
        self.clock = Clock()
        self.start = self.clock.time()
        self.published: list[tuple[float, Change]] = []
        self.frames: list[tuple[int, int]] = []
        """The place of each change that was delivered, and the cursor with which."""
        self.merged = 0
        self.version = 0
        clock = cast("asyncio.AbstractEventLoop", self.clock)
        self.coalescer = Coalescer(self._deliver, setting, start=place(0), clock=lambda: clock, merged=self._merged)

    def hear(self, *changes: Change) -> None:
        for change in changes:
            self.version += 1
            self.coalescer.hear(place(self.version), change)

    def _deliver(self, at: Cursor, change: Change) -> None:
        self.published.append((round(self.clock.time() - self.start, 6), change))
        self.frames.append((at.version, self.coalescer.position.version))

    def _merged(self) -> None:
        self.merged += 1

    async def at(self, seconds: float) -> None:
        await self.clock.advance_to(self.start + seconds)

    def times(self, change: Change = A) -> list[float]:
        return [at for at, published in self.published if published == change]


async def test_the_first_change_goes_out_at_once() -> None:
    bench = Bench()
    bench.hear(A)
    assert bench.published == [(0.0, A)]


async def test_what_follows_within_the_window_is_merged_and_goes_out_at_its_end() -> None:
    bench = Bench()
    for moment in (0.0, 0.2, 0.3, 0.4):
        await bench.at(moment)
        bench.hear(A)
    assert bench.times() == [0.0]
    await bench.at(60)
    assert bench.times() == [0.0, 1.4]
    assert bench.merged == 2


async def test_trailing_update_is_not_lost() -> None:
    bench = Bench()
    bench.hear(A)
    await bench.at(0.999)
    bench.hear(A)
    await bench.at(60)
    assert bench.times() == [0.0, 1.999]


async def test_an_update_in_the_very_moment_in_which_the_window_ends_is_not_lost() -> None:
    bench = Bench()
    bench.hear(A)
    await bench.at(0.5)
    bench.hear(A)
    await bench.at(1.5)
    bench.hear(A)
    await bench.at(60)
    assert bench.times()[-1] >= 1.5


async def test_a_steady_stream_does_not_starve_the_debounce() -> None:
    bench = Bench()
    for step in range(1000):
        await bench.at(step * 0.1)
        bench.hear(A)
    times = bench.times()
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(times) > 15
    # The wait is counted from the first change that was held back, one step after the one that went out.
    assert max(gaps) <= RULE.max_wait + 0.1 + 1e-6


async def test_nothing_waits_longer_than_max_wait() -> None:
    bench = Bench(Coalesce(window=1.0, max_wait=2.5))
    for moment in (0.0, 0.5, 1.4, 2.3, 2.9):
        await bench.at(moment)
        bench.hear(A)
    await bench.at(3.0)
    assert bench.times() == [0.0, 3.0]


async def test_a_window_that_ends_with_nothing_held_back_closes() -> None:
    bench = Bench()
    bench.hear(A)
    await bench.at(1.1)
    assert bench.clock.pending == []
    bench.hear(A)
    assert bench.times() == [0.0, 1.1]


async def test_what_follows_a_trailing_change_is_merged_too() -> None:
    bench = Bench()
    for moment in (0.0, 0.5, 1.6):
        await bench.at(moment)
        bench.hear(A)
    await bench.at(60)
    assert bench.times() == [0.0, 1.5, 2.6]
    assert bench.clock.pending == []


async def test_each_resource_and_each_list_has_a_window_of_its_own() -> None:
    bench = Bench()
    for change in (A, B, ToolsListChanged(), PromptsListChanged()):
        bench.hear(change)
    assert [change for _, change in bench.published] == [A, B, ToolsListChanged(), PromptsListChanged()]


async def test_a_window_of_zero_merges_nothing() -> None:
    bench = Bench(Coalesce(window=0, max_wait=0))
    for _ in range(3):
        bench.hear(A)
    assert bench.times() == [0.0, 0.0, 0.0]
    assert bench.clock.pending == []


async def test_the_first_pattern_that_matches_a_uri_says_how_it_is_merged() -> None:
    bench = Bench(
        {
            "note://a": Coalesce(window=0, max_wait=0),
            "note://*": Coalesce(window=10, max_wait=10),
            "feed://{id}": Coalesce(window=20, max_wait=20),
            "feed://b": Coalesce(window=0, max_wait=0),
        }
    )
    feed, other = ResourceUpdated("feed://b"), ResourceUpdated("page://b")
    for change in (A, A, B, B, feed, feed, other, other, ToolsListChanged(), ToolsListChanged()):
        bench.hear(change)
    await bench.at(60)
    assert bench.times(A) == [0.0, 0.0]
    assert bench.times(B) == [0.0, 10.0]
    assert bench.times(feed) == [0.0, 20.0]
    assert bench.times(other) == bench.times(ToolsListChanged()) == [0.0, Coalesce().window]


async def test_to_flush_delivers_what_is_held_back_in_the_order_of_the_log() -> None:
    bench = Bench()
    bench.hear(A, B, ToolsListChanged(), B, A)
    bench.coalescer.flush()
    assert [change for _, change in bench.published] == [A, B, ToolsListChanged(), B, A]
    assert bench.frames[-2:] == [(4, 4), (5, 5)]
    assert bench.clock.pending == []


async def test_a_change_after_a_flush_goes_out_at_once() -> None:
    bench = Bench()
    bench.hear(A)
    bench.coalescer.flush()
    bench.hear(A)
    assert bench.times() == [0.0, 0.0]


async def test_a_frame_claims_nothing_that_is_held_back() -> None:
    bench = Bench()
    bench.hear(A, B, A, ToolsListChanged())  # A is held back at 3.
    assert bench.frames == [(1, 1), (2, 2), (4, 2)]
    bench.hear(A)  # Now at 5: whoever has everything up to 4 would get it.
    assert bench.coalescer.position == place(4)
    bench.hear(PromptsListChanged())
    await bench.at(1.0)
    assert bench.frames[-2:] == [(6, 4), (5, 6)]
    assert bench.coalescer.position == place(6)


async def test_what_is_held_back_of_a_lost_log_is_forgotten() -> None:
    bench = Bench()
    bench.hear(A, A)
    bench.coalescer.begin(Cursor("another", 1))
    assert bench.coalescer.position == Cursor("another", 1)
    await bench.at(60)
    assert bench.times() == [0.0]
    assert bench.clock.pending == []


async def test_a_window_survives_a_delivery_that_fails() -> None:
    bench = Bench()
    bench.hear(A, A)
    deliver = bench.coalescer._deliver

    def fail(*_: object) -> None:
        raise RuntimeError("a broken stream")

    bench.coalescer._deliver = fail
    with pytest.raises(RuntimeError):
        await bench.at(1.0)
    bench.coalescer._deliver = deliver
    bench.hear(A)
    await bench.at(10.0)
    assert len(bench.times()) == 2


@given(
    steps=st.lists(st.tuples(st.floats(0, 3), st.sampled_from([A, B, ToolsListChanged()])), min_size=1, max_size=60),
    window=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    longer=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_whatever_the_schedule_each_change_is_followed_by_its_publication_in_time(
    steps: list[tuple[float, Change]], window: float, longer: float
) -> None:
    async def walk() -> None:
        rule = Coalesce(window=window, max_wait=window + longer)
        bench, submitted, now = Bench(rule), list[tuple[float, Change]](), 0.0
        for pause, change in steps:
            now += pause
            await bench.at(now)
            bench.hear(change)
            submitted.append((now, change))
        await bench.at(now + 1_000)
        assert bench.clock.pending == []
        for at, change in submitted:
            assert any(at - 1e-5 <= published <= at + rule.max_wait + 1e-5 for published in bench.times(change))
        for change in (A, B, ToolsListChanged()):
            assert len(bench.times(change)) <= sum(name == change for _, name in submitted)
        assert len(bench.published) + bench.merged == len(submitted)
        # Whoever has the frames up to one, and asks the compacted log for what comes after its cursor, has everything.
        newest = {change: version for version, (_, change) in enumerate(submitted, 1)}
        for count, (_, cursor) in enumerate(bench.frames, 1):
            told = {(bench.published[index][1], bench.frames[index][0]) for index in range(count)}
            for change, version in newest.items():
                assert version > cursor or (change, version) in told
        assert bench.frames[-1][1] == len(submitted)

    asyncio.run(walk())
