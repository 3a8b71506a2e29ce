"""The fold of what goes over the wire: messages, exchanges, notifications, log messages, error output.

Here a flood arrives: each of these costs a few microseconds, whatever it holds.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidings.inspector.reading import as_dict, as_dict_or_none, as_float, as_int, as_size, as_text
from tidings.inspector.records import Record
from tidings.inspector.view_items import ExchangeView, LineView, LogView, MessageView, NotificationView

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView

_MOST_ASKED: Final = 10_000
"""Requests on the wire without a response. Beyond that the oldest are not waited for."""


def _message(view: "ServerView", record: Record) -> None:
    data = record.data
    body = as_dict(data.get("body"))
    incoming, size = data.get("incoming") is True, as_size(data.get("size"))
    name: Any = body.get("id")
    known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
    method = as_text(body.get("method"))
    message = MessageView(
        record.seq, record.at, incoming, "notification", method, known, body, size, as_int(data.get("exchange"))
    )
    if method is None:
        message.kind = (
            "error" if "error" in body else "response" if "result" in body or known is not None else "unknown"
        )
        if known is not None:
            _pair(view, message, known)
    elif "id" in body:
        message.kind = "request"
        if known is not None:
            view.asked[incoming, known] = message
            if len(view.asked) > _MOST_ASKED:
                del view.asked[next(iter(view.asked))]
    view.messages.append(message, record.seq, size)


def _pair(view: "ServerView", response: MessageView, known: str | int) -> None:
    request = view.asked.pop((not response.incoming, known), None)
    if response.incoming:
        view.last_answer_at = response.at
    if request is None:
        return
    response.method, response.partner, request.partner = request.method, request.seq, response.seq
    response.took = request.took = response.at - request.at
    if response.incoming:
        view.last_answer_ms = response.took * 1000


def _answer_time(view: "ServerView", record: Record) -> None:
    view.last_answer_at = record.at
    view.last_answer_ms = as_float(record.data.get("ms"))


def _exchange(view: "ServerView", record: Record) -> None:
    data = record.data
    if (known := as_int(data.get("id"))) is None:
        return
    exchange = view.open_exchanges.get(known)
    if exchange is None:
        exchange = view.open_exchanges[known] = ExchangeView(record.seq, record.at, known)
        size = len(as_text(data.get("url")) or "") + 60 * len(as_dict(data.get("request_headers")))
        view.exchanges.append(exchange, record.seq, size + 1_000)
        if len(view.open_exchanges) > view.limits.exchanges:
            del view.open_exchanges[next(iter(view.open_exchanges))]
    for key, read in _EXCHANGE.items():
        if key in data:
            setattr(exchange, key, read(data[key]))
    if not exchange.open:
        del view.open_exchanges[known]


_EXCHANGE: Final[dict[str, Callable[[object], Any]]] = {
    "method": lambda value: as_text(value) or "",
    "url": lambda value: as_text(value) or "",
    "request_headers": as_dict,
    "status": as_int,
    "response_headers": as_dict_or_none,
    "is_stream": lambda value: value is True,
    "began": as_float,
    "answered": as_float,
    "ended": as_float,
    "error": as_text,
    "received": as_size,
}


def _notification(view: "ServerView", record: Record) -> None:
    data = record.data
    view.notifications.append(
        NotificationView(
            record.seq,
            record.at,
            as_text(data.get("method")) or "",
            as_dict_or_none(data.get("params")),
        ),
        record.seq,
        as_size(data.get("size")),
    )


def _log(view: "ServerView", record: Record) -> None:
    data = record.data
    view.logs.append(
        LogView(
            record.seq,
            record.at,
            as_text(data.get("level")) or "info",
            as_text(data.get("logger")),
            data.get("data"),
        ),
        record.seq,
        as_size(data.get("size")),
    )


def _line(view: "ServerView", record: Record) -> None:
    text = as_text(record.data.get("text")) or ""
    view.stderr.append(LineView(record.seq, record.at, text, record.kind == "garbage"), record.seq, len(text))


def _missed(view: "ServerView", record: Record) -> None:
    view.missed += as_size(record.data.get("count"))


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {
    "message": _message,
    "exchange": _exchange,
    "answer-time": _answer_time,
    "notification": _notification,
    "log": _log,
    "stderr": _line,
    "garbage": _line,
    "missed": _missed,
}
