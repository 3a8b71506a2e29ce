"""Tools that ask the index: search, tags, links, recent, structure; and the file that an agent means by a path.

Each answer has lines to read, and the same facts as data. Both say where the next page begins, and whether the index is
still being built. Reading takes the best of several files that a path may mean, and says so; writing refuses it.
"""

import re
from collections.abc import Sequence
from posixpath import basename
from typing import Any, Final, Literal, NamedTuple, TypeVar

from mcp_types import CallToolResult

from tidings._kit.suggest import did_you_mean
from tidings._kit.text import counted, listed, quoted
from tidings.server.families import ResourceMissing
from tidings.server.waking.changes import ChangedItem
from tidings.vault.files.paths import BadPath, path_of
from tidings.vault.index import graph
from tidings.vault.notes.model import key
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.render import iso
from tidings.vault.search.search import Sort, cold_search, search_by_meaning
from tidings.vault.search.search import search as find
from tidings.vault.tools.results import HitResult, LinkSeen, answer
from tidings.vault.view import VaultView, hidden_from_search

T = TypeVar("T")
_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
_ROOM: Final = 240  # The number of characters that are shown of a line with a link.

Direction = Literal["back", "out", "broken", "orphans", "path"]


class ResultRange(NamedTuple):
    """The requested part of a list."""

    limit: int
    offset: int = 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        return items[self.offset : self.offset + self.limit]


def changed_file(view: VaultView, uri: str) -> ChangedItem:
    """Describes the file at a URI, which has changed."""
    item = ChangedItem(uri=uri)
    if (file := view.queries.file(parse_address(uri).argument)) is None:
        item["gone"] = True
    else:
        item["title"], item["changed_at"] = file.title, iso(file.mtime)
    return item


def search(view: VaultView, query: str, sort: Sort, span: ResultRange, *, by_meaning: bool = False) -> CallToolResult:
    """Returns the files that match a query. Raises `BadQuery`."""
    limit, offset, hidden = *span, hidden_from_search(view.vault)
    found = None
    if by_meaning:
        found = search_by_meaning(view.queries, query, limit=limit, offset=offset, hidden=hidden)
    elif view.status.partial and not view.queries.is_built():
        found = cold_search(view.vault, query, limit=limit, offset=offset, sort=sort, hidden=hidden)
        view = view if found is None else view.whole
    found = found or find(view.queries, query, limit=limit, offset=offset, sort=sort, hidden=hidden)
    hits: list[HitResult] = []
    lines: list[str] = []
    for hit in found.hits:
        hits.append({"path": hit.path, "lines": [{"line": line, "text": text} for line, text in hit.matches]})
        lines += [hit.path, *(f"  {match.line}: {match.text}" for match in hit.matches)]
        if (more := hit.lines - len(hit.matches)) > 0:
            lines.append(f"  and {counted(more, 'more line')}")
    head = f"{'' if found.exact else 'At least '}{counted(found.total, 'file')} for {query}"
    return _said(view, [head, *lines], {"total": found.total, "results": hits}, found.problem or "", span=span)


def tags(view: VaultView, tag: str, prefix: str, span: ResultRange) -> CallToolResult:
    """Returns all tags, or the notes of one. Raises `ResourceMissing` with the closest tags."""
    if tag:
        count = view.queries.tag(tag)
        if count is None:
            raise no_such_tag(view, tag)
        notes = [each.path for each in view.queries.with_tag(tag, *span)]
        head = f"{counted(count.total, 'note')} with #{count.shown}"
        return _said(view, [head, *notes], {"total": count.total, "notes": notes}, span=span)
    wanted = key(prefix.strip().removeprefix("#"))
    every = [each for each in view.queries.tags() if each.key.startswith(wanted)]
    every.sort(key=lambda each: (-each.total, each.key))
    shown = span.of(every)
    head = f"{counted(len(every), 'tag')}{f' beginning with #{wanted}' if wanted else ''}"
    lines = [head, *(f"#{each.shown} ({each.total:,})" for each in shown)]
    data = {"total": len(every), "tags": [{"tag": each.shown, "count": each.total} for each in shown]}
    return _said(view, lines, data, span=span)


