"""Which addresses may be connected to."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.fetch.guard import network, real, refusal


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


def test_a_network_is_read_or_refused_with_an_example() -> None:
    assert network(" 10.0.0.0/8 ") == ip_network("10.0.0.0/8")
    assert network("::1") == ip_network("::1/128")
    with pytest.raises(ValueError, match=r"write it like 10\.0\.0\.0/8"):
        network("10.0.0.1/8")


@given(st.ip_addresses())
def test_nothing_that_python_takes_for_private_gets_through(address) -> None:
    if real(address).is_private or real(address).is_multicast or real(address).is_loopback:
        assert refusal(address) is not None
