"""The types of the store: what goes in, what comes out, what can go wrong.

    Store(path: Path | None = None, *, ttl: float, max_entries: int, max_bytes: int, max_pages: int = 10_000,
          alive: float = 90.0, clock: Callable[[], float] = time.time)       # an async context manager

    owner: str                                            what this store is called among those that share the file
    await put(entry: Entry, page: PageFacts) -> Put
    await get(source_id) -> Entry | None                  None: expired, evicted, or never there
    await part(source_id, kind: PartKind) -> Part | None  one part, without the rest
    await page_of(url_or_page_id) -> Page | None
    await listing(after: str | None = None, limit: int = 50) -> tuple[list[Summary], str | None]
    await source_ids(prefix = "", limit = 100) -> list[str]     newest first, for completions
    await page_ids(prefix = "", limit = 100) -> list[str]       last seen first, for completions
    await checked(page_id, *, etag, last_modified, at: float | None = None, of: Page | None = None) -> bool
                                                          its newest version lives on; False: that is gone
    await told(page_id, content_hash) -> None             the page is not `untold` any more, if it still is this
    await prune() -> tuple[str, ...]                      the source_ids that expired
    await next_expiry() -> float | None                   when there is something to prune
    await news(since: int | None = None) -> News          what other processes on the file did

    await begin_watch(page_id, *, explicit: bool, options: Mapping[str, Any] | None = None,
                      next_at: float | None = None) -> Watch | None         None: there is no such page to fetch
    await hasten(page_id) -> bool                         due now, whoever watches it; False: nobody does
    await end_watch(page_id, *, explicit: bool) -> bool   whether anybody still watches it
    await watch_of(page_id) -> Watch | None
    await watches(explicit: bool = False) -> list[Watch]  all that anybody watches; or the explicit ones alone
    await due(limit: int, lease: float) -> list[Watch]    claimed for `lease` seconds; also a heartbeat
    await next_due() -> float | None                      when `due` will have something
    await reschedule(page_id, next_at: float, *, failures: int = 0,
                     state: Mapping[str, Any] | None = None) -> bool        ends the claim; False: it was lost before
    await release(page_id) -> None                        ends the claim, with nothing said: it is due as before
    await heartbeat() -> None                             to be called a few times in every `alive` seconds

All times are seconds since 1970, by the store's clock. Every method may raise `StoreError`, after which the store is as
it was before; `prune`, `due` and the like may simply be called again later.

May import: `packets.model`, `extract.model`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidings.web.documents.model import LLMPacket
from tidings.web.extract.model import FeedEntry

PartKind = Literal["packet", "content", "normalized", "screenshot", "raw"]


@dataclass(frozen=True)
class StoredVersion:
    """One version of a page, with all that is kept of it."""

    packet: LLMPacket
    """Without `screenshot_base64`: pictures are kept once, as `screenshot`."""
    page_id: str
    size: int = 0
    """In bytes, all parts together. The store counts; what is given is not looked at."""
    raw: bytes | None = None
    raw_type: str | None = None
    screenshot: bytes | None = None
    """A PNG."""
    entries: tuple[FeedEntry, ...] = ()
    """Of a feed."""


@dataclass(frozen=True)
class PageFacts:
    """What a fetch says of the page that the entry is a version of."""

    url: str | None
    """The one to fetch it by, the next time; None if it cannot be fetched, because its bytes were given."""
    aliases: tuple[str, ...] = ()
    """Further URLs that lead to it: the one asked for, where it ended. `url` and the canonical URL need no mention."""
    etag: str | None = None
    last_modified: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How it was fetched and read, as JSON. Versions with the same text under "variant" are compared with each other;
    those without one are of the same variant, too."""
    checked_at: float | None = None
    """None: now."""


@dataclass(frozen=True)
class PutOutcome:
    """What became of an entry that was put."""

    new: bool
    """Whether its source_id was not there before."""
    changed: bool
    """Whether the page, in this variant, had another content before; False if that is not known."""
    previous: str | None = None
    """The newest version of this variant with another content, if there is one: the other side of the diff."""
    gone: tuple[str, ...] = ()
    """The source_ids that had expired, or had to go to make room."""
    left_out: tuple[PartKind, ...] = ()
    """Parts that were not stored, because the entry would be larger than the store."""


@dataclass(frozen=True)
class VersionPart:
    """One part of an entry."""

    kind: PartKind
    data: str | bytes
    """A text, or bytes for `screenshot` and `raw`."""
    mime_type: str
    retrieved_at: str


@dataclass(frozen=True)
class Summary:
    """An entry as a list shows it."""

    source_id: str
    page_id: str
    canonical_url: str
    title: str | None
    site_name: str | None
    retrieved_at: str
    """As the packet has it."""
    content_type: str
    packet_size: int
    """Of the packet's JSON, in bytes."""
    content_size: int
    """Of its markdown, in bytes."""
    has_raw: bool
    has_screenshot: bool


@dataclass(frozen=True)
class Version:
    """A version of a page that is still there."""

    source_id: str
    retrieved_at: str
    content_hash: str
    title: str | None
    size: int
    options: Mapping[str, Any]
    """Those it was fetched with."""


@dataclass(frozen=True)
class StoredPage:
    """What is known of a page. It outlives its versions."""

    page_id: str
    canonical_url: str
    url: str | None
    versions: tuple[Version, ...]
    """Newest first; none when all have expired."""
    content_hash: str
    """Of the content it had last, whether that version is still there or not; '' if that is not known any more."""
    checked_at: float
    """When it was last known to have that content."""
    etag: str | None
    last_modified: str | None
    options: Mapping[str, Any]
    watched: bool
    untold: bool = False
    """Whether it became another, and nobody was told yet as far as is known (see `Store.told`)."""

    def age(self, now: float) -> float:
        """The seconds since it was last known to have that content.

        Endless if that is yet to come, by a clock that stepped back: nobody knows then.
        """
        return now - self.checked_at if self.checked_at <= now else math.inf


@dataclass(frozen=True)
class StoredWatch:
    """A page that somebody watches, and when it is to be looked at next."""

    page_id: str
    url: str
    canonical_url: str
    explicit: bool
    """Whether somebody asked for it by the tool; such a watch has no end of its own."""
    subscribers: int
    """How many processes have subscribers to it."""
    options: Mapping[str, Any]
    """Those of the explicit watch if there is one, else those of the subscription that began last. Under "fetch" they
    have the options that its versions are put with, so that the versions of that variant stay."""
    next_at: float
    failures: int
    """How often in a row it could not be looked at."""
    state: Mapping[str, Any]
    """What the schedule wants to remember."""


@dataclass(frozen=True)
class StoreChanges:
    """What other processes on the same file did since then."""

    mark: int
    """For the next question."""
    pages: tuple[str, ...] = ()
    """The page_ids of pages that changed (see `PutOutcome`)."""
    listed: bool = False
    """Whether versions came or went."""


class StoreError(Exception):
    """The store could not do it. It is as it was before; the text names the cause and the cure."""


class EntryTooLarge(StoreError):
    """One entry, even without its raw bytes and its picture, is larger than the whole store may be."""


class StoreCursorInvalid(StoreError):
    """It is no cursor that a listing gave."""
