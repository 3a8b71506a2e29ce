"""The difference of two versions of a page: the text of `webfetch://diff/…`, and of the tool `diff`.

The text depends on the two versions alone. If there is no version before the newest, it says so.
"""

from typing import NamedTuple

from anyio import to_thread

from tidings.server.families import ResourceMissing
from tidings.web.documents.difference import diff, diff_feeds
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import LLMPacket
from tidings.web.resources.addresses import address, source_id_of
from tidings.web.resources.listing import shown_title
from tidings.web.store.model import StoredPage, StoredVersion, Version
from tidings.web.store.store import Store
from tidings.web.watch.state import WatchPlan, WatchState


class VersionDifference(NamedTuple):
    """The difference from one version to another."""

    text: str
    after: str  # the newest version's source_id
    before: str | None = None
    added: int = 0
    removed: int = 0


async def difference(store: Store, page: StoredPage, since: str | None = None) -> VersionDifference:
    """Returns the difference from `since`, or the last other content, to the newest. Raises `ResourceMissing`."""
    newest, *older_ones = await spoken_for(store, page)
    after = await _entry(store, page, newest.source_id)
    if since:
        source_id = source_id_of(since)
        older = next((each for each in page.versions if each.source_id == source_id), None)
        if older is None:
            known = ", ".join(each.source_id for each in page.versions[:10])
            what = f"{source_id} is not a version of {page.address}, or no longer"
            raise ResourceMissing(f"{what}. There are: {known}.")
    else:
        older = next((each for each in older_ones if each.content_hash != newest.content_hash), None)
    if older is None or older.content_hash == newest.content_hash:
        why = f"there is no version before {_named(after)} with another content"
        if older is not None:
            why = f"{_named(after)} has the same content"
        text = f"{page.address}\nNothing changed: {why}.\n"
        return VersionDifference(text, newest.source_id, older and older.source_id)
    before = await _entry(store, page, older.source_id)
    counted, text, added, removed = await to_thread.run_sync(_compared, before, after)
    head = [
        shown_title(after.packet["metadata"].get("title"), page.address),
        f"{page.address}: {counted}",
        f"--- {_named(before)}",
        f"+++ {_named(after)}",
    ]
    return VersionDifference("\n".join([*head, text]), newest.source_id, older.source_id, added, removed)


def _compared(before: StoredVersion, after: StoredVersion) -> tuple[str, str, int, int]:
    """Returns the changes counted and as text: of a feed by its entries, otherwise by lines."""
    if before.entries and after.entries:
        feed = diff_feeds(before.entries, after.entries)
        if not feed.same:
            added, removed, changed = len(feed.added), len(feed.removed), len(feed.changed)
            counted = f"entries added: {added:,}, changed: {changed:,}, removed: {removed:,}"
            return counted, disarm(feed.text()), added + changed, removed + changed
    # Whether the last line ends with a newline matters to no reader.
    old, new = (f"{entry.packet['content'].rstrip()}\n" for entry in (before, after))
    found = diff(old, new)
    facts = disarm("".join(f"{line}\n" for line in changed_facts(before.packet, after.packet)))
    return f"lines added: {found.added:,}, removed: {found.removed:,}", facts + found.text, found.added, found.removed


def changed_facts(before: LLMPacket, after: LLMPacket) -> list[str]:
    """Returns a line for the title and each fact that changed: `price 49.90 → 44.90 EUR`."""
    was, now = before.get("facts", {}), after.get("facts", {})
    titles = [{"title": each["metadata"].get("title", "")} for each in (before, after)]
    lines: list[str] = []
    for old, new in (titles, (was, now)) if "facts" in before else ():
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                unit = f" {now['currency']}" if name == "price" and "currency" in now else ""
                lines.append(f"{name} {old.get(name) or '(none)'} → {new.get(name) or '(none)'}{unit}")
    return lines


def newest_of(page: StoredPage) -> Version:
    """Returns the newest fetched version, or else a given one. Raises `ResourceMissing` if none is kept any more."""
    if not page.versions:
        raise ResourceMissing(f"No version of {page.address} is kept any more. `fetch` it again.")
    return next((each for each in page.versions if each.variant), page.versions[0])


async def spoken_for(store: Store, page: StoredPage) -> list[Version]:
    """Returns the versions that stand for a page, the newest first: those of one variant.

    It is the variant that is watched, if the page is; otherwise that of `newest_of`. Raises `ResourceMissing` if no
    version is kept any more.
    """
    newest, known = newest_of(page), None
    variant = newest.variant
    if watch := await store.watch_of(page.page_id) if page.watched else None:
        plan = WatchPlan.from_json(watch.options, watch.url)
        known = WatchState.from_json(watch.state).seen or plan.since
        variant = plan.options.variant(plan.url)
    # The announced version is one of them, though another fetch may have changed its variant since.
    alike = [each for each in page.versions if each.variant == variant or (known and each.source_id == known.source_id)]
    return alike or [newest]


async def _entry(store: Store, page: StoredPage, source_id: str) -> StoredVersion:
    entry = await store.get(source_id)
    if entry is None:
        raise ResourceMissing(f"The version {source_id} of {page.address} has just expired. `fetch` the page again.")
    return entry


def _named(entry: StoredVersion) -> str:
    return f"{address('packet', entry.packet['source_id'])} ({entry.packet['retrieved_at']})"
