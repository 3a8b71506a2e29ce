"""`resources/list`, `resources/templates/list` and completions of a vault.

The list begins with the resources of which there is one; then come all files in the order of their paths. A page begins
after the path in the cursor, so pages neither repeat nor skip a file, even if others come and go.

Completions begin with values that start with the typed text; then come values of which a part does (a file's name, a
nested tag), then those that contain it. Case is ignored. Paths for a template have `?`, `#` and `%` encoded.
"""

import re
from datetime import date, timedelta
from typing import Final
from urllib.parse import unquote

import mcp_types as types

from tidings.server.families import MOST_COMPLETIONS, best_first, completion, cursor_after, key_before
from tidings.vault.bases.base import parse_base
from tidings.vault.files.paths import uri
from tidings.vault.notes.model import key
from tidings.vault.resources.addresses import CHOICES, FAMILY
from tidings.vault.resources.render import MARKDOWN, iso, mime_type
from tidings.vault.view import VaultView, daily_dates, local_today

Reference = types.PromptReference | types.ResourceTemplateReference

PAGE: Final = 500
_COMING_DAYS: Final = 31  # Daily notes of the next days may exist already.
_PRIORITY: Final = {"note": 0.5, "canvas": 0.4, "base": 0.4, "attachment": 0.2}
_NOTES: Final = "SELECT path FROM files WHERE kind = 'note'"
_FILES: Final = "SELECT path FROM files"
_BASES: Final = "SELECT path FROM files WHERE kind = 'base'"
_CANVASES: Final = "SELECT path FROM files WHERE kind = 'canvas'"
_OTHERS: Final = "SELECT path FROM files WHERE kind <> 'note'"
_TAGS: Final = "SELECT shown AS path FROM tag_counts"
# Each folder with all that it lies in: some hold folders only.
_FOLDERS: Final = """WITH RECURSIVE above(path) AS (
    SELECT DISTINCT folder FROM files
    UNION
    SELECT rtrim(rtrim(path, replace(path, '/', '')), '/') FROM above WHERE path LIKE '%/%'
) SELECT path FROM above WHERE path <> ''"""
_PATHS: Final = {
    "note": _NOTES,
    "folder": _FOLDERS,
    "backlinks": _FILES,
    "attachment": _OTHERS,
    "base": _BASES,
    "canvas": _CANVASES,
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
    values: list[str] = []
    match argument.name:
        case "path":
            return _paths(view, ref, typed)
        case "tag":
            return _stored(view, _TAGS, typed.lstrip("#"))
        case "date" | "since":
            day = today or local_today()
            days = sorted({day, *daily_dates(view, day + timedelta(_COMING_DAYS))}, reverse=True)
            values = ["today", *map(str, days)]
        case "view":
            path = _clean(((context.arguments if context else None) or {}).get("path", ""))
            found = view.queries.find(unquote(path)) if path else []
            values = [each.name for each in parse_base(view.queries.text(found[0]) or "").views] if found else []
        case name if name in CHOICES:
            values = list(CHOICES[name])
        case _:
            pass
    return completion(best_first(values, typed, key))


def _paths(view: VaultView, ref: Reference, typed: str) -> types.Completion:
    if isinstance(ref, types.PromptReference):
        return _stored(view, _NOTES, typed)
    kind = re.match(r"(?:vault://)?([a-z]*)", ref.uri)
    found = _stored(view, _PATHS.get(kind[1] if kind else "", _FILES), typed)
    return found.model_copy(
        update={"values": [path.replace("%", "%25").replace("?", "%3F").replace("#", "%23") for path in found.values]}
    )


def _stored(view: VaultView, source: str, value: str) -> types.Completion:
    """Completes from the index, ranked by the database."""
    connection = view.queries.connection
    column, plain = "path", value
    if not value.isascii():
        # LIKE knows the cases of ASCII alone.
        connection.create_function("key", 1, key, deterministic=True)
        column, plain = "key(path)", key(value)
    text = re.sub(r"([\\%_])", r"\\\1", plain)
    within = f"%{text}%"
    seen = f"FROM (SELECT path, {column} AS text FROM ({source})) WHERE text LIKE ? ESCAPE '\\'"  # noqa: S608 - texts of our own
    total: int = connection.execute(f"SELECT count(*) {seen}", (within,)).fetchone()[0]
    rank = "CASE WHEN text LIKE ? ESCAPE '\\' THEN 0 WHEN text LIKE ? ESCAPE '\\' THEN 1 ELSE 2 END"
    sql = f"SELECT path {seen} ORDER BY {rank}, path LIMIT ?"
    rows = connection.execute(sql, (within, f"{text}%", f"%/{text}%", MOST_COMPLETIONS))
    return completion([path for (path,) in rows], total)


def _clean(text: str) -> str:
    """Removes lone surrogates, and cuts what is longer than any path."""
    return text[:5000].encode(errors="replace").decode().replace("\0", "\ufffd")
