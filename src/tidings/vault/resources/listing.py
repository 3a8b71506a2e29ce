"""`resources/list`, `resources/templates/list` and completions of a vault.

The list begins with the resources of which there is one; then come all files in the order of their paths. A page begins
after the path in the cursor, so pages neither repeat nor skip a file, even if others come and go.

Completions begin with values that start with the typed text; then come values of which a part does (a file's name, a
nested tag), then those that contain it. Case is ignored. Paths for a template have `?`, `#` and `%` encoded.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import chain
from typing import Final

from mcp_types import (
    Annotations,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
)

from tidings.vault.files.paths import uri
from tidings.vault.notes.model import key
from tidings.vault.resources.addresses import FAMILIES
from tidings.vault.resources.shapes import MARKDOWN, iso, mime_type
from tidings.vault.view import VaultView, daily_dates, local_today

PAGE: Final = 500

_PRIORITY: Final = {"note": 0.5, "canvas": 0.4, "base": 0.4, "attachment": 0.2}

STATIC: Final = tuple(
    Resource(
        name=family.kind,
        uri=family.bare,
        title=family.title,
        description=family.description,
        mime_type=family.mime_type,
        annotations=Annotations(priority=0.8),
    )
    for family in FAMILIES.values()
    if not family.about
)
"""The resources of which there is one."""


class BadCursor(ValueError):
    """The cursor was not given by a page."""


def templates() -> list[ResourceTemplate]:
    """Returns the URI templates of all kinds."""
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


def page(view: VaultView, cursor: str | None) -> tuple[list[Resource], str | None]:
    """Returns the resources after `cursor`, or the first ones, and the cursor of the next page.

    Raises `BadCursor` for a cursor that no page gave.
    """
    first = [] if cursor else list(STATIC)
    room = PAGE - len(first)
    rows: list[tuple[str, str, str, int, int]] = view.queries.connection.execute(
        "SELECT path, kind, title, size, mtime FROM files WHERE path > ? ORDER BY path LIMIT ?",
        (_path(cursor) if cursor else "", room + 1),
    ).fetchall()
    resources = first + [resource(*row) for row in rows[:room]]
    return resources, _cursor(rows[room - 1][0]) if len(rows) > room else None


def resource(path: str, kind: str, title: str, size: int, mtime: int) -> Resource:
    """Returns a file of the vault as it is listed."""
    return Resource(
        name=path,
        uri=uri("note" if kind == "note" else "attachment", path),
        title=title,
        mime_type=MARKDOWN if kind == "note" else mime_type(path),
        size=size,
        annotations=Annotations(priority=_PRIORITY[kind], last_modified=iso(mtime)),
    )


def _cursor(path: str) -> str:
    return urlsafe_b64encode(path.encode()).decode()


def _path(cursor: str) -> str:
    try:
        path = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        path = ""
    # Whatever is left out of account when decoding was not in a cursor of ours.
    if not path or _cursor(path) != cursor:
        raise BadCursor("This cursor is none that the list gave. Begin again without one.")
    return path


MOST: Final = 100
"""The largest number of values in a completion."""

_NOTES: Final = "SELECT path FROM files WHERE kind = 'note'"
_FILES: Final = "SELECT path FROM files"
_OTHERS: Final = "SELECT path FROM files WHERE kind <> 'note'"
_TAGS: Final = "SELECT shown AS path FROM tag_counts"
# Each folder with all that it lies in: some hold folders only.
_FOLDERS: Final = """WITH RECURSIVE above(path) AS (
    SELECT DISTINCT folder FROM files
    UNION
    SELECT rtrim(rtrim(path, replace(path, '/', '')), '/') FROM above WHERE path LIKE '%/%'
) SELECT path FROM above WHERE path <> ''"""

_PATHS: Final = {"note": _NOTES, "folder": _FOLDERS, "backlinks": _FILES, "attachment": _OTHERS}


def complete(
    view: VaultView,
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None = None,
    *,
    today: date | None = None,
) -> Completion:
    """Returns the values that the argument may become.

    Args:
        view: The vault.
        ref: The prompt or the template.
        argument: Its name, and the typed text.
        context: The other arguments, if given.
        today: The current date.
    """
    typed = _clean(argument.value)
    others = (context.arguments if context else None) or {}
    match argument.name:
        case "path":
            return _paths(view, ref, typed)
        case "tag":
            return _stored(view, _TAGS, typed.lstrip("#"))
        case "heading":
            return _ranked(_headings(view, _clean(others.get("path", ""))), typed)
        case "date" | "since":
            return _ranked(_dates(view, today or local_today()), typed)
        case "mode":
            return _ranked(["summary", "full"], typed)
        case _:
            return Completion(values=[], total=0, has_more=False)


def _paths(view: VaultView, ref: PromptReference | ResourceTemplateReference, typed: str) -> Completion:
    if isinstance(ref, PromptReference):
        return _stored(view, _NOTES, typed)
    kind = re.match(r"(?:vault://)?([a-z]*)", ref.uri)
    found = _stored(view, _PATHS.get(kind[1] if kind else "", _FILES), typed)
    return found.model_copy(update={"values": [_encoded(path) for path in found.values]})


def _stored(view: VaultView, source: str, value: str) -> Completion:
    """Completes from the index, ranked by the database."""
    connection = view.queries.connection
    column, plain = "path", value
    if not value.isascii():
        # LIKE knows the cases of ASCII alone.
        connection.create_function("key", 1, key, deterministic=True)
        column, plain = "key(path)", key(value)
    text = re.sub(r"([\\%_])", r"\\\1", plain)
    within, first, part = f"%{text}%", f"{text}%", f"%/{text}%"
    seen = f"FROM (SELECT path, {column} AS text FROM ({source})) WHERE text LIKE ? ESCAPE '\\'"  # noqa: S608 - texts of our own
    total: int = connection.execute(f"SELECT count(*) {seen}", (within,)).fetchone()[0]
    values: list[str] = []
    # One after the other: in the order of the paths, which is there already, the first hundred are soon found.
    for wanted, *others in ((first,), (part, first), (within, first, part)):
        if len(values) < min(total, MOST):
            without = " AND NOT text LIKE ? ESCAPE '\\'" * len(others)
            sql = f"SELECT path {seen}{without} ORDER BY path LIMIT ?"
            values += [path for (path,) in connection.execute(sql, (wanted, *others, MOST - len(values)))]
    return Completion(values=values, total=total, has_more=total > len(values))


def _ranked(values: Iterable[str], typed: str) -> Completion:
    wanted = key(typed)
    ranks: Sequence[Callable[[str], bool]] = (
        lambda each: each.startswith(wanted),
        lambda each: f" {wanted}" in each,
        lambda each: wanted in each,
    )
    every = list(dict.fromkeys(values))
    found = list(dict.fromkeys(chain.from_iterable(filter(lambda each: rank(key(each)), every) for rank in ranks)))
    return Completion(values=found[:MOST], total=len(found), has_more=len(found) > MOST)


def _headings(view: VaultView, path: str) -> list[str]:
    match = view.queries.find(path) if path else None
    return [heading.text for heading in view.queries.headings(match.file.path)] if match else []


def _dates(view: VaultView, today: date) -> list[str]:
    """Returns today, then the days that have a note, the newest first."""
    return ["today", *dict.fromkeys(day.isoformat() for day in sorted({today, *daily_dates(view)}, reverse=True))]


def _clean(text: str) -> str:
    """Removes lone surrogates, and cuts what is longer than any path."""
    return text[:5000].encode(errors="replace").decode().replace("\0", "\ufffd")


def _encoded(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
