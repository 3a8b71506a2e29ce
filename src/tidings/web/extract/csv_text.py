"""Tables of separated values as tables of markdown. Which character separates them is told by the first rows."""

import csv
from collections.abc import Iterator
from itertools import islice

from tidings.web.extract.charset import as_text
from tidings.web.extract.model import Extracted, ExtractOptions, Warning_
from tidings.web.extract.written import bounded, left_out, table

_SEPARATORS = ",\t;|"
_LOOKED_AT = 20
"""Rows that tell which character separates."""
_LONGEST = 1_000
"""Characters of a cell."""


def read_csv(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """The first rows, and how many there are more."""
    text = as_text(body, charset)
    caps = options.caps
    separator = _separator(text)
    rows: list[list[str]] = []
    total = widest = 0
    cut = False
    for row in _rows(text, separator):
        if not any(cell.strip() for cell in row):
            continue
        total += 1
        widest = max(widest, len(row))
        if len(rows) <= caps.rows:  # The header is no row of its own.
            cut = cut or any(len(cell) > _LONGEST for cell in row)
            rows.append([_cell(cell) for cell in row[: caps.columns]])
    if not rows:
        return Extracted("table", "csv", empty="empty")
    warnings = [left_out("the table", len(rows) - 1, total - 1, "rows")] if total > len(rows) else []
    if widest > caps.columns:
        warnings.append(left_out("the table", caps.columns, widest, "columns"))
    if cut:
        warnings.append(Warning_("truncated", f"cells of the table are cut at {_LONGEST:,} characters"))
    lines = "\n".join("\t".join(" ".join(cell.split()) for cell in row) for row in rows)
    whole, over = bounded(table(rows) if options.keep_tables else lines, caps.characters, "the table")
    short, _ = bounded(lines, caps.characters, "the table")
    return Extracted("table", "csv", whole, short, warnings=(*warnings, *over))


def _cell(cell: str) -> str:
    return cell.strip() if len(cell) <= _LONGEST else cell[:_LONGEST] + "…"


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    # The module has one limit for all: a cell may be as long as its table.
    before = csv.field_size_limit(max(131_072, len(text)))
    try:
        yield from csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=False)
    finally:
        csv.field_size_limit(before)


def _separator(text: str) -> str:
    """The character that parts the first rows into the most columns, and into the same number each."""
    best, most = ",", (0, 0)
    for separator in _SEPARATORS:
        widths = [len(row) for row in islice(_rows(text[:50_000], separator), _LOOKED_AT) if row]
        if widths and max(widths) > 1:
            common = max(set(widths), key=widths.count)
            worth = (widths.count(common) if common > 1 else 0, common)
            if worth > most:
                best, most = separator, worth
    return best
