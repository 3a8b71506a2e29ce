"""The parts of a `NatsBus` that need no broker, and what it tells of itself."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from tests.bus.buses import Ear, newest
from tests.bus.nats_server import api, shared
from tests.bus.proxy import proxy_to
from tests.bus.test_nats_faults import through, until
from tests.telemetry import collect
from tidings.bus import Entry, History
from tidings.bus.nats.connection import Answer, end
from tidings.bus.nats.errors import ApiError, explain
from tidings.bus.nats.stream import Mark, Subjects, nanoseconds
from tidings.bus.nats.transfer import Log, LogPosition, Sender
from tidings.bus.shared import Engine, Recorded, Tail
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")


def record(version: int, name: str, at: int = 0) -> Recorded:
    return Recorded((Cursor("e", version), ResourceUpdated(f"note://{name}")), at)


@given(
    names=st.lists(st.sampled_from("abcdef"), max_size=30),
    known_from=st.integers(0, 30),
    room=st.integers(1, 6),
    place=st.integers(0, 30),
)
def test_the_tail_of_a_log_is_the_same_whether_it_was_heard_or_read_later(
    names: list[str], known_from: int, room: int, place: int
) -> None:
    log = [record(version, name) for version, name in enumerate(names, 1)]
    tail = Tail(History(entries=room))
    tail.begin(known_from)
    for one in log[known_from:]:
        tail.add(one)
    if tail.floor <= place < tail.start:
        # The stream has the newest of each.
        kept = {cursor for cursor, _ in newest([one.entry for one in log])}
        older = [one for one in log[:known_from] if one.entry[0] in kept and one.entry[0].version > place]
        tail.prepend(older, place)
    expected: list[Entry] = newest([one.entry for one in log if one.entry[0].version > place])
    if len(expected) > room:
        assert place < tail.start
    elif place >= tail.start:
        assert tail.after(place) == expected
    else:
        assert place < tail.floor


def test_what_is_too_old_is_forgotten_and_known_to_be() -> None:
    tail = Tail(History(age=10), second=10**9)
    for version, seconds in enumerate([5, 6, 20, 7], 1):
        tail.add(record(version, str(version), seconds * 10**9))
    tail.expire(16 * 10**9)
    assert (tail.start, tail.floor) == (1, 1)
    # What is behind one that is not too old stays: the broker's clock was put back.
    tail.expire(29 * 10**9)
    assert (tail.start, tail.floor) == (2, 2)
    assert [cursor.version for cursor, _ in tail.after(2)] == [3, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2026-11-15T13:54:06.237384329Z", 1_794_750_846_237_384_329),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


class Wire:
    """Takes messages, and gives the answers that a test says."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.posted: list[tuple[bytes, Callable[[Answer], None]]] = []
        self.more = asyncio.Event()

    async def post(self, subject: str, body: bytes, answered: Callable[[Answer], None]) -> None:
        assert subject
        self.posted.append((body, answered))
        self.more.set()

    def fail(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def until(self, count: int) -> None:
        while len(self.posted) < count:
            self.more.clear()
            await self.more.wait()


async def test_what_was_stored_but_not_heard_of_is_sent_again_if_the_log_is_lost() -> None:
    heard: list[Any] = []
    log = Log(History(), lambda *what: heard.append(what))
    log.begin(LogPosition("old", 5, 0), Mark("m", 0, 1))
    sender = Sender(10, Subjects("p"), log, Engine("nats", "nowhere"))
    publishing = asyncio.create_task(sender.waiting.put(A, 10))
    first: Any = Wire()
    sending = asyncio.create_task(sender.run(first, checkpoint))
    await first.until(1)
    first.posted[0][1]({"seq": 7})
    # Acknowledged, but this process has heard up to 5 only; and then the broker comes back without it.
    sending.cancel()
    sender.take_back(everything=False)
    assert len(sender.waiting) == 1
    sender.take_back(everything=True)
    log.begin(LogPosition("new", 1, 0), Mark("n", 0, 1))
    second: Any = Wire()
    sending = asyncio.create_task(sender.run(second, checkpoint))
    await second.until(1)
    second.posted[0][1]({"seq": 2})
    log.hear(2, 0, A)
    assert await publishing == Cursor("new", 2)
    assert heard == [(Cursor("new", 0), None), (Cursor("new", 2), A)]
    assert len(sender.waiting) == 0
    sending.cancel()


async def test_a_refusal_ends_the_connection_and_keeps_the_change() -> None:
    sender = Sender(10, Subjects("p"), Log(History(), lambda *_: None), Engine("nats", "nowhere"))
    publishing = asyncio.create_task(sender.waiting.put(A, 10))
    wire: Any = Wire()
    sending = asyncio.create_task(sender.run(wire, checkpoint))
    await wire.until(1)
    wire.posted[0][1](ApiError(10047, "insufficient storage resources available"))
    assert isinstance(wire.ended.result(), ApiError)
    sending.cancel()
    sender.take_back(everything=False)
    assert (len(sender.waiting), sender.waiting.idle) == (1, False)
    publishing.cancel()


async def test_a_task_is_ended_though_it_swallows_cancellations() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while swallowed < 2:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            swallowed += 1
        raise RuntimeError("of no interest")

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end(task)
    assert task.done()
    assert swallowed == 2


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ApiError(10047, "insufficient storage"), BusUnavailable, "max_file_store"),
        (ApiError(10065, "subjects overlap"), BusMismatch, "another prefix"),
        (ApiError(4, "what"), BusUnavailable, "look at the server's log"),
        (ModuleNotFoundError("nkeys"), BusUnavailable, "nats-py[nkeys]"),
        (RuntimeError(), BusUnavailable, "RuntimeError"),
    ],
)
def test_every_error_names_its_cure(error: Exception, kind: type[Exception], words: str) -> None:
    trouble = explain(error, "nats://broker:4222", seconds=1)
    assert type(trouble) is kind
    assert words in str(trouble)
    assert "nats://broker:4222" in str(trouble)


async def test_what_a_bus_does_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    collector, prefix = collect(monkeypatch), uuid.uuid4().hex

    def counted() -> dict[str, Any]:
        values = collector.values(tidings__bus__engine="nats")
        return {name.removeprefix("tidings.bus."): value for name, value in values.items()}

    async with proxy_to(shared().port) as proxy, through(proxy, prefix, timeout=0.3) as bus:
        ear = Ear()
        bus.subscribe(ear)
        for change in (A, B, A):
            await bus.publish(change)
        assert counted() == {"connected": 1, "published": 3, "publish.duration": 3}
        proxy.refusing = True
        proxy.cut()
        with pytest.raises(BusUnavailable):
            await bus.publish(C)
        await until(lambda: bus.state.reason)
        assert counted() | {"connected": 0, "waiting": 1, "outages": 1} == counted()
        await api(shared().url, f"STREAM.DELETE.{prefix}")
        proxy.refusing = False
        await ear.until(lambda ear: C in ear.changes)
        await until(lambda: bus.state.connected)
        assert counted() | {"connected": 1, "published": 4, "losses": 1} == counted()
    assert counted()["connected"] == counted()["waiting"] == 0
