"""The stream of a `NatsBus`: wiped, emptied, overwritten, put back, cut short. Each time a new epoch begins."""

import asyncio
import base64
import json
import shutil
import uuid
from collections.abc import Generator
from pathlib import Path

import nats
import pytest

from tests.bus.buses import Ear
from tests.bus.nats_server import NatsServer, api, running, shared
from tests.bus.proxy import proxy_to
from tests.bus.test_nats_faults import through, until
from tidings.bus.nats import NatsBus
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio

A, B, C, D = (ResourceUpdated(f"note://{name}") for name in "abcd")


@pytest.fixture
def server(tmp_path: Path) -> Generator[NatsServer]:
    with running(tmp_path / "nats") as server:
        yield server


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def operated(prefix: str) -> str:
    """The prefix of a stream that its operator has made, and from which messages may be taken out."""
    config = {"subjects": [f"{prefix}.>"], "max_msgs_per_subject": 1, "storage": "file", "num_replicas": 1}
    await api(shared().url, f"STREAM.CREATE.{prefix}", {"name": prefix, **config})
    return prefix


async def say(subject: str, body: bytes) -> None:
    client = await nats.connect(shared().url)
    await client.request(subject, body)
    await client.close()


async def test_a_wiped_broker_begins_a_new_epoch_and_takes_what_waited(server: NatsServer) -> None:
    async with NatsBus(server.url, timeout=1) as one, NatsBus(server.url, timeout=1) as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        old = await one.publish(A)
        await ears[1].until_after(old)
        server.kill()
        with pytest.raises(BusUnavailable, match="kept"):
            await one.publish(B)
        server.wipe()
        await asyncio.to_thread(server.start)
        await until(lambda: one.state.connected and two.state.connected)
        new = await two.publish(C)
        for ear in ears:
            await ear.until_after(new)
            assert ear.changes.count(None) == 1
            assert {cursor.epoch for cursor, change in ear.heard if change != A} == {new.epoch}
        assert new.epoch != old.epoch
        assert await one.since(old) is await two.since(old) is None
        entries = await one.since(Cursor(new.epoch, 0)) or []
        assert {change for _, change in entries} == {B, C}


async def test_an_older_copy_put_back_begins_a_new_epoch(server: NatsServer, tmp_path: Path) -> None:
    store, copy = tmp_path / "nats" / "store", tmp_path / "copy"
    async with NatsBus(server.url) as bus:
        ear = Ear()
        bus.subscribe(ear)
        old = await bus.publish(A)
        server.kill()
        shutil.copytree(store, copy)
        await asyncio.to_thread(server.start)
        await until(lambda: bus.state.connected)
        await bus.publish(B)
        server.kill()
        server.wipe()
        copy.rename(store)
        await asyncio.to_thread(server.start)
        await ear.until(lambda ear: None in ear.changes)
        new = await bus.publish(C)
        assert ear.changes == [A, B, None, C]
        assert old.epoch != new.epoch
        assert await bus.since(old) is None


async def test_an_end_that_was_lost_and_has_grown_again_is_noticed(server: NatsServer, tmp_path: Path) -> None:
    """The broker's machine loses power, and with it the end of the log; somebody else publishes before we are back."""
    store, copy = tmp_path / "nats" / "store", tmp_path / "copy"
    async with proxy_to(server.port) as proxy, through(proxy, "tidings") as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(A)
        server.kill()
        shutil.copytree(store, copy)
        await asyncio.to_thread(server.start)
        await until(lambda: bus.state.connected)
        heard = [await bus.publish(change) for change in (B, C)]
        proxy.refusing = True
        server.kill()
        server.wipe()
        copy.rename(store)
        await asyncio.to_thread(server.start)
        async with NatsBus(server.url) as other:
            assert other.head.epoch == heard[-1].epoch
            again = [await other.publish(change) for change in (D, ResourceUpdated("note://e"), A, A)]
            # The same versions, other changes: to go on after them would be to miss one for ever.
            assert heard[-1].version in [cursor.version for cursor in again]
            told = Ear()
            other.subscribe(told)
            proxy.refusing = False
            await ear.until(lambda ear: None in ear.changes)
            await told.until(lambda told: None in told.changes)
            last = await other.publish(B)
            await ear.until_after(last)
            assert ear.changes == [A, B, C, None, B]
            assert last.epoch != heard[-1].epoch
            assert await other.since(heard[0]) is None


