"""Which domains and ports may be fetched from."""

from ipaddress import ip_address, ip_network

import pytest

from tidings.web.fetch.guard import policy


@pytest.mark.parametrize("port", [1, 22, 23, 25, 53, 110, 143, 445, 587, 3306, 5432, 6379, 6667, 11211, 27017])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    assert f"port {port}" in (policy().refuses("example.org", port) or "")


@pytest.mark.parametrize("port", [80, 443, 3000, 8000, 8080, 8443, 9000, 50_000])
def test_ports_where_the_web_is_are_not(port: int) -> None:
    assert policy().refuses("example.org", port) is None


def test_with_domains_allowed_nothing_else_is() -> None:
    some = policy(allow_domains=["Example.org", "*.bücher.example"])
    assert some.refuses("example.org", 443) is None
    assert some.refuses("docs.example.org", 443) is None
    assert some.refuses("a.xn--bcher-kva.example", 443) is None
    for other in ("notexample.org", "example.org.evil.example", "xn--bcher-kva.example", "org", "93.184.215.14"):
        assert "not among those allowed" in (some.refuses(other, 443) or "")


def test_many_allowed_domains_are_not_all_listed() -> None:
    reason = policy(allow_domains=[f"site{n}.example" for n in range(50)]).refuses("other.example", 443) or ""
    assert "site4.example, …" in reason
    assert "site5" not in reason


def test_a_blocked_domain_is_blocked_though_it_is_allowed() -> None:
    some = policy(allow_domains=["example.org"], block_domains=["private.example.org."])
    assert some.refuses("example.org", 443) is None
    assert "blocked" in (some.refuses("private.example.org", 443) or "")
    assert "blocked" in (some.refuses("a.private.example.org", 443) or "")


def test_an_allowed_domain_does_not_open_a_private_address() -> None:
    some = policy(allow_domains=["intranet.example"], allow_private=[ip_network("10.0.0.0/8")])
    assert some.refuses_address("intranet.example", ip_address("10.0.0.1")) is None
    reason = some.refuses_address("intranet.example", ip_address("192.168.0.1")) or ""
    assert "intranet.example resolves to 192.168.0.1" in reason
    assert "--allow-private" in reason


def test_what_is_no_domain_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match=r"write it like example\.org"):
        policy(block_domains=["exa mple"])
