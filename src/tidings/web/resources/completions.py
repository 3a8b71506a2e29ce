"""What a client may offer while somebody types the argument of a resource template or a prompt.

An id is found by its beginning, and also by the title or the URL of its page, which people remember.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mcp_types import Completion, CompletionArgument

from tidings.web.resources.addresses import BadAddress
from tidings.web.resources.finding import found_page
from tidings.web.resources.listing import shown_title
from tidings.web.store.model import Summary
from tidings.web.store.store import Store

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
