"""What a client reads from a vault: the content of each of its resources.

It depends on the index alone, and on nothing that passes by itself: not on the time, except for what `today` is. So two
contents can be compared, before and after a change, to find out who has to be told.

The content of the resources that are one file each: notes, daily notes, attachments.

A note is read from the index, so that what is sent is what was compared when subscribers were told. Other files are not
in the index, and are read from the disk.

The content of the resources that list things: summaries, one page at a time.

An item shows what those who watch the list want to hear of: a folder lists names, not the times at which notes were
edited. `mode=full` adds the rest.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import date
from difflib import get_close_matches
from typing import Any, Final

from tidings._kit.files import read_file
from tidings.vault.files.paths import BadPath, uri
from tidings.vault.index import graph
from tidings.vault.index.rows import FileRow, ListedFiles
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import line_starts
from tidings.vault.resources.addresses import MOST_ITEMS, BadAddress, VaultAddress, parse_address
from tidings.vault.resources.shapes import (
    JSON,
    MARKDOWN,
    Json,
    NotFound,
    RenderedResource,
    ResourceTooLarge,
    caveat,
    did_you_mean,
    is_text,
    iso,
    listed,
    mime_type,
    one_line,
    written,
)
from tidings.vault.search.query import BadQuery, parse_query
from tidings.vault.search.search import search as find
from tidings.vault.view import VaultView, daily_places, hidden_from_search, local_today

LARGEST: Final = 10_000_000
"""How many bytes of an attachment are sent at most."""

_MOST: Final = 500
"""How many headings, links, … a summary lists of each."""


def find_file(view: VaultView, text: str) -> FileRow:
    """The file that is meant by a path as users write it.

    Raises:
        NotFound: There is none.
    """
    if match := view.queries.find(text):
        return match.file
    raise NotFound(f"There is no file {text!r} in the vault.", text)


def find_note(view: VaultView, address: VaultAddress, today: date) -> FileRow:
    """The note that an address is about: by its path, or by its day.

    Raises:
        NotFound: There is none.
    """
    if address.kind == "daily":
        return _daily(view, today if address.argument == "today" else date.fromisoformat(address.argument))
    file = find_file(view, address.argument)
    if file.kind != "note":
        raise NotFound(f"{file.path!r} is no note. Read {uri('attachment', file.path)}.")
    return file


def note(view: VaultView, file: FileRow, address: VaultAddress) -> RenderedResource | Json:
    """A note: its text, some lines of it, or a summary.

    Raises:
        TooLarge: It was too large to be read.
    """
    if address.mode == "summary":
        return _summary(view, file)
    text = _text(view, file)
    if address.offset or address.page is not None:
        starts = line_starts(text)
        first = min(address.offset, len(starts) - 1)
        last = len(starts) - 1 if address.page is None else min(first + address.page, len(starts) - 1)
        text = text[starts[first] : starts[last]]
    return RenderedResource(MARKDOWN, text)


def attachment(view: VaultView, file: FileRow) -> RenderedResource:
    """A file as it is on the disk: as text if it is one.

    Raises:
        NotFound: It cannot be read.
        TooLarge: It is too large to be sent.
    """
    if file.kind == "note":
        return RenderedResource(MARKDOWN, _text(view, file))
    try:
        data, _ = read_file(view.vault.locate(file.path), LARGEST)
    except BadPath as error:
        raise NotFound(str(error)) from error
    except OverflowError as error:
        size = f"{error.args[0]:,} bytes. At most {LARGEST:,} are sent: open it on the disk."
        raise ResourceTooLarge(f"{file.path!r} has {size}") from error
    except OSError as error:
        away = " The vault cannot be reached at present." if view.status.phase == "away" else ""
        raise NotFound(f"{file.path!r} cannot be read: {error.strerror}.{away}") from error
    kind = mime_type(file.path)
    if is_text(kind):
        try:
            return RenderedResource(kind, data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass  # Whoever asked can see what to make of the bytes.
    return RenderedResource(kind, None, data)


def details(view: VaultView, file: FileRow) -> Json:
    """What `mode=full` adds to a file in a list."""
    more: Json = {"modified": iso(file.mtime), "size": file.size}
    if file.kind == "note":
        more |= {"words": file.words, "tags": view.queries.tags_of(file.path), "properties": file.properties}
    # Whether an attachment was hashed depends on how many came at once.
    version = None if file.kind == "attachment" else file.hash
    return more | _if_any(version=version, problem=file.problem)


def _daily(view: VaultView, day: date) -> FileRow:
    places = daily_places(view, day)
    for path in places:
        if file := view.queries.file(path):
            return file
    raise NotFound(f"There is no daily note of {day}. It would be {' or '.join(map(repr, places))}.")


def _text(view: VaultView, file: FileRow) -> str:
    text = view.queries.text(file.path)
    if file.hash is None or text is None:
        raise ResourceTooLarge(f"{file.path!r} has {file.size:,} bytes. {file.problem or 'It was not read.'}")
    return text


def _summary(view: VaultView, file: FileRow) -> Json:
    queries, path = view.queries, file.path
    tags = queries.tags_of(path)
    lists: dict[str, list[Any]] = {
        "tags": tags[:_MOST],
        "headings": [heading._asdict() for heading in queries.headings(path, _MOST)],
        "links": [_link(link) for link in graph.outgoing(queries, path)[:_MOST]],
        "tasks": [
            {"line": task.line, "status": task.status, "text": task.text}
            for task in queries.tasks(path=path, limit=_MOST)
        ],
    }
    totals = {"tags": len(tags)} | {table: queries.count(table, path) for table in ("headings", "links", "tasks")}
    left_out = {name: total - _MOST for name, total in totals.items() if total > _MOST}
    return {
        "path": path,
        "title": file.title,
        **_if_any(aliases=queries.aliases(path), problem=file.problem),
        "version": file.hash,
        "modified": iso(file.mtime),
        "size": file.size,
        "words": file.words,
        "properties": file.properties,
        **lists,
        **_if_any(left_out=left_out),
    }


def _link(link: graph.ResolvedLink) -> Json:
    """A link as it is written, and where it leads: nowhere, maybe."""
    written: Json = {"target": link.target + link.subpath, "path": link.leads_to, "line": link.line}
    return written | ({"embed": True} if link.embed else {})


def _if_any(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value}


_LEVELS: Final = 3
"""How deep the tree of folders is shown."""

_LINES: Final = 2
_LINES_FULL: Final = 10
"""How many lines of a file are shown that match a search."""

_LINE: Final = 400
"""How many characters are shown of a line that has a link: some more than may stand before it."""

_NAMES: Final = 100
"""How many notes of one folder are named in the tree."""


def recent(view: VaultView, address: VaultAddress) -> Json:
    """What was changed last."""
    queries = view.queries
    total: int = queries.connection.execute("SELECT count(*) FROM files WHERE kind <> 'attachment'").fetchone()[0]
    items = [
        {"path": file.path, "title": file.title, "modified": iso(file.mtime)}
        | (details(view, file) if address.full else {})
        for file in queries.recent(_size(address), address.offset)
    ]
    return listed(address, {}, total, items)


def stats(view: VaultView, address: VaultAddress) -> Json:
    """How much there is of what. Words change with nearly every edit, and are shown only to who asks for them."""
    found = view.queries.stats(sums=address.full)
    names = [mount.name for mount in view.vault.mounts if mount.name]
    content: Json = {"vaults": names} if names else {}
    content |= {
        "notes": found.notes,
        "canvases": found.canvases,
        "bases": found.bases,
        "attachments": found.attachments,
        "folders": found.folders,
        "tags": found.tags,
        "links": found.links,
        "tasks": {"open": found.tasks_open, "done": found.tasks_done},
    }
    if address.full:
        content |= {"words": found.words, "size": found.size}
        content["properties"] = [use._asdict() for use in view.queries.properties_in_use()[:MOST_ITEMS]]
    return content


def tags(view: VaultView, address: VaultAddress) -> Json:
    """All tags, the most used first. Notes with a nested tag count for the outer one."""
    every = sorted(view.queries.tags(), key=lambda tag: (-tag.total, tag.key))
    items = [
        {"tag": tag.shown, "notes": tag.total} | ({"itself": tag.notes} if address.full else {})
        for tag in every[address.offset :][: _size(address)]
    ]
    return listed(address, {}, len(every), items)


def structure(view: VaultView, address: VaultAddress) -> Json:
    """The folders, each followed by those in it, with how many folders it has and how many notes are below it."""
    every = view.queries.structure()
    inner = Counter(folder.path.rpartition("/")[0] for folder in every if "/" in folder.path)
    shown = [folder for folder in every if address.full or folder.path.count("/") < _LEVELS]
    page = shown[address.offset :][: _size(address)]
    items: list[Json] = []
    for folder in page:
        item: Json = {
            "folder": folder.path,
            "folders": inner[folder.path],
            "notes": folder.notes,
            "files": folder.files,
        }
        items.append(item | _names(view, folder.path) if address.full else item)
    return listed(address, _names(view, "") if address.full else {"levels": _LEVELS}, len(shown), items)


def folder(view: VaultView, address: VaultAddress) -> Json:
    """What is in a folder: folders, then files.

    Raises:
        NotFound: There is no such folder.
    """
    found = view.queries.folder(address.argument)
    if found is None:
        raise NotFound(f"There is no folder {address.argument!r} in the vault.", address.argument)
    every = [*found.folders, *found.files]
    page = every[address.offset :][: _size(address)]
    items = [
        _file(view, each, address) if isinstance(each, ListedFiles) else {"folder": each.path, "notes": each.notes}
        for each in page
    ]
    return listed(address, {"folder": found.path}, len(every), items)


def tag(view: VaultView, address: VaultAddress) -> Json:
    """The notes with a tag, or one nested in it. That no note has it, or has it yet, is an answer as of a search."""
    found = view.queries.tag(address.argument)
    if found is None:
        return listed(address, {"tag": address.argument}, 0, [])
    rows = view.queries.with_tag(found.key, _size(address), address.offset)
    return listed(address, {"tag": found.shown}, found.total, [_file(view, row, address) for row in rows])


def backlinks(view: VaultView, address: VaultAddress) -> Json:
    """The links to a file, in the order of the notes that have them.

    Raises:
        NotFound: There is no such file.
    """
    file = find_file(view, address.argument)
    every = graph.backlinks(view.queries, file.path)
    items: list[Json] = []
    for link in every[address.offset :][: _size(address)]:
        item: Json = {"path": link.source, "line": link.line, "text": one_line(link.text, _LINE)}
        source = view.queries.file(link.source) if address.full else None
        items.append(item | details(view, source) if source else item)
    return listed(address, {"path": file.path}, len(every), items)


def search(view: VaultView, address: VaultAddress) -> Json:
    """What a search finds, newest first: an order that only changes of what is found can change.

    Raises:
        BadAddress: The query cannot be understood.
    """
    try:
        query = parse_query(address.argument)
        found = find(
            view.queries.connection,
            query,
            limit=_size(address),
            offset=address.offset,
            sort="modified",
            matches=_LINES_FULL if address.full else _LINES,
            hidden=hidden_from_search(view.vault),
        )
    except BadQuery as error:
        raise BadAddress(str(error)) from error
    items: list[Json] = []
    for hit in found.hits:
        item: Json = {"path": hit.path, "lines": [match._asdict() for match in hit.matches]}
        file = view.queries.file(hit.path) if address.full else None
        items.append(item | {"matching": hit.lines} | details(view, file) if file else item)
    about: Json = {"query": address.argument} | ({"problem": found.problem} if found.problem else {})
    about |= {} if found.exact else {"exact": False}
    return listed(address, about, found.total, items)


def _size(address: VaultAddress) -> int:
    return address.page or MOST_ITEMS


def _file(view: VaultView, row: ListedFiles, address: VaultAddress) -> Json:
    item: Json = {"path": row.path} | ({} if row.kind == "note" else {"kind": row.kind})
    file = view.queries.file(row.path) if address.full else None
    return item | details(view, file) if file else item


def _names(view: VaultView, folder: str) -> Json:
    rows = view.queries.connection.execute(
        "SELECT path FROM files WHERE folder = ? AND kind = 'note' ORDER BY path", (folder,)
    )
    names = [path.rpartition("/")[2] for (path,) in rows]
    return {"names": names[:_NAMES]} | ({"more": len(names) - _NAMES} if len(names) > _NAMES else {})


__all__ = ["BadAddress", "NotFound", "RenderedResource", "ResourceTooLarge", "fingerprint", "render"]

_LISTS: Final[dict[str, Callable[[VaultView, VaultAddress], Json]]] = {
    "recent": recent,
    "stats": stats,
    "tags": tags,
    "structure": structure,
    "folder": folder,
    "tag": tag,
    "backlinks": backlinks,
    "search": search,
}


def render(view: VaultView, uri: str, *, today: date | None = None) -> RenderedResource:
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
    if isinstance(content, RenderedResource):
        return content
    return RenderedResource(JSON, written(caveat(view.status) | content))


def fingerprint(view: VaultView, uri: str, *, today: date | None = None) -> str:
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
    if isinstance(content, RenderedResource):
        text = content.text or ""
    else:
        text = written({"caveat": [*caveat(view.status)], **content})
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


def _version(view: VaultView, address: VaultAddress, today: date) -> str | None:
    """What tells one content of a whole file from another without reading it. None for everything else."""
    if address.kind == "attachment":
        file = find_file(view, address.argument)
        return file.hash or f"{file.path}\0{file.size}\0{file.mtime}"
    if address.kind in ("note", "daily") and address.mode != "summary" and address.page is None and not address.offset:
        return find_note(view, address, today).hash or ""
    return None


def _content(view: VaultView, address: VaultAddress, today: date) -> RenderedResource | Json:
    match address.kind:
        case "note" | "daily":
            return note(view, find_note(view, address, today), address)
        case "attachment":
            return attachment(view, find_file(view, address.argument))
        case kind:
            return _LISTS[kind](view, address)


def _nearest(view: VaultView, address: VaultAddress, wanted: str) -> str:
    match address.kind:
        case "folder":
            known = {key(folder.path): folder.path for folder in view.queries.structure()}
        case _:
            return did_you_mean(view.queries.near(wanted))
    return did_you_mean([known[each] for each in get_close_matches(key(wanted), known, n=5, cutoff=0.5)])
