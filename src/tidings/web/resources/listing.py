"""`resources/list`: the versions that can be read, the newest first; and the facts that lists and tools show of a page.

Only packets are listed, so that the list stays short: content, raw bytes and screenshots of a version have the same id.
"""

from typing import Final
from urllib.parse import urlsplit

from mcp_types import Annotations, Resource
from typing_extensions import TypedDict

from tidings._kit.text import one_line, shortened
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import NormalizedContent
from tidings.web.resources.addresses import address
from tidings.web.store.model import StoreCursorInvalid
from tidings.web.store.store import Store

PAGE: Final = 50

_LONGEST_TITLE: Final = 200


async def page(store: Store, cursor: str | None) -> tuple[list[Resource], str | None]:
    """Returns the packets after `cursor`, or the newest, and the next cursor. Raises `ValueError` for a bad cursor."""
    try:
        summaries, following = await store.listing(cursor, PAGE)
    except StoreCursorInvalid as error:
        raise ValueError(str(error)) from error
    resources = [
        Resource(
            name=summary.source_id,
            uri=address("packet", summary.source_id),
            title=shown_title(summary.title, summary.address),
            description=f"{urlsplit(summary.address).hostname or 'given'}, {summary.retrieved_at}",
            mime_type="application/json",
            size=summary.packet_size,
            annotations=Annotations(last_modified=summary.retrieved_at),
        )
        for summary in summaries
    ]
    return resources, following


class Signed(TypedDict, total=False):
    """The author and the date of a page, as it says itself."""

    author: str
    published_at: str


class Claimed(TypedDict, total=False):
    """The other URLs of a page, if there are any: the one that it claims, and where redirects led to."""

    canonical_url: str
    final_url: str


def claimed(packet: NormalizedContent) -> Claimed:
    """Returns the other URLs of a page."""
    urls, asked = Claimed(), packet["original_url"]
    if (final := packet.get("final_url", asked)) != asked:
        urls["final_url"] = final
    if packet["canonical_url"] not in (asked, final):
        urls["canonical_url"] = packet["canonical_url"]
    return urls


def signed(packet: NormalizedContent) -> Signed:
    """Returns the author and the date of a page, made as harmless as its title."""
    metadata, facts = packet["metadata"], Signed()
    if author := _plain(metadata.get("author")):
        facts["author"] = author
    if published := _plain(metadata.get("published_at")):
        facts["published_at"] = published
    return facts


def shown_title(title: str | None, url: str) -> str:
    """Returns a page's title, or its URL, made harmless: people and models read it."""
    return _plain(title) or _plain(url)


def _plain(text: str | None) -> str:
    return shortened(one_line(disarm(text or "")), _LONGEST_TITLE + 1)
