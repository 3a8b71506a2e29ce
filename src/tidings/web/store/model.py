"""The types that go into the store and come out of it, and its errors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidings.web.documents.model import LLMPacket
from tidings.web.extract.model import FeedEntry

PartKind = Literal["packet", "content", "normalized", "screenshot", "raw"]


@dataclass(frozen=True)
class StoredVersion:
    """One version of a page, with all its parts."""

    packet: LLMPacket
    page_id: str
    size: int = 0  # bytes of all parts together. The store counts them; a given size is ignored.
    raw: bytes | None = None
    raw_type: str | None = None
    screenshot: bytes | None = None  # a PNG
    entries: tuple[FeedEntry, ...] = ()
    memory: str = ""  # which blocks the page had, and which were chosen; see `extract.html.choose`

    def beside(self, other: "StoredVersion") -> str:
        """Returns the texts that were left out and may be content, a line each, if they are known of both versions."""
        return "".join(self.memory.split("\n", 2)[2:]) if "\n" in other.memory else ""


@dataclass(frozen=True)
class PageFacts:
    """The facts that a fetch gives about the page of a version."""

    url: str | None  # the URL to fetch it by the next time; None if it cannot be fetched, because its bytes were given
    address: str = ""  # what identifies the page, if that is not the URL that the version was asked for
    etag: str | None = None
    last_modified: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The options of the fetch, as JSON. Versions with the same "variant", or without one, are compared."""


@dataclass(frozen=True)
class PutOutcome:
    """The outcome of `Store.put`."""

    new: bool  # true if its source_id did not exist before
    changed: bool  # true if the page had another content before, in this variant; False if that is not known
    gone: tuple[str, ...] = ()  # the source_ids that had expired, or were removed to make room


@dataclass(frozen=True)
class Version:
    """A version of a page that is still kept."""

    source_id: str
    page_id: str
    address: str
    title: str | None
    retrieved_at: str  # as in the packet
    content_hash: str
    size: int  # bytes of the packet's JSON
    options: Mapping[str, Any]  # the options that it was fetched with

    @property
    def variant(self) -> str | None:
        """The variant of its options; None if it was given as bytes."""
        return self.options.get("variant")


@dataclass(frozen=True)
class StoredPage:
    """The facts about a page. They outlive its versions."""

    page_id: str
    address: str  # the URL that was asked for, and that the page_id is made from; the page's claims do not count
    url: str | None
    content_hash: str  # the hash of its last content, even if that version is gone; '' if it is not known any more
    checked_at: float  # the last time that it was known to have that content
    etag: str | None
    last_modified: str | None
    versions: tuple[Version, ...]  # newest first; empty when all have expired
    options: Mapping[str, Any]
    watched: bool
    unannounced: bool = False  # true if it changed, and subscribers may not have been notified yet

    def age(self, now: float) -> float:
        """Returns the seconds since `checked_at`: infinite if a clock that stepped back puts that into the future."""
        return now - self.checked_at if self.checked_at <= now else math.inf


@dataclass(frozen=True)
class StoredWatch:
    """A watched page, and when it is due."""

    page_id: str
    url: str
    address: str
    explicit: bool  # true if the tool `watch` began it; such a watch ends only by `unwatch`
    subscribers: int  # the number of processes that have subscribers to it
    options: Mapping[str, Any]
    """The options of the explicit watch if there is one, else of the subscription that began last. "fetch" holds the
    options that its versions are put with, so that the versions of that variant are kept."""
    next_at: float
    failures: int  # failed looks in a row
    state: Mapping[str, Any]  # the state of the schedule; see `watch.state.WatchState`


class StoreError(Exception):
    """The store failed, and is as it was before. The message names the cause and the cure."""
