"""The session as a whole: entering, hello, snapshot, rows, the stream, one record."""

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._version import __version__
from tidings.inspector.web.answers import Problem, answered, body, endpoint, number_of
from tidings.inspector.web.inspector import feed_of, of, saved_of, session_of

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView
    from tidings.inspector.web.feed import Feed

MOST_ROWS: Final = 20_000


async def enter(request: Request) -> Response:
    """Trade the token for a cookie and a key."""
    key = of(request).key
    if not key.opens((await body(request, 4096)).values.get("token")):
        return Response(status_code=401, headers={"cache-control": "no-store"})
    answer = answered({"key": key.word})
    answer.headers["set-cookie"] = key.cookie
    return answer


async def hello(request: Request) -> dict[str, Any]:
    """Whether there is a session yet, and which program this is."""
    inspector = of(request)
    servers = inspector.servers
    return {
        "version": __version__,
        "seq": 0 if inspector.feed is None else inspector.feed.seq,
        "ready": inspector.ready,
        "now": time.time(),
        "catalog": {"path": None, "read_only": True} if servers is None else servers.where,
        "tour": inspector.guide is not None,
        "error": inspector.failure,
    }


async def snapshot(request: Request) -> dict[str, Any]:
    """What is known now. The stream goes on from `seq`."""
    session, feed = session_of(request), feed_of(request)
    return {
        "seq": feed.seq,
        "now": time.time(),
        "servers": [feed.facts(view) for view in session.view.servers.values()],
        "saved": saved_of(request).all(),
    }


async def rows(request: Request) -> dict[str, Any]:
    """What happened, as far as it is kept, oldest first."""
    after = number_of(request, "after", 0)
    limit = min(max(number_of(request, "limit", MOST_ROWS), 1), MOST_ROWS)
    session, feed = session_of(request), feed_of(request)
    each = [_kept(view, feed, after) for view in session.view.servers.values()]
    found = [make() for _, make in islice(heapq.merge(*each, key=lambda pair: pair[0]), limit)]
    more = len(found) == limit
    return {"rows": found, "to": found[-1][0] if more else max(after, feed.seq), "more": more}


def _kept(view: "ServerView", feed: "Feed", after: int) -> Iterator[tuple[int, Any]]:
    """The rows of a server, each with its `seq` and made when it is asked for."""
    from tidings.inspector.web import rows as make  # noqa: PLC0415 - the page is served before this is needed

    requests = sorted((each for each in view.requests.values() if each.seq > after), key=lambda each: each.seq)
    kinds: list[tuple[Iterable[Any], Any]] = [
        (view.changes.since(after), make.change_row),
        (view.messages.since(after), make.message_row),
        (view.notifications.since(after), make.notification_row),
        (view.logs.since(after), make.log_row),
        (view.stderr.since(after), make.line_row),
        (view.exchanges.since(after), make.exchange_row),
        (requests, make.request_row),
    ]
    made = [_making(view.name, items, row) for items, row in kinds]
    kept = [_there(rows, after) for rows in (feed.states(view.name), feed.contents(view.name))]
    return heapq.merge(*made, *kept, key=lambda pair: pair[0])


def _making(server: str, items: Iterable[Any], row: Any) -> Iterator[tuple[int, Any]]:
    for item in items:
        yield item.seq, partial(row, server, item)


def _there(rows: Iterable[Any], after: int) -> Iterator[tuple[int, Any]]:
    for row in rows:
        if row[0] > after:
            yield row[0], row.copy


async def stream(request: Request) -> Any:
    """What happens from now on, or from a record that is still known."""
    from tidings.inspector.web.stream import Stream, after_of  # noqa: PLC0415 - likewise

    inspector = of(request)
    return _Streamed(Stream(feed_of(request), after_of(request), inspector.stopping, inspector.streams))


class _Streamed(Response):
    """A stream, as an answer that Starlette sends."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._stream(scope, receive, send)


async def record(request: Request) -> dict[str, Any]:
    """The whole of what a row is about."""
    seq = request.path_params["seq"]
    session = session_of(request)
    for view in session.view.servers.values():
        found = _whole(view, seq)
        if found is not None:
            return {"seq": seq, "server": view.name, **found}
    for each in session.since(seq - 1) or ():
        if each.seq == seq:
            return each.to_json()
        break
    raise Problem(404, "no-such-record", f"Record {seq} is not kept any more.", "The oldest go first.")


def _whole(view: "ServerView", seq: int) -> dict[str, Any] | None:
    from tidings.inspector.web.facts import error_of  # noqa: PLC0415 - likewise

    change = view.changes.get(seq)
    if change is not None:
        hops = [asdict(hop) for hop in change.hops]
        times = {hop.name: hop.at for hop in change.hops}
        data = {**asdict(change), "times": times, "hops": hops, "fresh_in": change.fresh_in}
        return {"at": change.at, "kind": "change", "data": data}
    rings = {
        "message": view.messages,
        "notification": view.notifications,
        "log": view.logs,
        "stderr": view.stderr,
        "exchange": view.exchanges,
    }
    for kind, ring in rings.items():
        found: Any = ring.get(seq)
        if found is not None:
            return {"at": found.at, "kind": kind, "data": asdict(found)}
    for request in view.requests.values():
        if request.seq == seq:
            data = {**asdict(request), "error": error_of(request.error)}
            return {"at": request.created_at, "kind": "request", "data": data}
    return None


ROUTES: Final = [
    Route("/api/enter", endpoint(enter), methods=["POST"]),
    Route("/api/hello", endpoint(hello)),
    Route("/api/snapshot", endpoint(snapshot)),
    Route("/api/rows", endpoint(rows)),
    Route("/api/stream", endpoint(stream)),
    Route("/api/record/{seq:int}", endpoint(record)),
]
