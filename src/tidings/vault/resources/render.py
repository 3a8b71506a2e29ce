"""The content of each resource of a vault.

The content depends on the index alone, and not on the time (except for `today`). So it can be compared before and after
a change, to find out which subscribers to notify. Only attachments are read from the disk. A list shows what its
watchers want to know: a folder lists names, not the times of edits. `mode=full` adds the rest.
"""

import hashlib
import json
import mimetypes
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from tidings._kit.files import READING
from tidings._kit.suggest import closest, question
from tidings._kit.text import one_line
from tidings.server.families import BadAddress, ResourceMissing
from tidings.vault.files.journal import JournalEntry
from tidings.vault.files.obsidian import PERIODS
from tidings.vault.files.paths import BadPath, uri
from tidings.vault.files.saves import read_settled
from tidings.vault.index import graph
from tidings.vault.index.queries import FileRow, FolderRow, ListedFiles, TagCount
from tidings.vault.notes.canvas import canvas_outline
from tidings.vault.notes.edits import diff
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import line_starts
from tidings.vault.resources import base_views
from tidings.vault.resources.addresses import JSON, MOST_ITEMS, VaultAddress, parse_address
from tidings.vault.search.query import BadQuery
from tidings.vault.search.search import search as find
from tidings.vault.view import IndexStatus, VaultView, hidden_from_search, local_today

Json = dict[str, Any]
T = TypeVar("T")

LARGEST: Final = 10_000_000  # The largest attachment that is sent, in bytes.
_MOST: Final = 500  # The largest number of headings, links and so on in a summary.
_LEVELS: Final = 3  # The depth of the tree of folders.
_LINES, _LINES_FULL = 2, 10  # The number of matching lines of a file that are shown.
_LONGEST_DIFF: Final = 8_000  # Characters that are shown of what one write has changed.
_LINE: Final = 400  # The number of characters that are shown of a line with a link.
_NAMES: Final = 100  # The number of notes of one folder that are named in the tree.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MARKDOWN: Final = "text/markdown"
# Types that Obsidian knows and not every Python does.
_KNOWN: Final = (
    {".avif": "image/avif", ".heic": "image/heic", ".webp": "image/webp", ".webm": "video/webm"}
    | {".flac": "audio/flac", ".m4a": "audio/mp4", ".ogg": "audio/ogg", ".opus": "audio/ogg"}
    | {".canvas": JSON, ".md": MARKDOWN, **dict.fromkeys((".base", ".yaml", ".yml"), "application/yaml")}
)
_TEXTS: Final = frozenset({JSON, "application/javascript", "application/xml", "application/yaml", "image/svg+xml"})


class ResourceTooLarge(ValueError):
    """The content is too large to be sent."""


class RenderedResource(NamedTuple):
    """The content of a resource: a text, or bytes."""

    mime_type: str
    text: str | None
    data: bytes | None = None


def find_file(view: VaultView, text: str) -> FileRow:
    """Returns the file for a path as users write it. Raises `ResourceMissing`."""
    paths = view.queries.find(text)
    if file := view.queries.file(paths[0]) if paths else None:
        return file
    raise ResourceMissing(f"There is no file {text!r} in the vault.", text)


def find_note(view: VaultView, address: VaultAddress, today: date) -> FileRow:
    """Returns the note of an address, by its path or by its day. Raises `ResourceMissing`."""
    if address.kind in PERIODS:
        day = today if address.argument == "today" else date.fromisoformat(address.argument)
        if found := view.periodic_note(day, address.kind):
            return found
        places = " or ".join(map(repr, view.periodic_places(day, address.kind)))
        raise ResourceMissing(f"There is no {address.kind} note of {day}. It would be {places}.")
    file = find_file(view, address.argument)
    if file.kind != "note":
        raise ResourceMissing(f"{file.path!r} is not a note. Read {uri('attachment', file.path)}.")
    return file


