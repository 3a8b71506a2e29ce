"""One subscriber: what waits for it, in which order it gets it, and when it is cut off."""

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.doubles import Clock, Log, Reader, loop_clock, running, turns
from tidings.changes import CURSOR_KEY, Change, Cursor, PromptsListChanged, ResourceUpdated, ToolsListChanged
from tidings.server.config import Limits
from tidings.server.subscriber import FEATURES

pytestmark = pytest.mark.anyio

__all__ = ["loop_clock"]

A, B, C = "note://a", "note://b", "note://c"
SMALL = Limits(backlog=3, write_deadline=5.0)


@pytest.fixture
def log() -> Log:
    return Log()


def opened(reader: Reader) -> Reader:
    reader.open()
    return reader


def stalled(reader: Reader, log: Log) -> Reader:
    """`reader`, with a first write under way that ends when the test says so."""
    reader.stalls = True
    reader.open()
    reader.deliver(log.frame(A))
    return reader


# What is written when


async def test_an_idle_stream_is_written_to_before_the_publisher_goes_on(log: Log) -> None:
    reader = opened(Reader(A, B))
    reader.deliver(log.frame(A))
    reader.deliver(log.frame(A))
    assert [len(batch) for batch in reader.batches] == [1, 1]
    assert reader.info.waiting == 0


async def test_nothing_is_written_before_the_stream_is_open(log: Log) -> None:
    reader = Reader(A, B)
    reader.deliver(log.frame(A))
    reader.deliver(log.frame(B))
    assert reader.batches == []
    reader.open()
    assert [[frame.change.uri for frame in batch] for batch in reader.batches] == [[A, B]]


async def test_what_comes_while_a_write_is_under_way_goes_out_in_one_the_newest_of_each_in_order(log: Log) -> None:
    reader = stalled(Reader(A, B, features=["tools"]), log)
    for change in (A, B, A, ToolsListChanged(), B, B):
        reader.deliver(log.frame(change))
    assert reader.info.waiting == 3
    await reader.take()
    assert len(reader.batches) == 2
    assert reader.written[1:] == [ResourceUpdated(A), ToolsListChanged(), ResourceUpdated(B)]
    assert reader.versions == [1, 4, 5, 7]


async def test_each_write_waits_for_the_one_before(log: Log) -> None:
    reader = stalled(Reader(A, B), log)
    reader.deliver(log.frame(B))
    await reader.take()
    reader.deliver(log.frame(A))
    assert reader.uris == [A, B]
    await reader.take()
    assert reader.uris == [A, B, A]


async def test_what_was_missed_comes_before_what_has_come_since_and_only_once(log: Log) -> None:
    missed = [log.frame(A), log.frame(B), log.frame(C)]
    reader = Reader(A, B, C)
    reader.deliver(log.frame(B))
    reader.replay(missed)
    reader.open()
    assert reader.uris == [A, C, B]
    assert reader.versions == [1, 3, 4]


async def test_what_comes_while_a_stream_is_closed_waits_for_the_next_one(log: Log) -> None:
    reader = opened(Reader(A, B))
    reader.close()
    reader.deliver(log.frame(A))
    reader.deliver(log.frame(A))
    assert reader.uris == []
    reader.open()
    assert reader.versions == [2]


async def test_a_write_under_way_when_the_stream_is_closed_does_not_hold_up_the_next_stream(log: Log) -> None:
    reader = stalled(Reader(A, B), log)
    under_way = reader.under_way
    reader.deliver(log.frame(B))
    reader.close()
    await turns()
    assert under_way is not None
    assert under_way.cancelled()
    assert reader.uris == [A]
    assert reader.info.waiting == 1
    reader.stalls = False
    reader.open()
    assert reader.uris == [A, B]


async def test_told_everything_only_the_last_says_where_that_was() -> None:
    reader = Reader(A, B, features=["tools"])
    reader.open()
    reader.deliver_everything(Cursor("new", 0), "new:0")
    told = [CURSOR_KEY in frame.params()["_meta"] for batch in reader.batches for frame in batch]
    assert told == [False, False, True]


async def test_a_change_that_a_replay_already_knows_later_is_not_put_behind_its_successors(log: Log) -> None:
    reader = Reader(A, B)
    old, _, newer, later = log.frame(A), log.frame(B), log.frame(A), log.frame(B)
    reader.replay([newer, later])
    reader.deliver(old)
    reader.open()
    assert reader.versions == [newer.place.version, later.place.version]