async def test_a_copy_elsewhere_is_another_log(server: NatsServer, prefix: str) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        cursor = await bus.publish(A)
    found = await api(shared().url, f"STREAM.MSG.GET.{prefix}", {"last_by_subj": f"{prefix}.log"})
    async with NatsBus(server.url, prefix=prefix) as bus:
        client = await nats.connect(server.url)
        await client.request(f"{prefix}.log", base64.b64decode(found["message"]["data"]))
        await client.close()
        assert bus.head.epoch != cursor.epoch
        assert await bus.since(cursor) is None


async def test_an_emptied_stream_begins_a_new_epoch(operated: str) -> None:
    async with NatsBus(shared().url, prefix=operated) as one, NatsBus(shared().url, prefix=operated) as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        old = await one.publish(A)
        await api(shared().url, f"STREAM.PURGE.{operated}")
        await one.publish(B)
        assert await two.since(old) is None
        for ear in ears:
            await ear.until(lambda ear: None in ear.changes)
        new = await two.publish(C)
        for ear in ears:
            await ear.until_after(new)
            assert ear.changes == [A, B, None, C]
        assert new.epoch != old.epoch
        assert new.version > old.version


async def test_a_stream_that_was_emptied_while_nobody_was_there_begins_a_new_epoch(operated: str) -> None:
    async with NatsBus(shared().url, prefix=operated) as bus:
        old = await bus.publish(A)
    await api(shared().url, f"STREAM.PURGE.{operated}")
    async with NatsBus(shared().url, prefix=operated) as bus:
        assert bus.head.epoch != old.epoch
        assert await bus.since(old) is None
        start, cursor = bus.head, await bus.publish(B)
        assert await bus.since(start) == [(cursor, B)]


async def test_a_stream_of_ours_cannot_be_emptied(prefix: str) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        cursor = await bus.publish(A)
        for what, body in (("PURGE", None), ("MSG.DELETE", {"seq": cursor.version})):
            answer = await api(shared().url, f"STREAM.{what}.{prefix}", body)
            assert answer["error"]["code"] == 500


@pytest.mark.parametrize("rubbish", [b"", b"rubbish", b"[]", b"{}", b'{"format": 1}'])
async def test_an_overwritten_mark_begins_a_new_epoch(prefix: str, rubbish: bytes) -> None:
    async with NatsBus(shared().url, prefix=prefix) as bus:
        ear = Ear()
        bus.subscribe(ear)
        old = await bus.publish(A)
        await say(f"{prefix}.log", rubbish)
        await ear.until(lambda ear: None in ear.changes)
        new = await bus.publish(B)
        assert new.epoch != old.epoch
        assert ear.changes == [A, None, B]


async def test_a_log_of_another_version_is_refused_and_the_changes_wait(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with NatsBus(shared().url, prefix=prefix, timeout=0.5) as bus:
        await bus.publish(A)
        await say(f"{prefix}.log", json.dumps({"format": 2, "epoch": "x"}).encode())
        await until(lambda: not bus.state.connected)
        with pytest.raises(BusMismatch, match=r"another version of Tidings \(format 2\).*The change is kept"):
            await bus.publish(B)
        with pytest.raises(BusMismatch, match="format 2"):
            await NatsBus(shared().url, prefix=prefix).__aenter__()
        assert await bus.since(bus.head) is None
        assert caplog.text.count("out of reach") == 1
        await api(shared().url, f"STREAM.DELETE.{prefix}")
        await until(lambda: bus.state.connected)
        assert [change for _, change in await bus.since(Cursor(bus.head.epoch, 0)) or ()] == [B]
