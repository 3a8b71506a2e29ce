"""The resources: their URIs, contents, list and completions; and the page or version that an argument names.

A URI has one meaning and a resource has one URI, so they are strict. Nothing here fetches. The content of a page's
resource, and of its diff, depends on versions alone: a client that compares what it reads sees a change when there is
one. When the page was looked at is in `_meta`.

An argument names a page or version by an id, a URI or a URL. The two kinds of ids look alike, so each is taken in place
of the other: a page stands for its newest version, a version for its page.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NotRequired, cast
from urllib.parse import urlsplit

import mcp_types as types
from anyio import to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from typing_extensions import TypedDict

from tidings._kit.text import iso, one_line, quoted, shortened
from tidings.server.families import BadAddress, ResourceFamily, ResourceKind, ResourceMissing, completion
from tidings.web.documents.difference import diff, diff_feeds
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import LLMPacket
from tidings.web.fetch.request import FetchError
from tidings.web.fetch.urls import parse
from tidings.web.store.model import StoredPage, StoredVersion, StoreError, Version
from tidings.web.store.store import Store
from tidings.web.watch.state import WatchPlan, WatchState

Kind = Literal["packet", "content", "normalized", "screenshot", "raw", "page", "diff"]

_JSON: Final = "application/json"
_SOURCE, _PAGE = "{source_id}", "{page_id}"

FAMILY: Final = ResourceFamily(
    "webfetch",
    ResourceKind(
        "packet",
        _SOURCE,
        "Page, as a packet",
        "One version of a page: its content as markdown, metadata, outline, blocks with places, warnings, hashes.",
        _JSON,
    ),
    ResourceKind("content", _SOURCE, "Content", "The content of one version of a page.", "text/markdown"),
    ResourceKind("normalized", _SOURCE, "Page, without hashes", "One version of a page, without its hashes.", _JSON),
    ResourceKind("screenshot", _SOURCE, "Screenshot", "A picture of the page as it was rendered.", "image/png"),
    ResourceKind(
        "raw", _SOURCE, "Raw bytes", "The bytes as they came, if the caller asked for them or no reader reads them."
    ),
    ResourceKind(
        "page",
        _PAGE,
        "Page, newest version",
        "The newest version of a page, with the versions before it. Subscribe to it to have the page watched and be "
        "notified when its content changes.",
        _JSON,
    ),
    ResourceKind(
        "diff",
        _PAGE,
        "What changed on a page",
        "The difference between the last two versions of a page, or from one of its versions to the newest. Subscribe "
        "to it to be notified when there is a new one.",
        "text/x-diff",
        ("from",),
    ),
)
SCHEME: Final = FAMILY.prefix

_ID: Final = "[0-9a-f]{16}"
_URI: Final = re.compile(rf"{SCHEME}([a-z]+)/({_ID})(?:\?from=({_ID}))?", re.ASCII)
_PREFIX: Final = re.compile(rf"{SCHEME}(?:({'|'.join(FAMILY)})/[0-9a-f]{{0,16}})?\*", re.ASCII)


class WebAddress(NamedTuple):
    """A URI, taken apart."""

    kind: Kind
    id: str
    since: str | None = None  # the source_id that a diff begins with

    @property
    def live(self) -> bool:
        """True if the resource is about a page, which can change and be subscribed to; a version never changes."""
        return FAMILY[self.kind].argument == _PAGE


def parse_address(uri: str) -> WebAddress:
    """Takes a URI apart. Raises `BadAddress` if it is not a URI of this server."""
    found = _URI.fullmatch(uri)
    kind = FAMILY.get(found[1]) if found else None
    if found is None or kind is None or (found[3] and not kind.query):
        if re.match(r"https?:", uri, re.IGNORECASE):
            why = "is not a resource of this server: reading never fetches. Call the tool `fetch` with it."
        else:
            known = ", ".join(map(FAMILY.bare, FAMILY.values()))
            why = f"is not a URI of this server. There are: {known}, where an id is 16 hex digits in lower case."
        raise BadAddress(f"{quoted(uri, 101)} {why}")
    return WebAddress(cast("Kind", kind.name), found[2], found[3])


def address(kind: Kind, id_: str) -> str:
    """Returns the URI of a resource."""
    return FAMILY.uri(kind, id_)


def is_ours(text: str) -> bool:
    """Returns whether a subscription, a URI or a prefix ending in `*`, has the shape of this server's URIs."""
    try:
        return _PREFIX.fullmatch(text) is not None or bool(parse_address(text))
    except BadAddress:
        return False


def is_id(text: str) -> bool:
    """Returns whether this can be the id of a version or a page."""
    return re.fullmatch(_ID, text, re.ASCII) is not None


def source_id_of(text: str) -> str:
    """Returns the id of a version from its source_id or one of its URIs; raises `BadAddress` if it is neither."""
    text = text.strip()
    if is_id(text):
        return text
    if text.startswith(SCHEME) and not (parsed := parse_address(text)).live:
        return parsed.id
    raise BadAddress(
        f"{quoted(text, 101)} is not a source_id. Give the 16 hex digits from the answer of `fetch`, or "
        f"{SCHEME}packet/…"
    )


