"""JSON and CSV as readable text, without loss.

JSON is indented; a list of flat objects becomes a table. Numbers stay as they are written. JSON lines are read as one
list. A body that is labelled as JSON and is not is given as it is, with a warning. CSV becomes a Markdown table; the
first rows decide which character separates the cells.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from tidings._kit.bounded_json import NotJson, as_dict, as_list
from tidings.web.extract.html.page import iso_date
from tidings.web.extract.model import Extracted, ExtractOptions, ExtractWarning, bounded, fenced, left_out, table
from tidings.web.extract.sniff import as_text

_WIDTH = 100  # Characters of a list or an object that is written in one line.
_DEEPEST = 40  # Levels of indentation.
# Prefixes with which services keep browsers from running their JSON.
_GUARDS = (")]}',", ")]}'", "while(1);", "for(;;);")
_COLUMNS, _CELL = 20, 300  # The most columns, and characters of a cell, of a list that becomes a table.
_LOOKED_AT = 20  # Rows that decide about the separator.
_LONGEST = 1_000  # Characters of a CSV cell.


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def parsed(text: str) -> Any:
    """Returns the value of JSON. Raises `NotJson`."""
    text = text.strip()
    for guard in _GUARDS:
        text = text.removeprefix(guard)
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, strict=False)
    except RecursionError as error:
        raise NotJson("it is nested too deep") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}: {error.msg}") from error


def written(value: Any) -> str:
    """Returns a value as indented JSON, short lists and objects in one line. Raises `NotJson` if it is too deep."""
    try:
        return "".join(_pieces(value, 0))
    except RecursionError as error:
        raise NotJson("it is nested too deep") from error


def _scalar(value: Any) -> str:
    return str(value) if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if not isinstance(value, dict | list) or not value:
        yield _scalar(value)
        return
    named: list[tuple[str, Any]] = [("", inner) for inner in as_list(cast("object", value))]
    (before, closing) = "[]"
    if isinstance(value, dict):
        named = [(f"{_scalar(key)}: ", inner) for key, inner in cast("dict[str, Any]", value).items()]
        (before, closing) = "{}"
    if (line := _line(named, _WIDTH - 2 * min(depth, _DEEPEST))) is not None:
        yield before + line + closing
        return
    indent = "  " * min(depth + 1, _DEEPEST)
    for key, inner in named:
        yield f"{before}\n{indent}{key}"
        yield from _pieces(inner, depth + 1)
        before = ","
    yield f"\n{indent[2:]}{closing}"


def _line(named: list[tuple[str, Any]], room: int) -> str | None:
    """Returns values in one line, each with what is before it; None if one is nested or the line is too long."""
    parts: list[str] = []
    for key, one in named if len(named) * 3 <= room else ():
        if isinstance(one, dict | list) or (isinstance(one, str) and len(one) > room):
            return None
        parts.append(key + _scalar(one))
        room -= len(parts[-1]) + 2
        if room < 0:
            return None
    return ", ".join(parts) or None


def read_json(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Reads JSON or JSON lines."""
    text = as_text(body, charset)
    if not text.strip():
        return Extracted("data", "json", empty="empty")
    try:
        return _shown("json", parsed(text), options)
    except NotJson as fault:
        lines = [line for line in text.split("\n") if line.strip()]
        with suppress(NotJson):
            if len(lines) > 1 and isinstance(parsed(lines[0]), dict | list):
                return _shown("ndjson", list(map(parsed, lines)), options)
        message = f"it is sent as JSON and cannot be read as that ({fault}): given as it is"
    text, over = bounded(text.strip(), options.caps.characters, "the body")
    warnings = ExtractWarning("extraction_fallback", message), *over
    return Extracted("data", "text", fenced(text), text, warnings=warnings)


