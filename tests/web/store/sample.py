"""Packets and a clock for the tests of the store."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidings.web.documents.model import LLMPacket
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import PageFacts, PutOutcome, StoredVersion
from tidings.web.store.store import Store

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
MIB = 2**20


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, now: float = BEGIN) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sha(text: str | bytes) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass") if isinstance(text, str) else text).hexdigest()


def page_id_of(url: str) -> str:
    return sha(url)[:16]


def packet(url: str, content: str, at: float = BEGIN, *, raw: bytes = b"", title: str | None = None) -> LLMPacket:
    moment = datetime.fromtimestamp(at, UTC)
    return {
        "source_id": sha(f"{url}|{moment:%Y-%m-%d}|{sha(content)}")[:16],
        "original_url": url,
        "canonical_url": url,
        "retrieved_at": moment.isoformat(),
        "status": 200,
        "content_type": "text/html; charset=utf-8",
        "metadata": {"title": title if title is not None else f"About {url}", "site_name": "Example"},
        "outline": [{"level": 1, "text": "Heading", "path": "Heading"}],
        "key_blocks": [{"block_id": "b0", "kind": "paragraph", "text": "text", "char_len": 4}],
        "content": content,
        "source_summary": [],
        "citations": [{"block_id": "b0", "loc": {"start_char": 0, "end_char": 4}}],
        "unsafe_instructions_detected": [],
        "warnings": [],
        "hashes": {"content_hash": sha(content), "raw_hash": sha(raw)},
    }


def entry(
    url: str,
    content: str,
    at: float = BEGIN,
    *,
    raw: bytes | None = None,
    raw_type: str | None = None,
    screenshot: bytes | None = None,
    feed: tuple[FeedEntry, ...] = (),
    title: str | None = None,
) -> StoredVersion:
    made = packet(url, content, at, raw=raw or b"", title=title)
    return StoredVersion(made, page_id_of(url), raw=raw, raw_type=raw_type, screenshot=screenshot, entries=feed)


async def put(store: Store, url: str, content: str, at: float = BEGIN, **more: Any) -> PutOutcome:
    """Store a version of the page at `url`."""
    facts = {name: more.pop(name) for name in ("etag", "last_modified", "options") if name in more}
    fetched_by = more.pop("fetched_by", url)
    return await store.put(entry(url, content, at, **more), PageFacts(fetched_by, **facts))


@asynccontextmanager
async def opened(path: Path | None = None, **settings: Any) -> AsyncIterator[Store]:
    """A store with room for everything, unless told otherwise."""
    chosen = {"ttl": 300.0, "max_entries": 100, "max_bytes": 100 * MIB, "timeout": 5.0} | settings
    async with Store(path, **chosen) as store:
        yield store
