"""Folds records into views. The only code that changes a view.

It never fails, whatever a server or a file says, and a record of a flood (messages, notifications, log lines) costs a
few microseconds.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from tidings._kit.bounded_json import (
    as_dict,
    as_dict_or_none,
    as_dicts,
    as_float,
    as_int,
    as_size,
    as_text,
    as_texts,
    cut,
    is_cut,
)
from tidings.inspector.records import CHANGE_METHODS, LIST_CHANGES, LIST_KEYS, Record
from tidings.inspector.view import items
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import ServerView, SessionView

logger = logging.getLogger(__name__)

_MOST_ASKED: Final = 10_000  # Requests on the wire without a response. The oldest beyond that are forgotten.
_LARGE_BODY: Final = 16_384  # Bytes of a message.
_HEAD: Final = 2_000  # Characters that are kept of its body if there is no room.
_HELLO: Final = "transport", "era", "protocol_version", "server_info", "capabilities", "instructions", "pid"
_SEPARATOR: Final = re.compile(r"[/?#]")
_METHODS: Final[dict[str, str]] = {change: method for method, change in CHANGE_METHODS.items()}


def fold(view: ServerView, record: Record) -> None:
    """Adds a record of this server to its view. Never fails."""
    view.seq, view.at = record.seq, record.at
    if (add := _FOLDS.get(record.kind)) is None:
        return
    try:
        add(view, record)
    except Exception:
        view.faults += 1
        logger.exception("a record of kind %s could not be folded", record.kind)


def fold_session(view: SessionView, record: Record) -> None:
    """Adds a record of any server to the view of a session. Never fails."""
    view.seq = record.seq
    server = view.servers.get(record.server)
    if server is None:
        if record.kind == "server" and record.data.get("what") == "removed":
            return
        server = ServerView(record.server, limits=view.limits, clock=view.clock)
        view.servers[record.server] = server
    fold(server, record)
    if server.removed:
        del view.servers[record.server]


def replay(records: Iterable[Record]) -> SessionView:
    """Returns the view of these records: equal to that of the session they are from."""
    view = SessionView()
    for record in records:
        fold_session(view, record)
    return view


def _server(view: ServerView, record: Record) -> None:
    if record.data.get("what") == "removed":
        view.removed = True
    elif (entry := as_dict_or_none(record.data.get("entry"))) is not None:
        view.entry = entry


def _state(view: ServerView, record: Record) -> None:
    data = record.data
    view.state = as_text(data.get("state")) or "disconnected"
    view.tries = as_size(data.get("tries"))
    view.next_retry = as_float(data.get("next_retry"))
    error = items.ErrorView.read(data.get("error"))
    if view.state == "connected":
        view.was_connected, view.connected_at, view.error = True, record.at, None
        view.informed_since = record.at
    else:
        view.connected_at = view.informed_since = None
        view.pid = None  # Another process may get its number.
        for (incoming, _), asked in view.asked.items():
            if asked.outcome is None and not incoming:
                asked.outcome = "lost"
        view.asked.clear()  # They are never answered.
        if view.state != "connecting" or error is not None:
            view.error = error
        if view.state == "disconnected":
            view.was_connected = False


def _message(view: ServerView, record: Record) -> None:
    data = record.data
    body = as_dict(data.get("body"))
    incoming, size = data.get("incoming") is True, as_size(data.get("size"))
    name: Any = body.get("id")
    known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
    method = as_text(body.get("method"))
    message = items.MessageView(
        record.seq, record.at, incoming, "notification", method, known, body, size, as_int(data.get("exchange"))
    )
    if method is None:
        answers = "result" in body or known is not None
        message.kind = "error" if "error" in body else "response" if answers else "unknown"
        if known is not None:
            _pair(view, message, known)
    elif "id" in body:
        message.kind = "request"
        if known is not None:
            view.asked[incoming, known] = message
            if len(view.asked) > _MOST_ASKED:
                del view.asked[next(iter(view.asked))]
    else:
        _about_request(view, message, as_dict(body.get("params")))
    weight = size if not is_cut(body) else min(size, len(as_text(body.get("head")) or ""))
    if weight > _LARGE_BODY:
        view.large.append(record.seq)
    # To make room, large bodies lose all but their beginning before any message is dropped.
    messages = view.messages
    while view.large and messages.bytes + weight > messages.max_bytes:
        if (large := messages.get(view.large.popleft())) is not None:
            outer = {key: large.body[key] for key in ("jsonrpc", "id", "method") if key in large.body}
            large.body = {**outer, **cut(large.body, large.size, _HEAD)}
            messages.resize(large.seq, len(large.body["head"]))
            view.whole_since = large.at
    messages.append(message, record.seq, weight)


def _about_request(view: ServerView, notification: items.MessageView, params: dict[str, Any]) -> None:
    """Connects a notification with the request that it is about."""
    is_progress = notification.method == "notifications/progress"
    if not is_progress and notification.method != "notifications/cancelled":
        return
    token: Any = params.get("progressToken" if is_progress else "requestId")
    asked = view.asked.get((notification.incoming != is_progress, token)) if isinstance(token, str | int) else None
    if asked is not None and is_progress:
        notification.about = asked.subject
    elif asked is not None:
        asked.outcome = "cancelled"


def _pair(view: ServerView, response: items.MessageView, known: str | int) -> None:
    request = view.asked.pop((not response.incoming, known), None)
    if response.incoming:
        view.last_answer_at = response.at
    if request is None:
        return
    response.method, response.partner = request.method, request.seq
    request.end(response)
    response.took = request.took = response.at - request.at
    if response.incoming:
        view.last_answer_ms = response.took * 1000


def _exchange(view: ServerView, record: Record) -> None:
    data = record.data
    if (known := as_int(data.get("id"))) is None:
        return
    exchange = view.open_exchanges.get(known)
    if exchange is None:
        exchange = view.open_exchanges[known] = items.ExchangeView(record.seq, record.at, known)
        size = len(as_text(data.get("url")) or "") + 60 * len(as_dict(data.get("request_headers")))
        view.exchanges.append(exchange, record.seq, size + 1_000)
        if len(view.open_exchanges) > view.limits.exchanges:
            del view.open_exchanges[next(iter(view.open_exchanges))]
    items.take(exchange, data)
    if not exchange.open:
        del view.open_exchanges[known]


# By the kind of a record: the ring that gets an entry, and the entry to fill in.
_ENTRIES: Final[dict[str, tuple[str, Callable[[int, float], items.Item]]]] = {
    "notification": ("notifications", items.NotificationView),
    "log": ("logs", items.LogView),
    "stderr": ("stderr", items.LineView),
    "garbage": ("stderr", partial(items.LineView, garbage=True)),
}


def _entry(view: ServerView, record: Record) -> None:
    (ring, make), data = _ENTRIES[record.kind], record.data
    entry = make(record.seq, record.at)
    items.take(entry, data)
    getattr(view, ring).append(entry, record.seq, as_size(data.get("size")) or len(as_text(data.get("text")) or ""))


def _missed(view: ServerView, record: Record) -> None:
    if record.kind == "missed":
        view.missed += as_size(record.data.get("count"))
    elif view.connected_at is not None:
        view.informed_since = record.at


def _answer_time(view: ServerView, record: Record) -> None:
    data, ms = record.data, as_float(record.data.get("ms")) or 0.0
    view.last_answer_at, view.last_answer_ms = record.at, ms
    body, method = as_dict(data.get("body")), as_text(as_dict(data.get("body")).get("method"))
    known, size = as_text(str(body.get("id"))), as_size(data.get("size"))
    ping = items.MessageView(record.seq, record.at - ms / 1000, False, "request", method, known, body, size)
    ping.took, ping.outcome, ping.answer = ms / 1000, "ok", as_dict(data.get("answer"))
    ping.answer_size = as_size(data.get("answer_size"))
    view.pings.append(ping, record.seq, size + ping.answer_size)


def _change(view: ServerView, record: Record) -> None:
    data = record.data
    name, uri, size = as_text(data.get("change")) or "", as_text(data.get("uri")), as_size(data.get("size"))
    known = view.unread.get(uri or name)
    change = items.ChangeView(record.seq, record.at, name, uri)
    items.take(change, {**as_dict(data.get("times")), "cursor": data.get("cursor"), "merged": data.get("merged")})
    earlier = change.merged
    if uri is None and known is not None and known.at >= (view.informed_since or 0):
        earlier = known.merged + 1
    if earlier and known is not None and known.read is None:  # One read answers both: they are one row.
        known.merged = earlier
        if uri is not None:
            view.merged_into[record.seq] = known.seq
    else:
        view.changes.append(change, record.seq, size)
        view.unread[uri or name] = change
        if len(view.unread) > view.limits.changes:
            del view.unread[next(iter(view.unread))]
        if uri is None:
            view.list_changes[name] = record.seq
    method, params = _METHODS.get(name, name), None if uri is None else {"uri": uri}
    view.notifications.append(items.NotificationView(record.seq, record.at, method, params), record.seq, size)
    _count(view, change)


def _count(view: ServerView, change: items.ChangeView) -> None:
    if not view.pace or view.pace[-1][0] != int(change.at):
        view.pace.append((int(change.at), Counter()))
    view.pace[-1][1][change.change] += 1
    for subscription in () if change.uri is None else covering(view, change.uri):
        subscription.updates += 1
        subscription.last_update, subscription.last_uri, subscription.last_change = change.at, change.uri, change.seq
        subscription.merged += change.merged > 0


def covering(view: ServerView, uri: str) -> list[items.SubscriptionView]:
    """Returns the subscriptions that cover a resource: its own or that of its nearest parent, and prefixes."""
    if not (subscriptions := view.subscriptions):
        return []
    found = [subscriptions[each] for each in view.prefixes if uri.startswith(each[:-1])]
    for place in (len(uri), *reversed([each.start() for each in _SEPARATOR.finditer(uri)])):
        if (whole := subscriptions.get(uri[:place])) is not None:
            return [whole, *found]
    return found


def _content(view: ServerView, record: Record) -> None:
    data = record.data
    if (uri := as_text(data.get("uri"))) is None:
        return
    versions = _versions(view, uri)
    last, digest, change = versions.last, as_text(data.get("hash")) or "", as_int(data.get("change"))
    if last is not None and last.hash == digest:
        last.confirmed = record.at
        version = last
    else:
        kept = as_dict_or_none(data.get("contents")) or as_dicts(data.get("contents"))
        size, took = as_size(data.get("size")), as_float(data.get("took"))
        version = items.ContentVersion(record.seq, record.at, uri, digest, kept, size, took, change)
        # A content that is cut takes no more than its head.
        weight = size if isinstance(kept, list) else min(size, len(as_text(kept.get("head")) or ""))
        versions.append(version, record.seq, weight)
        _make_room(view, uri)
        was_away = last is not None and (last.confirmed or last.at) < (view.informed_since or 0)
        # Without a subscription, it may have changed at any time.
        if was_away and change is None and any(covering(view, uri)):
            change = version.change = record.seq
            found = items.ChangeView(record.seq, record.at, "resource-updated", uri, away=True)
            view.changes.append(found, record.seq)
            _count(view, found)
    if change is not None and (shown := view.changes.get(view.merged_into.pop(change, change))) is not None:
        view.unread.pop(uri, None)
        view.last_shown = shown
        shown.read, shown.content = record.at, version.seq
        shown.before = None if last is None else last.seq
    for subscription in covering(view, uri):
        subscription.last_read, subscription.error = record.at, None
        subscription.last_answered = max(subscription.last_answered, change or 0)


def _versions(view: ServerView, uri: str) -> Ring[items.ContentVersion]:
    """Returns the versions of a URI, and makes it the one that was read last."""
    subscription = view.subscriptions.get(uri)
    new = _ring(view) if subscription is None else subscription.versions
    versions = view.contents[uri] = view.contents.pop(uri, new)
    while len(view.contents) > view.limits.contents:
        oldest = view.contents.pop(next(iter(view.contents)))
        view.contents_dropped += len(oldest)
        oldest.clear()
    return versions


def _ring(view: ServerView) -> Ring[items.ContentVersion]:
    return Ring(view.limits.versions, view.limits.contents_bytes)


def _make_room(view: ServerView, newest: str) -> None:
    """Drops the oldest versions of the URIs read longest ago, while all contents together take too much."""
    total = sum(versions.bytes for versions in view.contents.values())
    for uri in tuple(view.contents):
        versions = view.contents[uri]
        while total > view.limits.contents_bytes and len(versions) > (1 if uri == newest else 0):
            total -= versions.drop_oldest()
            view.contents_dropped += 1
        if total <= view.limits.contents_bytes:
            return


def _failed(view: ServerView, record: Record) -> None:
    uri, error = as_text(record.data.get("uri")) or "", items.ErrorView.read(record.data.get("error"))
    own = [view.subscriptions[uri]] if uri in view.subscriptions else []
    for subscription in covering(view, uri) if record.kind == "content-failed" else own:
        subscription.error = error


def _subscriptions(view: ServerView, record: Record) -> None:
    uris = list(dict.fromkeys(as_texts(record.data.get("uris"))))
    before = view.subscriptions
    view.subscriptions = {
        uri: before.get(uri) or items.SubscriptionView(uri, record.at, view.contents.get(uri, _ring(view)))
        for uri in uris
    }
    view.prefixes = tuple(uri for uri in uris if uri.endswith("*"))


def _list(view: ServerView, record: Record) -> None:
    data = record.data
    name = as_text(data.get("list")) or ""
    if name not in LIST_KEYS:
        return
    if (error := items.ErrorView.read(data.get("error"))) is not None:
        view.list_errors[name] = error
        return
    view.list_errors.pop(name, None)
    listed: dict[str, dict[str, Any]] = getattr(view, name)
    before = dict(listed)
    for gone in as_texts(data.get("removed")):
        listed.pop(gone, None)
    for what in ("changed", "added"):
        for item in as_dicts(data.get(what)):
            if (key := as_text(item.get(LIST_KEYS[name]))) is not None:
                listed[key] = item
    if isinstance(data.get("order"), list):
        first = [key for key in dict.fromkeys(as_texts(data["order"])) if key in listed]
        ordered = {key: listed[key] for key in first}
        setattr(view, name, {**ordered, **{key: item for key, item in listed.items() if key not in ordered}})
    for what, kept in (("duplicates", view.duplicates), ("malformed", view.malformed)):
        if what in data:
            kept[name] = as_dicts(data[what])
    _add_differences(view, record, name, before)
    view.loaded_at[name] = record.at


def _add_differences(view: ServerView, record: Record, name: str, before: dict[str, dict[str, Any]]) -> None:
    """Adds the differences to the last announced change of this list.

    If none was announced since changes were missed, the list changed while the server was away: a change of its own.
    """
    kind, since = LIST_CHANGES[name], record.at if view.informed_since is None else view.informed_since
    change = view.changes.get(view.list_changes.get(kind, -1))
    now: dict[str, dict[str, Any]] = getattr(view, name)
    if change is None or change.at < since:
        loaded = view.loaded_at.get(name)
        if loaded is None or loaded >= since or before == now:
            return
        change = items.ChangeView(record.seq, record.at, kind, None, away=True)
        view.changes.append(change, record.seq)
        _count(view, change)
        view.list_changes[kind] = record.seq
    if name not in view.loaded_at:  # The first list shows nothing to be new.
        before = now
    if change.items is None or before != now:
        # Later differences that were not announced are added, but do not count for the time of delivery.
        change.read, change.items = change.read or record.at, change.items or items.ListDifference()
        change.items.add(before, now)


def _request(view: ServerView, record: Record) -> None:
    data = record.data
    if (known := as_text(data.get("id"))) is None:
        return
    request = view.requests.get(known)
    if request is None:
        request = view.requests[known] = items.RequestView(known, record.seq)
        view.requests_total += 1
    elif request.over:
        view.ended.pop(known, None)  # It is repeated: a session that was merged from two.
        view.ended_aside.pop(known, None)
    items.take(request, data)
    if request.over:
        _ended(view, request)


def _ended(view: ServerView, request: items.RequestView) -> None:
    """Drops the oldest requests that ended. Those that the client made by itself never displace those of the user."""
    ended, most = (view.ended_aside, view.limits.requests // 4) if request.aside else (view.ended, view.limits.requests)
    ended[request.id] = request.result_size
    weight = sum(ended.values()) if request.result_size else 0
    while len(ended) > max(most, 1) or (weight > view.limits.ring_bytes and len(ended) > 1):
        oldest = next(iter(ended))
        weight -= ended.pop(oldest)
        del view.requests[oldest]


def _progress(view: ServerView, record: Record) -> None:
    if (request := view.requests.get(as_text(record.data.get("id")) or "")) is not None:
        items.take(request, record.data)


def _task(view: ServerView, record: Record) -> None:
    data = record.data
    request, known = view.requests.get(as_text(data.get("request")) or ""), as_text(data.get("id"))
    if request is None or known is None:
        return
    if request.task is None or request.task.id != known:
        request.task = items.TaskView(known)
    items.take(request.task, data)


def _question(view: ServerView, record: Record) -> None:
    if (known := as_text(record.data.get("id"))) is not None:
        question = view.questions[known] = items.QuestionView(known, record.seq, record.at)
        items.take(question, record.data)


def _answered(view: ServerView, record: Record) -> None:
    data = record.data
    question = view.questions.pop(as_text(data.get("id")) or "", None)
    if question is not None:
        answered = items.AnsweredView(question, as_text(data.get("outcome")) or "answered", data.get("answer"))
        view.answered.append(answered, record.seq, 1_000)


_FOLDS: Final[dict[str, Callable[[ServerView, Record], None]]] = {
    "server": _server,
    "state": _state,
    "hello": lambda view, record: items.take(view, {name: record.data.get(name) for name in _HELLO}),
    "list": _list,
    "message": _message,
    "exchange": _exchange,
    **dict.fromkeys(_ENTRIES, _entry),
    "missed": _missed,
    "answer-time": _answer_time,
    "change": _change,
    "changes-missed": _missed,
    "content": _content,
    "content-failed": _failed,
    "subscriptions": _subscriptions,
    "subscription-failed": _failed,
    "request": _request,
    "progress": _progress,
    "task": _task,
    "question": _question,
    "answered": _answered,
}