def attachment(view: VaultView, file: FileRow) -> RenderedResource:
    """Returns a file as it is on the disk, as text if possible. Raises `ResourceMissing` or `ResourceTooLarge`."""
    if file.kind == "note":
        return RenderedResource(MARKDOWN, _text(view, file))
    try:
        place = view.vault.locate(file.path)
        data, _ = read_settled(lambda: os.open(place, READING), file.path, LARGEST)
    except BadPath as error:
        raise ResourceMissing(str(error)) from error
    except OverflowError as error:
        size = f"{error.args[0]:,} bytes. At most {LARGEST:,} are sent: open it on the disk."
        raise ResourceTooLarge(f"{file.path!r} has {size}") from error
    except OSError as error:
        away = " The vault cannot be reached at present." if view.status.phase == "away" else ""
        raise ResourceMissing(f"{file.path!r} cannot be read: {error.strerror}.{away}") from error
    kind = mime_type(file.path)
    if kind.startswith("text/") or kind in _TEXTS:
        try:
            return RenderedResource(kind, data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass  # Whoever asked can see what to make of the bytes.
    return RenderedResource(kind, None, data)


def details(view: VaultView, file: FileRow) -> Json:
    """Returns what `mode=full` adds to a file in a list."""
    more: Json = {"modified": iso(file.mtime), "size": file.size}
    if file.kind == "note":
        more |= {"words": file.words, "tags": view.queries.tags_of(file.path), "properties": file.properties}
    # Whether an attachment was hashed depends on how many came at once.
    version = None if file.kind == "attachment" else file.hash
    return more | _if_any(version=version, problem=file.problem)


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
        "links": [
            {"target": link.target + link.subpath, "path": link.leads_to, "line": link.line}
            | ({"embed": True} if link.embed else {})
            for link in graph.outgoing(queries, path, _MOST)
        ],
        "tasks": [task._asdict() for task in queries.tasks(path, _MOST)],
    }
    totals = {"tags": len(tags)} | {table: queries.count(table, path) for table in ("headings", "links", "tasks")}
    left_out = {name: total - _MOST for name, total in totals.items() if total > _MOST}
    about = {"path": path, "title": file.title, **_if_any(aliases=queries.aliases(path), problem=file.problem)}
    about |= {"version": file.hash, "modified": iso(file.mtime), "size": file.size, "words": file.words}
    return {**about, "properties": file.properties, **lists, **_if_any(left_out=left_out)}


def _if_any(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value}


def _recent(view: VaultView, address: VaultAddress) -> Json:
    queries = view.queries
    total: int = queries.connection.execute("SELECT count(*) FROM files WHERE kind <> 'attachment'").fetchone()[0]
    items = [
        {"path": file.path, "title": file.title, "modified": iso(file.mtime)}
        | (details(view, file) if address.full else {})
        for file in queries.recent(_size(address), address.offset)
    ]
    return listed(address, {}, total, items)


def _stats(view: VaultView, address: VaultAddress) -> Json:
    """Returns the counts of the vault. Words change with nearly every edit, so they are shown only in `mode=full`."""
    counts = view.queries.stats(sums=address.full)
    tasks = {"open": counts.pop("tasks_open"), "done": counts.pop("tasks_done")}
    sums = {name: counts.pop(name) for name in ("words", "size") if address.full}
    names = [mount.name for mount in view.vault.mounts if mount.name]
    content: Json = _if_any(vaults=names) | counts | {"tasks": tasks}
    if address.full:
        uses = islice(view.queries.properties_in_use().items(), MOST_ITEMS)
        content |= sums | {"properties": [{"name": name, "notes": notes} for name, notes in uses]}
    return content


def _tags(view: VaultView, address: VaultAddress) -> Json:
    """Returns all tags, the most used first. Notes with a nested tag count for the outer one too."""

    def item(tag: TagCount) -> Json:
        return {"tag": tag.shown, "notes": tag.total} | ({"itself": tag.notes} if address.full else {})

    return paged(address, {}, sorted(view.queries.tags(), key=lambda tag: (-tag.total, tag.key)), item)


def _structure(view: VaultView, address: VaultAddress) -> Json:
    """Returns the folders, each followed by its subfolders, with the numbers of folders in it and of notes below it."""
    every = view.queries.structure()
    inner = Counter(folder.path.rpartition("/")[0] for folder in every if "/" in folder.path)
    shown = [folder for folder in every if address.full or folder.path.count("/") < _LEVELS]

    def item(folder: FolderRow) -> Json:
        counts = {"folders": inner[folder.path], "notes": folder.notes, "files": folder.files}
        return {"folder": folder.path, **counts} | (_names(view, folder.path) if address.full else {})

    return paged(address, _names(view, "") if address.full else {"levels": _LEVELS}, shown, item)


def _folder(view: VaultView, address: VaultAddress) -> Json:
    found = view.queries.folder(address.argument)
    if found is None:
        raise ResourceMissing(f"There is no folder {address.argument!r} in the vault.", address.argument)

    def item(each: FolderRow | ListedFiles) -> Json:
        if isinstance(each, FolderRow):
            return {"folder": each.path, "notes": each.notes}
        return _file(view, each, address)

    return paged(address, {"folder": found.path}, [*found.folders, *found.files], item)


