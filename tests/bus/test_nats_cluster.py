"""A `NatsBus` on a cluster of three servers that all keep the log."""

import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.bus.buses import Ear
from tests.bus.nats_server import NatsServer, api, certificate
from tests.bus.test_nats_faults import check, kept_since, publishing, until
from tests.ports import free_port
from tidings.bus.nats import NatsBus
from tidings.bus.nats.bus import NatsServers
from tidings.bus.nats.connection import Access, NatsAddress
from tidings.changes import ResourceUpdated

pytestmark = pytest.mark.anyio

A = ResourceUpdated("note://a")


@contextmanager
def cluster(folder: Path, config: str = "") -> Generator[list[NatsServer]]:
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        NatsServer(
            folder / f"n{n}",
            f'server_name: n{n}\ncluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n{config}',
        )
        for n, port in enumerate(ports)
    ]
    with ExitStack() as stack:
        for server in servers:
            server.start(wait=False)
            stack.callback(server.kill)
        for server in servers:
            server.wait()
        yield servers


async def test_a_cluster_goes_on_when_the_server_dies_that_leads_it(tmp_path: Path) -> None:
    with cluster(tmp_path) as servers:
        urls = [server.url for server in servers]
        async with NatsBus(urls, replicas=3, timeout=20) as first:
            start, log = first.head, [(await first.publish(A), A)]
            records = [await first.records.put(f"{n}", b"x", seconds=60) for n in range(20)]
            for stream in ("tidings~records", "tidings"):
                info = await api(urls[0], f"STREAM.INFO.{stream}")
                assert info["config"]["num_replicas"] == 3
            leader = servers[int(info["cluster"]["leader"].removeprefix("n"))]
            # One that only knows the leader, and one that only knows another: the rest is told to them.
            other = next(server for server in servers if server is not leader)
            async with NatsBus(leader.url, timeout=20) as one, NatsBus(other.url, timeout=20) as two:
                ears = (Ear(), Ear())
                for bus, ear in zip((one, two), ears, strict=True):
                    bus.subscribe(ear)
                async with publishing(one, "one", tasks=2) as stored:
                    await until(lambda: len(stored) > 50)
                    leader.kill()
                    before = len(stored)
                    await until(lambda: len(stored) > before + 50)
                assert [await two.records.get(f"{n}") for n in range(20)] == records
                assert await two.records.put("0", b"y", seconds=60, revision=0) is None
                last = await two.publish(A)
                for ear in ears:
                    await ear.until_after(last)
                    check(ear, stored | {A: last})
                kept = await kept_since(one, start)
                assert all(kept[change] >= cursor for change, cursor in stored.items())
                assert last.epoch == log[0][0].epoch
                # A process that asks for fewer replicas takes none away.
                info = await api(other.url, "STREAM.INFO.tidings")
                assert info["config"]["num_replicas"] == 3


async def test_the_servers_of_a_cluster_are_found_and_signed_in_to_in_the_same_way(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nauthorization {{ user: ann, password: pw }}'
    with cluster(tmp_path, config) as nodes:
        servers = NatsServers(
            [NatsAddress.parse(f"tls://ann:pw@localhost:{nodes[0].port}")], Access(tls=_trusting(cert))
        )
        with_others = await servers.connect(5)
        await until(lambda: len(with_others.info.get("connect_urls") or ()) == 3)
        await with_others.close()
        await (await servers.connect(5)).close()
        nodes[0].kill()
        connection = await servers.connect(5)
        assert connection.address.port in {node.port for node in nodes[1:]}
        assert (connection.address.user, connection.address.password) == ("ann", "pw")
        assert not connection.ended.done()
        await connection.close()
        assert connection.ended.done()


def _trusting(cert: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=cert)


def test_another_server_is_known_by_its_number_or_its_name() -> None:
    one = NatsAddress.parse("tls://ann:pw@nats.example:4222")
    assert one.beside("10.0.0.7:4333") == NatsAddress("10.0.0.7", 4333, True, "ann", "pw", None, "nats.example")
    assert one.beside("other.example:4333") == NatsAddress("other.example", 4333, True, "ann", "pw", None, None)
    assert one.beside("[::1]:4333") == NatsAddress("::1", 4333, True, "ann", "pw", None, "nats.example")
    assert NatsAddress("::1", 4333, tls=True, user="ann", password="pw").url == "tls://[::1]:4333"
    assert one.beside("what:is:this") is None
    assert "pw" not in repr(one) + str(one)
