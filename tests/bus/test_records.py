"""The records that every bus keeps beside its log, tried on each."""

import asyncio
import math
import sqlite3
import uuid
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import BusFactory, Nats, Redis, buses_that, records_of
from tests.bus.files import change_file, make
from tests.bus.nats_server import api, running
from tests.bus.nats_server import shared as shared_nats
from tests.bus.processes import peer
from tests.bus.proxy import proxy_to
from tests.bus.redis_server import ALWAYS, NOTHING, redis_server, shared_server
from tests.simulation.bus import Broker, SimulatedBus
from tidings.bus import Records, StoredRecord
from tidings.bus.memory import MemoryBus
from tidings.bus.nats import NatsBus
from tidings.bus.nats.bus import NatsServers, NatsSession
from tidings.bus.nats.connection import Access, addresses
from tidings.bus.nats.records import NatsRecords
from tidings.bus.nats.stream import RecordsShape
from tidings.bus.redis import RedisBus
from tidings.bus.sqlite import SqliteBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio

A = ResourceUpdated("note://a")
VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
LONGEST = (VISIBLE * 3)[:200]
LARGEST = bytes(range(256)) * 2048


async def store(
    records: Records, key: str, value: bytes, seconds: float = 60, revision: int | None = None
) -> StoredRecord:
    """The record, which must be stored."""
    record = await records.put(key, value, seconds=seconds, revision=revision)
    assert record is not None
    assert record.value == value
    return record


async def until(done: Callable[[], Awaitable[object]]) -> None:
    """Until `done` holds: for what nobody says."""
    with anyio.fail_after(20):
        while not await done():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.02)


