"""`resources/list`, `resources/templates/list` and completions of a vault.

The list begins with the resources of which there is one; then come all files in the order of their paths. A page begins
after the path in the cursor, so pages neither repeat nor skip a file, even if others come and go.
"""

import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final
from urllib.parse import unquote

import mcp_types as types

from tidings.server.families import best_first, completion, cursor_after, key_before
from tidings.vault.bases.base import parse_base
from tidings.vault.files.paths import uri
from tidings.vault.notes.model import key
from tidings.vault.resources.addresses import CHOICES, FAMILY
from tidings.vault.resources.render import MARKDOWN, iso, mime_type
from tidings.vault.view import VaultView, local_today

Reference = types.PromptReference | types.ResourceTemplateReference

PAGE: Final = 500
_COMING_DAYS: Final = 31  # Daily notes of the next days may exist already.
_PRIORITY: Final = {"note": 0.5, "canvas": 0.4, "base": 0.4, "attachment": 0.2}
_FILES: Final = "SELECT path FROM files"
_TAGS: Final = "SELECT shown AS path FROM tag_counts"
# Each folder with all that it lies in: some hold folders only.
_FOLDERS: Final = """WITH RECURSIVE above(path) AS (
    SELECT DISTINCT folder FROM files
    UNION
    SELECT rtrim(rtrim(path, replace(path, '/', '')), '/') FROM above WHERE path LIKE '%/%'
) SELECT path FROM above WHERE path <> ''"""
_PATHS: Final = {kind: f"{_FILES} WHERE kind = '{kind}'" for kind in ("note", "base", "canvas")} | {
    "folder": _FOLDERS,
    "attachment": f"{_FILES} WHERE kind <> 'note'",
}


def page(view: VaultView, cursor: str | None) -> tuple[list[types.Resource], str | None]:
    """Returns the resources after `cursor`, and the cursor of the next page. Raises `BadCursor`."""
    first = [] if cursor else FAMILY.singles(priority=0.8)
    room = PAGE - len(first)
    rows: list[tuple[str, str, str, int, int]] = view.queries.connection.execute(
        "SELECT path, kind, title, size, mtime FROM files WHERE path > ? ORDER BY path LIMIT ?",
        (key_before(cursor) if cursor else "", room + 1),
    ).fetchall()
    files = [
        types.Resource(
            name=path,
            uri=uri("note" if kind == "note" else "attachment", path),
            title=title,
            mime_type=MARKDOWN if kind == "note" else mime_type(path),
            size=size,
            annotations=types.Annotations(priority=_PRIORITY[kind], last_modified=iso(mtime)),
        )
        for path, kind, title, size, mtime in rows[:room]
    ]
    return first + files, cursor_after(rows[room - 1][0]) if len(rows) > room else None


def complete(
    view: VaultView,
    ref: Reference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None = None,
    *,
    today: date | None = None,
) -> types.Completion:
    """Returns the values that an argument of a prompt or a template may become."""
    typed = _clean(argument.value)
    values: Iterable[str] = ()
    is_template = isinstance(ref, types.ResourceTemplateReference)
    match argument.name:
        case "path":
            kind = re.match(r"(?:vault://)?([a-z]*)", ref.uri) if is_template else None
            values = _stored(view, _PATHS.get(kind[1] if kind else "note", _FILES))
        case "tag":
            typed = typed.lstrip("#")
            values = _stored(view, _TAGS)
        case "date" | "since":
            day = today or local_today()
            days = sorted({day, *view.daily_dates(day + timedelta(_COMING_DAYS))}, reverse=True)
            values = ["today", *map(str, days)]
        case "view":
            path = _clean(((context.arguments if context else None) or {}).get("path", ""))
            found = view.queries.find(unquote(path)) if path else []
            values = [each.name for each in parse_base(view.queries.text(found[0]) or "").views] if found else []
        case name:
            values = CHOICES.get(name, ())
    found = best_first(values, typed, lambda text: key(text).replace("/", " "))
    if argument.name == "path" and is_template:
        found = [path.replace("%", "%25").replace("?", "%3F").replace("#", "%23") for path in found]
    return completion(found)


def _stored(view: VaultView, source: str) -> list[str]:
    return [path for (path,) in view.queries.connection.execute(f"{source} ORDER BY path")]


def _clean(text: str) -> str:
    """Removes lone surrogates, and cuts what is longer than any path."""
    return text[:5000].encode(errors="replace").decode().replace("\0", "\ufffd")
