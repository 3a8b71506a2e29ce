"""JSON as text that can be read: an outline of its keys, and the whole, indented; lists of flat objects as tables.

JSON lines are read as one list. What is no JSON, whatever its label says, is given as it came, with a warning.
"""

from collections.abc import Iterator
from typing import Any, cast

from tidings.web.extract.charset import as_text
from tidings.web.extract.json_values import NotJson, Number, parsed, scalar, written
from tidings.web.extract.metadata import iso_date
from tidings.web.extract.model import Extracted, ExtractOptions, Warning_
from tidings.web.extract.written import bounded, fenced, table

_COLUMNS, _CELL = 20, 300
"""What a table of objects may have to be written as one."""
_LONG = 40
"""Lines from which on an outline helps."""
_OUTLINED, _LEVELS, _KEYS = 60, 3, 20
"""Lines of an outline, its levels, and the keys that are named of objects in lists."""


def read_json(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Any JSON."""
    text = as_text(body, charset)
    if not text.strip():
        return Extracted("data", "json", empty="empty")
    try:
        return _shown("json", parsed(text), options)
    except NotJson as fault:
        lines = text.strip().split("\n")
        return _lines(lines, options) if len(lines) > 1 and _is_json(lines[0]) else _as_it_came(text, fault, options)


def read_json_lines(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """A value on each line, or behind each record separator."""
    text = as_text(body, charset).replace("\x1e", "")
    if not text.strip():
        return Extracted("data", "ndjson", empty="empty")
    return _lines(text.strip().split("\n"), options)


def _lines(lines: list[str], options: ExtractOptions) -> Extracted:
    try:
        return _shown("ndjson", [parsed(line) for line in lines if line.strip()], options)
    except NotJson as fault:
        return _as_it_came("\n".join(lines), fault, options)


def _is_json(line: str) -> bool:
    try:
        return isinstance(parsed(line), dict | list)
    except NotJson:
        return False


def _as_it_came(text: str, fault: NotJson, options: ExtractOptions) -> Extracted:
    text, over = bounded(text.strip(), options.caps.characters, "the body")
    warning = Warning_(
        "extraction_fallback", f"it is sent as JSON and cannot be read as that ({fault}): given as it is"
    )
    return Extracted("data", "text", fenced(text), text, warnings=(warning, *over))


def _shown(method: str, value: Any, options: ExtractOptions) -> Extracted:
    about = _about(value)
    if method == "json" or not isinstance(value, list):
        whole = written(value)
    else:
        whole = "\n".join(map(written, cast("list[Any]", value)))
    text, over = bounded(whole, options.caps.characters, "the JSON")
    rows = _rows(value, options)
    if rows is not None and not over:
        markdown = table(rows)
    else:
        outline = "\n".join(_outline(value)) if text.count("\n") >= _LONG else ""
        markdown = f"{outline}\n\n{fenced(text, 'json')}".strip()
    return Extracted(
        kind="data",
        method=method,
        markdown=markdown,
        text=text,
        title=_said(about, "title", "headline", "name"),
        author=_said(about, "author"),
        published_at=iso_date(_said(about, "datePublished", "published_at", "published") or ""),
        modified_at=iso_date(_said(about, "dateModified", "updated_at", "modified") or ""),
        language=_said(about, "inLanguage", "language"),
        description=_said(about, "description", "summary"),
        warnings=over,
    )


def _about(value: Any) -> dict[str, Any]:
    """The object that the JSON is about: itself, or the first of a JSON-LD graph."""
    if not isinstance(value, dict):
        return {}
    found = cast("dict[str, Any]", value)
    graph = found.get("@graph")
    if isinstance(graph, list) and graph and isinstance(graph[0], dict):
        return cast("dict[str, Any]", graph[0])
    return found


def _said(about: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = about.get(key)
        if isinstance(value, list) and value:
            value = cast("list[Any]", value)[0]
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get("name")
        if isinstance(value, str) and not isinstance(value, Number) and value.strip():
            return " ".join(value.split())[:500]
    return None


def _rows(value: Any, options: ExtractOptions) -> list[list[str]] | None:
    """The rows of a table, if the value is a small list of flat objects."""
    if (
        not options.keep_tables
        or not isinstance(value, list)
        or not 0 < len(cast("list[Any]", value)) <= options.caps.rows
    ):
        return None
    columns: dict[str, None] = {}
    for one in cast("list[Any]", value):
        if not isinstance(one, dict) or not one:
            return None
        columns.update(dict.fromkeys(cast("dict[str, Any]", one)))
        if len(columns) > _COLUMNS or any(_is_large(cell) for cell in cast("dict[str, Any]", one).values()):
            return None
    objects = cast("list[dict[str, Any]]", value)
    return [list(columns), *([_cell(one[key]) if key in one else "" for key in columns] for one in objects)]


def _is_large(cell: Any) -> bool:
    return isinstance(cell, dict | list) or (isinstance(cell, str) and len(cell) > _CELL)


def _cell(value: Any) -> str:
    return str(value) if isinstance(value, str) else scalar(value)


def _outline(value: Any) -> list[str]:
    lines: list[str] = []
    for line in _keys(value, 0):
        if len(lines) == _OUTLINED:
            lines.append("- …")
            break
        lines.append(line)
    return lines


def _keys(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, list) and depth == 0:
        yield f"- {_described(cast('Any', value))}"
    if not isinstance(value, dict) or depth == _LEVELS:
        return
    for key, inner in cast("dict[str, Any]", value).items():
        yield f"{'  ' * depth}- `{' '.join(key.replace('`', chr(39)).split())[:100]}`: {_described(inner)}"
        yield from _keys(inner, depth + 1)


def _described(value: Any) -> str:
    """What sort of value it is, in words."""
    if isinstance(value, dict):
        return f"object of {len(cast('dict[str, Any]', value)):,} keys"
    if isinstance(value, list):
        inner = cast("list[Any]", value)
        keys = dict.fromkeys(key for one in inner[:100] if isinstance(one, dict) for key in cast("dict[str, Any]", one))
        named = ", ".join(f"`{' '.join(key.replace('`', chr(39)).split())[:100]}`" for key in list(keys)[:_KEYS])
        return f"list of {len(inner):,}" + (f" with {named}" + (", …" if len(keys) > _KEYS else "") if named else "")
    if isinstance(value, Number):
        return "number"
    return "null" if value is None else "text" if isinstance(value, str) else "true or false"
