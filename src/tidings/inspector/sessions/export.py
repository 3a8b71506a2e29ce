"""Sessions as JSON Lines: exported and imported.

The first line is a header; each other line is a record (`Record.to_line`):

    {"tidings": "session", "version": 1, "servers": ["My vault"], "exported_at": 1794780000.0}
    {"seq": 1, "at": 1794779000.1, "server": "My vault", "kind": "server", "data": {…}}

A line that is not a record is skipped and reported. Secrets were masked when the records were made.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidings._kit.bounded_json import as_dict, as_int, dumps
from tidings.inspector.records import Record
from tidings.inspector.view.view import Clock

VERSION: Final = 1
_MOST_PROBLEMS: Final = 100


class NotASession(ValueError):
    """The text is not an exported session, or one of a later version."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """An imported session."""

    records: list[Record]
    problems: list[str]  # The first hundred lines that were skipped: "line 12: not JSON: …".
    passed_over: int


def export_lines(records: Iterable[Record], *, clock: Clock = time.time) -> Iterator[str]:
    """Yields the lines of a file, without newlines."""
    kept = list(records)
    servers = list(dict.fromkeys(record.server for record in kept))
    yield dumps({"tidings": "session", "version": VERSION, "servers": servers, "exported_at": clock()})
    for record in kept:
        yield record.to_line()


def export_session(records: Iterable[Record], path: Path) -> int:
    """Writes a session to a file that only its owner can read. Returns the number of records."""
    path.touch(mode=0o600)
    lines = -1  # The header is not a record.
    with path.open("w", encoding="ascii", newline="\n") as file:
        for line in export_lines(records):
            file.write(line + "\n")
            lines += 1
    return lines


def import_lines(lines: Iterable[str]) -> ImportedSession:
    """Reads the lines of an exported session. Raises `NotASession` with the reason if they are not."""
    numbered = enumerate(lines, 1)
    try:
        header = as_dict(json.loads(next(numbered, (1, ""))[1]))
    except (ValueError, RecursionError):
        header = {}
    if header.get("tidings") != "session":
        raise NotASession('is not an exported session: its first line should begin {"tidings": "session", …')
    if (version := as_int(header.get("version")) or 0) > VERSION:
        raise NotASession(f"was exported by a later version of Tidings (format {version}; this one knows {VERSION})")
    records: list[Record] = []
    problems: list[str] = []
    passed_over = last = 0
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            record = Record.from_line(line)
            if record.seq <= last:
                raise ValueError(f"its number, {record.seq}, is not above the previous one, {last}")  # noqa: TRY301
        except ValueError as error:
            passed_over += 1
            if len(problems) < _MOST_PROBLEMS:
                problems.append(f"line {number}: {error}")
            continue
        last = record.seq
        records.append(record)
    return ImportedSession(records, problems, passed_over)


def import_session(path: Path) -> ImportedSession:
    """Reads an exported session from a file. Raises `NotASession` or `OSError`."""
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        try:
            return import_lines(file)
        except NotASession as error:
            raise NotASession(f"{path} {error}") from None
