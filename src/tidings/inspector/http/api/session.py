"""The session as a whole: entering, state, snapshot, rows, the stream, one record; the tour; the pages about errors."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from tidings._version import __version__
from tidings.inspector.http.api.catalog import catalog_facts
from tidings.inspector.http.context import Guide, inspector_of, kept_of, running_of
from tidings.inspector.http.exchange import ApiProblem, Routes, answered, body, error_of, number_of, unknown
from tidings.inspector.http.feed import FeedResponse, after_of
from tidings.inspector.http.rows import RINGS, Row, row_of
from tidings.inspector.view.error_report import help_pages
from tidings.inspector.view.items import ChangeView, MessageView
from tidings.inspector.view.view import ServerView

MOST_ROWS: Final = 20_000

ROUTES: Final = Routes("/api")


@ROUTES.add("POST", "/enter")
async def enter(request: Request) -> Response:
    """Exchanges the token for a cookie and a key."""
    key = inspector_of(request).key
    if not key.opens((await body(request, 4096)).values.get("token")):
        return Response(status_code=401, headers={"cache-control": "no-store"})
    response = answered({"key": key.word})
    response.headers["set-cookie"] = key.cookie
    return response


@ROUTES.add("POST", "/link")
async def another_link(request: Request) -> dict[str, str]:
    """Returns the token of a link that opens the page in another browser, once."""
    return {"token": inspector_of(request).key.renew()}


@ROUTES.add("GET", "/hello")
async def hello(request: Request) -> dict[str, Any]:
    """Returns the version of this program, and whether its session has started."""
    inspector = inspector_of(request)
    running = inspector.running
    return {
        "version": __version__,
        "seq": 0 if running is None else running.feed.seq,
        "ready": running is not None,
        "now": time.time(),
        "catalog": catalog_facts(None if running is None else running.servers.catalog),
        "tour": inspector.guide is not None,
        "error": inspector.failure,
    }


@ROUTES.add("GET", "/snapshot")
async def snapshot(request: Request) -> dict[str, Any]:
    """Returns the facts of all servers. The stream continues after `seq`."""
    running, kept = running_of(request), kept_of(request)
    session = running.session.view if kept is None else kept.view
    servers = [running.feed.facts(view, is_kept=kept is not None) for view in session.servers.values()]
    return {"seq": running.feed.seq if kept is None else session.seq, "now": time.time(), "servers": servers}


@ROUTES.add("GET", "/rows")
async def rows(request: Request) -> dict[str, Any]:
    """Returns the rows that are kept, oldest first."""
    after = number_of(request, "after", 0)
    limit = min(max(number_of(request, "limit", MOST_ROWS), 1), MOST_ROWS)
    feed, shown = running_of(request).feed, kept_of(request)
    session = running_of(request).session.view if shown is None else shown.view
    states = (feed if shown is None else shown).states
    kept = [_kept(view, states(view.name), after) for view in session.servers.values()]
    found = [made() for _, made in islice(heapq.merge(*kept, key=itemgetter(0)), limit)]
    more = len(found) == limit
    return {"rows": found, "to": found[-1]["seq"] if more else max(after, session.seq), "more": more}


def _kept(view: ServerView, states: Iterable[Row], after: int) -> Iterator[tuple[int, Callable[[], Row]]]:
    """Yields the `seq` of each row of a server, and the function that makes the row."""
    requests = sorted((each for each in view.requests.values() if each.seq > after), key=attrgetter("seq"))
    things = heapq.merge(
        *(getattr(view, ring).since(after) for ring in RINGS.values()), requests, key=attrgetter("seq")
    )
    asked = (each for each in things if not isinstance(each, MessageView) or not _is_answer(each, view))
    of_states = ((row["seq"], row.copy) for row in states if row["seq"] > after)
    return heapq.merge(((each.seq, partial(row_of, view.name, each)) for each in asked), of_states, key=itemgetter(0))


def _is_answer(message: MessageView, view: ServerView) -> bool:
    """Returns whether a message is part of the row of its request."""
    is_response = message.kind in ("response", "error") and message.partner is not None
    return is_response and view.messages.get(message.partner or 0) is not None


@ROUTES.add("GET", "/stream")
async def stream(request: Request) -> Response:
    """Streams what happens from now on, or after a record that is still known."""
    inspector = inspector_of(request)
    return FeedResponse(running_of(request).feed, after_of(request), inspector.stopping, inspector.streams)


@ROUTES.add("GET", "/record/{seq:int}")
async def record(request: Request) -> dict[str, Any]:
    """Returns everything that a row is about."""
    seq = request.path_params["seq"]
    session, kept = running_of(request).session, kept_of(request)
    for view in (session.view if kept is None else kept.view).servers.values():
        if (found := _whole(view, seq)) is not None:
            return {"seq": seq, "server": view.name, **found}
    if kept is None and (since := session.since(seq - 1)) and since[0].seq == seq:
        return since[0].to_json()
    raise ApiProblem(404, "no-such-record", f"Record {seq} is not kept any more.", "The oldest are deleted first.")


def _whole(view: ServerView, seq: int) -> dict[str, Any] | None:
    for kind, ring in RINGS.items():
        if (found := getattr(view, ring).get(seq)) is not None:
            data = asdict(found)
            if isinstance(found, ChangeView):
                data["times"] = {hop.name: hop.at for hop in found.hops}
            if isinstance(found, MessageView):
                data |= _exchanged(found, view)
            return {"at": found.at, "kind": kind, "data": data}
    for request in view.requests.values():
        if request.seq == seq:
            data = {**asdict(request), "error": error_of(request.error)}
            return {"at": request.created_at, "kind": "request", "data": data}
    return None


def _exchanged(message: MessageView, view: ServerView) -> dict[str, Any]:
    """Returns the response to a request, and the HTTP exchange that carried a message."""
    answer = message.answer
    if message.kind == "request" and message.partner is not None:
        response = view.messages.get(message.partner)
        answer = None if response is None else response.body
    exchange = next((each for each in reversed(view.exchanges) if each.id == message.exchange), None)
    return {"answer": answer, "exchange": None if exchange is None else asdict(exchange)}


@ROUTES.add("GET", "/tour")
async def tour(request: Request) -> dict[str, Any]:
    """Returns the steps of the tour (`tidings demo`) and their effects."""
    return _guide(request).facts()


@ROUTES.add("POST", "/tour/{step}")
async def do(request: Request) -> None:
    """Does a step of the tour, whose facts tell the effect."""
    step = request.path_params["step"]
    try:
        begun = _guide(request).do(step)
    except KeyError:
        raise ApiProblem(404, "no-such-step", f"There is no step {step!r}.") from None
    if not begun:
        raise ApiProblem(409, "starting", "The servers are starting.", "Try again in a moment.", who="this program")


def _guide(request: Request) -> Guide:
    guide = inspector_of(request).guide
    if guide is None:
        raise ApiProblem(404, "no-tour", "There is no tour here.", "Start `tidings demo`.")
    return guide


@ROUTES.add("GET", "/help")
async def help_codes(_: Request) -> dict[str, Any]:
    """Returns the codes of errors that have a page."""
    return {"codes": sorted(help_pages())}


@ROUTES.add("GET", "/help/{code}")
async def help_page(request: Request) -> dict[str, Any]:
    """Returns the page about an error code, as Markdown."""
    code, pages = request.path_params["code"], help_pages()
    if code not in pages:
        raise unknown("help page", code, pages)
    return {"code": code, "text": pages[code].read_text(encoding="utf-8")}
