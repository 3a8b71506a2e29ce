"""What packets and pages are known by."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidings.web.documents.model import canonical, content_hash, page_id, source_id

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_source_id_is_of_url_day_and_content() -> None:
    hashed = content_hash("text")
    expected = hashlib.sha256(f"https://example.org/|2026-03-01|{hashed}".encode()).hexdigest()[:16]
    assert source_id("https://example.org/", NOON, hashed) == expected


def test_the_day_is_that_of_utc() -> None:
    east = datetime(2026, 3, 2, 1, tzinfo=timezone(timedelta(hours=5)))
    assert source_id("u", east, "h") == source_id("u", NOON, "h") != source_id("u", NOON + timedelta(days=1), "h")


def test_a_page_id_is_of_the_url_alone() -> None:
    assert page_id("https://example.org/") == hashlib.sha256(b"https://example.org/").hexdigest()[:16]


def test_a_text_that_is_no_unicode_has_a_hash_too() -> None:
    assert len(content_hash("\ud800")) == 64


@pytest.mark.parametrize(
    ("claimed", "final", "known_by"),
    [
        (None, "HTTPS://Example.ORG:443/a/../b#c", "https://example.org/b"),
        ("https://example.org/b", "https://example.org/b?from=mail", "https://example.org/b"),
        ("https://www.example.org/b", "https://example.org/b", "https://www.example.org/b"),
        ("http://example.org/b", "https://www.example.org/b", "http://example.org/b"),
        ("https://example.org:8443/b", "https://example.org:8443/b?x", "https://example.org:8443/b"),
        # Not its own to claim.
        ("https://bank.example/", "https://evil.example/", "https://evil.example/"),
        ("https://example.org.evil.example/", "https://example.org/a", "https://example.org/a"),
        ("https://example.org:8443/b", "https://example.org/b?x", "https://example.org/b?x"),
        ("https://user@example.org/b", "https://example.org/b?x", "https://example.org/b?x"),
        ("javascript:alert(1)", "https://example.org/b", "https://example.org/b"),
        ("", "https://example.org/b", "https://example.org/b"),
        # Every page of a careless site claims to be its front page.
        ("https://example.org/", "https://example.org/news/7", "https://example.org/news/7"),
        ("https://example.org/", "https://example.org/?utm=1", "https://example.org/"),
        ("https://example.org/", "https://example.org/index.html", "https://example.org/"),
        # What was handed in may come from nowhere.
        (None, "file.html", "file.html"),
        (None, "", ""),
    ],
)
def test_a_page_speaks_for_its_own_host_alone(claimed: str | None, final: str, known_by: str) -> None:
    assert canonical(claimed, final) == known_by


def test_an_error_does_not_say_which_page_it_is() -> None:
    assert canonical("https://example.org/b", "https://example.org/gone", 404) == "https://example.org/gone"
