"""Saved sessions: named, exported, imported, compared, deleted. Files are read and written in threads.

To compare two sessions, servers are paired by name; in two sessions of one server each, these two. Requests are paired
by method and parameters, in order: the second `search` for "x" with the second.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from starlette.responses import Response, StreamingResponse

from tidings._kit.bounded_json import as_dict, dumps, in_order
from tidings.inspector.http.context import ApiProblem, Asked, KeptSession, Routes
from tidings.inspector.http.rows import Row, is_index, row_of_record, shown_diff
from tidings.inspector.records import LIST_NAMES, Record
from tidings.inspector.sessions import saved
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import NotASession, export_lines, import_lines
from tidings.inspector.snippets import as_test as as_pytest
from tidings.inspector.view.diffs import diff_values
from tidings.inspector.view.fold import fold_session, replay
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView, SessionView

_LARGEST_IMPORT: Final = 256 * 2**20
_CHUNK: Final = 256 * 1024

ROUTES: Final = Routes("/api/sessions")
T = TypeVar("T")


async def _journal(asked: Asked) -> Journal:
    """Returns the journal, with everything written. Raises `ApiProblem` if sessions are not saved."""
    journal = asked.running.session.journal
    if journal is None or journal.session is None:
        raise ApiProblem(409, "no-journal", "Sessions are not saved.", "Start without --no-journal.")
    await asyncio.to_thread(journal.flush, 2.0)
    return journal


async def _in_thread(run: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(run)
    except saved.JournalUnusable as error:
        message, cure = str(error), "Move the file away. A new one is created then."
        raise ApiProblem(500, "journal", message, cure, who="this program") from None
    except (LookupError, ValueError, OverflowError) as error:
        raise _no_session(str(error)) from None


def _no_session(message: str) -> ApiProblem:
    return ApiProblem(404, "no-such-session", message, "It may have been deleted.")


async def _sessions(journal: Journal) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for each in await _in_thread(lambda: saved.list_sessions(journal.path)):
        facts = found[each.id] = asdict(each)
        facts |= {"id": str(each.id), "name": facts.pop("title"), "current": each.id == journal.session}
    return found


@ROUTES.add("GET")
async def listed(asked: Asked) -> dict[str, Any]:
    """Returns the saved sessions, the newest first."""
    journal = asked.running.session.journal
    if journal is None or journal.session is None:
        notice = "Sessions are not saved, neither this one nor others." if journal is None else journal.notice
        return {"sessions": [], "path": None, "notice": notice}
    found = list((await _sessions(await _journal(asked))).values())
    return {"sessions": found, "path": str(journal.path), "notice": journal.trouble or journal.notice}


@ROUTES.add("POST", "/save")
async def save(asked: Asked) -> dict[str, Any]:
    """Gives the current session a name."""
    journal = await _journal(asked)
    known = journal.session or 0
    title = _title(asked.given.text("name"))
    await _in_thread(lambda: saved.rename_session(journal.path, known, title))
    asked.running.feed.mark_stale("sessions")
    return (await _sessions(journal))[known]


def _title(name: str) -> str:
    """Returns a title that the database can store: without lone surrogates, and not too long."""
    return name[:200].encode(errors="replace").decode()


@ROUTES.add("GET", "/{id:int}/export")
async def export(asked: Asked) -> Response:
    """Returns a session as JSON Lines."""
    journal, known = await _journal(asked), asked.path["id"]
    if known not in await _sessions(journal):
        raise _no_session(f"There is no session {known}.")

    def chunks() -> Iterator[bytes]:
        waiting = bytearray()
        for line in export_lines(saved.read_session(journal.path, known)):
            waiting += line.encode() + b"\n"
            if len(waiting) >= _CHUNK:
                yield bytes(waiting)
                waiting.clear()
        yield bytes(waiting)

    disposition = f'attachment; filename="tidings-session-{known}.jsonl"'
    headers = {"content-disposition": disposition, "cache-control": "no-store"}
    return StreamingResponse(chunks(), media_type="application/jsonl", headers=headers)


@ROUTES.add("POST", "/{id:int}/open")
async def open_kept(asked: Asked) -> dict[str, Any]:
    """Opens a session for requests with `X-Tidings-Session`, as it was after the record number `seq`, or at its end."""
    journal, known = await _journal(asked), asked.path["id"]
    upto = asked.given.number("seq")

    def opened() -> tuple[KeptSession, list[Record]]:
        view, states = SessionView(), dict[str, list[Row]]()
        records = saved.load_session(journal.path, known)
        for record in records:
            if upto is not None and record.seq > upto:
                break
            fold_session(view, record)
            if record.kind == "state" and (server := view.servers.get(record.server)) is not None:
                states.setdefault(record.server, []).append(row_of_record(record, server) or {})
        return KeptSession(view, states), records

    kept, records = await _in_thread(opened)
    asked.inspector.kept = {str(known): kept}
    # Some moments to look back to: enough for a slider.
    step = max(1, len(records) // 1_000)
    moments = [[each.seq, each.at] for each in [*records[::step], *records[-1:]]]
    return {"moments": moments, "records": len(records)}


@ROUTES.add("POST", "/{id:int}/test")
async def as_test(asked: Asked) -> dict[str, Any]:
    """Returns pytest files that send the requests of a session to its servers again."""
    journal, known = await _journal(asked), asked.path["id"]
    view = await _in_thread(lambda: replay(saved.load_session(journal.path, known)))
    files: dict[str, str] = {}
    for name, server in view.servers.items():
        word = "_".join(re.findall("[a-z0-9]+", name.lower())) or "server"
        if any(not each.aside for each in server.requests.values()):
            files[f"test_{word}.py"] = as_pytest(server, f"{word}_answers_as_before")
    return {"files": files}


@ROUTES.add("POST", "/import", _LARGEST_IMPORT)
async def take(asked: Asked) -> dict[str, Any]:
    """Saves a session that was exported elsewhere."""
    path, given = (await _journal(asked)).path, asked.given
    text, name = given.text("text"), given.text("name", "", empty=True)
    try:
        taken = await asyncio.to_thread(imported, path, text, _title(name) or None)
    except NotASession as error:
        raise ApiProblem(400, "not-a-session", f"The text {error}.", "Choose a file that was exported here.") from None
    asked.running.feed.mark_stale("sessions")
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
async def remove(asked: Asked) -> None:
    """Deletes a session, unless it is the current one."""
    journal, known = await _journal(asked), asked.path["id"]
    if known == journal.session:
        raise ApiProblem(409, "session-runs", "This session is running.", "Delete it when it has ended.")
    await _in_thread(lambda: saved.delete_session(journal.path, known))
    asked.running.feed.mark_stale("sessions")


@ROUTES.add("POST", "/compare")
async def compare(asked: Asked) -> dict[str, Any]:
    """Returns the differences between two sessions."""
    journal, names = await _journal(asked), (asked.given.text("a"), asked.given.text("b"))
    for name in names:
        if not is_index(name):
            raise _no_session(f"There is no session {name!r}.")

    def compared() -> dict[str, Any]:
        return compare_sessions(*(replay(saved.load_session(journal.path, int(name))) for name in names))

    return await _in_thread(compared)


_MOST: Final = 200  # Differences of one server that are shown as a diff.
_MOST_ROWS: Final = 2_000  # Requests of one server that are listed. The numbers are those of all.
# Times vary: a request is slower when it took this many times as long, and this many seconds longer.
_SLOWER: Final = 2
_SLOWER_SECONDS: Final = 0.05


def compare_sessions(old: SessionView, new: SessionView) -> dict[str, Any]:
    """Returns the servers of both sessions with their differences, and the names of those that only one has."""
    names = [(name, name) for name in old.servers if name in new.servers]
    if len(old.servers) == len(new.servers) == 1:
        names = list(zip(old.servers, new.servers, strict=True))
    return {
        "servers": [_compare_servers(old.servers[one], new.servers[other]) for one, other in names],
        "only_old": [name for name in old.servers if name not in dict(names)],
        "only_new": [name for name in new.servers if name not in dict(names).values()],
    }


def _compare_servers(old: ServerView, new: ServerView) -> dict[str, Any]:
    facts = {
        name: [before, now]
        for name in ("protocol_version", "server_info", "capabilities", "instructions")
        if (before := getattr(old, name)) != (now := getattr(new, name))
    }
    lists = {name: _compare_lists(getattr(old, name), getattr(new, name)) for name in LIST_NAMES}
    rows = [_compared(*pair) for pair in _paired(old, new)]
    counts = Counter(each["difference"] for each in rows)
    for each in [each for each in rows if "diff" in each][_MOST:]:
        del each["diff"]
    list_differs = any(each["added"] or each["removed"] or each["changed"] for each in lists.values())
    return {
        "name": new.name,
        "same": not facts and not list_differs and set(counts) <= {"same", "slower"},
        "facts": facts,
        "lists": lists,
        # For each request, in the order of the later session; then those of the earlier one alone.
        "requests": rows[:_MOST_ROWS],
        "counts": counts | {"all": len(rows)},
        # For each URI or list: the number of kept changes, old and new. For each error code of a request: likewise.
        "changes": _counts((change.uri or change.change for change in view.changes) for view in (old, new)),
        "errors": _counts((each.error.code for each in view.requests.values() if each.error) for view in (old, new)),
    }


def _compare_lists(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    changed = [name for name in new if name in old and old[name] != new[name]]
    return {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [{"name": each, "diff": shown_diff(diff_values(old[each], new[each]))} for each in changed[:_MOST]],
        "changed_total": len(changed),
    }


def _paired(old: ServerView, new: ServerView) -> list[tuple[RequestView | None, RequestView | None]]:
    """Returns the requests of the user that ended: each with the same one of the other session, if there is one."""

    def ended(view: ServerView) -> Iterator[tuple[str, RequestView]]:
        for request in view.requests.values():
            if not request.aside and request.over:
                params = {key: each for key, each in request.params.items() if key != "_meta"}
                yield request.method + dumps(in_order(params)), request

    waiting: dict[str, list[RequestView]] = {}
    for key, request in ended(old):
        waiting.setdefault(key, []).append(request)
    pairs: list[tuple[RequestView | None, RequestView | None]] = []
    for key, request in ended(new):
        same = waiting.get(key)
        pairs.append((same.pop(0) if same else None, request))
    return [*pairs, *((request, None) for left in waiting.values() for request in left)]


def _answer(request: RequestView) -> Any:
    if request.error is not None:
        return {"error": request.error.code, "message": request.error.message, "payload": request.error.payload}
    result: Any = request.result
    return {key: each for key, each in as_dict(result).items() if key != "_meta"} or result


def _compared(old: RequestView | None, new: RequestView | None) -> dict[str, Any]:
    """Returns a request of both sessions, or of one, with its `difference`, also in words and as a diff."""
    one = cast("RequestView", new or old)
    row: dict[str, Any] = {"method": one.method, "title": one.title, "difference": "same"}
    row |= {
        name: each and {"status": each.status, "took": each.took, "params": each.params}
        for name, each in (("old", old), ("new", new))
    }
    if old is None or new is None:
        return row | {"difference": "only_old" if new is None else "only_new"}
    before, now = _answer(old), _answer(new)
    if old.status != new.status or before != now:
        return row | {"difference": "differs", "words": _outcome(new), "diff": shown_diff(diff_values(before, now))}
    if old.took and new.took and new.took > _SLOWER * old.took and new.took - old.took > _SLOWER_SECONDS:
        return row | {"difference": "slower", "words": f"{new.took / old.took:.1f} times as long"}
    return row


def _outcome(request: RequestView) -> str:
    if request.error is not None:
        return request.error.code
    failed = as_dict(request.result).get("isError") is True
    return "isError" if failed else "" if request.status == "completed" else request.status


def _counts(both: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    old, new = (Counter(each) for each in both)
    return {name: [old[name], new[name]] for name in sorted({*old, *new})}
