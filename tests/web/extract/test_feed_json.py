"""JSON Feed."""

import json

import pytest

from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import Caps, ExtractOptions

URL = "https://harbour.example/feed.json"

FEED = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "Harbour news",
    "home_page_url": "https://harbour.example/",
    "authors": [{"name": "Ada Brook"}, {"url": "https://harbour.example/"}],
    "language": "en",
    "items": [
        {
            "id": "1",
            "url": "/news/1",
            "title": "Fog",
            "content_html": "<p>No <b>ferry</b>.</p>",
            "date_published": "2024-01-01T09:30:00+01:00",
            "author": {"name": "Ben Hale"},
        },
        {"id": 2, "external_url": "https://else.example/2", "content_text": " Plain <text>. ", "date_modified": "x"},
        "no entry",
    ],
}


@pytest.mark.parametrize("label", ["application/feed+json", "application/json", ""])
def test_a_json_feed_is_read_by_entry(label: str) -> None:
    found = extract(json.dumps(FEED).encode(), label, URL)
    first, second = found.entries
    assert (found.kind, found.method, found.title, found.author) == ("feed", "jsonfeed", "Harbour news", "Ada Brook")
    assert (first.id, first.url, first.author) == ("1", "https://harbour.example/news/1", "Ben Hale")
    assert (first.summary, first.published_at) == ("No ferry.", "2024-01-01T09:30:00+01:00")
    assert (second.id, second.url, second.summary) == ("2", "https://else.example/2", "Plain <text>.")
    assert second.updated_at is None


def test_more_entries_than_are_given_are_counted() -> None:
    feed = {**FEED, "items": FEED["items"][:1] * 9}  # type: ignore[index]
    found = extract(json.dumps(feed).encode(), "application/feed+json", URL, ExtractOptions(caps=Caps(entries=4)))
    assert len(found.entries) == 4
    assert "5 are left out" in found.warnings[0].message


@pytest.mark.parametrize("body", [b'{"items": 3}', b"[1, 2]", b"nothing like it"])
def test_what_is_no_feed_is_read_as_json(body: bytes) -> None:
    assert extract(body, "application/feed+json", URL).kind == "data"


def test_no_body_is_empty() -> None:
    assert extract(b"", "application/feed+json", URL).empty == "empty"