OURS: Final = (SCHEME, "http:", "https:")  # URIs that are read here, or refused with what to do instead
PAGE: Final = 50  # resources in one page of the list

_ABOUT: Final = "dev.tidings/page"  # the key in `_meta` for facts about the page that do not belong to its content
_LONGEST_TITLE: Final = 200
_KEPT: Final = {
    "screenshot": "No screenshot was taken of it. Fetch the page with mode 'render' and render.screenshot.",
    "raw": "Its bytes were not kept. Fetch the page with format.output 'raw'.",
}
_SEARCHED: Final = 500  # the number of newest versions that are searched for a title or a URL


class WebResources:
    """The resources of the server; see `ResourceProvider`."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def owns(self, uri: str) -> bool:
        # URLs, too: subscribing to one is refused with what to do instead, as reading is.
        return uri.startswith(OURS) if not uri.endswith("*") else is_ours(uri)

    def templates(self) -> Sequence[types.ResourceTemplate]:
        return FAMILY.templates()

    async def page(self, cursor: str | None) -> tuple[list[types.Resource], str | None]:
        """Returns the packets of some versions: their content, bytes and screenshots have the same ids."""
        summaries, following = await self._store().listing(cursor, PAGE)
        resources = [
            types.Resource(
                name=summary.source_id,
                uri=address("packet", summary.source_id),
                title=shown_title(summary.title, summary.address),
                description=f"{urlsplit(summary.address).hostname or 'given'}, {summary.retrieved_at}",
                mime_type="application/json",
                size=summary.size,
                annotations=types.Annotations(last_modified=summary.retrieved_at),
            )
            for summary in summaries
        ]
        return resources, following

    async def read(self, uri: str) -> Sequence[ReadResourceContents]:
        try:
            return [await read(self._store(), uri)]
        except (BadAddress, ResourceMissing) as error:
            raise ResourceNotFoundError(str(error)) from error
        except StoreError as error:
            raise ResourceError(str(error)) from error

    async def complete(
        self,
        _ref: types.PromptReference | types.ResourceTemplateReference,
        argument: types.CompletionArgument,
        context: types.CompletionContext | None,
    ) -> types.Completion:
        """Completes an argument. An id is also found by the title or the URL of its page."""
        store, given = self._store(), (context and context.arguments) or {}
        typed = argument.value.strip().lower()
        match argument.name:
            case "from" | "since" if named := given.get("page_id") or given.get("url"):
                try:
                    page, _ = await meant(store, named)
                except BadAddress:
                    page = None
                ids = [each.source_id for each in page.versions] if page else []
                return completion(each for each in ids if each.startswith(typed))
            case "source_id" | "from" | "since":
                ids = await store.source_ids(typed)
                return completion([*ids, *(each.source_id for each in await _matching(store, typed))])
            case "page_id":
                ids = await store.page_ids(typed)
                return completion([*ids, *(each.page_id for each in await _matching(store, typed))])
            case "url":
                return completion(each.address for each in await _matching(store, typed))
            case "urls":
                # Several, separated by spaces: the last one is being typed.
                before, space, last = argument.value.rpartition(" ")
                found = await _matching(store, last.strip().lower())
                return completion(before + space + each.address for each in found if each.address not in before)
            case _:
                return completion([])


async def read(store: Store, uri: str) -> ReadResourceContents:
    """Returns the content of the resource at a URI. Raises `BadAddress`, `ResourceMissing` or `StoreError`."""
    asked = parse_address(uri)
    if asked.kind not in ("page", "diff"):
        part = await store.part(asked.id, asked.kind)
        if part is not None:
            return ReadResourceContents(*part)
        if asked.kind in _KEPT and await store.part(asked.id, "content") is not None:
            raise ResourceMissing(f"{uri}: {_KEPT[asked.kind]}")
        raise ResourceMissing(f"{uri} is not kept, or no longer: versions expire. `fetch` the page again.")
    page = known_page(await store.page_of(asked.id), asked.id)
    if asked.kind == "diff":
        return ReadResourceContents((await difference(store, page, asked.since))["diff"], "text/x-diff")
    versions = await _spoken_for(store, page)
    entry = await _entry(store, page, versions[0].source_id)
    packet = entry.packet
    content = {
        "page_id": page.page_id,
        "url": page.address,
        **claimed(packet),
        "title": shown_title(packet["metadata"].get("title"), page.address),
        "facts": packet.get("facts", {}),
        **{name: packet[name] for name in ("source_id", "retrieved_at", "warnings", "unsafe_instructions_detected")},
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
    about = {_ABOUT: {"checked_at": iso(page.checked_at), "watched": page.watched}}
    return ReadResourceContents(json.dumps(content, ensure_ascii=False, indent=1), "application/json", meta=about)


def claimed(packet: Mapping[str, Any]) -> dict[str, str]:
    """Returns the other URLs of a page, if there are any: `final_url` of redirects, `canonical_url` that it claims."""
    asked = packet["original_url"]
    final = packet.get("final_url", asked)
    urls = {"final_url": final} if final != asked else {}
    return urls if packet["canonical_url"] in (asked, final) else {**urls, "canonical_url": packet["canonical_url"]}


def signed(packet: Mapping[str, Any]) -> dict[str, str]:
    """Returns `author` and `published_at`, as far as the page says them, made as harmless as its title."""
    facts = {name: _plain(packet["metadata"].get(name)) for name in ("author", "published_at")}
    return {name: value for name, value in facts.items() if value}


def shown_title(title: str | None, url: str) -> str:
    """Returns a page's title, or its URL, made harmless: people and models read it."""
    return _plain(title) or _plain(url)