async def test_a_record_is_read_as_it_was_written_until_it_is_deleted(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records = records_of(bus)
        assert await records.get("a") is None
        for value in (b"one", b"", b"two\n\0\xff"):
            assert await store(records, "a", value) == await records.get("a")
        await store(records, "b", b"other")
        for _ in range(2):
            await records.delete("a")
            assert await records.get("a") is None
        assert (await records.get("b") or StoredRecord(b"", 0)).value == b"other"


async def test_a_write_that_expects_another_revision_stores_nothing(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records = records_of(bus)
        assert await records.put("a", b"no", seconds=60, revision=7) is None
        first = await store(records, "a", b"one", revision=0)
        for wrong in (0, first.revision + 1, -1, 2**70):
            assert await records.put("a", b"no", seconds=60, revision=wrong) is None
        assert await records.get("a") == first
        second = await store(records, "a", b"two", revision=first.revision)
        assert await records.put("a", b"no", seconds=60, revision=first.revision) is None
        assert await records.get("a") == second
        await records.delete("a")
        assert await records.put("a", b"no", seconds=60, revision=second.revision) is None
        assert await records.get("a") is None


async def test_no_revision_is_given_twice(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records, revisions = records_of(bus), list[int]()
        for n in range(8):
            revisions.append((await store(records, "a", b"x", revision=0 if n % 2 == 0 else None)).revision)
            if n % 2:
                await records.delete("a")
        assert revisions[0] > 0
        assert revisions == sorted(set(revisions))


async def test_a_key_and_a_value_may_be_as_large_as_is_said(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records = records_of(bus)
        for revision in (0, None):
            record = await store(records, LONGEST, LARGEST, seconds=10**9, revision=revision)
            assert await records.get(LONGEST) == record
        await records.delete(LONGEST)
        assert await records.get(LONGEST) is None


@pytest.mark.parametrize("key", ["", LONGEST + "x", "two words", "tab\t", "caf\xe9", "\ud800", "\x7f"])
async def test_another_key_is_refused(bus_factory: BusFactory, key: str) -> None:
    async with bus_factory.open() as bus:
        records = records_of(bus)
        for attempt in (records.get(key), records.put(key, b"", seconds=60), records.delete(key)):
            with pytest.raises(ValueError, match="1 to 200 visible ASCII characters"):
                await attempt


async def test_a_larger_value_and_no_time_are_refused(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        with pytest.raises(ValueError, match="at most 524288 bytes, not 524289"):
            await records_of(bus).put("a", LARGEST + b"x", seconds=60)
        for seconds in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="more than 0 and at most 1000000000 seconds"):
                await records_of(bus).put("a", b"", seconds=seconds)
        assert await records_of(bus).get("a") is None


async def test_keys_that_look_like_patterns_are_only_keys(bus_factory: BusFactory) -> None:
    keys = ["a", "A", "a.b", "a%2Eb", "a.*", "*", ">", "a.>", ".", "..", "%", "a:b", "$JS", "{a}", "~", "'"]
    async with bus_factory.open() as bus:
        records = records_of(bus)
        for key in keys:
            await store(records, key, key.encode(), revision=0)
        for n, key in enumerate(reversed(keys)):
            await records.delete(key)
            kept = [each for each in keys if await records.get(each)]
            assert kept == keys[: len(keys) - n - 1]


async def test_one_of_many_that_expect_the_same_wins(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records, expected = records_of(bus), 0
        for _ in range(3):
            tries = [records.put("a", b"%d" % n, seconds=60, revision=expected) for n in range(20)]
            (won,) = [record for record in await asyncio.gather(*tries) if record]
            assert await records.get("a") == won
            expected = won.revision


@buses_that(lambda bus: bus.shared)
async def test_handles_see_what_the_other_was_told_is_stored(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        for n in range(20):
            written = await store(records_of((one, two)[n % 2]), "a", b"%d" % n)
            assert await records_of((two, one)[n % 2]).get("a") == written
        await records_of(one).delete("a")
        assert await records_of(two).get("a") is None


@buses_that(lambda bus: bus.shared)
async def test_one_of_two_handles_that_expect_the_same_wins(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        expected = 0
        for _ in range(20):
            tries = [records_of(bus).put("a", b"x", seconds=60, revision=expected) for bus in (one, two)]
            (won,) = [record for record in await asyncio.gather(*tries) if record]
            expected = won.revision


@buses_that(lambda bus: bus.outlives and bus.reaches_processes)
async def test_processes_that_count_together_miss_nothing_though_one_is_killed(bus_factory: BusFactory) -> None:
    address = bus_factory.address
    async with peer(address, "count", "n") as one, peer(address, "count", "n") as two:
        said = [await one.line() for _ in range(40)]
        one.process.kill()
        said += await one.rest()
        said += [await two.line() for _ in range(40)]
        two.process.kill()
        said += await two.rest()
    numbers = sorted(map(int, said))
    assert len(set(numbers)) == len(numbers)  # Of two that compete, one wins.
    async with bus_factory.open() as bus:
        found = await records_of(bus).get("n")
        assert found is not None
        # A killed process may have stored one more than it could say.
        assert 0 <= int(found.value) - numbers[-1] <= 2
        assert set(range(1, int(found.value) + 1)) >= set(numbers)
        assert int(found.value) - len(numbers) <= 2


@buses_that(lambda bus: bus.has_clock)
async def test_a_record_is_gone_at_the_end_of_its_time(bus_factory: BusFactory) -> None:
    now = 1000.0
    async with bus_factory.open(clock=lambda: now) as bus:
        records = records_of(bus)
        first = await store(records, "a", b"one", seconds=60)
        now = 1059.9
        assert await records.get("a") == first
        now = 1060.0
        assert await records.get("a") is None
        assert await records.put("a", b"no", seconds=60, revision=first.revision) is None
        second = await store(records, "a", b"two", seconds=60, revision=0)
        assert second.revision > first.revision
        # Each write sets the time anew.
        now = 1100.0
        third = await store(records, "a", b"three", seconds=60, revision=second.revision)
        now = 1159.0
        assert await records.get("a") == third


@buses_that(lambda bus: not bus.has_clock)
async def test_a_record_is_gone_after_its_time(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        records = records_of(bus)
        kept, first = await store(records, "b", b"", seconds=60), await store(records, "a", b"one", seconds=0.2)

        async def gone() -> bool:
            return await records.get("a") is None

        await until(gone)
        # The broker may keep it until a whole second is over, but nobody sees it.
        assert await records.put("a", b"no", seconds=60, revision=first.revision) is None
        second = await store(records, "a", b"two", revision=0)
        assert second.revision > first.revision
        assert (await records.get("a"), await records.get("b")) == (second, kept)


@buses_that(lambda bus: bus.outlives)
async def test_records_outlive_those_who_use_them(bus_factory: BusFactory) -> None:
    bus = bus_factory.open()
    async with bus:
        record = await store(records_of(bus), "a", b"one")
    async with bus, bus_factory.open() as other:
        assert await records_of(bus).get("a") == await records_of(other).get("a") == record


@buses_that(lambda bus: bus.outlives)
async def test_lost_records_are_missing_and_others_take_their_place(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        before = [await store(records_of(one), "a", b"%d" % n) for n in range(3)]
        await bus_factory.lose()
        assert await records_of(one).get("a") is None
        assert await records_of(one).put("a", b"no", seconds=60, revision=before[-1].revision) is None
        await records_of(one).delete("a")
        after = await store(records_of(one), "a", b"new", revision=0)
        assert await records_of(two).get("a") == after
        # Who remembers a lost one does not take another for it.
        assert after.revision > before[-1].revision


@buses_that(lambda bus: bus.outlives)
async def test_records_that_were_rolled_back_are_the_older_ones(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        older = await store(records_of(bus), "a", b"older")
    roll_back = await bus_factory.copy()
    async with bus_factory.open() as bus:
        newer = await store(records_of(bus), "a", b"newer")
        await store(records_of(bus), "b", b"newer")
    await roll_back()
    async with bus_factory.open() as bus:
        records = records_of(bus)
        assert await records.get("a") == older
        assert await records.get("b") is None
        assert await records.put("a", b"no", seconds=60, revision=newer.revision) is None
        await store(records, "a", b"again", revision=older.revision)


async def test_a_bus_that_was_left_has_no_records(bus_factory: BusFactory) -> None:
    bus = bus_factory.open()
    async with bus:
        await store(records_of(bus), "a", b"one")
    records = records_of(bus)
    for attempt in (records.get("a"), records.put("a", b"", seconds=60), records.delete("a")):
        with pytest.raises(BusUnavailable):
            await attempt


async def test_records_do_not_disturb_the_log(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        start = bus.head
        first = await bus.publish(A)
        await store(records_of(bus), "a", b"one")
        assert list(await bus.since(start) or ()) == [(first, A)]
        assert bus.head == first
        assert (await bus.publish(A)).version == first.version + 1


async def refuses_in_time(records: Records) -> None:
    """All who ask at once are told within the time of one of them."""
    with anyio.fail_after(10):  # The time is half a second.
        answers = await asyncio.gather(
            *(records.get("a") for _ in range(100)),
            *(records.put("a", b"x", seconds=60) for _ in range(100)),
            records.delete("a"),
            return_exceptions=True,
        )
    assert {type(answer) for answer in answers} == {BusUnavailable}


@pytest.mark.parametrize("kind", [pytest.param(Redis, marks=pytest.mark.redis), Nats])
@pytest.mark.parametrize("stalled", [False, True], ids=["refused", "stalled"])
async def test_a_broker_out_of_reach_is_told_in_time_and_used_again_when_it_is_back(
    kind: type[BusFactory], *, stalled: bool
) -> None:
    prefix = uuid.uuid4().hex
    async with proxy_to(shared_server().port if kind is Redis else shared_nats().port) as proxy:
        bus = (
            RedisBus(f"redis://127.0.0.1:{proxy.port}", prefix=prefix, timeout=0.5)
            if kind is Redis
            else NatsBus(f"nats://127.0.0.1:{proxy.port}", prefix=prefix, timeout=0.5)
        )
        async with bus:
            record = await store(bus.records, "b", b"one")
            if stalled:
                proxy.stall()
            else:
                proxy.refusing = True
                proxy.cut()
            await refuses_in_time(bus.records)
            proxy.refusing = False
            proxy.flow()

            async def back() -> bool:
                try:
                    return await bus.records.get("b") == record
                except BusUnavailable:
                    return False

            await until(back)


async def test_a_connection_that_does_not_answer_is_not_used_again() -> None:
    async with proxy_to(shared_nats().port) as proxy:
        servers = NatsServers(addresses(f"nats://127.0.0.1:{proxy.port}"), Access())
        records = NatsRecords(servers.connect, str(servers), RecordsShape(uuid.uuid4().hex, 1), 0.5)
        try:
            record = await store(records, "a", b"one")
            proxy.stall()
            with pytest.raises(BusUnavailable, match=r"did not answer within 0.5 s"):
                await records.get("a")
            proxy.flow()
            assert await records.get("a") == record
            assert proxy.accepted == 2
        finally:
            await records.close()


async def test_a_simulated_broker_may_be_out_of_reach() -> None:
    bus = SimulatedBus(Broker())
    async with bus:
        record = await store(bus.records, "a", b"one")
        bus.line.lost_answers = 1
        with pytest.raises(BusUnavailable):
            await bus.records.put("a", b"two", seconds=60, revision=record.revision)
        found = await bus.records.get("a")
        assert found is not None
        assert found.value == b"two"
        bus.line.cut_off = True
        await refuses_in_time(bus.records)
        bus.line.cut_off = False
        assert await bus.records.get("a") == found


async def test_a_file_that_another_process_locks_is_told_in_time(path: Path) -> None:
    async with SqliteBus(path, timeout=0.5) as bus:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            attempts = [bus.records.put("a", b"x", seconds=60) for _ in range(50)]
            with anyio.fail_after(10):  # One after the other would be 25 s.
                answers = await asyncio.gather(*attempts, return_exceptions=True)
            assert {type(answer) for answer in answers} == {BusUnavailable}
            assert await bus.records.get("a") is None
        await store(bus.records, "a", b"y", revision=0)


async def test_a_file_of_the_first_version_gets_records(path: Path) -> None:
    await make(path)
    change_file(path, "DROP TABLE terms", "DROP TABLE records")
    async with SqliteBus(path) as bus:
        await store(bus.records, "a", b"one")
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)


async def test_expired_records_leave_the_file(path: Path) -> None:
    now = 1000.0
    async with SqliteBus(path, clock=lambda: now) as bus:
        for n in range(100):
            await store(bus.records, f"old{n}", b"x", seconds=10)
        now = 1010.0
        for n in range(6):
            await store(bus.records, f"new{n}", b"x")
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM records").fetchone() == (6,)


async def test_expired_records_leave_the_memory() -> None:
    now = 1000.0
    async with MemoryBus(clock=lambda: now) as bus:
        for n in range(100):
            await store(bus.records, f"old{n}", b"x", seconds=10)
        now = 1010.0
        for n in range(120):
            await store(bus.records, f"new{n}", b"x")
        assert len(bus._records._kept) == 120


@pytest.mark.redis
async def test_expired_records_leave_the_redis(tmp_path: Path) -> None:
    async with redis_server(tmp_path / "redis", *NOTHING) as server, RedisBus(server.url) as bus:
        await store(bus.records, "a", b"x", seconds=0.05)
        await store(bus.records, "b", b"x")

        async def only_one() -> bool:
            return server.ask("KEYS", "{tidings}:record:*") == ["{tidings}:record:b"]

        await until(only_one)


@pytest.mark.redis
async def test_a_redis_that_was_restarted_meanwhile_is_used_at_once(tmp_path: Path) -> None:
    async with redis_server(tmp_path / "redis", *ALWAYS) as server, RedisBus(server.url) as bus:
        record = await store(bus.records, "a", b"x")
        server.kill()
        await server.start()
        await anyio.to_thread.run_sync(server.until, "PONG", "PING")  # It has read its data.
        assert await bus.records.get("a") == record


async def test_expired_records_leave_the_stream_which_is_kept_as_the_log_is() -> None:
    prefix = uuid.uuid4().hex
    async with NatsBus(shared_nats().url, prefix=prefix) as bus:
        await store(bus.records, "a", b"x", seconds=0.05)
        await store(bus.records, "b", b"x")

        async def only_one() -> bool:
            return (await api(shared_nats().url, f"STREAM.INFO.{prefix}~records"))["state"]["messages"] == 1

        await until(only_one)
        log, records = [
            (await api(shared_nats().url, f"STREAM.INFO.{stream}"))["config"]
            for stream in (prefix, f"{prefix}~records")
        ]
        for setting in ("storage", "num_replicas", "max_msgs_per_subject"):
            assert records[setting] == log[setting]


async def test_what_has_expired_is_gone_though_the_broker_still_has_it() -> None:
    prefix = uuid.uuid4().hex
    async with NatsBus(shared_nats().url, prefix=prefix) as bus:
        first = await store(bus.records, "a", b"one", seconds=60)
        assert isinstance(bus._session, NatsSession)
        bus._session.records._ahead += 70 * 10**9  # As if it was more than a minute later at the broker.
        assert await bus.records.get("a") is None
        assert await bus.records.put("a", b"no", seconds=60, revision=first.revision) is None
        assert (await api(shared_nats().url, f"STREAM.INFO.{prefix}~records"))["state"]["last_seq"] == first.revision
        assert (await store(bus.records, "a", b"two", revision=0)).revision > first.revision


async def test_a_killed_broker_keeps_records(tmp_path: Path) -> None:
    with running(tmp_path / "nats") as server:
        async with NatsBus(server.url) as bus:
            records = [await store(bus.records, f"{n}", b"x") for n in range(50)]
            await bus.records.delete("0")
            await asyncio.to_thread(server.restart)

            async def back() -> bool:
                try:
                    return await bus.records.get("49") == records[49]
                except BusUnavailable:
                    return False

            await until(back)
            assert [await bus.records.get(f"{n}") for n in range(50)] == [None, *records[1:]]
            assert (await store(bus.records, "0", b"y", revision=0)).revision > records[-1].revision


async def test_a_user_who_may_not_use_records_has_a_log_all_the_same(tmp_path: Path) -> None:
    permitted = '"$JS.API.>", "$JS.FC.>", "tidings.>"'
    users = (
        f"{{ user: old, password: pw, permissions: {{ publish: [{permitted}] }} }}\n"
        f'{{ user: new, password: pw, permissions: {{ publish: [{permitted}, "tidings~records.>"] }} }}'
    )
    with running(tmp_path / "nats", f"authorization {{ users: [ {users} ] }}") as server:
        async with NatsBus(f"nats://new:pw@127.0.0.1:{server.port}") as bus:
            record = await store(bus.records, "a", b"x")
        async with NatsBus(f"nats://old:pw@127.0.0.1:{server.port}") as bus:
            with pytest.raises(BusUnavailable, match=r"permissions violation.*Permit it"):
                await bus.records.put("a", b"x", seconds=60)
            assert bus.state.connected
            await bus.publish(A)
            assert await bus.records.get("a") == record


async def test_a_stream_of_another_shape_is_refused_and_left_as_it_is() -> None:
    url, prefix = shared_nats().url, uuid.uuid4().hex
    stream = f"{prefix}~records"
    await api(url, f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{stream}.>"], "storage": "memory"})
    async with NatsBus(url, prefix=prefix) as bus:
        with pytest.raises(BusMismatch, match=r"storage is 'memory' and not 'file'.*Delete it .nats stream rm."):
            await bus.records.get("a")
        await bus.publish(A)
    assert (await api(url, f"STREAM.INFO.{stream}"))["config"]["storage"] == "memory"


async def test_a_broker_that_takes_small_messages_only_says_what_to_do(tmp_path: Path) -> None:
    with running(tmp_path / "nats", "max_payload: 65536") as server:
        async with NatsBus(server.url) as bus:
            await store(bus.records, "a", b"x")
            with pytest.raises(BusUnavailable, match="Raise max_payload"):
                await bus.records.put("a", LARGEST, seconds=60)
            assert (await bus.records.get("a") or StoredRecord(b"", 0)).value == b"x"
