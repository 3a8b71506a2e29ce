"""The ways to a NATS broker: passwords, tokens, files, TLS; and all that can be wrong with one, with its cure."""

import asyncio
import json
import socket
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.bus.buses import Ear
from tests.bus.nats_server import api, certificate, running, shared
from tests.bus.test_nats_faults import until
from tests.ports import free_port
from tidings.bus.nats import NatsBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio

A, B = (ResourceUpdated(f"note://{name}") for name in "ab")

USERS = """
authorization { users: [
  { user: ann, password: "pa/ss@word" }
  { user: reader, password: pw, permissions: { publish: ["$JS.API.>", "_INBOX.>"], subscribe: ">" } }
  { user: nobody, password: pw, permissions: { publish: "other.>", subscribe: ">" } }
  { user: deaf, password: pw, permissions: { publish: ">", subscribe: "other.>" } }
  { user: quiet, password: pw,
    permissions: { publish: ["$JS.API.>", "$JS.FC.>", "tidings.>"], subscribe: "_INBOX.>" } }
] }
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    with running(tmp_path_factory.mktemp("guarded"), USERS) as server:
        yield server.port


async def works(bus: NatsBus) -> None:
    async with bus:
        ear = Ear()
        bus.subscribe(ear)
        cursor = await bus.publish(A)
        assert ear.heard[-1] == (cursor, A)
        assert await bus.since(cursor) == []


async def refused(bus: NatsBus, kind: type[Exception] = BusUnavailable) -> str:
    tasks, began = asyncio.all_tasks(), time.monotonic()
    with pytest.raises(kind) as caught:
        await bus.__aenter__()
    assert time.monotonic() - began < 20  # The default timeout is 5 s.
    assert not {task for task in asyncio.all_tasks() - tasks if "/nats/" in repr(task) or "tidings" in repr(task)}
    assert not bus.state.connected
    return str(caught.value)


@asynccontextmanager
async def pretender(version: str) -> AsyncGenerator[str]:
    """What takes a connection as a NATS server does, and then says no more."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": version, "headers": True, "max_payload": 1 << 20}
        writer.write(f"INFO {json.dumps(info)}\r\n".encode())
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_password_in_the_url_or_beside_it(guarded: int) -> None:
    await works(NatsBus(f"nats://ann:pa%2Fss%40word@127.0.0.1:{guarded}"))
    await works(NatsBus(f"127.0.0.1:{guarded}", user="ann", password="pa/ss@word"))
    await works(NatsBus(f"nats://wrong:one@127.0.0.1:{guarded}", user="ann", password="pa/ss@word"))


@pytest.mark.parametrize("sign_in", ["", "ann:wrong@", "someone:else@", "token@"])
async def test_wrong_credentials_are_named_and_not_told(guarded: int, sign_in: str) -> None:
    said = await refused(NatsBus(f"nats://{sign_in}127.0.0.1:{guarded}"))
    assert "refuses the credentials" in said
    assert f"nats://127.0.0.1:{guarded}" in said
    assert not sign_in or sign_in not in said


async def test_a_token(tmp_path: Path) -> None:
    with running(tmp_path, 'authorization { token: "s3cr:t" }') as server:
        await works(NatsBus(f"nats://s3cr%3At@127.0.0.1:{server.port}"))
        await works(NatsBus(server.url, token="s3cr:t"))
        assert "s3cr" not in await refused(NatsBus(server.url, token="s3cr"))


@pytest.mark.parametrize("user", ["reader", "nobody", "deaf"])
async def test_what_a_user_may_not_do_is_named_at_once(guarded: int, user: str) -> None:
    began = time.monotonic()
    said = await refused(NatsBus(f"nats://{user}:pw@127.0.0.1:{guarded}", prefix="tidings", timeout=60))
    assert "permissions violation" in said
    assert "Permit it" in said
    assert time.monotonic() - began < 10


async def test_few_permissions_suffice(guarded: int) -> None:
    await works(NatsBus(f"nats://quiet:pw@127.0.0.1:{guarded}"))


async def test_a_password_that_is_changed_makes_changes_wait(tmp_path: Path) -> None:
    config = 'authorization { user: ann, password: "one" }'
    with running(tmp_path / "nats", config) as server:
        async with NatsBus(f"nats://ann:one@127.0.0.1:{server.port}", timeout=0.5) as bus:
            await bus.publish(A)
            server.kill()
            server._file.write_text(server._file.read_text().replace('"one"', '"two"'))
            await asyncio.to_thread(server.start)
            await until(lambda: "refuses the credentials" in bus.state.reason)
            with pytest.raises(BusUnavailable, match="kept"):
                await bus.publish(B)
            assert await bus.since(bus.head) is None


