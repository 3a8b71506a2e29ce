"""The contents of resources, the page or version that an argument names, and completions. Nothing here fetches.

The content of a page's resource depends on its versions alone, not on when it was looked at: a client that compares
what it reads sees a change when there is one. When the page was looked at is in `_meta`.

A page or version may be named by an id, a URI or a URL. The two kinds of ids look alike, so tools accept each in place
of the other: a page stands for its newest version, a version for its page. URIs that are read or subscribed to are
taken literally.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp_types import Completion, CompletionArgument

from tidings.server.families import MOST_COMPLETIONS, BadAddress, ResourceMissing, completion
from tidings.web.documents.invisible import disarm
from tidings.web.fetch.request import FetchError
from tidings.web.fetch.urls import parse
from tidings.web.resources.addresses import SCHEME, address, is_id, parse_address, source_id_of
from tidings.web.resources.differences import difference, newest_of, spoken_for
from tidings.web.resources.listing import claimed, shown_title
from tidings.web.store.model import StoredPage, Summary
from tidings.web.store.store import Store

_ABOUT: Final = "dev.tidings/page"  # the key in `_meta` for facts about the page that do not belong to its content

_KEPT: Final = {
    "screenshot": "No screenshot was taken of it. Fetch the page with mode 'render' and render.screenshot.",
    "raw": "Its bytes were not kept. Fetch the page with format.output 'raw'.",
}
_SEARCHED: Final = 500  # the number of newest versions that are searched for a title or a URL


async def read(store: Store, uri: str) -> ReadResourceContents:
    """Returns the content of the resource at a URI. Raises `BadAddress`, `ResourceMissing` or `StoreError`."""
    asked = parse_address(uri)
    match asked.kind:
        case "page":
            return await _page(store, await _known_page(store, asked.id))
        case "diff":
            found = await difference(store, await _known_page(store, asked.id), asked.since)
            return ReadResourceContents(found.text, "text/x-diff")
        case kind:
            part = await store.part(asked.id, kind)
            if part is None and kind in _KEPT and await store.part(asked.id, "content") is not None:
                raise ResourceMissing(f"{uri}: {_KEPT[kind]}")
            if part is None:
                raise ResourceMissing(f"{uri} is not kept, or no longer: versions expire. `fetch` the page again.")
            return ReadResourceContents(*part)


async def _known_page(store: Store, page_id: str) -> StoredPage:
    found = await store.page_of(page_id)
    if found is None:
        raise ResourceMissing(_unknown_page(page_id))
    return found


def _unknown_page(named: str) -> str:
    return f"No page {disarm(named.strip()[:300])!r} is known here. `fetch` it first."


async def _page(store: Store, page: StoredPage) -> ReadResourceContents:
    versions = await spoken_for(store, page)
    entry = await store.get(versions[0].source_id)
    if entry is None:
        raise ResourceMissing(f"No version of {page.address} is kept any more. `fetch` it again.")
    packet = entry.packet
    content = {
        "page_id": page.page_id,
        "url": page.address,
        **claimed(packet),
        "title": shown_title(packet["metadata"].get("title"), page.address),
        "facts": packet.get("facts", {}),
        "source_id": packet["source_id"],
        "retrieved_at": packet["retrieved_at"],
        "warnings": packet["warnings"],
        "unsafe_instructions_detected": packet["unsafe_instructions_detected"],
        "content": packet["content"],
        "versions": [
            {
                "source_id": each.source_id,
                "uri": address("packet", each.source_id),
                "retrieved_at": each.retrieved_at,
                "size": each.size,
            }
            for each in versions
        ],
        "diff": address("diff", page.page_id),
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    about = {"checked_at": timestamp(page.checked_at), "watched": page.watched}
    return ReadResourceContents(text, "application/json", meta={_ABOUT: about})


def timestamp(seconds: float) -> str:
    """Returns a time as JSON has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def found_page(store: Store, named: str) -> StoredPage | None:
    """Returns the page that is meant, if it is known. Raises `BadAddress` for a broken URI of this server."""
    name = _name(named)
    page = await store.page_of(name)
    if page is None and is_id(name) and (entry := await store.get(name)):
        page = await store.page_of(entry.page_id)
    return page


async def page_meant(store: Store, named: str) -> StoredPage:
    """Returns the page that is meant. Raises `ResourceMissing` if it is not known, or as `found_page` does."""
    page = await found_page(store, named)
    if page is None:
        raise ResourceMissing(_unknown_page(named))
    return page


async def content_meant(store: Store, named: str) -> tuple[str, str]:
    """Returns the source_id of the version that is meant, and its content. Raises the same errors as `page_meant`."""
    name = _name(named)
    part = await store.part(name, "content") if is_id(name) else None
    if part is None and (page := await store.page_of(name)):
        name = newest_of(page).source_id
        part = await store.part(name, "content")
    if part is None:
        if "://" not in name:
            source_id_of(name)
        shown = disarm(named.strip()[:300])
        raise ResourceMissing(
            f"{shown} is not kept, or no longer. `fetch` the page, and give the source_id of the answer."
        )
    return name, str(part[0])


def _name(named: str) -> str:
    named = named.strip()
    if named.startswith(SCHEME):
        return parse_address(named).id
    try:
        return named if is_id(named) else str(parse(named))
    except FetchError:
        return named


async def complete(store: Store, argument: CompletionArgument, given: Mapping[str, str]) -> Completion:
    """Completes an argument; `given` are the others. An id is also found by the title or the URL of its page."""
    typed = argument.value.strip().lower()
    match argument.name:
        case "from" | "since" if page := given.get("page_id") or given.get("url"):
            return completion(each for each in await _versions(store, page) if each.startswith(typed))
        case "source_id" | "from" | "since":
            ids = await store.source_ids(typed, MOST_COMPLETIONS + 1)
            return completion([*ids, *(each.source_id for each in await _matching(store, typed))])
        case "page_id":
            ids = await store.page_ids(typed, MOST_COMPLETIONS + 1)
            return completion([*ids, *(each.page_id for each in await _matching(store, typed))])
        case "url":
            return completion(each.address for each in await _matching(store, typed))
        case "urls":
            # Several, separated by spaces: the last one is being typed.
            before, _, last = argument.value.rpartition(" ")
            found = await _matching(store, last.strip().lower())
            begun = f"{before} " if before else ""
            return completion(begun + each.address for each in found if each.address not in before)
        case _:
            return completion([])


async def _versions(store: Store, named: str) -> Iterable[str]:
    try:
        page = await found_page(store, named)
    except BadAddress:
        return []
    return [each.source_id for each in page.versions] if page else []


async def _matching(store: Store, typed: str) -> list[Summary]:
    """Returns the newest version of each page whose URL or title contains the typed text, best matches first."""
    summaries, _ = await store.listing(None, _SEARCHED)
    pages: dict[str, Summary] = {}
    for each in summaries:
        if typed in f"{each.address}\n{shown_title(each.title, each.address)}".lower():
            pages.setdefault(each.page_id, each)
    plain = typed.removeprefix("https://").removeprefix("http://")
    return sorted(pages.values(), key=lambda each: not each.address.lower().partition("://")[2].startswith(plain))
