"""What only a `NatsBus` promises: about its subjects, its options, its tasks and sockets, and what `since` costs."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator

import anyio
import nats
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bus.buses import Ear
from tests.bus.nats_server import api, shared
from tests.bus.processes import python
from tests.bus.proxy import Proxy, proxy_to
from tests.ports import free_port
from tidings._kit.lazy import install_command
from tidings.bus import History
from tidings.bus.nats import NatsBus
from tidings.bus.nats.stream import LONGEST_TOKEN, Subjects, change_in
from tidings.bus.shared import NOWHERE, storable_key
from tidings.changes import (
    MAX_URI_LENGTH,
    Change,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from tidings.errors import BusUnavailable, InvalidUri

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
changes: st.SearchStrategy[Change] = st.one_of(
    texts.map(ResourceUpdated),
    st.text("a.*> %é\n", max_size=8).map(ResourceUpdated),
    st.integers(0, MAX_URI_LENGTH).map(lambda length: ResourceUpdated("x:" + "é" * length)),
    st.sampled_from([ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]),
)


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with proxy_to(shared().port) as proxy:
        yield proxy


def connections() -> int:
    """How many this process has to the broker that all tests share."""
    own = psutil.Process().net_connections("tcp")
    return sum(1 for one in own if one.raddr and one.raddr.port == shared().port)


@given(changes, changes)
def test_every_change_has_a_subject_of_its_own_that_nats_can_take(one: Change, other: Change) -> None:
    subjects = Subjects("some.prefix")
    subject = subjects.of(one)
    assert (subject == subjects.of(other)) == (one == other)
    assert len(subject) < LONGEST_TOKEN + 50
    tokens = subject.split(".")
    assert all(tokens)
    assert 3 <= len(tokens) <= 4
    assert subject.isascii()
    assert subject.isprintable()
    assert not set(subject) & set(" *>")
    assert subject != subjects.mark
    assert change_in(storable_key(one).encode()) == one


async def test_a_long_uri_with_everything_in_it_arrives(prefix: str) -> None:
    long = ResourceUpdated("note://" + "é.*> %" * ((MAX_URI_LENGTH - 7) // 6))
    async with NatsBus(shared().url, prefix=prefix) as one, NatsBus(shared().url, prefix=prefix) as two:
        ear, start = Ear(), two.head
        two.subscribe(ear)
        cursor = await one.publish(long)
        await ear.until_after(cursor)
        assert ear.heard == await two.since(start) == [(cursor, long)]


async def test_what_cannot_be_sent_spoils_no_other(prefix: str) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        results = await asyncio.gather(
            bus.publish(A), bus.publish(ResourceUpdated("note://\ud800")), bus.publish(B), return_exceptions=True
        )
        assert isinstance(results[1], InvalidUri)
        assert [result for result in results if not isinstance(result, Exception)] == sorted([results[0], results[2]])


async def test_leaving_closes_everything(prefix: str) -> None:
    before, tasks = connections(), asyncio.all_tasks()
    async with NatsBus(shared().url, prefix=prefix) as bus:
        bus.subscribe(Ear())
        await bus.since(await bus.publish(A))
        assert connections() == before + 1
        assert bus.state.connected
    assert connections() == before
    assert asyncio.all_tasks() == tasks
    assert not bus.state.connected
    info = await api(shared().url, f"STREAM.INFO.{prefix}")
    assert info["state"]["consumer_count"] == 0


async def test_leaving_while_cancelled_still_closes_everything(prefix: str) -> None:
    before, tasks = connections(), asyncio.all_tasks()
    with anyio.CancelScope() as scope:
        async with NatsBus(shared().url, prefix=prefix) as bus:
            await bus.publish(A)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (connections(), asyncio.all_tasks()) == (before, tasks)


async def test_entering_can_be_given_up(prefix: str, proxy: Proxy) -> None:
    before, tasks = proxy.connections, asyncio.all_tasks()
    proxy.stall()
    bus = NatsBus(f"nats://127.0.0.1:{proxy.port}", prefix=prefix)
    with anyio.move_on_after(0.1) as scope:
        await bus.__aenter__()
    assert scope.cancelled_caught
    proxy.flow()
    async with bus:
        await bus.publish(A)
    with anyio.fail_after(5):
        while asyncio.all_tasks() - tasks or proxy.connections != before:  # noqa: ASYNC110 - the proxy does not tell
            await anyio.sleep(0.01)


async def test_a_broker_that_hangs_does_not_keep_anybody_from_leaving(prefix: str, proxy: Proxy) -> None:
    tasks = asyncio.all_tasks()
    bus = NatsBus(f"nats://127.0.0.1:{proxy.port}", prefix=prefix, timeout=60)
    await bus.__aenter__()
    proxy.stall()
    publishing = [asyncio.create_task(bus.publish(ResourceUpdated(f"note://{n}"))) for n in range(50)]
    await anyio.lowlevel.checkpoint()
    began = time.monotonic()
    await bus.__aexit__(None, None, None)
    assert time.monotonic() - began < 10
    for result in await asyncio.gather(*publishing, return_exceptions=True):
        assert isinstance(result, BusUnavailable)
        assert "was closed before" in str(result)
    proxy.cut()
    assert not {task for task in asyncio.all_tasks() - tasks if "nats" in repr(task) and "proxy" not in repr(task)}


async def test_a_bus_that_cannot_be_opened_leaves_nothing_and_can_be_tried_again(prefix: str) -> None:
    tasks, port = asyncio.all_tasks(), free_port()
    bus = NatsBus(f"nats://127.0.0.1:{port}", prefix=prefix)
    with pytest.raises(BusUnavailable, match="nothing listens there"):
        await bus.__aenter__()
    assert asyncio.all_tasks() == tasks
    with pytest.raises(BusUnavailable, match="async with"):
        await bus.publish(A)


async def test_before_it_is_entered_the_head_is_nowhere_and_listeners_may_come(prefix: str) -> None:
    bus, ear = NatsBus(shared().url, prefix=prefix), Ear()
    bus.subscribe(ear)
    assert bus.head == NOWHERE
    with pytest.raises(BusUnavailable, match="async with"):
        await bus.since(NOWHERE)
    async with bus, NatsBus(shared().url, prefix=prefix) as other:
        assert bus.head.version == 0
        await ear.until_after(await other.publish(A))
    assert ear.changes == [A]
    assert bus.head == ear.heard[-1][0]


async def test_many_open_a_new_log_at_once(prefix: str) -> None:
    buses = [NatsBus(shared().url, prefix=prefix) for _ in range(8)]
    await asyncio.gather(*(bus.__aenter__() for bus in buses))
    cursors = await asyncio.gather(*(bus.publish(A) for bus in buses))
    assert len(set(cursors)) == 8
    assert len({cursor.epoch for cursor in cursors}) == 1
    await asyncio.gather(*(bus.__aexit__(None, None, None) for bus in buses))


async def test_many_who_come_back_at_once_have_the_broker_asked_once(prefix: str) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        start = bus.head
        log = [(await bus.publish(change), change) for change in (A, B, C)]
    questions: list[str] = []
    client = await nats.connect(shared().url)

    async def note(message: nats.aio.msg.Msg) -> None:
        questions.append(message.subject.split(".")[2] + "." + message.subject.split(".")[3])

    async with NatsBus(shared().url, prefix=prefix) as bus:
        await client.subscribe("$JS.API.*.*." + prefix + ".>", cb=note)
        await client.subscribe("$JS.API.*.*." + prefix, cb=note)
        await client.flush()
        answers = await asyncio.gather(*(bus.since(start) for _ in range(200)))
        assert answers == [log] * 200
        assert await bus.since(start) == log
        await client.flush()
    await client.close()
    assert questions.count("CONSUMER.CREATE") == 1
    assert questions.count("STREAM.INFO") == 2


async def test_what_another_process_has_just_published_is_not_missed(prefix: str) -> None:
    async with NatsBus(shared().url, prefix=prefix) as one, NatsBus(shared().url, prefix=prefix) as two:
        for n in range(50):
            cursor = await one.publish(ResourceUpdated(f"note://{n}"))
            assert await two.since(cursor) == []


async def test_a_message_that_is_no_change_is_left_out(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        client = await nats.connect(shared().url)
        for body in (b"weather", b"\xff\xff", b""):
            await client.request(f"{prefix}.resource.x", body)
        await client.request(f"{prefix}.else", json.dumps({"a": 1}).encode())
        await client.close()
        cursor = await bus.publish(A)
        assert ear.heard == await bus.since(start) == [(cursor, A)]
        async with NatsBus(shared().url, prefix=prefix) as other:
            assert await other.since(start) == [(cursor, A)]
    assert caplog.text.count("no change that this version knows") == 1


NO_CLIENT = """
import sys
sys.modules["nats"] = None
try:
    from tidings.bus.nats import NatsBus
except ImportError as error:
    print(error)
"""


async def test_without_the_client_library_the_extra_is_named() -> None:
    async with python("-c", NO_CLIENT) as process:
        assert await process.line() == (f"NatsBus needs the NATS client: {install_command('nats')}")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": "http://localhost"}, "nats:// or tls://"),
        ({"url": "nats://"}, "must name its host"),
        ({"url": "nats://localhost:port"}, "not valid"),
        ({"url": "nats://user:se/cret@localhost"}, "not valid"),
        ({"url": "nats://localhost/path"}, "must end with its port"),
        ({"url": []}, "at least one"),
        ({"prefix": "a b"}, "prefix"),
        ({"prefix": "a..b"}, "prefix"),
        ({"prefix": "$JS"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"replicas": 0}, "replica"),
        ({"buffer": 0}, "room"),
        ({"timeout": 0}, "seconds"),
        ({"timeout": float("nan")}, "seconds"),
    ],
)
def test_senseless_options_are_refused_without_telling_secrets(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        NatsBus(**{"url": "nats://localhost", **wrong})  # type: ignore[arg-type]
    assert "cret" not in str(caught.value)


def test_a_history_without_end_is_possible() -> None:
    assert NatsBus(history=History(age=float("inf")))
