"""Sessions that were kept: named, exported, imported, compared, deleted.

Kept sessions as the page exports, imports and compares them. All of it runs in threads.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidings.inspector.http.context import feed_of, session_of
from tidings.inspector.http.exchange import MOST_IMPORTED, ApiProblem, body, endpoint
from tidings.inspector.http.rows import request_title, shown_diff
from tidings.inspector.sessions.compare import ListComparison, RequestPair, ServerComparison
from tidings.inspector.sessions.compare import compare as compare_sessions
from tidings.inspector.sessions.export import export_lines, import_lines
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import load_session, read_session
from tidings.inspector.view.fold import replay

if TYPE_CHECKING:
    from tidings.inspector.sessions.saved import SavedSession


T = TypeVar("T")


async def listed(request: Request) -> dict[str, Any]:
    """What is kept, the newest first."""
    from tidings.inspector.sessions.saved import list_sessions  # noqa: PLC0415 - the page is served before

    path, journal = _path(request), session_of(request).journal
    if path is None:
        notice = "This session is not kept, and nor is any other." if journal is None else journal.notice
        return {"sessions": [], "path": None, "notice": notice}
    await _flush(request)
    found = await _doing(lambda: list_sessions(path))
    notice = None if journal is None else journal.trouble or journal.notice
    return {"sessions": [_facts(request, each) for each in found], "path": str(path), "notice": notice}


def _facts(request: Request, each: "SavedSession") -> dict[str, Any]:
    journal = session_of(request).journal
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
        "current": journal is not None and journal.session == each.id,
    }


def _path(request: Request) -> Path | None:
    journal = session_of(request).journal
    return None if journal is None or journal.session is None else journal.path


def _needed(request: Request) -> Path:
    path = _path(request)
    if path is None:
        raise ApiProblem(409, "no-journal", "No sessions are kept.", "Start without --no-journal.")
    return path


async def _flush(request: Request) -> None:
    journal = session_of(request).journal
    if journal is not None:
        await asyncio.to_thread(journal.flush, 2.0)


async def _doing(run: Callable[[], T]) -> T:
    from tidings.inspector.sessions.saved import JournalUnusable  # noqa: PLC0415 - likewise

    try:
        return await asyncio.to_thread(run)
    except JournalUnusable as error:
        raise ApiProblem(
            500, "journal", str(error), "Move the file away; it is made anew.", who="this program"
        ) from None
    except (LookupError, ValueError, OverflowError) as error:
        raise ApiProblem(404, "no-such-session", str(error), "It may have been deleted.") from None


async def save(request: Request) -> dict[str, Any]:
    """Give this session a name: named sessions are found again."""
    from tidings.inspector.sessions.saved import list_sessions, rename_session  # noqa: PLC0415 - likewise

    path, name = _needed(request), (await body(request)).text("name")
    journal = session_of(request).journal
    known = None if journal is None else journal.session
    await _flush(request)
    await _doing(lambda: rename_session(path, int(known or 0), _title(name)))
    feed_of(request).mark_stale("sessions")
    found = await _doing(lambda: list_sessions(path))
    return next(_facts(request, each) for each in found if each.id == known)


def _title(name: str) -> str:
    """As a database can keep it: no half characters, and not without end."""
    return name[:200].encode(errors="replace").decode()


async def rename(request: Request) -> None:
    """Give a session another name."""
    from tidings.inspector.sessions.saved import rename_session  # noqa: PLC0415 - likewise

    path, name = _needed(request), (await body(request)).text("name")
    await _doing(lambda: rename_session(path, request.path_params["id"], _title(name)))
    feed_of(request).mark_stale("sessions")


async def export(request: Request) -> Response:
    """A session as JSON Lines."""
    path, known = _needed(request), request.path_params["id"]
    await _known(path, known)
    await _flush(request)
    lines = exported(path, known)
    headers = {
        "content-disposition": f'attachment; filename="tidings-session-{known}.jsonl"',
        "cache-control": "no-store",
    }
    return StreamingResponse(lines, media_type="application/jsonl", headers=headers)


async def _known(path: Path, known: int) -> None:
    from tidings.inspector.sessions.saved import list_sessions  # noqa: PLC0415 - likewise

    if not any(each.id == known for each in await _doing(lambda: list_sessions(path))):
        raise ApiProblem(404, "no-such-session", f"There is no session {known}.", "It may have been deleted.")


async def take(request: Request) -> dict[str, Any]:
    """Keep a session that was exported elsewhere."""
    from tidings.inspector.sessions.export import NotASession  # noqa: PLC0415 - likewise

    path, given = _needed(request), await body(request, MOST_IMPORTED)
    text, name = given.text("text"), given.text("name", "", empty=True)
    try:
        taken = await asyncio.to_thread(imported, path, text, _title(name) or None)
    except NotASession as error:
        message = f"The text {error}."
        raise ApiProblem(400, "not-a-session", message, "Choose a file that was exported here.") from None
    feed_of(request).mark_stale("sessions")
    return taken


async def compare(request: Request) -> dict[str, Any]:
    """What is different between two sessions."""
    path, given = _needed(request), await body(request)
    await _flush(request)
    a, b = _number(given.text("a")), _number(given.text("b"))
    for each in (a, b):
        await _known(path, each)
    return await _doing(lambda: compared(path, a, b))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ApiProblem(404, "no-such-session", f"There is no session {text!r}.", "It may have been deleted.")
    return int(text)


async def remove(request: Request) -> None:
    """Delete a session. The one that runs stays."""
    from tidings.inspector.sessions.saved import delete_session  # noqa: PLC0415 - likewise

    path, known = _needed(request), request.path_params["id"]
    journal = session_of(request).journal
    if journal is not None and journal.session == known:
        raise ApiProblem(409, "session-runs", "This session runs.", "It can be deleted once it has ended.")
    await _known(path, known)
    await _doing(lambda: delete_session(path, known))
    feed_of(request).mark_stale("sessions")


ROUTES: Final = [
    Route("/api/sessions", endpoint(listed)),
    Route("/api/sessions/save", endpoint(save), methods=["POST"]),
    Route("/api/sessions/import", endpoint(take), methods=["POST"]),
    Route("/api/sessions/compare", endpoint(compare), methods=["POST"]),
    Route("/api/sessions/{id:int}/export", endpoint(export)),
    Route("/api/sessions/{id:int}/rename", endpoint(rename), methods=["POST"]),
    Route("/api/sessions/{id:int}", endpoint(remove), methods=["DELETE"]),
]


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
    found = compare_sessions(replay(load_session(path, old)), replay(load_session(path, new)))
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