def _tag(view: VaultView, address: VaultAddress) -> Json:
    """Returns the notes with a tag, or one nested in it. A tag without notes is an empty list, as in a search."""
    found = view.queries.tag(address.argument)
    if found is None:
        return listed(address, {"tag": address.argument}, 0, [])
    rows = view.queries.with_tag(found.key, _size(address), address.offset)
    return listed(address, {"tag": found.shown}, found.total, [_file(view, row, address) for row in rows])


def _backlinks(view: VaultView, address: VaultAddress) -> Json:
    """Returns the links to a file, in the order of the notes that have them. Raises `ResourceMissing`."""
    file = find_file(view, address.argument)
    every = graph.backlinks(view.queries, file.path)
    items: list[Json] = []
    for link in graph.with_lines(view.queries, every[address.offset :][: _size(address)]):
        source = view.queries.file(link.source) if address.full else None
        item: Json = {"path": link.source, "line": link.line, "text": one_line(link.text, _LINE + 1)}
        items.append(item | (details(view, source) if source else {}))
    return listed(address, {"path": file.path}, len(every), items)


def _near(view: VaultView, address: VaultAddress) -> Json:
    path = find_file(view, address.argument).path
    every = graph.neighbourhood(view.queries, path, int(dict(address.choices).get("depth", "1")))

    def item(near: graph.Neighbour) -> Json:
        return {name: value for name, value in near._asdict().items() if value != path}

    return paged(address, {"path": path}, every, item)


def _hubs(view: VaultView, address: VaultAddress) -> Json:
    return paged(address, {}, graph.hubs(view.queries), lambda hub: {"path": hub[0], "linked_from": hub[1]})


def _search(view: VaultView, address: VaultAddress) -> Json:
    """Returns the results of a search, newest first: this order changes only with them. Raises `BadAddress`."""
    matches, hidden = _LINES_FULL if address.full else _LINES, hidden_from_search(view.vault)
    page = partial(find, view.queries, address.argument, limit=_size(address), offset=address.offset)
    try:
        found = page(sort="modified", matches=matches, hidden=hidden)
    except BadQuery as error:
        raise BadAddress(str(error)) from error
    items: list[Json] = []
    for hit in found.hits:
        file = view.queries.file(hit.path) if address.full else None
        item: Json = {"path": hit.path, "lines": [match._asdict() for match in hit.matches]}
        items.append(item | ({"matching": hit.lines} | details(view, file) if file else {}))
    about = {"query": address.argument, **_if_any(problem=found.problem), **({} if found.exact else {"exact": False})}
    return listed(address, about, found.total, items)


def _history(view: VaultView, address: VaultAddress) -> Json:
    def item(entry: JournalEntry) -> Json:
        state = {"state": entry.state} if entry.state in ("undone", "recovered") else {}
        changed = _changed(entry) if address.full else {}
        return {"id": entry.id, "at": iso(round(entry.at * 1e9)), "did": entry.did} | state | changed

    return paged(address, {}, list(view.journal.entries()), item)


def _changed(entry: JournalEntry) -> Json:
    """Returns the differences that a write has made, as far as they are not too long."""
    try:
        steps = entry.steps()
    except (OSError, ValueError):
        return {"diff": "It is no longer known."}
    texts: list[str] = []
    room = _LONGEST_DIFF
    for step in steps:
        before, after = (data.decode("utf-8-sig", "replace") for data in (step.before or b"", step.after))
        text = f"{step.path} → {step.to}" if step.to else diff(before, after, step.path)
        if len(text) > room:
            texts.append(f"… {len(steps) - len(texts):,} more, or longer, are left out.")
            break
        room -= len(text)
        texts.append(text)
    return {"diff": "\n".join(texts)}


def base(view: VaultView, address: VaultAddress, today: date) -> RenderedResource | Json:
    """Returns the views of a base, or of those in a note. Raises `ResourceMissing`."""
    now = datetime.combine(today, datetime.now().time())  # noqa: DTZ005 - local
    shown = _shown_views(view, address, today, now)
    page = address.offset, _size(address)
    if ("format", "json") in address.choices:
        return {"path": address.argument, "views": [base_views.as_rows(each, *page) for each in shown]}
    text = "\n".join(base_views.as_markdown(each, *page) for each in shown)
    return RenderedResource(MARKDOWN, "\n".join(filter(None, [view.status.standing, text])))


def _shown_views(
    view: VaultView, address: VaultAddress, today: date, now: datetime | None = None
) -> list[base_views.ShownView]:
    choices = dict(address.choices)
    this = find_file(view, choices["this"]).path if "this" in choices else ""
    file = find_file(view, address.argument)
    return base_views.shown_views(view, file, name=choices.get("view", ""), this=this, today=today, now=now)


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


