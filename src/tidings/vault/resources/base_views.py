"""Bases as resources: the views of a `.base` file, or of the bases in a note, as Markdown or as rows."""

import hashlib
import math
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any, Final, cast

from tidings.server.families import ResourceMissing
from tidings.vault.bases.base import BaseView, parse_base
from tidings.vault.bases.rows import BaseRow, FailedCell, ViewRows, cell_text
from tidings.vault.bases.values import LooseText
from tidings.vault.index import graph
from tidings.vault.index.queries import FileRow
from tidings.vault.notes.model import key
from tidings.vault.view import VaultView

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*")
_WIDEST: Final = 2000  # Characters of a cell in a table.

ShownView = tuple[str, ViewRows]  # The file of its base, and its rows.


def shown_views(
    view: VaultView, file: FileRow, *, name: str = "", this: str = "", today: date, now: datetime | None = None
) -> list[ShownView]:
    """Returns the views of a base, or of the bases in a note; or the one with a name. Raises `ResourceMissing`.

    Without `now`, the time is the beginning of the day, so that the result depends on the day alone.
    """
    found: list[ShownView] = []
    for path, text, only in _sources(view, file):
        base = parse_base(text)
        timed = now if base.uses - {"today"} else None
        mount, moment = graph.mount_name(view.queries, file.path), timed or datetime.combine(today, time())
        results = view.bases.views(
            view.queries, view.vault, base, mount=mount, this=this or file.path, now=moment, keep=timed is None
        )
        found += [(path, each) for each in results if not only or key(each.view.name) == key(only)]
        if not base.views:
            raise ResourceMissing(f"{path!r} has no views. {' '.join(base.problems)}")
    if not found:
        raise ResourceMissing(f"{file.path!r} is not a base, and contains none.")
    chosen = [each for each in found if not name or key(each[1].view.name) == key(name)]
    if not chosen:
        names = ", ".join(repr(result.view.name) for _, result in found)
        raise ResourceMissing(f"{file.path!r} has no view {name!r}. It has {names}.")
    return chosen


def _sources(view: VaultView, file: FileRow) -> Iterator[tuple[str, str, str]]:
    """Yields the bases of a file: their path, their text, and the only view that is shown, if one is named."""
    text = view.queries.text(file.path) or ""
    if file.kind == "base":
        yield file.path, text, ""
        return
    fence, lines = "", list[str]()
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if not fence and found:
            fence, lines = found[1], [found[2]]
        elif fence and found and not found[2] and found[1].startswith(fence):
            if lines[0] == "base":
                yield file.path, "\n".join(lines[1:]), ""
            fence = ""
        elif fence:
            lines.append(line)
    for link in graph.outgoing(view.queries, file.path):
        if link.embed and link.leads_to and link.leads_to.lower().endswith(".base"):
            yield link.leads_to, view.queries.text(link.leads_to) or "", link.subpath.lstrip("#")


def state(shown: list[ShownView], offset: int, limit: int | None) -> str:
    """Returns a text that differs if the views do, or their rows from `offset` on."""
    digest = hashlib.blake2b(digest_size=16)
    for path, result in shown:
        base = result.base
        columns = [(column.id, base.shown_name(column.id)) for column in result.view.columns]
        sums = [(column, name, cell_text(value)) for column, name, value in result.summaries]
        head = (path, result.view.name, result.view.type, columns, result.total, sums, base.problems, result.problems)
        digest.update(repr(head).encode(errors="replace"))
        digest.update(b"".join(row.digest for row in result.rows[offset:][:limit]))
    return digest.hexdigest()


def as_rows(shown: ShownView, offset: int, limit: int) -> dict[str, Any]:
    """Returns a view as data."""
    path, (base, view, rows, total, summaries, problems) = shown
    shown_rows = [
        {"path": row.path}
        | ({"group": _json(row.group)} if view.group else {})
        | {"values": {name: _json(value) for name, value in _cells(view, row)}}
        for row in rows[offset:][:limit]
    ]
    content = {"base": path, "view": view.name, "type": view.type, "total": total, "shown": len(shown_rows)}
    columns = [{"id": column.id, "name": base.shown_name(column.id)} for column in view.columns]
    sums = [{"column": column, "name": name, "value": _json(value)} for column, name, value in summaries]
    more = {"summaries": sums, "problems": [*base.problems, *problems]}
    content |= {"columns": columns, "rows": shown_rows}
    return content | {name: value for name, value in more.items() if value}


def as_markdown(shown: ShownView, offset: int, limit: int) -> str:
    """Returns a view as a table; one table for each group."""
    path, (base, view, rows, total, summaries, problems) = shown
    page = rows[offset:][:limit]
    count = f"{len(page):,} of {total:,} rows" if len(page) < total else f"{total:,} row{'' if total == 1 else 's'}"
    lines = [f"## {view.name} ({path}, {count})"]
    head = [_cell(base.shown_name(column.id)) for column in view.columns]
    group = None
    for row in page:
        if group != (now := cell_text(row.group)):
            group = now
            lines += ["", f"### {_cell(group) or '(none)'}"] if view.group else []
            lines += [""] if view.type == "list" else ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        cells = [_cell(cell_text(value)) for _, value in _cells(view, row)]
        lines.append(f"- {', '.join(filter(None, cells))}" if view.type == "list" else f"| {' | '.join(cells)} |")
    sums = [f"{name} of {base.shown_name(column)}: {cell_text(value)}" for column, name, value in summaries]
    said = [*base.problems, *(f"view {view.name!r}: {each}" for each in problems)]
    return "\n".join([*lines, *([""] if sums or said else []), *sums, *(f"⚠ {each}" for each in said)]) + "\n"


def _cells(view: BaseView, row: BaseRow) -> Iterator[tuple[str, Any]]:
    for column, value in zip(view.columns, row.cells, strict=True):
        # The app shows the names of notes without their extension.
        bare = isinstance(value, LooseText) and column.id == "file.name"
        yield column.id, value.removesuffix(".md") if bare else value


def _cell(text: str) -> str:
    text = re.sub(r"\s+", " ", text.strip()).replace("|", "\\|")
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _json(value: Any) -> Any:
    match value:
        case FailedCell(why):
            return {"error": why}
        case list():
            return [_json(item) for item in cast("list[Any]", value)]
        case dict():
            return {name: _json(item) for name, item in cast("dict[str, Any]", value).items()}
        case None | bool() | str() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            return cell_text(value)
