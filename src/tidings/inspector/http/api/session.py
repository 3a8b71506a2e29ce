"""The session as a whole: entering, hello, snapshot, rows, the stream, one record.

The tour, where there is one (`tidings demo`): its steps, and doing one of them.

The page about each error code.
"""

import heapq
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._version import __version__
from tidings.inspector.http.context import Guide, feed_of, of, saved_of, session_of
from tidings.inspector.http.exchange import ApiProblem, answered, body, endpoint, number_of, unknown

if TYPE_CHECKING:
    from tidings.inspector.http.feed import PageFeed
    from tidings.inspector.view.view import ServerView


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
    return {"rows": found, "to": found[-1]["seq"] if more else max(after, feed.seq), "more": more}


def _kept(view: "ServerView", feed: "PageFeed", after: int) -> Iterator[tuple[int, Any]]:
    """The rows of a server, each with its `seq` and made when it is asked for."""
    from tidings.inspector.http import rows as make  # noqa: PLC0415 - the page is served before this is needed

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
        if row["seq"] > after:
            yield row["seq"], row.copy


async def stream(request: Request) -> Any:
    """What happens from now on, or from a record that is still known."""
    from tidings.inspector.http.stream import EventStream, after_of  # noqa: PLC0415 - likewise

    inspector = of(request)
    return _Streamed(EventStream(feed_of(request), after_of(request), inspector.stopping, inspector.streams))


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
    raise ApiProblem(404, "no-such-record", f"Record {seq} is not kept any more.", "The oldest go first.")


def _whole(view: "ServerView", seq: int) -> dict[str, Any] | None:
    from tidings.inspector.http.rows import error_of  # noqa: PLC0415 - likewise

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


async def tour(request: Request) -> dict[str, Any]:
    """The steps, and what was seen of each."""
    return _guide(request).facts()


async def do(request: Request) -> None:
    """Do a step. The tour tells what came of it."""
    step = request.path_params["step"]
    try:
        begun = _guide(request).do(step)
    except KeyError:
        raise ApiProblem(404, "no-such-step", f"There is no step {step!r}.") from None
    if not begun:
        raise ApiProblem(
            409, "starting", "The servers are about to start.", "Try again in a moment.", who="this program"
        )


def _guide(request: Request) -> Guide:
    guide = of(request).guide
    if guide is None:
        raise ApiProblem(404, "no-tour", "There is no tour here.", "`tidings demo` has one.")
    return guide


TOUR_ROUTES: Final = [
    Route("/api/tour", endpoint(tour)),
    Route("/api/tour/{step}", endpoint(do), methods=["POST"]),
]


_HOMES: Final = (
    Path(__file__).parents[2] / "errors",  # in a wheel
    Path(__file__).parents[5] / "docs" / "errors",  # in a checkout
)
_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


async def page(request: Request) -> dict[str, Any]:
    """The page about a code, as markdown."""
    code = request.path_params["code"]
    pages = {path.stem: path for home in _HOMES if home.is_dir() for path in sorted(home.glob("*.md"))}
    if not _CODE.fullmatch(code) or code not in pages:
        raise unknown("help page", code, pages)
    return {"code": code, "text": pages[code].read_text(encoding="utf-8")}


async def pages(_: Request) -> dict[str, Any]:
    """Which codes there are."""
    found = {path.stem for home in _HOMES if home.is_dir() for path in home.glob("*.md")}
    return {"codes": sorted(code for code in found - {"index"} if _CODE.fullmatch(code))}


HELP_ROUTES: Final = [Route("/api/help", endpoint(pages)), Route("/api/help/{code}", endpoint(page))]
