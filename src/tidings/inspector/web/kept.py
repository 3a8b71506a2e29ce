"""Kept sessions as the page exports, imports and compares them. All of it runs in threads."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tidings.inspector.compare import ListComparison, RequestPair, ServerComparison, compare
from tidings.inspector.journal import Journal
from tidings.inspector.journal_sessions import load_session, read_session
from tidings.inspector.transfer import export_lines, import_lines, replay
from tidings.inspector.web.diffing import shown_diff
from tidings.inspector.web.rows import request_title

_MOST: Final = 200
"""Items that changed, and requests, that are told of one server. The numbers are those of all."""
_CHUNK: Final = 256 * 1024


def exported(path: Path, session: int) -> Iterator[bytes]:
    """A session as JSON Lines, in pieces worth sending."""
    waiting: list[str] = []
    size = 0
    for line in export_lines(read_session(path, session)):
        waiting.append(line + "\n")
        size += len(line) + 1
        if size >= _CHUNK:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


def imported(path: Path, text: str, title: str | None) -> dict[str, Any]:
    """Keep a session that was exported elsewhere.

    Raises:
        ValueError: It is none.
    """
    found = import_lines(text.splitlines())
    journal = Journal(path, title=title or "imported")
    kept = journal.keep(found.records)
    return {
        "id": None if journal.session is None else str(journal.session),
        "records": kept,
        "passed_over": found.passed_over + len(found.records) - kept,
        "problems": found.problems,
        "notice": journal.notice,
    }


def compared(path: Path, old: int, new: int) -> dict[str, Any]:
    """What is different between two sessions."""
    found = compare(replay(load_session(path, old)), replay(load_session(path, new)))
    return {
        "servers": [_server(each) for each in found.servers],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
    }


def _server(found: ServerComparison) -> dict[str, Any]:
    other = [pair for pair in found.requests if not pair.same]
    return {
        "name": found.name,
        "same": found.same,
        "facts": {name: list(pair) for name, pair in found.facts.items()},
        "lists": {name: _list(each) for name, each in found.lists.items()},
        "requests": {"total": len(found.requests), "different": len(other)},
        "different": [_pair(pair) for pair in other[:_MOST]],
        "only_old": [request_title(each.method, each.params) for each in islice(found.only_old, _MOST)],
        "only_new": [request_title(each.method, each.params) for each in islice(found.only_new, _MOST)],
        "changes": {name: list(pair) for name, pair in found.changes.items()},
        "errors": {name: list(pair) for name, pair in found.errors.items()},
    }


def _list(found: ListComparison) -> dict[str, Any]:
    changed = [{"name": each.name, "diff": shown_diff(each.diff())} for each in found.changed[:_MOST]]
    return {
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": changed,
        "changed_total": len(found.changed),
    }


def _pair(pair: RequestPair) -> dict[str, Any]:
    return {
        "method": pair.method,
        "title": request_title(pair.method, pair.params),
        "params": pair.params,
        "old": {"status": pair.old.status, "took": pair.old.took},
        "new": {"status": pair.new.status, "took": pair.new.took},
        "slower": pair.slower,
        "diff": shown_diff(pair.diff()),
    }