def _shown(method: str, value: Any, options: ExtractOptions) -> Extracted:
    about = as_dict(value)
    if (graph := as_list(about.get("@graph"))) and isinstance(graph[0], dict):
        about = cast("dict[str, Any]", graph[0])  # The metadata of JSON-LD is that of its first object.
    whole = written(value) if method == "json" else "\n".join(map(written, as_list(value)))
    text, over = bounded(whole, options.caps.characters, "the JSON")
    rows = _rows(value, options)
    return Extracted(
        kind="data",
        method=method,
        markdown=_table(rows) if rows is not None and not over else fenced(text, "json"),
        text=text,
        title=_said(about, "title", "headline", "name"),
        author=_said(about, "author"),
        published_at=iso_date(_said(about, "datePublished", "published_at", "published") or ""),
        language=_said(about, "inLanguage", "language"),
        description=_said(about, "description", "summary"),
        warnings=over,
    )


def _said(about: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = about.get(key)
        if items := as_list(value):
            value = items[0]
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get("name")
        if isinstance(value, str) and not isinstance(value, Number) and value.strip():
            return " ".join(value.split())[:500]
    return None


def _rows(value: Any, options: ExtractOptions) -> list[list[str]] | None:
    """Returns the rows of a table if the value is a small list of flat objects, else None."""
    objects = as_list(value)
    if not options.keep_tables or not 0 < len(objects) <= options.caps.rows:
        return None
    columns: dict[str, None] = {}
    for one in objects:
        columns.update(dict.fromkeys(as_dict(one)))
        cells = as_dict(one).values()
        nested = any(isinstance(cell, dict | list) or (isinstance(cell, str) and len(cell) > _CELL) for cell in cells)
        if not cells or nested or len(columns) > _COLUMNS:
            return None
    rows = ([one.get(key, "") for key in columns] for one in objects)
    return [list(columns), *([str(cell) if isinstance(cell, str) else _scalar(cell) for cell in row] for row in rows)]


def _table(rows: Sequence[Sequence[str]]) -> str:
    return table([[" ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows])


def read_csv(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Reads separated values: the first rows, and a warning about the rest."""
    text, caps = as_text(body, charset), options.caps
    rows: list[list[str]] = []
    total = widest = 0
    cut = False
    for row in _csv_rows(text, _separator(text)):
        if not any(cell.strip() for cell in row):
            continue
        total += 1
        widest = max(widest, len(row))
        if len(rows) <= caps.rows:  # The header is not counted.
            cut = cut or any(len(cell) > _LONGEST for cell in row)
            kept = row[: caps.columns]
            rows.append([cell.strip() if len(cell) <= _LONGEST else cell[:_LONGEST] + "…" for cell in kept])
    if not rows:
        return Extracted("table", "csv", empty="empty")
    warnings = [left_out("the table", len(rows) - 1, total - 1, "rows")] if total > len(rows) else []
    if widest > caps.columns:
        warnings.append(left_out("the table", caps.columns, widest, "columns"))
    if cut:
        warnings.append(ExtractWarning("truncated", f"cells of the table are cut at {_LONGEST:,} characters"))
    lines = "\n".join("\t".join(" ".join(cell.split()) for cell in row) for row in rows)
    whole, over = bounded(_table(rows) if options.keep_tables else lines, caps.characters, "the table")
    short, _ = bounded(lines, caps.characters, "the table")
    return Extracted("table", "csv", whole, short, warnings=(*warnings, *over))


def _csv_rows(text: str, separator: str) -> Iterator[list[str]]:
    # The limit is global to the module; here a cell may be as long as its table.
    before = csv.field_size_limit(max(131_072, len(text)))
    try:
        yield from csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=False)
    finally:
        csv.field_size_limit(before)


def _separator(text: str) -> str:
    """Returns the character that splits the first rows into the most, and equally many, columns."""
    best, most = ",", (0, 0)
    for separator in ",\t;|":
        widths = [len(row) for row in islice(_csv_rows(text[:50_000], separator), _LOOKED_AT) if row]
        common = max(set(widths), key=widths.count, default=0)
        worth = (widths.count(common) if common > 1 else 0, common)
        if max(widths, default=0) > 1 and worth > most:
            best, most = separator, worth
    return best