def no_such_tag(view: VaultView, tag: str) -> ResourceMissing:
    """Returns the error that no note has a tag, with the closest tags."""
    plain = tag.strip().lstrip("#")
    known = [each.shown for each in view.queries.tags()]
    hint = did_you_mean(plain, known, most=3, key=key, among=len(known), show="#{}".format)
    return ResourceMissing(f"No note has the tag #{plain}.{hint or ' List all of them with `tags`.'}")


def links(  # noqa: C901 - one case for each direction
    view: VaultView, direction: Direction, path: str, to: str, span: ResultRange
) -> CallToolResult:
    """Returns links of one note or of all. Raises `ResourceMissing`, and `BadPath` for a missing argument."""
    queries = view.queries
    match direction:
        case "back":
            target = meant(view, path)[0]
            every, about = graph.backlinks(queries, target), f" to {target}"
        case "out":
            source = meant(view, path)[0]
            every, about = graph.outgoing(queries, source), f" in {source}"
        case "broken" if path:
            source = meant(view, path)[0]
            every = [link for link in graph.outgoing(queries, source) if link.target and link.leads_to is None]
            about = f" to nowhere in {source}"
        case "broken":
            every, about = graph.broken(queries), " to nowhere"
        case "orphans":
            notes = graph.orphans(queries)
            shown = span.of(notes)
            lines = [f"{counted(len(notes), 'note')} without links", *shown]
            return _said(view, lines, {"total": len(notes), "notes": shown}, span=span)
        case "path":
            if not to.strip():
                raise BadPath("`to` is empty.", "Give the note to find a way to, beside `path`, the one to begin at.")
            start, end = meant(view, path)[0], meant(view, to)[0]
            way = list(graph.between(queries, start, end) or ())
            head = " → ".join(way) or f"No links lead from {start} to {end}, in either direction."
            return _said(view, [head], {"total": len(way), "notes": way})
    items: list[LinkSeen] = []
    lines = [f"{counted(len(every), 'link')}{about}"]
    for link in graph.with_lines(queries, span.of(every)):
        text, written = link.text, link.target + link.subpath
        if len(text) > _ROOM:
            start = max(0, text.find(link.target) - _ROOM // 2)
            text = f"{'…' if start else ''}{text[start : start + _ROOM]}…"
        item: LinkSeen = {"path": link.source, "line": link.line, "text": text, "link": written}
        if link.leads_to:
            item["target"] = link.leads_to
        items.append(item)
        lines.append(f"{link.source}:{link.line}: {written} → {link.leads_to or 'nowhere'}: {text}")
    return _said(view, lines, {"total": len(every), "links": items}, span=span)


def recent(view: VaultView, span: ResultRange) -> CallToolResult:
    """Returns the notes that changed last."""
    files = view.queries.recent(span.limit + 1, span.offset)
    data: dict[str, Any] = {"files": [{"path": file.path, "modified": iso(file.mtime)} for file in files[: span.limit]]}
    lines = ["Changed last (UTC)", *(f"{file['modified']}  {file['path']}" for file in data["files"])]
    return _said(view, lines, data, span=span, total=span.offset + len(files))


def structure(view: VaultView, folder: str, depth: int, limit: int) -> CallToolResult:
    """Returns the folders below one, and the files in it. Raises `ResourceMissing` with the closest folders."""
    listing = view.queries.folder(folder.strip())
    if listing is None:
        known = [each.path for each in view.queries.structure()]
        hint = did_you_mean(folder, known, most=3, key=key, among=len(known)) or " Leave it out to see all folders."
        raise ResourceMissing(f"There is no folder {folder!r}.{hint}")
    folders, files = view.queries.structure(depth, listing.path), [basename(each.path) for each in listing.files]
    lines = [f"{listing.path or 'The vault'}: {counted(len(folders), 'folder')}, {counted(len(files), 'file')}"]
    left = max(len(folders) - limit, 0) + max(len(files) - limit, 0)
    folders, files = folders[:limit], files[:limit]
    top = listing.path.count("/") + 1 if listing.path else 0
    for each in folders:
        indent = "  " * (each.path.count("/") - top)
        lines.append(f"{indent}{basename(each.path)}/ ({counted(each.notes, 'note')})")
    data = {"folder": listing.path, "folders": [each._asdict() for each in folders], "files": files}
    more = f"{left:,} more are left out: ask for one of the folders, or with a higher limit." if left else ""
    return _said(view, [*lines, *files], data, more)


def _said(
    view: VaultView,
    lines: Sequence[str],
    data: dict[str, Any],
    problem: str = "",
    *,
    span: ResultRange | None = None,
    total: int | None = None,
) -> CallToolResult:
    """Returns an answer with a note about it, and the offset of the page after `span`, if the `total` is higher."""
    following = ""
    if span and (more := span.offset + span.limit) < (data["total"] if total is None else total):
        data["next_offset"] = more
        following = f"More with offset={more}."
    if note := " ".join(filter(None, [problem, view.status.standing])):
        data["note"] = note
    return answer("\n".join(filter(None, [*lines, following, note])), data)


def _plain(view: VaultView, path: str) -> str:
    """Returns the path in a wikilink or in the URI of a resource. Raises `BadPath` if it is empty, or another URI."""
    if view.queries.file(path):
        return path  # Its name may begin with a space.
    text = path.strip()
    if text.startswith("vault://"):
        text = path_of(text)
    elif link := re.fullmatch(r"!?\[\[([^\]|#]++)[^\]]*+\]\]", text):
        text = link[1].strip()
    if not text:
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    return text


def meant(view: VaultView, path: str) -> list[str]:
    """Returns the files for a path, its end or its bare name, the best first. Raises `ResourceMissing`."""
    path = _plain(view, path)
    if found := view.queries.find(path):
        return found
    # What the index does not know yet may be there all the same.
    for candidate in (path, f"{path}.md"):
        if view.vault.locate(candidate).is_file():
            return [candidate]
    if found := view.queries.with_alias(path):
        return found
    near = view.queries.near(path)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Find it with `search` or `structure`."
    raise ResourceMissing(" ".join(filter(None, [f"There is no file {quoted(path)}.", hint, view.status.standing])))


def surely(view: VaultView, path: str) -> str:
    """Returns the only file that a path can mean. Raises `BadPath` if there are several, and `ResourceMissing`."""
    found = meant(view, path)
    if len(found) > 1:
        raise BadPath(f"{quoted(path)} could be one of several: {listed(map(repr, found))}.", "Give the whole path.")
    return found[0]


def surely_any(view: VaultView, path: str) -> str:
    """Returns the only file or folder that a path can mean. Raises `BadPath` for several, and `ResourceMissing`."""
    text = _plain(view, path).rstrip("/")
    if text and not view.queries.file(text) and view.vault.locate(text).is_dir():
        return text
    return surely(view, text)


def to_create(view: VaultView, path: str) -> str:
    """Returns the path of a file that may be new: a note without another extension. Case does not make it new."""
    text = _plain(view, path).removeprefix("./")
    name = text.rpartition("/")[2]
    at = name.rfind(".")
    if name and not (at > 0 and _EXTENSION.fullmatch(name[at:])):
        text = f"{text}.md"
    there = view.queries.find(text)
    if there and key(there[0]) == key(text):
        return there[0]
    folder, slash, name = text.rpartition("/")
    listing = view.queries.folder(folder) if folder else None
    return f"{listing.path}/{name}" if listing else f"{folder}{slash}{name}"


def to_add_to(view: VaultView, path: str, *, create: bool) -> str:
    """Returns the only file that a path can mean, or a new one if `create` allows it. See `surely` for the errors."""
    try:
        return surely(view, path)
    except ResourceMissing as error:
        if create:
            return to_create(view, path)
        raise ResourceMissing(f"{error} Or set create=true.") from None


def destination(view: VaultView, source: str, to: str) -> str:
    """Returns the destination of a move: into a folder under its own name, or a path with its own extension."""
    name = source.rpartition("/")[2]
    wanted = _plain(view, to)
    text = wanted.rstrip("/")
    if text != wanted or (text != source and view.vault.locate(text).is_dir()):
        return f"{text}/{name}" if text else name
    if view.vault.locate(source).is_dir():
        return text
    extension = name[at:] if (at := name.rfind(".")) > 0 else ""
    return text if text.lower().endswith(extension.lower()) else f"{text}{extension}"