def _plain(text: str | None) -> str:
    return shortened(one_line(disarm(text or "")), _LONGEST_TITLE + 1)


async def meant(store: Store, named: str) -> tuple[StoredPage | None, StoredVersion | None]:
    """Returns the page that is meant, if it is known, and its version: the one that is named, or else the newest.

    Raises `BadAddress` for a broken URI of this server.
    """
    named = named.strip()
    if named.startswith(SCHEME):
        named = parse_address(named).id
    entry = await store.get(named) if is_id(named) else None
    if entry is None and not is_id(named):
        url, mark, part = named.partition(" [")  # a part of a page is listed as "URL [css:.price]"
        try:
            named = f"{parse(url)}{mark}{part}"
        except FetchError:
            return None, None
    page = await store.page_of(entry.page_id if entry else named)
    if entry is None and page and page.versions:
        entry = await store.get(_newest_of(page).source_id)
    return page, entry


def known_page(found: StoredPage | None, named: str) -> StoredPage:
    """Returns a page that was looked for. Raises `ResourceMissing` if it was not found."""
    if found is None:
        raise ResourceMissing(f"No page {disarm(named.strip()[:300])!r} is known here. `fetch` it first.")
    return found


async def _matching(store: Store, typed: str) -> list[Version]:
    """Returns the newest version of each page whose URL or title contains the typed text, best matches first."""
    summaries, _ = await store.listing(None, _SEARCHED)
    pages: dict[str, Version] = {}
    for each in summaries:
        if typed in f"{each.address}\n{shown_title(each.title, each.address)}".lower():
            pages.setdefault(each.page_id, each)
    plain = typed.removeprefix("https://").removeprefix("http://")
    return sorted(pages.values(), key=lambda each: not each.address.lower().partition("://")[2].startswith(plain))


class VersionDifference(TypedDict):
    """The difference from one version to another, the newest."""

    before: NotRequired[str]  # the source_ids
    after: str
    added: int
    removed: int
    diff: str


async def difference(store: Store, page: StoredPage, since: str | None = None) -> VersionDifference:
    """Returns the difference from `since`, or the last other content, to the newest. Raises `ResourceMissing`."""
    newest, *older_ones = await _spoken_for(store, page)
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
        same = VersionDifference(after=newest.source_id, added=0, removed=0, diff=text)
        return same if older is None else {**same, "before": older.source_id}
    before = await _entry(store, page, older.source_id)
    counted, text, added, removed = await to_thread.run_sync(_compared, before, after)
    head = [
        shown_title(after.packet["metadata"].get("title"), page.address),
        f"{page.address}: {counted}",
        f"--- {_named(before)}",
        f"+++ {_named(after)}",
    ]
    found = {"before": older.source_id, "after": newest.source_id, "added": added, "removed": removed}
    return cast("VersionDifference", {**found, "diff": "\n".join([*head, text])})


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
    if before.beside(after) != after.beside(before):
        old, new = (f"{text}\n# Elsewhere on the page\n\n{disarm(one.beside(other))}\n"
                    for text, one, other in ((old, before, after), (new, after, before)))  # fmt: skip
    found = diff(old, new)
    text = disarm(_changed_facts(before.packet, after.packet)) + found.text
    return f"lines added: {found.added:,}, removed: {found.removed:,}", text, found.added, found.removed


def _changed_facts(before: LLMPacket, after: LLMPacket) -> str:
    """Returns a line for the title and each fact that changed: `price 49.90 → 44.90 EUR`."""
    if "facts" not in before:
        return ""
    was, now = ({"title": each["metadata"].get("title", ""), **each.get("facts", {})} for each in (before, after))
    text = ""
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            unit = f" {now['currency']}" if name == "price" and "currency" in now else ""
            text += f"{name} {was.get(name) or '(none)'} → {now.get(name) or '(none)'}{unit}\n"
    return text


def _newest_of(page: StoredPage) -> Version:
    """Returns the newest fetched version, or else a given one. Raises `ResourceMissing` if none is kept any more."""
    if not page.versions:
        raise ResourceMissing(f"No version of {page.address} is kept any more. `fetch` it again.")
    return next((each for each in page.versions if each.variant), page.versions[0])


async def _spoken_for(store: Store, page: StoredPage) -> list[Version]:
    """Returns the versions of the variant that is watched, or else of the newest one. Raises `ResourceMissing`."""
    newest, known = _newest_of(page), None
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
