"""URLs in their one form, and those that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.fetch.request import BadUrl
from tidings.web.fetch.urls import MAX_LENGTH, join, parse, shown


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        (" https://example.org/a \n", "https://example.org/a"),
        ("https://example.org:443/", "https://example.org/"),
        ("http://example.org:80/", "http://example.org/"),
        ("http://example.org:/", "http://example.org/"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("http://example.org./", "http://example.org/"),
        ("http://example.org/a#b", "http://example.org/a"),
        ("http://example.org?", "http://example.org/"),
        ("http://example.org?a?b#c", "http://example.org/?a?b"),
        ("http://example.org/a/./b/../c/..", "http://example.org/a/"),
        ("http://example.org/../../a/%2e%2E/b", "http://example.org/b"),
        ("http://example.org/a//b/", "http://example.org/a//b/"),
        ("http://example.org/%7euser/%c3%bc", "http://example.org/~user/%C3%BC"),
        ("http://example.org/ü b?q=ü b", "http://example.org/%C3%BC%20b?q=%C3%BC%20b"),
        ("http://example.org/100%?x=%zz", "http://example.org/100%?x=%zz"),
        ("http://example.org/?q=a\\b", "http://example.org/?q=a%5Cb"),
        ("http://example.org/a%2Fb%0d%0a", "http://example.org/a%2Fb%0D%0A"),
        ("https://example.org/@someone", "https://example.org/@someone"),
        ("http://my_host.example.org/", "http://my_host.example.org/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--BCHER-kva.example/", "http://xn--bcher-kva.example/"),
        ("http://ex\u00adample。org/", "http://example.org/"),
        ("http://[2001:DB8:0::1]:8080/", "http://[2001:db8::1]:8080/"),
    ],
)
def test_what_means_the_same_has_one_form(written: str, meant: str) -> None:
    assert str(parse(written)) == meant
    assert str(parse(meant)) == meant


@pytest.mark.parametrize(
    "written",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "017700000001",
        "0177.0.0.01",
        "127.1",
        "127.0.1",
        "0x7f.0.0x0.1",
        "%31%32%37.0.0.1",
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020\uff0e0\uff611",
        "⑫7.0.0.1",
    ],
)
def test_every_way_to_write_an_ipv4_address_is_that_address(written: str) -> None:
    assert parse(f"http://{written}/").host == "127.0.0.1"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "complete URL"),
        ("example.org/page", "complete URL"),
        ("http:example.org", "complete URL"),
        ("//example.org/", "complete URL"),
        ("http:///page", "names no host"),
        ("http://:80/", "names no host"),
        ("file:///etc/passwd", "only http and https"),
        ("data:text/html,hello", "only http and https"),
        ("ftp://example.org/", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("localhost:8080/", "only http and https"),
        ("http://user@example.org/", "user name"),
        ("http://user:secret@example.org/", "user name"),
        ("http://example.org@evil.example/", "user name"),
        ("http://@example.org/", "user name"),
        ("http://example.org\\@evil.example/", "backslash"),
        ("http:\\\\example.org/", "backslash"),
        ("http://example.org/a\\..\\b", "backslash"),
        ("http://example.org/%00", "NUL"),
        ("http://example.org%00.evil.example/", "NUL"),
        ("http://example.org/\x00", "control characters"),
        ("http://exam\tple.org/", "control characters"),
        ("http://example.org/\r\nHost: evil.example", "control characters"),
        ("http://example.org/\ud800", "control characters"),
        ("http://example.org:0/", "not a port"),
        ("http://example.org:65536/", "not a port"),
        ("http://example.org:-1/", "not a port"),
        ("http://example.org:٨٠/", "not a port"),
        ("http://example.org:http/", "not a port"),
        ("http://a:b:80/", "not a host name"),
        ("http://exa mple.org/", "not a host name"),
        ("http://a%2fb/", "not a host name"),
        ("http://a%20b/", "not a host name"),
        ("http://℀.example/", "not a host name"),
        ("http://a..b/", "not a host name"),
        ("http://-a.example/", "not a host name"),
        (f"http://{'a' * 64}.example/", "not a host name"),
        (f"http://{'a.' * 140}example/", "not a host name"),
        (f"http://{'a' * 1_001}/", "too long"),
        ("http://%ff%fe.example/", "not UTF-8"),
        ("http://☃.example/", "not a host name"),
        ("http://a\u202eb.example/", "not a host name"),
        ("http://256.0.0.1/", "not an IPv4 address"),
        ("http://1.2.3.4.5/", "not an IPv4 address"),
        ("http://4294967296/", "not an IPv4 address"),
        ("http://1.2.3.0x100/", "not an IPv4 address"),
        ("http://a.0x7f/", "not an IPv4 address"),
        ("http://09.0.0.1/", "not an octal number"),
        ("http://[::1/", "not an IPv6 address"),
        ("http://[::1]evil.example/", "not an IPv6 address"),
        ("http://[example.org]/", "not an IPv6 address"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[::1%lo]/", "zone"),
        ("http://example.org/" + "a" * MAX_LENGTH, "longer than"),
    ],
)
def test_what_cannot_be_fetched_is_refused_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(BadUrl, match=why) as refused:
        parse(written)
    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()


def test_a_location_is_read_from_where_it_was_found() -> None:
    base = parse("https://example.org/a/b?c")
    assert str(join(base, "../d?e#f")) == "https://example.org/d?e"
    assert str(join(base, "//other.example")) == "https://other.example/"
    assert str(join(base, " http://other.example/x ")) == "http://other.example/x"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "data:,x", "\\\\evil.example", "/a\nb", "http://a@b/"])
def test_a_location_that_cannot_be_fetched_is_refused(location: str) -> None:
    with pytest.raises(BadUrl, match="redirects to"):
        join(parse("https://example.org/"), location)


def test_headers_may_follow_to_the_same_origin_and_to_its_secure_form_alone() -> None:
    plain, secure = parse("http://a.example/1"), parse("https://a.example/2")
    assert plain.trusts(parse("http://a.example/2"))
    assert plain.trusts(secure)
    assert not secure.trusts(plain)
    assert not plain.trusts(parse("http://a.example:8080/"))
    assert not plain.trusts(parse("https://b.example/"))
    assert not parse("http://a.example:8080/").trusts(secure)


def test_a_quoted_url_is_short_and_shows_what_cannot_be_seen() -> None:
    assert shown("a\x00b\u202e") == "a\\u0000b\\u202e"
    assert len(shown("a" * 1_000)) == 200


@given(st.text(max_size=60))
def test_parsing_never_fails_otherwise_and_is_done_once(rest: str) -> None:
    try:
        url = parse(f"http://{rest}")
    except BadUrl:
        return
    assert parse(str(url)) == url
    assert str(url).isascii()


@given(st.ip_addresses(v=4), st.lists(st.sampled_from(["d", "o", "x", "X"]), min_size=4, max_size=4), st.integers(1, 4))
def test_an_address_in_any_base_and_length_is_that_address(address, bases, parts: int) -> None:
    octets = list(address.packed)
    numbers = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]), "big")]
    forms = {"d": str, "o": lambda n: f"0{n:o}", "x": lambda n: f"0x{n:x}", "X": lambda n: f"0X{n:X}"}
    written = ".".join(forms[base](number) for base, number in zip(bases, numbers, strict=False))
    assert parse(f"http://{written}/").host == str(address)
