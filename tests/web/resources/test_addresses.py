"""The URIs of the web server: what each asks for, and that nothing else is one."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.server.families import BadAddress
from tidings.web.resources import (
    FAMILY,
    WebAddress,
    address,
    is_ours,
    parse_address,
    source_id_of,
)

ID, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize("kind", FAMILY)
def test_each_kind_has_uris_that_are_written_in_one_way(kind: str) -> None:
    uri = f"webfetch://{kind}/{ID}"
    assert parse_address(uri) == WebAddress(kind, ID)
    assert uri == address(kind, ID)


def test_a_diff_may_begin_with_a_version_and_nothing_else_may() -> None:
    parsed = parse_address(f"webfetch://diff/{ID}?from={OTHER}")
    assert parsed.since == OTHER
    for bad in (
        f"webfetch://page/{ID}?from={OTHER}",
        f"webfetch://diff/{ID}?from=",
        f"webfetch://diff/{ID}?since={OTHER}",
    ):
        with pytest.raises(BadAddress):
            parse_address(bad)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "webfetch:",
        "webfetch://",
        "webfetch://packet",
        "webfetch://packet/",
        f"webfetch://packet/{ID[:-1]}",
        f"webfetch://packet/{ID}0",
        f"webfetch://packet/{ID.upper()}",
        f"webfetch://packet/{ID}/",
        f"webfetch://packet/{ID}#x",
        f"webfetch://packet/{ID}?",
        f"webfetch://packet/{ID}\n",
        f" webfetch://packet/{ID}",
        f"webfetch://packet/../page/{ID}",
        f"webfetch://packet%2F{ID}",
        f"webfetch://user@packet/{ID}",
        f"webfetch://packet:80/{ID}",
        f"WEBFETCH://packet/{ID}",
        f"webfetch://Packet/{ID}",
        f"webfetch://pages/{ID}",
        f"webfetch:/packet/{ID}",
        f"webfetch://packet/{ID[:-1]}\u0661",
        f"webfetch://packet/\uff10{ID[1:]}",
        "file:///etc/passwd",
        "vault://note/A.md",
    ],
)
def test_nothing_else_is_a_uri_of_ours(uri: str) -> None:
    with pytest.raises(BadAddress, match="is not a URI of this server"):
        parse_address(uri)
    assert not is_ours(uri)


@pytest.mark.parametrize("url", ["https://example.org/", "http://127.0.0.1/", "HTTP://example.org"])
def test_a_url_is_sent_to_the_tool_that_fetches(url: str) -> None:
    with pytest.raises(BadAddress, match=r"reading never fetches\. Call the tool `fetch`"):
        parse_address(url)


def test_a_long_text_is_not_repeated_at_length() -> None:
    with pytest.raises(BadAddress) as refused:
        parse_address("x" * 100_000)
    assert len(str(refused.value)) < 600


@given(st.text())
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for uri in (text, f"webfetch://{text}", f"webfetch://page/{text}"):
        with suppress(BadAddress):
            assert uri.startswith(address(*parse_address(uri)[:2]))


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        (f"webfetch://page/{ID}", True),
        (f"webfetch://diff/{ID}", True),
        ("webfetch://page/*", True),
        ("webfetch://diff/01*", True),
        (f"webfetch://packet/{ID}", True),
        ("webfetch://*", True),
        ("webfetch://page/xyz*", False),
        ("webfetch://pa*", False),
        ("web*", False),
        (f"webfetch://page/{ID}/*", False),
    ],
)
def test_a_subscription_is_a_uri_or_the_beginning_of_some(subscription: str, expected: bool) -> None:
    assert is_ours(subscription) is expected


def test_an_id_may_be_given_as_it_is_or_by_its_uri() -> None:
    assert source_id_of(f" {ID} ") == source_id_of(f"webfetch://content/{ID}") == ID
    for bad in ("", "abc", f"webfetch://page/{ID}"):
        with pytest.raises(BadAddress, match="is not a source_id"):
            source_id_of(bad)
