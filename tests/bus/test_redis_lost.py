"""A Redis that starts again, that lost what it had acknowledged, or whose place another takes: cursors never lie."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.bus.buses import Ear
from tests.bus.proxy import proxy_to
from tests.bus.redis_server import ALWAYS, EVERY_SECOND, NOBODY, NOTHING, RedisServer, redis_server, until
from tidings.bus.redis import RedisBus
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")
LINKED = "master_link_status:up"
NOTES = [ResourceUpdated(f"note://{n}") for n in range(50)]


async def restart(server: RedisServer) -> None:
    server.kill()
    await server.start()


async def test_a_durable_server_killed_while_two_publish_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async with redis_server(tmp_path, *ALWAYS) as server, AsyncExitStack() as stack:
        buses = [await stack.enter_async_context(RedisBus(server.url, durable=True, timeout=20)) for _ in range(2)]
        ears, start = [Ear(), Ear()], buses[0].head
        for bus, ear in zip(buses, ears, strict=True):
            bus.subscribe(ear)

        async def publish(bus: RedisBus, name: str) -> dict[ResourceUpdated, Cursor]:
            changes = [ResourceUpdated(f"{name}://{n}") for n in range(300)]
            return {change: await bus.publish(change) for change in changes}

        publishing = [asyncio.create_task(publish(bus, name)) for bus, name in zip(buses, ("one", "two"), strict=True)]
        for n in (100, 300):
            await ears[0].until(lambda ear, n=n: len(ear.heard) >= n)
            await restart(server)
        stored = {change: cursor for task in publishing for change, cursor in (await task).items()}
        for bus, ear in zip(buses, ears, strict=True):
            await ear.until_after(max(stored.values()))
            assert ear.in_order
            assert None not in ear.changes
            kept = {change: cursor for cursor, change in await bus.since(start) or ()}
            # A change may be in the log twice, if the answer to the first time was lost.
            assert all(kept[change] >= cursor for change, cursor in stored.items())
            assert set(ear.changes) == set(stored)
        assert {cursor.epoch for cursor in stored.values()} == {start.epoch}


@pytest.mark.parametrize("options", [EVERY_SECOND, NOTHING, ALWAYS], ids=["every second", "nothing", "always"])
async def test_a_restarted_server_begins_a_new_epoch_unless_it_is_said_to_be_durable(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    async with (
        redis_server(tmp_path, *options) as server,
        RedisBus(server.url, poll=0.05) as one,
        RedisBus(server.url, poll=0.05) as two,
    ):
        ears = (Ear(), Ear())
        one.subscribe(ears[0])
        two.subscribe(ears[1])
        before = await one.publish(A)
        await ears[1].until_after(before)
        await restart(server)
        for ear in ears:
            await ear.until(lambda ear: None in ear.changes)
        after = await two.publish(B)
        for bus, ear in zip((one, two), ears, strict=True):
            await ear.until_after(after)
            assert ear.changes == [A, None, B]
            assert await bus.since(before) is None
        assert before.epoch != after.epoch


async def test_versions_that_are_given_anew_by_others_are_not_taken_for_the_old_ones(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path, *EVERY_SECOND) as server,
        proxy_to(server.port) as proxy,
        RedisBus(f"redis://127.0.0.1:{proxy.port}", poll=0.05) as witness,
    ):
        ear = Ear()
        witness.subscribe(ear)
        old = await witness.publish(A)
        lose_the_rest = server.lose_what_follows(A.uri)
        lost = [await witness.publish(change) for change in NOTES[:10]]
        # The witness is kept away until another has published as many as were lost, and more.
        proxy.refusing = True
        proxy.cut()
        await lose_the_rest()
        async with RedisBus(server.url) as first:
            new = [await first.publish(change) for change in NOTES[20:40]]
            assert new[-1].version > lost[-1].version
            for cursor in (old, *lost):
                assert await first.since(cursor) is None
        proxy.refusing = False
        await ear.until_after(new[-1])
        assert ear.heard[-1] == (new[-1], None)
        assert ear.changes.count(None) == 1
        assert await witness.since(lost[-1]) is None


async def test_a_server_said_to_be_durable_that_lost_its_end_is_found_out(tmp_path: Path) -> None:
    async with redis_server(tmp_path, *ALWAYS) as server, RedisBus(server.url, durable=True, poll=0.05) as bus:
        ear = Ear()
        bus.subscribe(ear)
        old = await bus.publish(A)
        lose_the_rest = server.lose_what_follows(A.uri)
        await bus.publish(B)
        await lose_the_rest()
        await ear.until(lambda ear: None in ear.changes)
        new = await bus.publish(C)
        assert ear.changes == [A, B, None, C]
        assert old.epoch != new.epoch


async def test_a_durable_server_rolled_back_while_nobody_used_it_does_not_know_what_it_lost(tmp_path: Path) -> None:
    async with redis_server(tmp_path, *ALWAYS) as server:
        async with RedisBus(server.url, durable=True) as bus:
            kept = await bus.publish(A)
            lose_the_rest = server.lose_what_follows(A.uri)
            lost = [await bus.publish(change) for change in (B, C)]
        await lose_the_rest()
        async with RedisBus(server.url, durable=True) as bus:
            new = [await bus.publish(change) for change in NOTES[:5]]
            assert {cursor.epoch for cursor in new} == {kept.epoch}
            assert [await bus.since(cursor) for cursor in lost] == [None, None]
            assert [cursor for cursor, _ in await bus.since(kept) or ()] == new


async def test_what_is_said_to_be_durable_is_checked(tmp_path: Path) -> None:
    async with redis_server(tmp_path, *EVERY_SECOND) as server:
        with pytest.raises(BusMismatch, match="appendonly yes, appendfsync everysec"):
            await RedisBus(server.url, durable=True).__aenter__()


async def test_what_cannot_be_checked_is_believed_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with redis_server(tmp_path, *ALWAYS, "--rename-command", "CONFIG", "") as server:
        async with RedisBus(server.url, durable=True) as bus:
            await bus.publish(A)
        assert "Cannot check whether" in caplog.text


def wipe(server: RedisServer) -> None:
    server.ask("FLUSHALL")


def evict_the_changes(server: RedisServer) -> None:
    server.ask("DEL", "{tidings}:changes")


def evict_the_times(server: RedisServer) -> None:
    server.ask("DEL", "{tidings}:times")


def evict_the_state(server: RedisServer) -> None:
    server.ask("DEL", "{tidings}:log")


def take_one_change(server: RedisServer) -> None:
    server.ask("ZREM", "{tidings}:changes", "resource note://a")


@pytest.mark.parametrize("lose", [wipe, evict_the_changes, evict_the_times, evict_the_state, take_one_change])
@pytest.mark.parametrize("poll", [0.05, 3600], ids=["noticed by looking", "noticed by publishing"])
async def test_keys_that_go_begin_a_new_epoch(tmp_path: Path, lose: Callable[[RedisServer], None], poll: float) -> None:
    async with redis_server(tmp_path) as server, RedisBus(server.url, poll=poll) as bus:
        ear = Ear()
        bus.subscribe(ear)
        old = await bus.publish(A)
        lose(server)
        if poll < 1:
            await ear.until(lambda ear: None in ear.changes)
        else:
            assert await bus.since(old) is None
        new = await bus.publish(B)
        assert ear.changes[:2] == [A, None]
        assert new.epoch != old.epoch
        assert await bus.since(old) is None
        assert await bus.since(Cursor(new.epoch, new.version - 1)) == [(new, B)]


@pytest.mark.parametrize("durable", [False, True])
async def test_a_replica_that_takes_over_begins_a_new_epoch(tmp_path: Path, durable: bool) -> None:
    async with (
        redis_server(tmp_path / "one", *ALWAYS) as master,
        redis_server(tmp_path / "two", *ALWAYS) as replica,
        proxy_to(master.port) as proxy,
        RedisBus(f"redis://127.0.0.1:{proxy.port}", durable=durable, poll=0.05) as bus,
    ):
        replica.ask("REPLICAOF", "127.0.0.1", master.port)
        await asyncio.to_thread(replica.until, LINKED, "INFO", "replication")
        ear = Ear()
        bus.subscribe(ear)
        old = await bus.publish(A)
        await asyncio.to_thread(replica.until, "note://a", "ZRANGE", "{tidings}:changes", "0", "-1")
        losses = ear.changes.count(None)
        replica.ask("REPLICAOF", "NO", "ONE")
        proxy.target = replica.port
        proxy.cut()
        await ear.until(lambda ear: ear.changes.count(None) > losses)
        new = await bus.publish(B)
        assert new.epoch != old.epoch
        assert await bus.since(old) is None


async def test_a_master_that_was_set_aside_and_is_master_again_begins_a_new_epoch(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path / "one") as server,
        redis_server(tmp_path / "two") as other,
        proxy_to(server.port) as proxy,
    ):
        other.ask("REPLICAOF", "127.0.0.1", server.port)
        await asyncio.to_thread(other.until, LINKED, "INFO", "replication")
        async with RedisBus(f"redis://127.0.0.1:{proxy.port}", poll=0.05) as witness:
            ear = Ear()
            witness.subscribe(ear)
            await witness.publish(A)
            await asyncio.to_thread(other.until, "note://a", "ZRANGE", "{tidings}:changes", "0", "-1")
            other.ask("REPLICAOF", "NO", "ONE")
            old = [await witness.publish(change) for change in (B, C)][-1]
            proxy.refusing = True
            proxy.cut()
            # It takes over the other's data, which lacks B and C. Its process never ends.
            server.ask("REPLICAOF", "127.0.0.1", other.port)
            await asyncio.to_thread(server.until, LINKED, "INFO", "replication")
            server.ask("REPLICAOF", "NO", "ONE")
            async with RedisBus(server.url) as first:
                new = [await first.publish(change) for change in NOTES[:10]][-1]
                assert new.version > old.version
                assert await first.since(old) is None
            proxy.refusing = False
            await ear.until_after(new)
            assert ear.heard == [*ear.heard[:3], (new, None)]


async def test_a_server_that_is_no_longer_the_master_is_not_believed(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server, RedisBus(server.url, poll=0.05) as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(A)
        server.ask("REPLICAOF", "127.0.0.1", NOBODY)
        await asyncio.to_thread(server.until, "role:slave", "INFO", "replication")
        await until(lambda: not bus.state.connected)
        assert "is a read-only replica" in bus.state.reason
        assert await bus.since(bus.head) is None
