"""What a client reads: the content of each resource. Nothing here fetches.

What a page's resource says depends on its versions alone, not on when it was looked at again: whoever compares what
they read sees a change when there is one. When it was looked at stands in `_meta`.

What somebody means who names a page or a version: by an id, by a URI of ours, or by a URL.

The two kinds of ids look alike, and one is easily taken for the other. So each does where the other is asked for: a
page stands for its newest version, a version for its page. URIs that are read and subscribed to mean what they say.

What a client may offer while somebody types the argument of a resource template or a prompt.

An id is found by its beginning, and also by the title or the URL of its page, which people remember.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mcp_types import Completion, CompletionArgument

from tidings.web.documents.injection import disarm
from tidings.web.fetch.request import FetchError
from tidings.web.fetch.urls import parse
from tidings.web.resources.addresses import (
    SCHEME,
    BadAddress,
    NotFound,
    WebAddress,
    address,
    is_id,
    parse_address,
    source_id_of,
)
from tidings.web.resources.differences import difference, newest_of, spoken_for
from tidings.web.resources.listing import shown_title
from tidings.web.store.model import StoredPage, Summary, Version
from tidings.web.store.store import Store

_ABOUT: Final = "dev.tidings/page"
"""In `_meta` of a page's content: what is known of the page and not of its content."""

_KEPT: Final = {
    "screenshot": "No screenshot was taken of it: fetch the page with mode 'render' and render.screenshot.",
    "raw": "Its bytes were not kept: fetch the page with format.output 'raw'.",
}


class ResourceContent(NamedTuple):
    """What a resource holds."""

    data: str | bytes
    mime_type: str
    meta: dict[str, Any] | None = None


async def read(store: Store, uri: str) -> ResourceContent:
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
            return ResourceContent(part.data, part.mime_type)


async def known_page(store: Store, page: str) -> StoredPage:
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


async def _missing(store: Store, asked: WebAddress) -> str:
    if asked.kind in _KEPT and await store.part(asked.id, "content") is not None:
        return f"{asked.uri}: {_KEPT[asked.kind]}"
    return f"{asked.uri} is not here, or no longer: versions are kept for a while. `fetch` the page again."


async def _page(store: Store, asked: WebAddress) -> ResourceContent:
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
    return ResourceContent(json.dumps(said, ensure_ascii=False, indent=1), "application/json", {_ABOUT: about})


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


async def _diff(store: Store, asked: WebAddress) -> ResourceContent:
    page = await known_page(store, asked.id)
    found = await difference(store, page, asked.since)
    return ResourceContent(found.text, "text/x-diff")


async def found_page(store: Store, named: str) -> StoredPage | None:
    """The page that is meant, if it is known.

    Raises:
        BadAddress: It begins as a URI of ours does, and is none.
    """
    name = _name(named)
    page = await store.page_of(name)
    if page is None and is_id(name) and (entry := await store.get(name)):
        page = await store.page_of(entry.page_id)
    return page


async def page_meant(store: Store, named: str) -> StoredPage:
    """The page that is meant.

    Raises:
        NotFound: None is known.
        BadAddress: As for `found_page`.
    """
    page = await found_page(store, named)
    if page is None:
        raise NotFound(unknown_page(named))
    return page


async def content_meant(store: Store, named: str) -> tuple[str, str]:
    """The source_id of the version that is meant, and its content.

    Raises:
        NotFound: It is not kept, or no longer.
        BadAddress: As for `found_page`, or it can name nothing at all.
    """
    name = _name(named)
    part = await store.part(name, "content") if is_id(name) else None
    if part is None and (page := await store.page_of(name)):
        name = newest_of(page).source_id
        part = await store.part(name, "content")
    if part is None:
        if "://" not in name:
            source_id_of(name)
        shown = disarm(named.strip()[:300])
        raise NotFound(
            f"{shown} is not here, or no longer: `fetch` the page, and give the source_id that it answers with."
        )
    return name, str(part.data)


def _name(named: str) -> str:
    named = named.strip()
    if named.startswith(SCHEME):
        return parse_address(named).id
    try:
        return named if is_id(named) else str(parse(named))
    except FetchError:
        return named


MOST: Final = 100
"""How many values a completion may have."""

_LOOKED_AT: Final = 500
"""How many of the newest versions are searched for a title or a URL."""


async def complete(store: Store, argument: CompletionArgument, given: Mapping[str, str]) -> Completion:
    """What the argument may become, of which some has been typed; `given` are the others, as far as they are there."""
    typed = argument.value.strip().lower()
    match argument.name:
        case "from" | "since" if page := given.get("page_id") or given.get("url"):
            return _as_completion(each for each in await _versions(store, page) if each.startswith(typed))
        case "source_id" | "from" | "since":
            ids = await store.source_ids(typed, MOST + 1)
            return _as_completion([*ids, *(each.source_id for each in await _matching(store, typed))])
        case "page_id":
            ids = await store.page_ids(typed, MOST + 1)
            return _as_completion([*ids, *(each.page_id for each in await _matching(store, typed))])
        case "url":
            return _as_completion(each.canonical_url for each in await _matching(store, typed))
        case "urls":
            # Several, parted by spaces: the last one is being typed.
            before, _, last = argument.value.rpartition(" ")
            found = await _matching(store, last.strip().lower())
            begun = f"{before} " if before else ""
            return _as_completion(begun + each.canonical_url for each in found if each.canonical_url not in before)
        case _:
            return Completion(values=[], total=0, has_more=False)


async def _versions(store: Store, named: str) -> list[str]:
    """The versions of a page, newest first; none of one that nobody knows."""
    try:
        page = await found_page(store, named)
    except BadAddress:
        return []
    return [each.source_id for each in page.versions] if page else []


async def _matching(store: Store, typed: str) -> list[Summary]:
    """The newest version of each page whose URL or title holds what was typed; those that begin so come first."""
    summaries, _ = await store.listing(None, _LOOKED_AT)
    found = [each for each in summaries if typed in _words(each)]
    pages: dict[str, Summary] = {}
    for each in found:
        pages.setdefault(each.page_id, each)
    plain = typed.removeprefix("https://").removeprefix("http://")
    return sorted(pages.values(), key=lambda each: not _host_and_path(each).startswith(plain))


def _words(each: Summary) -> str:
    return f"{each.canonical_url}\n{shown_title(each.title, each.canonical_url)}".lower()


def _host_and_path(each: Summary) -> str:
    return each.canonical_url.lower().partition("://")[2]


def _as_completion(values: Iterable[str]) -> Completion:
    found = list(dict.fromkeys(values))
    return Completion(values=found[:MOST], total=len(found), has_more=len(found) > MOST)
