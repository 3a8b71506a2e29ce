"""The session as a whole: entering, state, snapshot, rows, the stream, one record; the tour; the pages about errors."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, Final

from starlette.responses import Response

from tidings._version import __version__
from tidings.inspector.http.api.catalog import catalog_facts
from tidings.inspector.http.context import ApiProblem, Asked, Guide, Routes, answered, unknown
from tidings.inspector.http.feed import FeedResponse
from tidings.inspector.http.rows import RINGS, Row, error_of, is_index, row_of
from tidings.inspector.view.error_report import help_pages
from tidings.inspector.view.items import ChangeView, MessageView
from tidings.inspector.view.view import ServerView

MOST_ROWS: Final = 20_000

ROUTES: Final = Routes("/api")


@ROUTES.add("POST", "/enter", 4096)
async def enter(asked: Asked) -> Response:
    """Exchanges the token for a cookie and a key."""
    key = asked.inspector.key
    if not key.opens(asked.given.values.get("token")):
        return Response(status_code=401, headers={"cache-control": "no-store"})
    response = answered({"key": key.word})
    response.headers["set-cookie"] = key.cookie
    return response


@ROUTES.add("POST", "/link")
async def another_link(asked: Asked) -> dict[str, str]:
    """Returns the token of a link that opens the page in another browser, once."""
    return {"token": asked.inspector.key.renew()}


@ROUTES.add("GET", "/hello")
async def hello(asked: Asked) -> dict[str, Any]:
    """Returns the version of this program, and whether its session has started."""
    inspector = asked.inspector
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
async def snapshot(asked: Asked) -> dict[str, Any]:
    """Returns the facts of all servers. The stream continues after `seq`."""
    feed, is_kept = asked.running.feed, asked.kept is not None
    servers = [feed.facts(view, is_kept=is_kept) for view in asked.view.servers.values()]
    return {"seq": asked.view.seq, "now": time.time(), "servers": servers}


@ROUTES.add("GET", "/rows")
async def rows(asked: Asked) -> dict[str, Any]:
    """Returns the rows that are kept, oldest first."""
    after, limit = asked.given.index("after", 0), min(max(asked.given.index("limit", MOST_ROWS), 1), MOST_ROWS)
    states = (asked.kept or asked.running.feed).states
    kept = [_kept(view, states(view.name), after) for view in asked.view.servers.values()]
    found = [made() for _, made in islice(heapq.merge(*kept, key=itemgetter(0)), limit)]
    more = len(found) == limit
    return {"rows": found, "to": found[-1]["seq"] if more else max(after, asked.view.seq), "more": more}


def _kept(view: ServerView, states: Iterable[Row], after: int) -> Iterator[tuple[int, Callable[[], Row]]]:
    """Yields the `seq` of each row of a server, and the function that makes the row."""
    requests = sorted((each for each in view.requests.values() if each.seq > after), key=attrgetter("seq"))
    things = heapq.merge(
        *(getattr(view, ring).since(after) for ring in RINGS.values()), requests, key=attrgetter("seq")
    )

    def is_answer(thing: Any) -> bool:
        """Returns whether a message is part of the row of its request."""
        is_response = isinstance(thing, MessageView) and thing.kind in ("response", "error")
        return is_response and view.messages.get(thing.partner or 0) is not None

    asked = (each for each in things if not is_answer(each))
    of_states = ((row["seq"], row.copy) for row in states if row["seq"] > after)
    return heapq.merge(((each.seq, partial(row_of, view.name, each)) for each in asked), of_states, key=itemgetter(0))


@ROUTES.add("GET", "/stream")
async def stream(asked: Asked) -> Response:
    """Streams what happens from now on, or after a record that is still known."""
    # The last record that a reader has, as its browser or its page says; -1 if neither does.
    after = asked.request.headers.get("last-event-id", ""), asked.given.values.get("after", "")
    seq = next((int(text) for text in after if is_index(text)), -1)
    return FeedResponse(asked.running.feed, seq, asked.inspector.stopping, asked.inspector.streams)


@ROUTES.add("GET", "/record/{seq:int}")
async def record(asked: Asked) -> dict[str, Any]:
    """Returns everything that a row is about."""
    seq = asked.path["seq"]
    for view in asked.view.servers.values():
        if (found := _whole(view, seq)) is not None:
            return {"seq": seq, "server": view.name, **found}
    if asked.kept is None and (since := asked.running.session.since(seq - 1)) and since[0].seq == seq:
        return since[0].to_json()
    raise ApiProblem(404, "no-such-record", f"Record {seq} is not kept any more.", "The oldest are deleted first.")


def _whole(view: ServerView, seq: int) -> dict[str, Any] | None:
    for kind, ring in RINGS.items():
        if (found := getattr(view, ring).get(seq)) is not None:
            data = asdict(found)
            if isinstance(found, ChangeView):
                data["times"] = {hop.name: hop.at for hop in found.hops}
            if isinstance(found, MessageView):  # With the response to a request, and the exchange that carried it.
                if found.kind == "request" and found.partner is not None:
                    response = view.messages.get(found.partner)
                    data["answer"] = None if response is None else response.body
                exchange = next((each for each in reversed(view.exchanges) if each.id == found.exchange), None)
                data["exchange"] = None if exchange is None else asdict(exchange)
            return {"at": found.at, "kind": kind, "data": data}
    for request in view.requests.values():
        if request.seq == seq:
            data = {**asdict(request), "error": error_of(request.error)}
            return {"at": request.created_at, "kind": "request", "data": data}
    return None


@ROUTES.add("GET", "/tour")
async def tour(asked: Asked) -> dict[str, Any]:
    """Returns the steps of the tour (`tidings demo`) and their effects."""
    return _guide(asked).facts()


@ROUTES.add("POST", "/tour/{step}")
async def do(asked: Asked) -> None:
    """Does a step of the tour, whose facts tell the effect."""
    step = asked.path["step"]
    try:
        begun = _guide(asked).do(step)
    except KeyError:
        raise ApiProblem(404, "no-such-step", f"There is no step {step!r}.") from None
    if not begun:
        raise ApiProblem(409, "starting", "The servers are starting.", "Try again in a moment.", who="this program")


def _guide(asked: Asked) -> Guide:
    if (guide := asked.inspector.guide) is None:
        raise ApiProblem(404, "no-tour", "There is no tour here.", "Start `tidings demo`.")
    return guide


@ROUTES.add("GET", "/help")
async def help_codes(_: Asked) -> dict[str, Any]:
    """Returns the codes of errors that have a page."""
    return {"codes": sorted(help_pages())}


@ROUTES.add("GET", "/help/{code}")
async def help_page(asked: Asked) -> dict[str, Any]:
    """Returns the page about an error code, as Markdown."""
    code, pages = asked.path["code"], help_pages()
    if code not in pages:
        raise unknown("help page", code, pages)
    return {"code": code, "text": pages[code].read_text(encoding="utf-8")}