async def test_an_answer_about_a_resource_is_asked_again_after_a_while(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, answers = 1000.0, iter([False, True])

    async def screen(_: str) -> bool:
        return next(answers)

    monkeypatch.setattr("tidings.server.subscriber.time.monotonic", lambda: now)
    reader = Reader("note://*", screen=screen)
    reader.open()
    reader.deliver(log.frame(A))
    await turns()
    reader.deliver(log.frame(A))
    await turns()
    assert reader.uris == []
    now += 31
    reader.deliver(log.frame(A))
    await turns()
    assert reader.uris == [A]


async def test_without_a_stream_to_borrow_frames_go_one_by_one_through_the_session(log: Log) -> None:
    reader = Reader(A, B, C)
    reader.stream, reader.stalls = None, True
    reader.open()
    for name in (A, B, C, B):
        reader.deliver(log.frame(name))
        await turns()
    assert reader.uris == [A]
    await reader.take()
    assert reader.uris == [A, C]
    await reader.take()
    assert reader.versions == [1, 3, 4]
    await reader.take()
    assert reader.info.waiting == 0


async def test_a_session_that_breaks_is_cut_and_reaches_nobody(log: Log) -> None:
    reader = opened(Reader(A))
    reader.stream, reader.breaks = None, ConnectionResetError("gone")
    reader.deliver(log.frame(A))
    await turns()
    assert reader.events == ["cut"]


async def test_a_subscriber_says_who_it_is_and_what_waits(log: Log) -> None:
    reader = stalled(Reader(A, "feed://*", features=["tools"], client="weather 1.0"), log)
    reader.deliver(log.frame(A))
    info = reader.info
    assert (info.client, info.era, info.transport) == ("weather 1.0", "test", "memory")
    assert info.features == {"tools"}
    assert info.subscriptions == {A, "feed://*"}
    assert info.waiting == 1
    assert info.age >= 0
    assert info.id != Reader().info.id


@given(
    st.lists(
        st.one_of(st.sampled_from([A, B, C, *FEATURES.values()]), st.just("take"), st.just("close"), st.just("open")),
        max_size=40,
    )
)
@settings(max_examples=200)
def test_whatever_the_pace_of_the_reader_it_ends_with_the_newest_of_each_in_order(steps: list[Change | str]) -> None:
    async def walk() -> None:
        log, reader, newest = Log(), Reader(A, B, C, features=list(FEATURES)), dict[Change, int]()
        reader.stalls = True
        for step in steps:
            match step:
                case "take":
                    if reader.under_way is not None and not reader.under_way.done():
                        await reader.take()
                case "close":
                    reader.close()
                case "open":
                    reader.open()
                case change:
                    frame = log.frame(change)
                    newest[frame.change] = frame.place.version
                    reader.deliver(frame)
        assert len({id(frame) for batch in reader.batches for frame in batch}) == len(reader.written)
        reader.stalls = False
        reader.open()
        if reader.under_way is not None and not reader.under_way.done():
            await reader.take()
        assert reader.versions == sorted(reader.versions)
        last = dict(zip(reader.written, reader.versions, strict=True))
        assert last == newest
        assert reader.events == []

    asyncio.run(walk())


# Overflow


async def test_overflow_that_looks_graceful(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    """A reader that fell behind a prefix must see its stream break: a result would tell it that it has everything."""
    reader = stalled(Reader("note://*", limits=SMALL), log)
    for number in range(4):
        reader.deliver(log.frame(f"note://{number}"))
    assert reader.events == ["cut"]
    assert "more than 3 changes wait" in caplog.text
    await reader.take()
    reader.deliver(log.frame(A))
    await turns()
    assert reader.events == ["cut"]
    assert reader.uris == [A]


async def test_as_many_changes_may_wait_as_the_limit_says(log: Log) -> None:
    reader = stalled(Reader("note://*", limits=SMALL), log)
    for number in (0, 1, 2, 0, 1, 2):
        reader.deliver(log.frame(f"note://{number}"))
    assert reader.events == []
    await reader.take()
    assert reader.uris == [A, "note://0", "note://1", "note://2"]


async def test_a_filter_without_prefixes_never_overflows_however_long_it_is(log: Log) -> None:
    names = [f"note://{number}" for number in range(20)]
    reader = stalled(Reader(*names, features=["tools"], limits=SMALL), log)
    for change in [*names, ToolsListChanged(), *names]:
        reader.deliver(log.frame(change))
    await reader.take()
    assert reader.events == []
    assert set(reader.uris) == {A, *names}


async def test_an_overflowing_pipe_that_cannot_be_cut_is_told_of_everything_instead(log: Log) -> None:
    reader = stalled(Reader("note://*", C, features=["prompts"], limits=SMALL, cuttable=False), log)
    for number in range(10):
        reader.deliver(log.frame(f"note://{number}"))
    assert reader.info.waiting <= 3 + 3
    await reader.take()
    assert reader.events == []
    assert {ResourceUpdated("note://*"), ResourceUpdated(C), PromptsListChanged()} <= set(reader.written)


async def test_more_than_may_wait_before_a_stream_is_open_becomes_everything(log: Log) -> None:
    reader = Reader("note://*", limits=SMALL)
    for number in range(4):
        reader.deliver(log.frame(f"note://{number}"))
    reader.open()
    assert reader.uris == ["note://*"]
    assert reader.events == []


# Readers that stall, and streams that break


async def test_a_reader_that_takes_nothing_until_the_deadline_is_cut_off(
    log: Log, loop_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stalled(Reader(A, limits=SMALL), log)
    await loop_clock.advance(4.9)
    assert reader.events == []
    await loop_clock.advance(0.2)
    assert reader.events == ["cut"]
    assert "read nothing for 5 s" in caplog.text


async def test_the_deadline_begins_anew_with_each_write(log: Log, loop_clock: Clock) -> None:
    reader = stalled(Reader(A, B, limits=SMALL), log)
    for _ in range(3):
        reader.deliver(log.frame(B))
        await loop_clock.advance(4.0)
        await reader.take()
    assert reader.events == []
    await loop_clock.advance(5.0)
    assert reader.events == ["cut"]


async def test_an_idle_stream_has_no_deadline(log: Log, loop_clock: Clock) -> None:
    reader = stalled(Reader(A, limits=SMALL), log)
    await reader.take()
    assert loop_clock.pending == []


async def test_a_pipe_that_cannot_be_cut_has_no_deadline(log: Log, loop_clock: Clock) -> None:
    reader = stalled(Reader(A, limits=SMALL, cuttable=False), log)
    assert loop_clock.pending == []
    await reader.take()


async def test_a_stalled_reader_does_not_delay_another(log: Log) -> None:
    slow, quick = stalled(Reader(A), log), opened(Reader(A))
    frame = log.frame(A)
    for reader in (slow, quick):
        reader.deliver(frame)
    assert (len(slow.batches), len(quick.batches)) == (1, 1)


@pytest.mark.parametrize("how", ["at once", "on opening", "later", "by cancelling"])
async def test_a_write_that_fails_cuts_that_stream_and_reaches_nobody_else(
    log: Log, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = Reader(A), opened(Reader(A))
    if how in {"at once", "on opening"}:
        broken.breaks = ConnectionResetError("gone")
        if how == "on opening":
            broken.deliver(log.frame(A))
        broken.open()
        broken.deliver(log.frame(A))
    else:
        stalled(broken, log)
        assert broken.under_way is not None
        if how == "later":
            broken.under_way.set_exception(ConnectionResetError("gone"))
        else:
            broken.under_way.cancel()
    other.deliver(log.frame(A))
    await turns()
    assert (broken.events, other.events) == (["cut"], [])
    assert other.uris == [A]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_stream_is_cut_once(caplog: pytest.LogCaptureFixture) -> None:
    reader = opened(Reader(A))
    reader.cut("one reason")
    reader.cut("another reason")
    assert reader.events == ["cut"]
    assert "another" not in caplog.text


async def test_a_cut_that_fails_is_logged_and_reaches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Reader):
        def _cut(self) -> None:
            raise OSError("still here")

    reader = opened(Stubborn(A))
    reader.cut("it must go")
    assert "still here" in caplog.text


# The end


async def test_a_subscriber_that_is_gone_leaves_no_task_no_timer_and_nothing_that_waits(
    log: Log, loop_clock: Clock
) -> None:
    before = asyncio.all_tasks()
    reader = stalled(Reader(A, B, screen=None), log)
    reader.deliver(log.frame(B))
    reader.gone()
    await turns()
    assert reader.under_way is not None
    assert reader.under_way.cancelled()
    assert loop_clock.pending == []
    assert asyncio.all_tasks() == before
    reader.deliver(log.frame(A))
    reader.open()
    assert reader.info.waiting == 0
    assert reader.uris == [A]
    assert reader.events == []


async def test_a_write_that_fails_after_its_subscriber_has_gone_is_of_no_concern(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stalled(Reader(A), log)
    assert reader.under_way is not None
    reader.under_way.set_exception(ConnectionResetError("gone"))
    reader.gone()
    await turns()
    assert reader.events == []
    assert caplog.records == []


async def test_to_drain_is_to_wait_until_all_is_written(log: Log) -> None:
    reader = stalled(Reader(A, B), log)
    reader.deliver(log.frame(B))
    async with running(reader.drain) as drained:
        await reader.take()
        assert not drained.is_set()
        await reader.take()
        await drained.wait()


@pytest.mark.parametrize("end", ["gone", "cut"])
async def test_to_drain_ends_when_there_is_nobody_to_write_to(log: Log, end: str) -> None:
    reader = stalled(Reader(A), log)
    async with running(reader.drain) as drained:
        if end == "gone":
            reader.gone()
        else:
            reader.cut("it must go")
        await drained.wait()


async def test_several_may_wait_for_the_same_stream_to_drain(log: Log) -> None:
    reader = stalled(Reader(A, B), log)
    async with running(reader.drain) as one, running(reader.drain) as other:
        assert reader.under_way is not None
        # Idle for no longer than it takes the next change to come: before either of them has looked.
        reader.under_way.add_done_callback(lambda _: reader.deliver(log.frame(B)))
        await reader.take()
        await reader.take()
        await one.wait()
        await other.wait()


async def test_an_idle_stream_is_drained() -> None:
    with anyio.fail_after(5):
        await opened(Reader(A)).drain()


# Prefixes that somebody has to be asked about


class Judge:
    """Answers, when a test says so, whether a URI may be named."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self._allows = allows
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, uri: str) -> bool:
        self.asked.append(uri)
        await self.answers.wait()
        return self._allows(uri)


async def test_a_resource_that_is_denied_is_never_named(log: Log) -> None:
    judge = Judge(lambda uri: "secret" not in uri)
    reader = opened(Reader("note://*", screen=judge))
    for name in ("note://secret/1", A, "note://secret/2", "note://secret/1", B):
        reader.deliver(log.frame(name))
        await turns()
    assert reader.uris == [A, B]
    assert reader.batches == [[frame] for batch in reader.batches for frame in batch]


async def test_each_resource_is_asked_about_once(log: Log) -> None:
    judge = Judge(lambda uri: uri != B)
    reader = opened(Reader("note://*", screen=judge))
    for name in (A, B, A, B, A):
        reader.deliver(log.frame(name))
        await turns()
    assert judge.asked == [A, B]
    assert reader.uris == [A, A, A]


async def test_what_is_named_in_the_subscription_and_lists_need_no_asking(log: Log) -> None:
    judge = Judge(lambda uri: False)
    reader = opened(Reader("note://*", A, features=["tools"], screen=judge))
    reader.deliver(log.frame(A))
    reader.deliver(log.frame(ToolsListChanged()))
    reader.deliver_everything(Cursor("log", 9), "log:9")
    assert judge.asked == []
    assert set(reader.uris) == {A, "note://*"}


async def test_what_comes_while_somebody_is_asked_does_not_overtake(log: Log) -> None:
    judge = Judge(lambda uri: True)
    judge.answers.clear()
    reader = opened(Reader("note://*", A, features=["tools"], screen=judge))
    for change in (B, A, ToolsListChanged(), C):
        reader.deliver(log.frame(change))
        await turns()
    assert reader.batches == []
    judge.answers.set()
    await turns()
    assert reader.versions == [1, 2, 3, 4]


async def test_a_long_list_of_questions_loses_no_answer(log: Log) -> None:
    """Answers are forgotten when there are too many; those that a write waits for are still needed."""
    judge = Judge(lambda uri: True)
    reader = Reader("note://*", screen=judge, limits=SMALL)
    names = [f"note://{number}" for number in range(3)]
    reader.open()
    for name in (A, B):
        reader.deliver(log.frame(name))
        await turns()
    judge.answers.clear()
    reader.deliver(log.frame(C))
    await turns()
    for name in (A, *names[:2]):
        reader.deliver(log.frame(name))
    judge.answers.set()
    await turns()
    assert reader.uris == [A, B, C, A, *names[:2]]
    assert len(reader._screened) <= SMALL.backlog


async def test_a_write_that_follows_an_answer_is_waited_for(log: Log, loop_clock: Clock) -> None:
    reader = opened(Reader("note://*", screen=Judge(lambda uri: True), limits=SMALL))
    reader.stalls = True
    reader.deliver(log.frame(A))
    await turns()
    reader.deliver(log.frame(B))
    await turns()
    assert reader.uris == [A]
    await loop_clock.advance(5.0)
    assert reader.events == ["cut"]
    reader.gone()
    await turns()
    assert loop_clock.pending == []


async def test_an_answer_that_comes_when_the_subscriber_is_gone_writes_nothing(log: Log) -> None:
    before = asyncio.all_tasks()
    judge = Judge(lambda uri: True)
    judge.answers.clear()
    reader = opened(Reader("note://*", screen=judge))
    reader.deliver(log.frame(A))
    await turns()
    reader.gone()
    judge.answers.set()
    await turns()
    assert reader.batches == []
    assert asyncio.all_tasks() == before


async def test_a_judge_who_fails_breaks_the_stream(log: Log) -> None:
    def fail(uri: str) -> bool:
        raise LookupError(uri)

    reader = opened(Reader("note://*", screen=Judge(fail)))
    reader.deliver(log.frame(A))
    await turns()
    assert reader.batches == []
    assert reader.events == ["cut"]
