"""The content of the resources that list things: summaries, one page at a time.

An item shows what those who watch the list want to hear of: a folder lists names, not the times at which notes were
edited. `mode=full` adds the rest.
"""

from collections import Counter
from typing import Final

from tidings.vault.index import graph
from tidings.vault.index.query_rows import Listed
from tidings.vault.resources.addresses import MOST_ITEMS, Address, BadAddress
from tidings.vault.resources.hiding import hidden_from_search
from tidings.vault.resources.render_files import details, find_file
from tidings.vault.resources.shapes import Json, NotFound, iso, listed, one_line
from tidings.vault.search.query import parse_query
from tidings.vault.search.query_reader import BadQuery
from tidings.vault.search.search import search as find
from tidings.vault.view import View

_LEVELS: Final = 3
"""How deep the tree of folders is shown."""

_LINES: Final = 2
_LINES_FULL: Final = 10
"""How many lines of a file are shown that match a search."""

_LINE: Final = 400
"""How many characters are shown of a line that has a link: some more than may stand before it."""

_NAMES: Final = 100
"""How many notes of one folder are named in the tree."""


def recent(view: View, address: Address) -> Json:
    """What was changed last."""
    queries = view.queries
    total: int = queries.connection.execute("SELECT count(*) FROM files WHERE kind <> 'attachment'").fetchone()[0]
    items = [
        {"path": file.path, "title": file.title, "modified": iso(file.mtime)}
        | (details(view, file) if address.full else {})
        for file in queries.recent(_size(address), address.offset)
    ]
    return listed(address, {}, total, items)


def stats(view: View, address: Address) -> Json:
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


def tags(view: View, address: Address) -> Json:
    """All tags, the most used first. Notes with a nested tag count for the outer one."""
    every = sorted(view.queries.tags(), key=lambda tag: (-tag.total, tag.key))
    items = [
        {"tag": tag.shown, "notes": tag.total} | ({"itself": tag.notes} if address.full else {})
        for tag in every[address.offset :][: _size(address)]
    ]
    return listed(address, {}, len(every), items)


def structure(view: View, address: Address) -> Json:
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


def folder(view: View, address: Address) -> Json:
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
        _file(view, each, address) if isinstance(each, Listed) else {"folder": each.path, "notes": each.notes}
        for each in page
    ]
    return listed(address, {"folder": found.path}, len(every), items)


def tag(view: View, address: Address) -> Json:
    """The notes with a tag, or one nested in it. That no note has it, or has it yet, is an answer as of a search."""
    found = view.queries.tag(address.argument)
    if found is None:
        return listed(address, {"tag": address.argument}, 0, [])
    rows = view.queries.with_tag(found.key, _size(address), address.offset)
    return listed(address, {"tag": found.shown}, found.total, [_file(view, row, address) for row in rows])


def backlinks(view: View, address: Address) -> Json:
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


def search(view: View, address: Address) -> Json:
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


def _size(address: Address) -> int:
    return address.page or MOST_ITEMS


def _file(view: View, row: Listed, address: Address) -> Json:
    item: Json = {"path": row.path} | ({} if row.kind == "note" else {"kind": row.kind})
    file = view.queries.file(row.path) if address.full else None
    return item | details(view, file) if file else item


def _names(view: View, folder: str) -> Json:
    rows = view.queries.connection.execute(
        "SELECT path FROM files WHERE folder = ? AND kind = 'note' ORDER BY path", (folder,)
    )
    names = [path.rpartition("/")[2] for (path,) in rows]
    return {"names": names[:_NAMES]} | ({"more": len(names) - _NAMES} if len(names) > _NAMES else {})
