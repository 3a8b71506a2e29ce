"""The ways to a Redis: TLS, a socket, the nodes of a cluster; and URLs that lead nowhere."""

# pyright: reportPrivateUsage=false

import asyncio
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from tests.bus.buses import Ear
from tests.bus.proxy import proxy_to
from tests.bus.redis_server import redis_server, shared_server, until
from tests.ports import free_port
from tidings.bus.redis import RedisBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B = (ResourceUpdated(f"note://{name}") for name in "ab")


async def works(url: str) -> None:
    async with RedisBus(url) as one, RedisBus(url) as two:
        ear = Ear()
        two.subscribe(ear)
        await ear.until_after(await one.publish(A))
        assert ear.changes == [A]


async def test_a_database_other_than_the_first(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        await works(f"{server.url}/3")
        await works(f"{server.url}?db=4&client_name=tidings")
        assert server.ask("DBSIZE") == 0
        assert server.ask("DBSIZE", db=3) == server.ask("DBSIZE", db=4) == 3


async def test_valkey_is_another_name_for_it() -> None:
    await works(f"valkey://localhost:{shared_server().port}")


async def test_a_socket_in_the_file_system(tmp_path: Path) -> None:
    async with redis_server(tmp_path, "--unixsocket", str(tmp_path / "s")):
        await works(f"unix://{tmp_path}/s")


def certificate(folder: Path) -> tuple[str, str]:
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


async def test_tls_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    port = free_port()
    options = ("--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
    async with redis_server(tmp_path / "redis", *options) as server:
        await works(f"rediss://localhost:{port}?ssl_ca_certs={cert}")
        await works(f"valkeys://localhost:{port}?ssl_cert_reqs=none&ssl_check_hostname=no")
        with pytest.raises(BusUnavailable, match=r"(?i)certificate"):
            await works(f"rediss://localhost:{port}")
        with pytest.raises(BusUnavailable, match=r"did not answer within 0\.5 s"):
            await RedisBus(f"rediss://localhost:{server.port}?ssl_ca_certs={cert}", timeout=0.5).__aenter__()
        with pytest.raises(BusUnavailable, match="cannot be reached"):
            await works(f"redis://localhost:{port}")


async def test_a_line_over_tls_to_a_server_that_hangs_is_let_go_at_once(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path)
    port = free_port()
    options = ("--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
    async with redis_server(tmp_path / "redis", *options), proxy_to(port) as proxy:
        async with RedisBus(f"rediss://localhost:{proxy.port}?ssl_ca_certs={cert}") as bus:
            await bus.publish(A)
            proxy.stall()
        await until(lambda: not lines_to(proxy.port))


def lines_to(port: int) -> list[object]:
    """The sockets of this process that lead to `port`."""
    found = psutil.Process().net_connections("tcp")
    return [line for line in found if line.raddr and line.raddr.port == port and line.status == "ESTABLISHED"]


async def test_any_node_of_a_cluster_leads_to_the_log_also_when_it_moves(tmp_path: Path) -> None:
    ports = {"one": free_port(), "two": free_port()}
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                redis_server(
                    tmp_path / name,
                    *("--cluster-enabled", "yes", "--cluster-port", str(port)),
                    *("--cluster-require-full-coverage", "no"),
                )
            )
            for name, port in ports.items()
        ]
        one, two = nodes
        one.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        two.ask("CLUSTER", "MEET", "127.0.0.1", one.port, ports["one"])
        for node in nodes:
            await asyncio.to_thread(node.until, "cluster_known_nodes:2", "CLUSTER", "INFO")
            await asyncio.to_thread(node.until, "cluster_state:ok", "CLUSTER", "INFO")
        await asyncio.to_thread(two.until, "cluster_slots_ok:16384", "CLUSTER", "INFO")
        await works(two.url)
        async with RedisBus(two.url, poll=0.05) as bus:
            ear = Ear()
            bus.subscribe(ear)
            before = await bus.publish(A)
            assert await bus.records.put("a", b"x", seconds=60)
            slot = one.ask("CLUSTER", "KEYSLOT", "{tidings}:log")
            one.kill()
            two.ask("CLUSTER", "SETSLOT", slot, "NODE", two.ask("CLUSTER", "MYID"))
            after = await bus.publish(B)
            await ear.until_after(after)
            assert None in ear.changes
            assert after.epoch != before.epoch
            assert two.ask("EXISTS", "{tidings}:log") == 1
            record = await bus.records.put("a", b"y", seconds=60, revision=0)
            assert record is not None
            assert await bus.records.get("a") == record


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nats://host", "no scheme 'nats'"),
        ("redix://host", "Did you mean 'redis'"),
        ("", "no scheme ''"),
        ("redis://ann:s3cret@host:port", "port of a Redis must be a number"),
        ("redis://ann:s3/cret@host", "port of a Redis must be a number"),
        ("redis://ann:1/s3cret@host", "The database of a Redis must be a number"),
        ("redis://ann:s3cret#1@host", "write it as %23"),
        ("redis://ann:s3cret@host:0", "port of a Redis must be a number"),
        ("redis://ann:s3cret@[::1", "an invalid host"),
        ("redis://ann:s3cret@host/one", "The database of a Redis must be a number"),
        ("redis://ann:s3cret@host?db=one", "The database of a Redis must be a number"),
        ("redis://ann:s3cret@host?dbb=1", "no option 'dbb'. Did you mean 'db'?"),
        ("redis://ann:s3cret@host?ssl_ca_certs=x", "no option 'ssl_ca_certs'"),
        ("rediss://ann:s3cret@host?ssl_cert_reqs=maybe", "is not valid: Invalid SSL Certificate"),
        ("unix://", "unix:///path/to/the.sock"),
        ("redis+sentinel://ann:s3cret@host", "no scheme 'redis+sentinel'"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_showing_its_secrets(url: str, words: str) -> None:
    with pytest.raises(ValueError, match="Redis") as caught:
        RedisBus(url)
    assert words in str(caught.value)
    assert "s3" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_place_of_a_bus_is_named_without_its_secrets() -> None:
    for url in ("redis://ann:s3cret@host", "redis://host?password=s3cret"):
        assert "s3cret" not in RedisBus(url)._place
        assert "host" in RedisBus(url)._place
