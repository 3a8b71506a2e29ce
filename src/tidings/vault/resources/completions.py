"""What a client may offer while somebody types the argument of a resource template or a prompt.

What begins with the typed text comes first, then that of which a part does (a folder's or file's name, a tag within
another), then that which holds it anywhere. Upper and lower case are the same. A path for a template is written so that
the template gives its URI: `?`, `#` and `%` are encoded.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import chain
from typing import Final

from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from tidings.vault.files.paths import key
from tidings.vault.resources.dailies import daily_dates, local_today
from tidings.vault.view import View

MOST: Final = 100
"""How many values a completion may have."""

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
    view: View,
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None = None,
    *,
    today: date | None = None,
) -> Completion:
    """What the argument may become, of which some has been typed.

    Args:
        view: The vault.
        ref: Whose argument it is.
        argument: Its name, and what has been typed.
        context: The other arguments, if some are given already.
        today: The date, to be completed as one.
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


def _paths(view: View, ref: PromptReference | ResourceTemplateReference, typed: str) -> Completion:
    if isinstance(ref, PromptReference):
        return _stored(view, _NOTES, typed)
    kind = re.match(r"(?:vault://)?([a-z]*)", ref.uri)
    found = _stored(view, _PATHS.get(kind[1] if kind else "", _FILES), typed)
    return found.model_copy(update={"values": [_encoded(path) for path in found.values]})


def _stored(view: View, source: str, value: str) -> Completion:
    """What the index has, ranked by the database: it may be a lot."""
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


def _headings(view: View, path: str) -> list[str]:
    match = view.queries.find(path) if path else None
    return [heading.text for heading in view.queries.headings(match.file.path)] if match else []


def _dates(view: View, today: date) -> list[str]:
    """Today, then the days that have a note, the last one first."""
    return ["today", *dict.fromkeys(day.isoformat() for day in sorted({today, *daily_dates(view)}, reverse=True))]


def _clean(text: str) -> str:
    """What can be looked for: no halves of characters, and nothing that is longer than any path."""
    return text[:5000].encode(errors="replace").decode().replace("\0", "\ufffd")


def _encoded(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
