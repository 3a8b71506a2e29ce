"""The private names of nats-py and redis that the buses use. Each test pins some of them.

When one fails after an upgrade, the table at the top of `bus/nats/connection.py`, or the comment in
`bus/redis/log.py`, says what is lost.
"""

import inspect

import pytest
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from redis.asyncio import Connection

from tidings.bus.nats.connection import NatsWire
from tidings.errors import BusUnavailable


def test_a_transport_of_nats_keeps_its_writers() -> None:
    """`_Tcp.abort` drops the connection through them."""
    assert {"_io_writer", "_bare_io_writer"} <= vars(TcpTransport()).keys()


def test_a_client_of_nats_has_one_transport_and_one_way_to_hear_the_introduction() -> None:
    """`NatsWire` replaces the first, and insists on TLS in the second."""
    assert "_transport" in vars(Client())
    assert list(inspect.signature(Client._process_info).parameters) == ["self", "info", "initial_connection"]


@pytest.mark.anyio
async def test_a_nats_client_without_a_name_that_is_needed_is_refused_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TcpTransport, "__init__", lambda self: None)
    with pytest.raises(BusUnavailable, match=r"lacks _bare_io_writer, _io_writer, .* Install a version that Tidings"):
        NatsWire(insist_on_tls=False, broken=lambda error: None)


def test_a_connection_of_redis_keeps_its_reader_and_its_writer() -> None:
    """`RedisConnection` looks at the first before each use, and aborts the second. Its comments say what is lost."""
    assert hasattr(Connection(), "_reader")
    assert hasattr(Connection(), "_writer")
