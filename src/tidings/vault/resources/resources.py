"""What a client reads from a vault: the content of each of its resources.

It depends on the index alone, and on nothing that passes by itself: not on the time, except for what `today` is. So two
contents can be compared, before and after a change, to find out who has to be told.
"""

import hashlib
import sqlite3
from collections.abc import Callable
from datetime import date
from difflib import get_close_matches
from typing import Final

from tidings.vault.files.paths import key
from tidings.vault.resources import render_files, render_lists
from tidings.vault.resources.addresses import Address, BadAddress, parse_address
from tidings.vault.resources.dailies import local_today
from tidings.vault.resources.mime import JSON
from tidings.vault.resources.render_files import find_file, find_note
from tidings.vault.resources.shapes import Json, NotFound, Rendered, TooLarge, caveat, did_you_mean, written
from tidings.vault.view import View

__all__ = ["BadAddress", "NotFound", "Rendered", "TooLarge", "fingerprint", "render"]

_LISTS: Final[dict[str, Callable[[View, Address], Json]]] = {
    "recent": render_lists.recent,
    "stats": render_lists.stats,
    "tags": render_lists.tags,
    "structure": render_lists.structure,
    "folder": render_lists.folder,
    "tag": render_lists.tag,
    "backlinks": render_lists.backlinks,
    "search": render_lists.search,
}


def render(view: View, uri: str, *, today: date | None = None) -> Rendered:
    """The content of the resource at a URI.

    Raises:
        BadAddress: It is no URI of a vault, or asks for what there cannot be.
        NotFound: There is no such thing; names what comes nearest.
        TooLarge: There is, but it is too large to be sent.
    """
    address = parse_address(uri)
    try:
        content = _content(view, address, today or local_today())
    except NotFound as missing:
        if missing.wanted is None:
            raise
        raise NotFound(f"{missing}{_nearest(view, address, missing.wanted)}") from None
    if isinstance(content, Rendered):
        return content
    return Rendered(JSON, written(caveat(view.status) | content))


def fingerprint(view: View, uri: str, *, today: date | None = None) -> str:
    """A text that is equal as long as `render` gives the same; empty while there is no such resource. Never raises.

    How far the index has come is left out of account: that some of it is missing is news once.
    """
    try:
        address = parse_address(uri)
        day = today or local_today()
        quick = _version(view, address, day)
        if quick is not None:
            return quick
        content = _content(view, address, day)
    except (LookupError, ValueError, sqlite3.Error):
        return ""
    if isinstance(content, Rendered):
        text = content.text or ""
    else:
        text = written({"caveat": [*caveat(view.status)], **content})
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


def _version(view: View, address: Address, today: date) -> str | None:
    """What tells one content of a whole file from another without reading it. None for everything else."""
    if address.kind == "attachment":
        file = find_file(view, address.argument)
        return file.hash or f"{file.path}\0{file.size}\0{file.mtime}"
    if address.kind in ("note", "daily") and address.mode != "summary" and address.page is None and not address.offset:
        return find_note(view, address, today).hash or ""
    return None


def _content(view: View, address: Address, today: date) -> Rendered | Json:
    match address.kind:
        case "note" | "daily":
            return render_files.note(view, find_note(view, address, today), address)
        case "attachment":
            return render_files.attachment(view, find_file(view, address.argument))
        case kind:
            return _LISTS[kind](view, address)


def _nearest(view: View, address: Address, wanted: str) -> str:
    match address.kind:
        case "folder":
            known = {key(folder.path): folder.path for folder in view.queries.structure()}
        case _:
            return did_you_mean(view.queries.near(wanted))
    return did_you_mean([known[each] for each in get_close_matches(key(wanted), known, n=5, cutoff=0.5)])
