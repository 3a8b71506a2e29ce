"""The fold of what is asked: requests to the server, with their progress, and the server's questions to the user."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidings.inspector.reading import as_dict, as_dict_or_none, as_float, as_size, as_text
from tidings.inspector.records import Record
from tidings.inspector.view_items import AnsweredView, ErrorView, QuestionView, RequestView

if TYPE_CHECKING:
    from tidings.inspector.views import ServerView


def _request(view: "ServerView", record: Record) -> None:
    data = record.data
    if (known := as_text(data.get("id"))) is None:
        return
    request = view.requests.get(known)
    if request is None:
        request = view.requests[known] = RequestView(known, record.seq)
        view.requests_total += 1
    elif request.over:
        _forget_end(view, known)  # It is told anew: a session that was put together from two.
    for key, read in _REQUEST.items():
        if key in data:
            setattr(request, key, read(data[key]))
    if request.over:
        _ended(view, request)


_REQUEST: Final[dict[str, Callable[[object], Any]]] = {
    "method": lambda value: as_text(value) or "",
    "params": as_dict,
    "aside": lambda value: value is True,
    "status": lambda value: as_text(value) or "pending",
    "created_at": as_float,
    "started_at": as_float,
    "completed_at": as_float,
    "attempts": as_size,
    "result": lambda value: value,
    "result_size": as_size,
    "error": ErrorView.read,
}


def _ended(view: "ServerView", request: RequestView) -> None:
    """Keep it among those that ended, and let the oldest of its kind go. What the client reads by itself never costs
    the user the results of their own calls.
    """
    ended, most = (view.ended_aside, view.limits.requests // 4) if request.aside else (view.ended, view.limits.requests)
    ended[request.id] = request.result_size
    weight = sum(ended.values()) if request.result_size else 0
    while len(ended) > max(most, 1) or (weight > view.limits.ring_bytes and len(ended) > 1):
        oldest = next(iter(ended))
        weight -= ended.pop(oldest)
        del view.requests[oldest]


def _forget_end(view: "ServerView", known: str) -> None:
    view.ended.pop(known, None)
    view.ended_aside.pop(known, None)


def _progress(view: "ServerView", record: Record) -> None:
    data = record.data
    request = view.requests.get(as_text(data.get("id")) or "")
    if request is not None:
        request.progress = as_float(data.get("progress"))
        request.total = as_float(data.get("total"))
        request.message = as_text(data.get("message"))


def _question(view: "ServerView", record: Record) -> None:
    data = record.data
    if (known := as_text(data.get("id"))) is not None:
        view.questions[known] = QuestionView(
            known,
            record.seq,
            record.at,
            as_text(data.get("kind")) or "",
            as_dict_or_none(data.get("params")),
            as_text(data.get("message")) or "",
            as_text(data.get("request")),
            as_float(data.get("deadline")),
        )


def _answered(view: "ServerView", record: Record) -> None:
    data = record.data
    question = view.questions.pop(as_text(data.get("id")) or "", None)
    if question is not None:
        outcome = as_text(data.get("outcome")) or "answered"
        view.answered.append(
            AnsweredView(question, record.seq, record.at, outcome, data.get("answer")), record.seq, 1_000
        )


FOLDS: Final[dict[str, Callable[["ServerView", Record], None]]] = {
    "request": _request,
    "progress": _progress,
    "question": _question,
    "answered": _answered,
}
