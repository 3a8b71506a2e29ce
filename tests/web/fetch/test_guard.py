"""The one way to a socket."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import anyio
import httpcore2
import pytest

from tests.web.fetch.servers import LOOPBACK, Names, site
from tidings.web.fetch import guard as guard_module
from tidings.web.fetch.guard import Address, AddressRefused, Guard, Lookup, NoSuchHost, policy

pytestmark = pytest.mark.anyio


async def test_the_addresses_of_a_name_are_vetted_all_of_them() -> None:
    names = Names(
        good_example=[["93.184.215.14", "2606:2800::1"]],
        mixed_example=[["93.184.215.14", "10.0.0.1"]],
        last_example=[[*["93.184.215.14"] * 9, "::1"]],
    )
    guard = Guard(policy(), names)
    assert await guard.vetted("good.example", 443) == [ip_address("93.184.215.14"), ip_address("2606:2800::1")]
    with pytest.raises(AddressRefused, match=r"mixed\.example resolves to 10\.0\.0\.1, which is a private network"):
        await guard.vetted("mixed.example", 443)
    with pytest.raises(AddressRefused, match="this machine itself"):
        await guard.vetted("last.example", 443)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00:ec2::254"],
)
async def test_a_written_address_is_vetted_like_any_other(address: str) -> None:
    names = Names()
    with pytest.raises(AddressRefused):
        await Guard(policy(), names).vetted(address, 80)
    assert names.asked == []


async def test_a_refused_domain_or_port_is_not_even_resolved() -> None:
    names = Names(a_example=[["93.184.215.14"]])
    guard = Guard(policy(block_domains=["a.example"]), names)
    with pytest.raises(AddressRefused, match="blocked"):
        await guard.vetted("a.example", 443)
    with pytest.raises(AddressRefused, match="port 22"):
        await guard.vetted("b.example", 22)
    assert names.asked == []


async def test_a_mapped_address_is_connected_to_as_what_it_is() -> None:
    assert await Guard(policy()).vetted("::ffff:93.184.215.14", 80) == [ip_address("93.184.215.14")]


async def test_a_name_without_addresses_is_said_to_be_so() -> None:
    async def broken(_: str) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    with pytest.raises(NoSuchHost, match="has no addresses"):
        await Guard(policy(), Names(a_example=[[]])).vetted("a.example", 80)
    with pytest.raises(NoSuchHost, match="no such name") as gone:
        await Guard(policy(), Names()).vetted("b.example", 80)
    assert not gone.value.retryable
    with pytest.raises(NoSuchHost, match="Temporary failure") as later:
        await Guard(policy(), broken).vetted("c.example", 80)
    assert later.value.retryable


async def test_the_connection_goes_to_the_address_that_was_vetted() -> None:
    async with site() as here:
        names = Names(a_example=[["127.0.0.1"], ["10.0.0.1"]])
        stream = await Guard(policy(LOOPBACK), names).connect_tcp("a.example", here.port)
        assert stream.get_extra_info("server_addr")[:2] == ("127.0.0.1", here.port)
        await stream.aclose()
        assert names.asked == ["a.example"]


async def test_an_address_that_does_not_answer_makes_way_for_the_next() -> None:
    async with site(host="127.0.0.1") as here:
        names = Names(a_example=[["::1", "127.0.0.2", "127.0.0.1"]])
        stream = await Guard(policy(LOOPBACK), names).connect_tcp("a.example", here.port)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        await stream.aclose()


async def test_where_no_address_answers_the_first_failure_is_told() -> None:
    async with site() as here:
        pass
    names = Names(a_example=[["127.0.0.1", "127.0.0.2"]])
    with pytest.raises(httpcore2.ConnectError):
        await Guard(policy(LOOPBACK), names).connect_tcp("a.example", here.port)


class Streams:
    """Stands in for the network: addresses that never answer, and streams that say when they are closed."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.closed: list[str] = []
        self.answering: set[str] = set()

    async def connect(self, address: Address, port: int) -> "Stream":
        self.tried.append(str(address))
        if str(address) not in self.answering:
            await anyio.sleep_forever()
        return Stream(str(address), self)


class Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, address: str, streams: Streams) -> None:
        self.address, self._streams = address, streams

    async def aclose(self) -> None:
        self._streams.closed.append(self.address)


async def test_a_silent_address_costs_a_head_start_not_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "_HEAD_START", 0.0)
    streams = Streams()
    streams.answering = {"2.2.2.2"}
    guard = Guard(policy(), Names(a_example=[["2600::1", "2600::2", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", streams.connect)
    with anyio.fail_after(10):
        stream = await guard.connect_tcp("a.example", 443)
    assert isinstance(stream, Stream)
    assert stream.address == "2.2.2.2"
    assert streams.tried[0] == "2600::1"
    assert streams.closed == []


async def test_of_two_that_answer_at_once_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "_HEAD_START", 0.0)
    both = anyio.Event()
    streams = Streams()

    async def connect(address: Address, _: int) -> Stream:
        streams.tried.append(str(address))
        if len(streams.tried) == 2:
            both.set()
        with anyio.CancelScope(shield=True):  # Neither can be called off any more.
            await both.wait()
        return Stream(str(address), streams)

    guard = Guard(policy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", connect)
    stream = await guard.connect_tcp("a.example", 443)
    assert isinstance(stream, Stream)
    assert [*streams.closed, stream.address] in (["1.1.1.1", "2.2.2.2"], ["2.2.2.2", "1.1.1.1"])


async def test_whoever_is_cancelled_leaves_no_connection_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    guard = Guard(policy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
    with anyio.CancelScope() as scope:

        async def connect(address: Address, _: int) -> Stream:
            scope.cancel()
            return Stream(str(address), streams)

        monkeypatch.setattr(guard, "_connect", connect)
        await guard.connect_tcp("a.example", 443)
    assert scope.cancelled_caught
    assert streams.closed == ["1.1.1.1"]


async def test_whoever_is_cancelled_before_anybody_answered_just_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    guard = Guard(policy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", streams.connect)
    with anyio.move_on_after(0.01) as scope:
        await guard.connect_tcp("a.example", 443)
    assert scope.cancelled_caught
    assert streams.closed == []


async def test_there_is_no_way_to_a_local_socket() -> None:
    with pytest.raises(AddressRefused):
        await Guard(policy()).connect_unix_socket("/run/some.sock")
    await Guard(policy()).sleep(0)


async def test_the_system_resolves_names_and_each_address_once() -> None:
    lookup = Lookup()
    addresses = await lookup("localhost")
    assert addresses
    assert len(set(addresses)) == len(addresses)
    assert all(address in ip_network("127.0.0.0/8") or address == ip_address("::1") for address in addresses)
    assert await lookup("127.0.0.1") == [ip_address("127.0.0.1")]
