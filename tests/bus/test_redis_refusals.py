"""A Redis that cannot be used: said clearly and in time when the bus is entered, and waited out later."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.proxy import proxy_to
from tests.bus.redis_server import NOBODY, RedisServer, redis_server, shared_server
from tidings.bus.redis import RedisBus
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable, InvalidUri

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")
PERMISSIONS = (
    "~{tidings}:* &{tidings}:* +@hash +@sortedset +@scripting +@pubsub +unlink +pexpire +exists +info +time +ping"
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[RedisServer]:
    async with redis_server(tmp_path / "redis") as server:
        yield server


def with_user(server: RedisServer, *rules: str) -> str:
    server.ask("ACL", "SETUSER", "ann", "on", ">s3cret", *rules)
    return f"redis://ann:s3cret@127.0.0.1:{server.port}"


async def refusal(url: str, **options: float) -> str:
    """Why a bus at `url` cannot be entered: known in time, and without secrets."""
    began = time.monotonic()
    with pytest.raises((BusUnavailable, BusMismatch)) as caught:
        await RedisBus(url, **{"timeout": 2.0, **options}).__aenter__()  # type: ignore[arg-type]
    assert time.monotonic() - began < 12
    assert "s3cret" not in str(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


async def test_nobody_is_there() -> None:
    said = await refusal(f"redis://127.0.0.1:{NOBODY}")
    assert "cannot be reached" in said
    assert said.endswith("Look whether it runs, and at host and port.")


async def test_the_host_has_no_address() -> None:
    assert "cannot be reached" in await refusal("redis://no-such-host.invalid")


async def test_nobody_answers() -> None:
    async with proxy_to(shared_server().port) as proxy:
        proxy.stall()
        assert "did not answer within 0.3 s" in await refusal(f"redis://127.0.0.1:{proxy.port}", timeout=0.3)


async def test_somebody_else_answers() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        assert "does not speak as a Redis does" in await refusal(f"redis://127.0.0.1:{port}")


async def test_the_password_is_wrong_or_missing(server: RedisServer) -> None:
    with_user(server)
    assert "refuses the user or the password" in await refusal(f"redis://ann:wrong@127.0.0.1:{server.port}")
    assert "refuses the user or the password" in await refusal(f"redis://:s3cret@127.0.0.1:{server.port}")
    server.ask("CONFIG", "SET", "requirepass", "other")
    assert "refuses the user or the password" in await refusal(server.url)


async def test_the_database_does_not_exist(server: RedisServer) -> None:
    assert "out of range" in await refusal(server.url + "/99")


@pytest.mark.parametrize(
    "rules",
    [
        ("+@all", "-eval", "-evalsha", "~*", "&*"),
        ("+@all", "-info", "~*", "&*"),
        ("+@all", "-subscribe", "~*", "&*"),
        ("+@all", "-zadd", "~*", "&*"),
        ("+@all", "~other:*", "&*"),
        ("+@all", "~*", "&other"),
    ],
    ids=["scripts", "info", "subscribe", "write", "keys", "channels"],
)
async def test_the_user_has_no_permission(server: RedisServer, rules: tuple[str, ...]) -> None:
    said = await refusal(with_user(server, *rules))
    assert "does not permit this user" in said
    assert PERMISSIONS in said


async def test_the_permissions_that_are_named_are_enough(server: RedisServer) -> None:
    async with RedisBus(with_user(server, *PERMISSIONS.split())) as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(A)
        assert ear.changes == [A]
        assert await bus.since(Cursor(bus.head.epoch, 0)) == [(bus.head, A)]
        record = await bus.records.put("a", b"x", seconds=60, revision=0)
        assert await bus.records.get("a") == record
        await bus.records.delete("a")


async def test_a_user_who_may_not_use_records_has_a_log_all_the_same(server: RedisServer) -> None:
    async with RedisBus(with_user(server, *PERMISSIONS.replace("+pexpire ", "").split())) as bus:
        with pytest.raises(BusUnavailable) as caught:
            await bus.records.put("a", b"x", seconds=60)
        assert PERMISSIONS in str(caught.value)
        await bus.publish(A)
        assert bus.state.connected


def use_up_the_memory(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1")


async def test_it_has_no_memory_left(server: RedisServer) -> None:
    use_up_the_memory(server)
    assert "has no memory left" in await refusal(server.url)
    assert server.ask("DBSIZE") == 0


async def test_it_is_a_replica(server: RedisServer, tmp_path: Path) -> None:
    async with redis_server(tmp_path / "two") as replica:
        replica.ask("REPLICAOF", "127.0.0.1", server.port)
        assert "is a read-only replica" in await refusal(replica.url)


async def test_records_are_not_read_from_a_server_that_has_become_a_replica(server: RedisServer) -> None:
    async with RedisBus(server.url) as bus:
        await bus.records.put("a", b"x", seconds=60)
        server.ask("REPLICAOF", "127.0.0.1", NOBODY)
        with pytest.raises(BusUnavailable, match="is a read-only replica"):
            await bus.records.get("a")


@pytest.mark.parametrize("key", ["log", "changes", "times"])
async def test_a_key_of_another_type_is_in_the_way(server: RedisServer, key: str) -> None:
    server.ask("SET", f"{{tidings}}:{key}", "mine")
    said = await refusal(server.url)
    assert said.startswith("BusMismatch")
    assert "left as it is" in said
    assert server.ask("KEYS", "*") == [f"{{tidings}}:{key}"]


async def test_a_hash_of_somebody_else_is_in_the_way(server: RedisServer) -> None:
    server.ask("HSET", "{tidings}:log", "colour", "red")
    assert "left as it is" in await refusal(server.url)
    assert server.ask("HGETALL", "{tidings}:log") == ["colour", "red"]


async def test_another_version_of_tidings_was_here(server: RedisServer) -> None:
    async with RedisBus(server.url):
        pass
    server.ask("HSET", "{tidings}:log", "schema", "99")
    assert "99; this one has schema 1" in await refusal(server.url)


async def test_a_change_of_a_kind_that_is_not_known_is_refused(server: RedisServer) -> None:
    async with RedisBus(server.url, poll=0.05) as bus:
        await bus.publish(A)
        server.ask("ZADD", "{tidings}:changes", 2, "gossip about a")
        server.ask("HSET", "{tidings}:times", "gossip about a", "99999999999")
        server.ask("HSET", "{tidings}:log", "entries", 2, "version", 2)
        with pytest.raises(BusMismatch, match="does not know: No change has the key"):
            await bus.publish(B)


async def test_keys_that_may_be_evicted_are_warned_of(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "100mb")
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    async with RedisBus(server.url) as bus:
        await bus.publish(A)
        assert caplog.text.count("may evict the keys of the bus (maxmemory-policy allkeys-lru)") == 1
    caplog.clear()
    for policy in ("noeviction", "volatile-lru"):
        server.ask("CONFIG", "SET", "maxmemory-policy", policy)
        async with RedisBus(server.url):
            assert not caplog.text


async def test_a_text_that_no_server_can_hold_spoils_no_other(server: RedisServer) -> None:
    async with RedisBus(server.url) as bus:
        changes = [A, ResourceUpdated("note://\ud800"), B]
        results = await asyncio.gather(*map(bus.publish, changes), return_exceptions=True)
        assert isinstance(results[1], InvalidUri)
        assert bus.head.version == 2
        assert await bus.since(Cursor("\ud800", 0)) is None


def forbid_writing(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1")


def allow_writing(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "0")


def set_a_key_in_the_way(server: RedisServer) -> None:
    server.ask("SET", "{tidings}:log", "mine")


def clear_the_way(server: RedisServer) -> None:
    server.ask("DEL", "{tidings}:log")


@pytest.mark.parametrize(
    ("spoil", "mend", "error"),
    [(forbid_writing, allow_writing, BusUnavailable), (set_a_key_in_the_way, clear_the_way, BusMismatch)],
    ids=["no memory", "a key in the way"],
)
async def test_what_is_refused_later_is_said_at_once_and_goes_out_when_it_is_mended(
    server: RedisServer,
    spoil: Callable[[RedisServer], None],
    mend: Callable[[RedisServer], None],
    error: type[Exception],
) -> None:
    async with RedisBus(server.url, poll=0.05, timeout=30) as bus, RedisBus(server.url, poll=0.05) as other:
        ear = Ear()
        other.subscribe(ear)
        spoil(server)
        with anyio.fail_after(5), pytest.raises(error, match="The change is kept"):
            await bus.publish(A)
        assert not bus.state.connected
        assert bus.state.waiting == 1
        mend(server)
        await ear.until(lambda ear: ear.changes)
        await ear.until_after(await bus.publish(B))
        assert bus.state.connected
        # If the key went, anything may have changed; in either case nobody is left with the old A.
        assert A in ear.changes or None in ear.changes


async def test_others_are_heard_while_the_server_takes_nothing_from_us(server: RedisServer) -> None:
    reader = with_user(server, *PERMISSIONS.split())
    async with RedisBus(reader, poll=0.05) as bus, RedisBus(server.url) as other:
        ear = Ear()
        bus.subscribe(ear)
        server.ask("ACL", "SETUSER", "ann", "-zadd")
        with pytest.raises(BusUnavailable, match=r"does not permit.*The change is kept"):
            await bus.publish(A)
        await ear.until_after(await other.publish(B))
        server.ask("ACL", "SETUSER", "ann", "+zadd")
        await ear.until(lambda ear: A in ear.changes)
        assert ear.changes == [B, A]


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll": 0},
        {"poll": float("nan")},
        {"timeout": 0},
        {"timeout": -1},
        {"buffer": 0},
        {"prefix": ""},
        {"prefix": "{a}"},
    ],
    ids=str,
)
def test_senseless_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not"):
        RedisBus("redis://localhost", **wrong)  # type: ignore[arg-type]
