"""Which version of a page speaks for it.

A version belongs to a variant (`FetchOptions.variant`): what was fetched by another URL or with other headers, or read
in another way, is not compared with it, and the validators of one say nothing of the other.
"""

from dataclasses import replace
from datetime import datetime

from tidings.web.packets.ids import source_id
from tidings.web.pages.options import FetchOptions
from tidings.web.store.model import Entry, Page, Version


def newest_of(page: Page, variant: str, known: str | None = None) -> Version | None:
    """The newest version of a page that was fetched and read in this way, or that is known to be the same.

    Versions with the same content are one: who fetched it in another way since has written that way down.
    """
    return next((each for each in page.versions if is_of(each, variant) or each.source_id == known), None)


def is_of(version: Version, variant: str) -> bool:
    """Whether it was fetched and read in this way."""
    return version.options.get("variant") == variant


def speaks_for(page: Page, version: Version) -> bool:
    """Whether what is known of the page, its validators above all, is known of this version."""
    return page.options.get("variant") == version.options.get("variant") and page.content_hash == version.content_hash


def last_request(page: Page, otherwise: str) -> tuple[str, FetchOptions]:
    """How the page was fetched last: the URL, and the options but for headers, which are not kept."""
    return str(page.options.get("url", otherwise)), FetchOptions.from_json(page.options)


def as_version_of(page: Page, entry: Entry) -> Entry:
    """The entry as one of this page, wherever it led to: what is watched is the page that was asked for."""
    if entry.page_id == page.page_id:
        return entry
    packet = entry.packet
    at = datetime.fromisoformat(packet["retrieved_at"])
    renamed = source_id(page.canonical_url, at, packet["hashes"]["content_hash"])
    return replace(
        entry, page_id=page.page_id, packet={**packet, "canonical_url": page.canonical_url, "source_id": renamed}
    )