async def test_a_credentials_file_is_checked_before_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    assert "No such file" in await refused(NatsBus(shared().url, credentials=file))
    file.write_bytes(b"\xff\xfe")
    assert "not text" in await refused(NatsBus(shared().url, credentials=str(file)))
    file.write_text("-----BEGIN NATS USER JWT-----\n")
    assert "not a credentials file" in await refused(NatsBus(shared().url, credentials=file))


async def test_tls_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    with running(tmp_path / "nats", f'tls {{ cert_file: "{cert}", key_file: "{key}" }}') as server:
        trusting = ssl.create_default_context(cafile=cert)
        await works(NatsBus(f"tls://localhost:{server.port}", tls=trusting))
        await works(NatsBus(f"nats://127.0.0.1:{server.port}", tls=trusting))
        said = await refused(NatsBus(f"tls://localhost:{server.port}"))
        assert "certificate is not trusted" in said
        assert "cafile" in said
        # A server that demands it gets it.
        assert "certificate is not trusted" in await refused(NatsBus(server.url))


@pytest.mark.parametrize("options", [{}, {"tls": ssl.create_default_context()}])
async def test_nothing_is_said_in_the_clear_where_tls_was_asked_for(options: dict[str, Any]) -> None:
    heard: list[bytes] = []

    async def eavesdrop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","headers":true,"max_payload":1048576}\r\n')
        heard.append(await reader.read(1000))
        writer.close()

    async with await asyncio.start_server(eavesdrop, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        scheme = "nats" if options else "tls"
        said = await refused(NatsBus(f"{scheme}://ann:secret@127.0.0.1:{port}", **options))
        assert "offers no TLS" in said
        await until(lambda: heard)
        assert heard == [b""]


async def test_tls_is_used_where_it_is_only_offered(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nallow_non_tls: true'
    with running(tmp_path / "nats", config) as server:
        await works(NatsBus(server.url, tls=ssl.create_default_context(cafile=cert)))
        assert "certificate is not trusted" in await refused(NatsBus(f"tls://127.0.0.1:{server.port}"))


async def test_a_host_that_nobody_knows() -> None:
    said = await refused(NatsBus("nats://nats.invalid", timeout=3))
    assert "host name is not known" in said or "did not answer" in said


async def test_a_broker_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = await refused(NatsBus(f"nats://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3))
    assert "did not answer within 0.3 s" in said


async def test_a_broker_that_says_no_more_after_the_handshake() -> None:
    async with pretender("2.15.1") as url:
        assert "did not answer within 0.5 s" in await refused(NatsBus(url, timeout=0.5))


async def test_something_else_that_answers() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        said = await refused(NatsBus(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        assert "not a NATS server" in said


async def test_a_broker_that_is_too_old() -> None:
    async with pretender("2.10.29") as url:
        assert "is nats-server 2.10.29; this bus needs 2.11" in await refused(NatsBus(url), BusMismatch)


async def test_a_broker_whose_messages_are_too_small(tmp_path: Path) -> None:
    with running(tmp_path, "max_payload: 4096") as server:
        assert "Raise max_payload" in await refused(NatsBus(server.url), BusMismatch)


async def test_jetstream_that_is_off(tmp_path: Path) -> None:
    with running(tmp_path, jetstream=False) as server:
        said = await refused(NatsBus(server.url))
        assert "-js" in said


async def test_jetstream_that_is_off_for_the_account(tmp_path: Path) -> None:
    accounts = "accounts { A { users: [{ user: ann, password: pw }] }, B { jetstream: enabled } }"
    with running(tmp_path, accounts) as server:
        said = await refused(NatsBus(f"nats://ann:pw@127.0.0.1:{server.port}"))
        assert "off for this account" in said


async def test_an_account_that_has_no_room(tmp_path: Path) -> None:
    accounts = "accounts { A { jetstream: { max_streams: 1 }, users: [{ user: ann, password: pw }] } }"
    with running(tmp_path, accounts) as server:
        url = f"nats://ann:pw@127.0.0.1:{server.port}"
        await works(NatsBus(url))
        assert "as many streams as are permitted" in await refused(NatsBus(url, prefix="other"))


async def test_a_broker_that_becomes_full_makes_changes_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = f'jetstream {{ store_dir: "{tmp_path}/store", max_file_store: 1MB }}'
    with running(tmp_path / "nats", config, jetstream=False) as server:
        async with NatsBus(server.url, timeout=0.5) as bus:
            await bus.publish(A)
            await api(server.url, "STREAM.CREATE.big", {"name": "big", "subjects": ["big.>"], "storage": "file"})
            client = await nats.connect(server.url)
            while b"error" not in (await client.request("big.x", bytes(100_000))).data:
                pass
            await client.close()
            with pytest.raises(BusUnavailable, match=r"no room left for JetStream.*kept"):
                await bus.publish(B)
            await until(lambda: caplog.text.count("is out of reach") == 1)
            await api(server.url, "STREAM.DELETE.big")
            await until(lambda: bus.state.connected and not bus.state.waiting)
        assert caplog.text.count("is out of reach") == caplog.text.count("is back") == 1


async def test_more_replicas_than_there_are_servers() -> None:
    said = await refused(NatsBus(shared().url, prefix=uuid.uuid4().hex, replicas=3))
    assert "needs a cluster" in said


async def test_the_first_of_several_that_answers_is_used_and_all_are_named_if_none_does() -> None:
    ports = [free_port(), free_port()]
    dead = [f"nats://127.0.0.1:{port}" for port in ports]
    await works(NatsBus([*dead, shared().url], prefix=uuid.uuid4().hex))
    await works(NatsBus(",".join([*dead, shared().url]), prefix=uuid.uuid4().hex))
    said = await refused(NatsBus(dead))
    assert said.startswith("None of the 2 brokers")
    assert all(str(port) in said for port in ports)


MATTERS = [
    {"max_msgs_per_subject": 2},
    {"storage": "memory"},
    {"retention": "interest"},
    {"discard": "new"},
    {"subjects": ["{prefix}.>", "{prefix}-more.>"]},
    {"max_msg_size": 1000},
    {"no_ack": True},
    {"sealed": True},
    {"subject_transform": {"src": ">", "dest": "x.>"}},
]


@pytest.mark.parametrize("difference", MATTERS, ids=lambda difference: next(iter(difference)))
async def test_a_stream_of_another_shape_is_refused_and_left_alone(difference: dict[str, Any]) -> None:
    prefix = uuid.uuid4().hex
    config = {"name": prefix, "subjects": [f"{prefix}.>"], "max_msgs_per_subject": 1, "storage": "file"} | difference
    config["subjects"] = [subject.format(prefix=prefix) for subject in config["subjects"]]
    sealed = config.pop("sealed", False)
    made = await api(shared().url, f"STREAM.CREATE.{prefix}", config)
    if sealed:
        made = await api(shared().url, f"STREAM.UPDATE.{prefix}", made["config"] | {"sealed": True})
    said = await refused(NatsBus(shared().url, prefix=prefix), BusMismatch)
    assert f"the stream {prefix}" in said
    assert next(iter(difference)) in said
    assert "give this bus another prefix" in said
    assert (await api(shared().url, f"STREAM.INFO.{prefix}"))["config"] == made["config"]


async def test_another_stream_that_holds_the_subjects() -> None:
    prefix = uuid.uuid4().hex
    await api(shared().url, f"STREAM.CREATE.other{prefix}", {"name": f"other{prefix}", "subjects": [f"{prefix}.a"]})
    assert "another stream holds these subjects" in await refused(NatsBus(shared().url, prefix=prefix), BusMismatch)


async def test_a_stream_that_becomes_another_makes_changes_wait(caplog: pytest.LogCaptureFixture) -> None:
    prefix = uuid.uuid4().hex
    async with NatsBus(shared().url, prefix=prefix, timeout=0.5) as bus:
        await bus.publish(A)
        config = (await api(shared().url, f"STREAM.INFO.{prefix}"))["config"]
        await api(shared().url, f"STREAM.UPDATE.{prefix}", config | {"max_msgs_per_subject": 5})
        for name in (await api(shared().url, f"CONSUMER.NAMES.{prefix}"))["consumers"]:
            await api(shared().url, f"CONSUMER.DELETE.{prefix}.{name}")
        await until(lambda: "max_msgs_per_subject" in bus.state.reason)
        with pytest.raises(BusMismatch, match=r"max_msgs_per_subject is 5 and not 1.*kept"):
            await bus.publish(B)
        assert caplog.text.count("is out of reach") == 1
        await api(shared().url, f"STREAM.UPDATE.{prefix}", config)
        await until(lambda: bus.state.connected and not bus.state.waiting)
