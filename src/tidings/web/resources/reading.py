"""What a client reads: the content of each resource. Nothing here fetches.

What a page's resource says depends on its versions alone, not on when it was looked at again: whoever compares what
they read sees a change when there is one. When it was looked at stands in `_meta`.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tidings.web.packets.injection import disarm
from tidings.web.resources.addresses import Address, address, parse_address
from tidings.web.resources.differences import difference, spoken_for
from tidings.web.resources.listing import shown_title
from tidings.web.resources.missing import NotFound
from tidings.web.store.model import Page, Version
from tidings.web.store.store import Store

_ABOUT: Final = "dev.tidings/page"
"""In `_meta` of a page's content: what is known of the page and not of its content."""

_KEPT: Final = {
    "screenshot": "No screenshot was taken of it: fetch the page with mode 'render' and render.screenshot.",
    "raw": "Its bytes were not kept: fetch the page with format.output 'raw'.",
}


class Content(NamedTuple):
    """What a resource holds."""

    data: str | bytes
    mime_type: str
    meta: dict[str, Any] | None = None


async def read(store: Store, uri: str) -> Content:
    """The content of the resource at a URI.

    Raises:
        BadAddress: It is no URI of ours.
        NotFound: There is no such thing, or no longer.
        StoreError: It cannot be told at present.
    """
    asked = parse_address(uri)
    match asked.kind:
        case "page":
            return await _page(store, asked)
        case "diff":
            return await _diff(store, asked)
        case kind:
            part = await store.part(asked.id, kind)
            if part is None:
                raise NotFound(await _missing(store, asked))
            return Content(part.data, part.mime_type)


async def known_page(store: Store, page: str) -> Page:
    """The page of an id or a URL.

    Raises:
        NotFound: None is known.
    """
    found = await store.page_of(page)
    if found is None:
        raise NotFound(unknown_page(page))
    return found


def unknown_page(named: str) -> str:
    """What is said of a page that nobody has fetched."""
    return f"No page {disarm(named.strip()[:300])!r} is known here: `fetch` it first."


async def _missing(store: Store, asked: Address) -> str:
    if asked.kind in _KEPT and await store.part(asked.id, "content") is not None:
        return f"{asked.uri}: {_KEPT[asked.kind]}"
    return f"{asked.uri} is not here, or no longer: versions are kept for a while. `fetch` the page again."


async def _page(store: Store, asked: Address) -> Content:
    page = await known_page(store, asked.id)
    versions = await spoken_for(store, page)
    entry = await store.get(versions[0].source_id)
    if entry is None:
        raise NotFound(f"No version of {page.canonical_url} is kept any more: `fetch` it again.")
    packet = entry.packet
    said = {
        "page_id": page.page_id,
        "url": page.canonical_url,
        "title": shown_title(packet["metadata"].get("title"), page.canonical_url),
        "source_id": packet["source_id"],
        "retrieved_at": packet["retrieved_at"],
        "warnings": packet["warnings"],
        "unsafe_instructions_detected": packet["unsafe_instructions_detected"],
        "content": packet["content"],
        "versions": [version(each) for each in versions],
        "diff": address("diff", page.page_id),
    }
    about = {"checked_at": moment(page.checked_at), "watched": page.watched}
    return Content(json.dumps(said, ensure_ascii=False, indent=1), "application/json", {_ABOUT: about})


def version(each: Version) -> dict[str, Any]:
    """A version, as a list of them has it."""
    return {
        "source_id": each.source_id,
        "uri": address("packet", each.source_id),
        "retrieved_at": each.retrieved_at,
        "size": each.size,
    }


def moment(seconds: float) -> str:
    """A time, as JSON has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def _diff(store: Store, asked: Address) -> Content:
    page = await known_page(store, asked.id)
    found = await difference(store, page, asked.since)
    return Content(found.text, "text/x-diff")
