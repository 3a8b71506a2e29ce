"""What somebody means who names a page or a version: by an id, by a URI of ours, or by a URL.

The two kinds of ids look alike, and one is easily taken for the other. So each does where the other is asked for: a
page stands for its newest version, a version for its page. URIs that are read and subscribed to mean what they say.
"""

from tidings.web.net.model import FetchError
from tidings.web.net.urls import parse
from tidings.web.packets.injection import disarm
from tidings.web.resources.addresses import SCHEME, is_id, parse_address, source_id_of
from tidings.web.resources.differences import newest_of
from tidings.web.resources.missing import NotFound
from tidings.web.resources.reading import unknown_page
from tidings.web.store.model import Page
from tidings.web.store.store import Store


async def found_page(store: Store, named: str) -> Page | None:
    """The page that is meant, if it is known.

    Raises:
        BadAddress: It begins as a URI of ours does, and is none.
    """
    name = _name(named)
    page = await store.page_of(name)
    if page is None and is_id(name) and (entry := await store.get(name)):
        page = await store.page_of(entry.page_id)
    return page


async def page_meant(store: Store, named: str) -> Page:
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
