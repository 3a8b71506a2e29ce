"""What `resources/list` and `resources/templates/list` say: the versions that can be read, the newest first.

Only packets are listed, so that the list stays short: content, raw bytes and pictures of one have the same id.
"""

from typing import Final
from urllib.parse import urlsplit

from mcp_types import Annotations, Resource, ResourceTemplate
from typing_extensions import TypedDict

from tidings.web.documents.injection import disarm
from tidings.web.documents.model import NormalizedContent
from tidings.web.resources.addresses import FAMILIES, address
from tidings.web.store.model import StoreCursorInvalid, Summary
from tidings.web.store.store import Store

PAGE: Final = 50

_LONGEST_TITLE: Final = 200


def templates() -> list[ResourceTemplate]:
    """How the URIs of all resources are made."""
    return [
        ResourceTemplate(
            name=family.kind,
            uri_template=family.template,
            title=family.title,
            description=family.description,
            mime_type=family.mime_type,
        )
        for family in FAMILIES.values()
    ]


async def page(store: Store, cursor: str | None) -> tuple[list[Resource], str | None]:
    """The packets after `cursor`, or the newest ones, and the cursor of the next page if there is one.

    Raises:
        ValueError: No page gave that cursor.
    """
    try:
        summaries, following = await store.listing(cursor, PAGE)
    except StoreCursorInvalid as error:
        raise ValueError(str(error)) from error
    return [resource(summary) for summary in summaries], following


def resource(summary: Summary) -> Resource:
    """How a packet is listed."""
    return Resource(
        name=summary.source_id,
        uri=address("packet", summary.source_id),
        title=shown_title(summary.title, summary.canonical_url),
        description=f"{urlsplit(summary.canonical_url).hostname or 'given'}, {summary.retrieved_at}",
        mime_type="application/json",
        size=summary.packet_size,
        annotations=Annotations(last_modified=summary.retrieved_at),
    )


class Signed(TypedDict, total=False):
    """Who wrote a page, and when, as it says itself."""

    author: str
    published_at: str


def signed(packet: NormalizedContent) -> Signed:
    """Who wrote a page, and when: as harmless as its title."""
    metadata, said = packet["metadata"], Signed()
    if author := _plain(metadata.get("author")):
        said["author"] = author
    if published := _plain(metadata.get("published_at")):
        said["published_at"] = published
    return said


def shown_title(title: str | None, url: str) -> str:
    """A page's title, made harmless: it is the page's word, and stands where people and models read it."""
    return _plain(title) or _plain(url)


def _plain(text: str | None) -> str:
    plain = " ".join(disarm(text or "").split())
    return plain if len(plain) <= _LONGEST_TITLE else f"{plain[:_LONGEST_TITLE]}…"
