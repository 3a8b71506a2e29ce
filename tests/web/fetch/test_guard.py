"""The guard: which addresses, domains and ports are allowed, and the connections it makes."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import anyio
import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.fetch.servers import LOOPBACK, Names, site
from tidings._kit import address_guard
from tidings._kit.address_guard import AddressRefused, Guard, NoSuchHost, look_up
from tidings._kit.addresses import Address, real, refusal
from tidings.web.fetch.urls import FetchPolicy


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"),
        *("169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
        *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255"),
        *("240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1"),
        *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:2::1"),
        *("2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd12::1"),
        *("fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert refusal(ip_address(address)) is not None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "::ffff:169.254.169.254"],
)
def test_where_clouds_keep_credentials_has_to_be_allowed_by_itself(address: str) -> None:
    asked = ip_address(address)
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert "credentials" in (refusal(asked) or "")
    assert "credentials" in (refusal(asked, everything) or "")
    assert refusal(asked, [ip_network(real(asked))]) is None


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.255.255", "2606:4700::1111", "::ffff:8.8.8.8"],
)
def test_a_public_address_is_not(address: str) -> None:
    assert refusal(ip_address(address)) is None


def test_a_translated_address_is_judged_as_what_it_stands_for() -> None:
    assert refusal(ip_address("64:ff9b::8.8.8.8")) is None
    assert real(ip_address("64:ff9b::8.8.8.8")) == ip_address("8.8.8.8")
    assert refusal(ip_address("::ffff:10.0.0.1"), [ip_network("10.0.0.0/8")]) is None


def test_what_is_allowed_is_allowed_and_nothing_beside_it() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
    assert refusal(ip_address("10.1.2.3"), allowed) is None
    assert refusal(ip_address("10.2.0.1"), allowed) is not None
    assert refusal(ip_address("fd00::1"), allowed) is None
    assert refusal(ip_address("fe80::1"), allowed) is not None


@given(st.ip_addresses())
def test_nothing_that_python_takes_for_private_gets_through(address) -> None:
    if real(address).is_private or real(address).is_multicast or real(address).is_loopback:
        assert refusal(address) is not None


@pytest.mark.parametrize("port", [1, 22, 23, 25, 53, 110, 143, 445, 587, 3306, 5432, 6379, 6667, 11211, 27017])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    assert f"port {port}" in (FetchPolicy().refuses("example.org", port) or "")


@pytest.mark.parametrize("port", [80, 443, 3000, 8000, 8080, 8443, 9000, 50_000])
def test_ports_where_the_web_is_are_not(port: int) -> None:
    assert FetchPolicy().refuses("example.org", port) is None


def test_with_domains_allowed_nothing_else_is() -> None:
    some = FetchPolicy(allow_domains=["Example.org", "*.bücher.example"])
    assert some.refuses("example.org", 443) is None
    assert some.refuses("docs.example.org", 443) is None
    assert some.refuses("a.xn--bcher-kva.example", 443) is None
    for other in ("notexample.org", "example.org.evil.example", "xn--bcher-kva.example", "org", "93.184.215.14"):
        assert "not among those allowed" in (some.refuses(other, 443) or "")


def test_many_allowed_domains_are_not_all_listed() -> None:
    reason = FetchPolicy(allow_domains=[f"site{n}.example" for n in range(50)]).refuses("other.example", 443) or ""
    assert "site4.example, …" in reason
    assert "site5" not in reason


def test_a_blocked_domain_is_blocked_though_it_is_allowed() -> None:
    some = FetchPolicy(allow_domains=["example.org"], block_domains=["private.example.org."])
    assert some.refuses("example.org", 443) is None
    assert "blocked" in (some.refuses("private.example.org", 443) or "")
    assert "blocked" in (some.refuses("a.private.example.org", 443) or "")


def test_an_allowed_domain_does_not_open_a_private_address() -> None:
    some = FetchPolicy(allow_domains=["intranet.example"], allow_private=[ip_network("10.0.0.0/8")])
    assert some.refuses_address("intranet.example", ip_address("10.0.0.1")) is None
    reason = some.refuses_address("intranet.example", ip_address("192.168.0.1")) or ""
    assert "intranet.example resolves to 192.168.0.1" in reason
    assert "--allow-private" in reason


def test_what_is_no_domain_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match=r"write it like example\.org"):
        FetchPolicy(block_domains=["exa mple"])


pytestmark = pytest.mark.anyio


async def test_the_addresses_of_a_name_are_vetted_all_of_them() -> None:
    names = Names(
        good_example=[["93.184.215.14", "2606:2800::1"]],
        mixed_example=[["93.184.215.14", "10.0.0.1"]],
        last_example=[[*["93.184.215.14"] * 9, "::1"]],
    )
    guard = Guard(FetchPolicy(), names)
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
        await Guard(FetchPolicy(), names).vetted(address, 80)
    assert names.asked == []


async def test_a_refused_domain_or_port_is_not_even_resolved() -> None:
    names = Names(a_example=[["93.184.215.14"]])
    guard = Guard(FetchPolicy(block_domains=["a.example"]), names)
    with pytest.raises(AddressRefused, match="blocked"):
        await guard.vetted("a.example", 443)
    with pytest.raises(AddressRefused, match="port 22"):
        await guard.vetted("b.example", 22)
    assert names.asked == []


async def test_a_mapped_address_is_connected_to_as_what_it_is() -> None:
    assert await Guard(FetchPolicy()).vetted("::ffff:93.184.215.14", 80) == [ip_address("93.184.215.14")]


async def test_a_name_without_addresses_is_said_to_be_so() -> None:
    async def broken(_: str) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    with pytest.raises(NoSuchHost, match="has no addresses"):
        await Guard(FetchPolicy(), Names(a_example=[[]])).vetted("a.example", 80)
    with pytest.raises(NoSuchHost, match="no such name") as gone:
        await Guard(FetchPolicy(), Names()).vetted("b.example", 80)
    assert not gone.value.retryable
    with pytest.raises(NoSuchHost, match="Temporary failure") as later:
        await Guard(FetchPolicy(), broken).vetted("c.example", 80)
    assert later.value.retryable


async def test_the_connection_goes_to_the_address_that_was_vetted() -> None:
    async with site() as here:
        names = Names(a_example=[["127.0.0.1"], ["10.0.0.1"]])
        stream = await Guard(FetchPolicy(LOOPBACK), names).connect_tcp("a.example", here.port)
        assert stream.get_extra_info("server_addr")[:2] == ("127.0.0.1", here.port)
        await stream.aclose()
        assert names.asked == ["a.example"]


async def test_an_address_that_does_not_answer_makes_way_for_the_next() -> None:
    async with site(host="127.0.0.1") as here:
        names = Names(a_example=[["::1", "127.0.0.2", "127.0.0.1"]])
        stream = await Guard(FetchPolicy(LOOPBACK), names).connect_tcp("a.example", here.port)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        await stream.aclose()


async def test_where_no_address_answers_the_first_failure_is_told() -> None:
    async with site() as here:
        pass
    names = Names(a_example=[["127.0.0.1", "127.0.0.2"]])
    with pytest.raises(httpcore2.ConnectError):
        await Guard(FetchPolicy(LOOPBACK), names).connect_tcp("a.example", here.port)


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
    monkeypatch.setattr(address_guard, "_HEAD_START", 0.0)
    streams = Streams()
    streams.answering = {"2.2.2.2"}
    guard = Guard(FetchPolicy(), Names(a_example=[["2600::1", "2600::2", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", streams.connect)
    with anyio.fail_after(10):
        stream = await guard.connect_tcp("a.example", 443)
    assert isinstance(stream, Stream)
    assert stream.address == "2.2.2.2"
    assert streams.tried[0] == "2600::1"
    assert streams.closed == []


async def test_of_two_that_answer_at_once_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_guard, "_HEAD_START", 0.0)
    both = anyio.Event()
    streams = Streams()

    async def connect(address: Address, _: int) -> Stream:
        streams.tried.append(str(address))
        if len(streams.tried) == 2:
            both.set()
        with anyio.CancelScope(shield=True):  # Neither can be called off any more.
            await both.wait()
        return Stream(str(address), streams)

    guard = Guard(FetchPolicy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", connect)
    stream = await guard.connect_tcp("a.example", 443)
    assert isinstance(stream, Stream)
    assert [*streams.closed, stream.address] in (["1.1.1.1", "2.2.2.2"], ["2.2.2.2", "1.1.1.1"])


async def test_whoever_is_cancelled_leaves_no_connection_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()
    guard = Guard(FetchPolicy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
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
    guard = Guard(FetchPolicy(), Names(a_example=[["1.1.1.1", "2.2.2.2"]]))
    monkeypatch.setattr(guard, "_connect", streams.connect)
    with anyio.move_on_after(0.01) as scope:
        await guard.connect_tcp("a.example", 443)
    assert scope.cancelled_caught
    assert streams.closed == []


async def test_there_is_no_way_to_a_local_socket() -> None:
    with pytest.raises(AddressRefused):
        await Guard(FetchPolicy()).connect_unix_socket("/run/some.sock")
    await Guard(FetchPolicy()).sleep(0)


async def test_the_system_resolves_names_and_each_address_once() -> None:
    addresses = await look_up("localhost")
    assert addresses
    assert len(set(addresses)) == len(addresses)
    assert all(address in ip_network("127.0.0.0/8") or address == ip_address("::1") for address in addresses)
    assert await look_up("127.0.0.1") == [ip_address("127.0.0.1")]
