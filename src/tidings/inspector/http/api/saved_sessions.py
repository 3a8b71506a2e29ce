"""Saved sessions: named, exported, imported, compared, deleted. Files are read and written in threads."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tidings.inspector.http.context import running_of
from tidings.inspector.http.exchange import ApiProblem, Routes, body, is_index
from tidings.inspector.http.rows import request_title, shown_diff
from tidings.inspector.sessions.compare import RequestPair, ServerComparison
from tidings.inspector.sessions.compare import compare as compare_sessions
from tidings.inspector.sessions.export import NotASession, export_lines, import_lines
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import (
    JournalUnusable,
    SavedSession,
    delete_session,
    list_sessions,
    load_session,
    read_session,
    rename_session,
)
from tidings.inspector.view.fold import replay

_LARGEST_IMPORT: Final = 256 * 2**20
_MOST_COMPARED: Final = 200
"""Changed items, and requests, that are listed for one server. The numbers are those of all."""
_CHUNK: Final = 256 * 1024

ROUTES: Final = Routes("/api/sessions")
T = TypeVar("T")


def _journal(request: Request) -> Journal | None:
    return running_of(request).session.journal


def _path(request: Request) -> Path:
    journal = _journal(request)
    if journal is None or journal.session is None:
        raise ApiProblem(409, "no-journal", "Sessions are not saved.", "Start without --no-journal.")
    return journal.path


def _current(request: Request) -> int | None:
    journal = _journal(request)
    return None if journal is None else journal.session


async def _flush(request: Request) -> None:
    journal = _journal(request)
    if journal is not None:
        await asyncio.to_thread(journal.flush, 2.0)


async def _in_thread(run: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(run)
    except JournalUnusable as error:
        message, cure = str(error), "Move the file away. A new one is created then."
        raise ApiProblem(500, "journal", message, cure, who="this program") from None
    except (LookupError, ValueError, OverflowError) as error:
        raise _no_session(str(error)) from None


def _no_session(message: str) -> ApiProblem:
    return ApiProblem(404, "no-such-session", message, "It may have been deleted.")


async def _sessions(path: Path) -> list[SavedSession]:
    return await _in_thread(lambda: list_sessions(path))


async def _check_known(path: Path, known: int) -> None:
    if not any(each.id == known for each in await _sessions(path)):
        raise _no_session(f"There is no session {known}.")


def _facts(request: Request, each: SavedSession) -> dict[str, Any]:
    return {
        "id": str(each.id),
        "name": each.title,
        "began": each.began,
        "last": each.last,
        "ended": each.ended,
        "running": each.running,
        "records": each.records,
        "bytes": each.bytes,
        "servers": list(each.servers),
        "current": each.id == _current(request),
    }


def _title(name: str) -> str:
    """Returns a title that the database can store: without lone surrogates, and not too long."""
    return name[:200].encode(errors="replace").decode()


@ROUTES.add("GET")
async def listed(request: Request) -> dict[str, Any]:
    """Returns the saved sessions, the newest first."""
    journal = _journal(request)
    if journal is None or journal.session is None:
        notice = "Sessions are not saved, neither this one nor others." if journal is None else journal.notice
        return {"sessions": [], "path": None, "notice": notice}
    await _flush(request)
    found = [_facts(request, each) for each in await _sessions(journal.path)]
    return {"sessions": found, "path": str(journal.path), "notice": journal.trouble or journal.notice}


@ROUTES.add("POST", "/save")
async def save(request: Request) -> dict[str, Any]:
    """Gives the current session a name."""
    path, name = _path(request), (await body(request)).text("name")
    current = _current(request) or 0
    await _flush(request)
    await _in_thread(lambda: rename_session(path, current, _title(name)))
    running_of(request).feed.mark_stale("sessions")
    return next(_facts(request, each) for each in await _sessions(path) if each.id == current)


@ROUTES.add("POST", "/{id:int}/rename")
async def rename(request: Request) -> None:
    """Gives a session another name."""
    path, name = _path(request), (await body(request)).text("name")
    await _in_thread(lambda: rename_session(path, request.path_params["id"], _title(name)))
    running_of(request).feed.mark_stale("sessions")


@ROUTES.add("GET", "/{id:int}/export")
async def export(request: Request) -> Response:
    """Returns a session as JSON Lines."""
    path, known = _path(request), request.path_params["id"]
    await _check_known(path, known)
    await _flush(request)
    headers = {
        "content-disposition": f'attachment; filename="tidings-session-{known}.jsonl"',
        "cache-control": "no-store",
    }
    return StreamingResponse(_chunks(path, known), media_type="application/jsonl", headers=headers)


def _chunks(path: Path, session: int) -> Iterator[bytes]:
    waiting: list[str] = []
    size = 0
    for line in export_lines(read_session(path, session)):
        waiting.append(line + "\n")
        size += len(line) + 1
        if size >= _CHUNK:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


@ROUTES.add("POST", "/import")
async def take(request: Request) -> dict[str, Any]:
    """Saves a session that was exported elsewhere."""
    path, given = _path(request), await body(request, _LARGEST_IMPORT)
    text, name = given.text("text"), given.text("name", "", empty=True)
    try:
        taken = await asyncio.to_thread(imported, path, text, _title(name) or None)
    except NotASession as error:
        raise ApiProblem(400, "not-a-session", f"The text {error}.", "Choose a file that was exported here.") from None
    running_of(request).feed.mark_stale("sessions")
    return taken


def imported(path: Path, text: str, title: str | None) -> dict[str, Any]:
    """Saves a session that was exported elsewhere. Raises `NotASession`."""
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


@ROUTES.add("DELETE", "/{id:int}")
async def remove(request: Request) -> None:
    """Deletes a session, unless it is the current one."""
    path, known = _path(request), request.path_params["id"]
    if known == _current(request):
        raise ApiProblem(409, "session-runs", "This session is running.", "Delete it when it has ended.")
    await _check_known(path, known)
    await _in_thread(lambda: delete_session(path, known))
    running_of(request).feed.mark_stale("sessions")


@ROUTES.add("POST", "/compare")
async def compare(request: Request) -> dict[str, Any]:
    """Returns the differences between two sessions."""
    path, given = _path(request), await body(request)
    await _flush(request)
    names = (given.text("a"), given.text("b"))
    for name in names:
        if not is_index(name):
            raise _no_session(f"There is no session {name!r}.")
        await _check_known(path, int(name))
    return await _in_thread(lambda: _compared(path, *map(int, names)))


def _compared(path: Path, old: int, new: int) -> dict[str, Any]:
    found = compare_sessions(replay(load_session(path, old)), replay(load_session(path, new)))
    return {
        "servers": [_server(each) for each in found.servers],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
    }


def _server(found: ServerComparison) -> dict[str, Any]:
    lists = {
        name: {
            "added": list(each.added),
            "removed": list(each.removed),
            "changed": [{"name": item.name, "diff": shown_diff(item.diff())} for item in each.changed[:_MOST_COMPARED]],
            "changed_total": len(each.changed),
        }
        for name, each in found.lists.items()
    }
    different = [pair for pair in found.requests if not pair.same]
    return {
        "name": found.name,
        "same": found.same,
        "facts": {name: list(pair) for name, pair in found.facts.items()},
        "lists": lists,
        "requests": {"total": len(found.requests), "different": len(different)},
        "different": [_pair(pair) for pair in different[:_MOST_COMPARED]],
        "only_old": [request_title(each.method, each.params) for each in found.only_old[:_MOST_COMPARED]],
        "only_new": [request_title(each.method, each.params) for each in found.only_new[:_MOST_COMPARED]],
        "changes": {name: list(pair) for name, pair in found.changes.items()},
        "errors": {name: list(pair) for name, pair in found.errors.items()},
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
