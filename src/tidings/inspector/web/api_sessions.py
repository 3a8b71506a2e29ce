"""Sessions that were kept: named, exported, imported, compared, deleted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidings.inspector.web.answers import MOST_IMPORTED, Problem, body, endpoint
from tidings.inspector.web.inspector import feed_of, session_of

if TYPE_CHECKING:
    from tidings.inspector.journal_sessions import SavedSession

T = TypeVar("T")


async def listed(request: Request) -> dict[str, Any]:
    """What is kept, the newest first."""
    from tidings.inspector.journal_sessions import list_sessions  # noqa: PLC0415 - the page is served before

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
        raise Problem(409, "no-journal", "No sessions are kept.", "Start without --no-journal.")
    return path


async def _flush(request: Request) -> None:
    journal = session_of(request).journal
    if journal is not None:
        await asyncio.to_thread(journal.flush, 2.0)


async def _doing(run: Callable[[], T]) -> T:
    from tidings.inspector.journal_file import Unusable  # noqa: PLC0415 - likewise

    try:
        return await asyncio.to_thread(run)
    except Unusable as error:
        raise Problem(500, "journal", str(error), "Move the file away; it is made anew.", who="this program") from None
    except (LookupError, ValueError, OverflowError) as error:
        raise Problem(404, "no-such-session", str(error), "It may have been deleted.") from None


async def save(request: Request) -> dict[str, Any]:
    """Give this session a name: named sessions are found again."""
    from tidings.inspector.journal_sessions import list_sessions, rename_session  # noqa: PLC0415 - likewise

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
    from tidings.inspector.journal_sessions import rename_session  # noqa: PLC0415 - likewise

    path, name = _needed(request), (await body(request)).text("name")
    await _doing(lambda: rename_session(path, request.path_params["id"], _title(name)))
    feed_of(request).mark_stale("sessions")


async def export(request: Request) -> Response:
    """A session as JSON Lines."""
    from tidings.inspector.web.kept import exported  # noqa: PLC0415 - likewise

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
    from tidings.inspector.journal_sessions import list_sessions  # noqa: PLC0415 - likewise

    if not any(each.id == known for each in await _doing(lambda: list_sessions(path))):
        raise Problem(404, "no-such-session", f"There is no session {known}.", "It may have been deleted.")


async def take(request: Request) -> dict[str, Any]:
    """Keep a session that was exported elsewhere."""
    from tidings.inspector.transfer import NotASession  # noqa: PLC0415 - likewise
    from tidings.inspector.web.kept import imported  # noqa: PLC0415 - likewise

    path, given = _needed(request), await body(request, MOST_IMPORTED)
    text, name = given.text("text"), given.text("name", "", empty=True)
    try:
        taken = await asyncio.to_thread(imported, path, text, _title(name) or None)
    except NotASession as error:
        message = f"The text {error}."
        raise Problem(400, "not-a-session", message, "Choose a file that was exported here.") from None
    feed_of(request).mark_stale("sessions")
    return taken


async def compare(request: Request) -> dict[str, Any]:
    """What is different between two sessions."""
    from tidings.inspector.web.kept import compared  # noqa: PLC0415 - likewise

    path, given = _needed(request), await body(request)
    await _flush(request)
    a, b = _number(given.text("a")), _number(given.text("b"))
    for each in (a, b):
        await _known(path, each)
    return await _doing(lambda: compared(path, a, b))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Problem(404, "no-such-session", f"There is no session {text!r}.", "It may have been deleted.")
    return int(text)


async def remove(request: Request) -> None:
    """Delete a session. The one that runs stays."""
    from tidings.inspector.journal_sessions import delete_session  # noqa: PLC0415 - likewise

    path, known = _needed(request), request.path_params["id"]
    journal = session_of(request).journal
    if journal is not None and journal.session == known:
        raise Problem(409, "session-runs", "This session runs.", "It can be deleted once it has ended.")
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