_LISTS: Final[dict[str, Callable[[VaultView, VaultAddress], Json]]] = {
    each.__name__.removeprefix("_"): each
    for each in (_history, _recent, _stats, _tags, _structure, _folder, _tag, _backlinks, _search, _hubs)
} | {"neighbourhood": _near}


def render(view: VaultView, uri: str, *, today: date | None = None) -> RenderedResource:
    """Returns the content at a URI. Raises `BadAddress`, `ResourceMissing` with close names, or `ResourceTooLarge`."""
    address = parse_address(uri)
    try:
        content = _content(view, address, today or local_today())
    except ResourceMissing as missing:
        if missing.wanted is None:
            raise
        if address.kind == "folder":
            folders = [folder.path for folder in view.queries.structure()]
            near = closest(missing.wanted, folders, most=5, cutoff=0.5, key=key, among=len(folders))
        else:
            near = view.queries.near(missing.wanted)
        raise ResourceMissing(f"{missing}{question(near)}") from None
    if isinstance(content, RenderedResource):
        return content
    return RenderedResource(JSON, written(caveat(view.status) | content))


def fingerprint(view: VaultView, uri: str, *, today: date | None = None) -> str:
    """Returns a text that differs if `render` does (but for the index's progress), or an empty one. Never raises."""
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
    """Returns the version of a whole file without reading it. None for everything else."""
    if address.kind in ("attachment", "canvas"):
        file = find_file(view, address.argument)
        return file.hash or f"{file.path}\0{file.size}\0{file.mtime}"
    if address.kind == "base":
        return base_views.state(_shown_views(view, address, today), address.offset, address.limit)
    if address.kind in ("note", *PERIODS) and address.mode != "summary" and address.page is None and not address.offset:
        return find_note(view, address, today).hash or ""
    return None


def _content(view: VaultView, address: VaultAddress, today: date) -> RenderedResource | Json:
    match address.kind:
        case kind if kind in ("note", *PERIODS):
            file = find_note(view, address, today)
            if address.mode == "summary":
                return _summary(view, file)
            text = _text(view, file)
            if address.offset or address.page is not None:
                starts = line_starts(text)
                first = min(address.offset, len(starts) - 1)
                last = len(starts) - 1 if address.page is None else min(first + address.page, len(starts) - 1)
                text = text[starts[first] : starts[last]]
            return RenderedResource(MARKDOWN, text)
        case "canvas":
            file = find_file(view, address.argument)
            if file.kind != "canvas":
                raise ResourceMissing(f"{file.path!r} is no canvas.")
            return RenderedResource(MARKDOWN, canvas_outline(attachment(view, file).text or ""))
        case "attachment":
            return attachment(view, find_file(view, address.argument))
        case "base":
            return base(view, address, today)
        case kind:
            return _LISTS[kind](view, address)


def listed(address: VaultAddress, about: Json, total: int, items: list[Json]) -> Json:
    """Returns one page of a list. `items` are those of the page alone."""
    end = address.offset + len(items)
    following = {"next": address._replace(offset=end).uri} if items and end < total else {}
    return {**about, "total": total, "shown": len(items), **following, "items": items}


def paged(address: VaultAddress, about: Json, every: Sequence[T], item: Callable[[T], Json]) -> Json:
    """Returns one page of a list of `every`, each written by `item`."""
    return listed(address, about, len(every), list(map(item, every[address.offset :][: _size(address)])))


def caveat(status: IndexStatus) -> Json:
    """Returns a warning for content that may be incomplete."""
    if status.phase in ("away", "blocked"):
        return {status.phase: status.standing}
    if status.partial:
        done, total = status.progress
        return {"partial": {"indexed": done, "of": total}}
    return {}


def written(content: Json) -> str:
    """Returns JSON with one line for each member, and for each item of a list of objects."""
    members: list[str] = []
    for name, value in content.items():
        match value:
            case [{}, *_]:
                text = "[\n  " + ",\n  ".join(map(_compact, value)) + "\n ]"
            case _:
                text = _compact(value)
        members.append(f" {_compact(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}"


def iso(nanoseconds: int) -> str:
    """Returns a time as ISO 8601, in UTC."""
    when = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def mime_type(path: str) -> str:
    """Returns the content type of a file, by its name."""
    _, dot, ending = path.rpartition("/")[2].lower().rpartition(".")
    if known := _KNOWN.get(f".{ending}") if dot else None:
        return known
    guessed, packed = mimetypes.guess_type(f"x.{ending}", strict=False) if dot else (None, None)
    return guessed if guessed and not packed else "application/octet-stream"
