"""What changed between two versions of a page: the text of `webfetch://diff/…`, and of the tool `diff`.

The text depends on the two versions alone. Without a version before the newest it says so, for whoever watches it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from anyio import to_thread

from tidings.web.documents.difference import diff, diff_feeds
from tidings.web.documents.injection import disarm
from tidings.web.resources.addresses import NotFound, address, source_id_of
from tidings.web.resources.listing import shown_title
from tidings.web.store.model import StoredPage, StoredVersion, Version
from tidings.web.store.store import Store
from tidings.web.watch.state import WatchPlan, WatchState


class VersionDifference(NamedTuple):
    """What changed, from one version to another."""

    text: str
    after: str
    """The newest version's source_id."""
    before: str | None = None
    added: int = 0
    removed: int = 0


async def difference(store: Store, page: StoredPage, since: str | None = None) -> VersionDifference:
    """What changed from the version `since`, or the one before the newest that says something else, to the newest.

    Raises:
        NotFound: A version of which something is asked is not here, or no longer.
        BadAddress: `since` can be none.
    """
    newest, *older_ones = await spoken_for(store, page)
    after = await _entry(store, page, newest.source_id)
    older = _chosen(page, source_id_of(since)) if since else _before(newest, older_ones)
    if older is None:
        nothing = f"there is no version before {_named(after)} that says something else"
        return VersionDifference(_nothing(page, nothing), newest.source_id)
    if older.content_hash == newest.content_hash:
        return VersionDifference(_nothing(page, f"{_named(after)} says the same"), newest.source_id, older.source_id)
    before = await _entry(store, page, older.source_id)
    counted, text, added, removed = await to_thread.run_sync(_compared, before, after)
    head = [
        shown_title(after.packet["metadata"].get("title"), page.canonical_url),
        f"{page.canonical_url}: {counted}",
        f"--- {_named(before)}",
        f"+++ {_named(after)}",
    ]
    return VersionDifference("\n".join([*head, text]), newest.source_id, older.source_id, added, removed)


def _compared(before: StoredVersion, after: StoredVersion) -> tuple[str, str, int, int]:
    """What changed, counted and told: of a feed by its entries, of all else by its lines."""
    if before.entries and after.entries:
        feed = diff_feeds(before.entries, after.entries)
        if not feed.same:
            added, removed, changed = len(feed.added), len(feed.removed), len(feed.changed)
            counted = f"entries added: {added:,}, changed: {changed:,}, removed: {removed:,}"
            return counted, disarm(feed.text()), added + changed, removed + changed
    found = diff(_lines(before), _lines(after))
    return f"lines added: {found.added:,}, removed: {found.removed:,}", found.text, found.added, found.removed


def newest_of(page: StoredPage) -> Version:
    """The version that speaks for a page: the newest that was fetched; what somebody gave only if there is no other.

    Raises:
        NotFound: None is kept any more.
    """
    if not page.versions:
        raise NotFound(f"No version of {page.canonical_url} is kept any more: `fetch` it again.")
    return next((each for each in page.versions if _variant(each)), page.versions[0])


async def spoken_for(store: Store, page: StoredPage) -> list[Version]:
    """The versions that speak for a page, the newest first: those that were fetched and read in the same way.

    That is the way in which it is watched, if it is; otherwise that of `newest_of`.

    Raises:
        NotFound: None is kept any more.
    """
    newest, known = newest_of(page), None
    variant = _variant(newest)
    if watch := await store.watch_of(page.page_id) if page.watched else None:
        wish = WatchPlan.from_json(watch.options, watch.url)
        known = WatchState.from_json(watch.state).seen or wish.since
        variant = wish.options.variant(wish.url)
    # What was told of is one of them, though it may have been fetched in another way since, and be written down so.
    alike = [
        each for each in page.versions if _variant(each) == variant or (known and each.source_id == known.source_id)
    ]
    return alike or [newest]


def _before(newest: Version, older: Sequence[Version]) -> Version | None:
    """The version before the newest that says something else."""
    return next((each for each in older if each.content_hash != newest.content_hash), None)


def _variant(version: Version) -> str | None:
    """The same for versions that were fetched and read in the same way; None for those that were given."""
    return version.options.get("variant")


def _chosen(page: StoredPage, source_id: str) -> Version:
    for each in page.versions:
        if each.source_id == source_id:
            return each
    known = ", ".join(each.source_id for each in page.versions[:10])
    raise NotFound(f"{source_id} is no version of {page.canonical_url}, or no longer. There are: {known}.")


async def _entry(store: Store, page: StoredPage, source_id: str) -> StoredVersion:
    entry = await store.get(source_id)
    if entry is None:
        raise NotFound(f"The version {source_id} of {page.canonical_url} has just expired: `fetch` the page again.")
    return entry


def _lines(entry: StoredVersion) -> str:
    """The content, with an end to its last line: whether it has one matters to nobody who reads."""
    return f"{entry.packet['content'].rstrip()}\n"


def _nothing(page: StoredPage, why: str) -> str:
    return f"{page.canonical_url}\nNothing changed: {why}.\n"


def _named(entry: StoredVersion) -> str:
    return f"{address('packet', entry.packet['source_id'])} ({entry.packet['retrieved_at']})"
