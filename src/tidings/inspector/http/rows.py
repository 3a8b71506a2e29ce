"""Rows: what happened, each as a short list, for lists of 100,000 of them.

`[seq, at, server, kind, …]`, then by kind:

| kind | fields |
|---|---|
| `change` | change, uri, merged, fresh_ms, was it found after the server was away, what is different in a list |
| `content` | uri, hash, seq of the change it answers, took_ms, fresh_ms of that change, is it a new version |
| `message` | incoming, method, id, size, ms, is_error |
| `notification` | method, summary |
| `log` | level, logger, text |
| `stderr` | line, is it garbage |
| `request` | id, method, title, status, ms, error's code, aside |
| `exchange` | id, method, url, status, ms, is_stream |
| `state` | state, words |

A request, an exchange and a change of a list have one row, of the `seq` they began with, told anew when they change.
A page fetches the whole of what it shows (`/api/record/{seq}`) when somebody looks at it.

Facts: what is known about a server, in parts that are told anew when they change.

Each part is a few fields of the page's `ServerFacts`. `PARTS` says which kinds of records touch which parts.

What changed between two versions, as the page shows it.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_text, head_of
from tidings.inspector.http.exchange import shown_error
from tidings.inspector.records import LIST_CHANGES, LIST_NAMES, Record
from tidings.inspector.view.diffs import Diff, change_shown
from tidings.inspector.view.items import (
    ChangeView,
    ContentVersion,
    ErrorView,
    ExchangeView,
    LineView,
    LogView,
    MessageView,
    NotificationView,
    QuestionView,
    RequestView,
    SubscriptionView,
)
from tidings.inspector.view.view import ServerView, difference_words, target_of

Row = list[Any]

_LONGEST: Final = 300
_LONGEST_URI: Final = 2_000


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)


def _short(text: str | None, most: int = _LONGEST) -> str | None:
    return text if text is None or len(text) <= most else text[: most - 1] + "…"


def change_row(server: str, view: ChangeView) -> Row:
    """A change."""
    uri = _short(view.uri, _LONGEST_URI)
    different = None if view.items is None else _short(difference_words(view.items))
    return [
        *(view.seq, view.at, server, "change"),
        *(view.change, uri, view.merged, _ms(view.fresh_in), view.away, different),
    ]


def message_row(server: str, view: MessageView) -> Row:
    """A message."""
    method, known = _short(view.method), _short(view.id) if isinstance(view.id, str) else view.id
    is_error = view.kind == "error"
    return [view.seq, view.at, server, "message", view.incoming, method, known, view.size, _ms(view.took), is_error]


def notification_row(server: str, view: NotificationView) -> Row:
    """A notification."""
    return [view.seq, view.at, server, "notification", _short(view.method), _summary(view.params)]


def log_row(server: str, view: LogView) -> Row:
    """A log message."""
    return [view.seq, view.at, server, "log", _short(view.level), _short(view.logger), _log_text(view.data)]


def line_row(server: str, view: LineView) -> Row:
    """A line of error output, or something that is no message."""
    return [view.seq, view.at, server, "stderr", _short(view.text), view.garbage]


def request_row(server: str, view: RequestView) -> Row:
    """A request."""
    code = None if view.error is None else view.error.code
    at = view.created_at or 0.0
    title = _short(request_title(view.method, view.params))
    return [view.seq, at, server, "request", view.id, view.method, title, view.status, _ms(view.took), code, view.aside]


def request_title(method: str, params: dict[str, Any]) -> str:
    """What a request is about, in a few words: the tool, the resource, the prompt."""
    for key in ("name", "uri", "uriTemplate"):
        if isinstance(found := params.get(key), str):
            return found
    ref = as_dict(params.get("ref"))
    return as_text(ref.get("name")) or as_text(ref.get("uri")) or method


def exchange_row(server: str, view: ExchangeView) -> Row:
    """An HTTP exchange."""
    url = _short(view.url, _LONGEST_URI)
    return [
        *(view.seq, view.at, server, "exchange"),
        *(view.id, view.method, url, view.status, _ms(view.took), view.is_stream),
    ]


def content_row(server: str, view: ContentVersion, seq: int, at: float, change: ChangeView | None, *, new: bool) -> Row:
    """A content that was read."""
    fresh = None if change is None else _ms(change.fresh_in)
    answers = None if change is None else change.seq
    uri = _short(view.uri, _LONGEST_URI)
    return [seq, at, server, "content", uri, view.hash, answers, _ms(view.took), fresh, new]


def state_row(server: str, record: Record, view: ServerView) -> Row:
    """A step of the connection."""
    return [record.seq, record.at, server, "state", view.state, view.words_at(record.at)]


def _summary(params: dict[str, Any] | None) -> str:
    if not params:
        return ""
    shown = {key: value for key, value in params.items() if key != "_meta"}
    if list(shown) == ["uri"] and isinstance(shown["uri"], str):
        return shown["uri"][:_LONGEST]
    return head_of(shown, _LONGEST) if shown else ""


def _log_text(data: Any) -> str:
    """The first line of what was logged; of an object that has a message, the message."""
    found = as_dict(data)
    said = next((found[key] for key in ("message", "msg", "text") if isinstance(found.get(key), str)), data)
    return head_of(said, _LONGEST)


def rows_of(record: Record, view: ServerView) -> list[Row]:
    """The rows of a record that the view has just taken in."""
    makers = _MAKERS.get(record.kind, ())
    return [row for make in makers if (row := make(record, view)) is not None]


def _last(ring: str, make: Callable[[str, Any], Row]) -> Callable[[Record, ServerView], Row | None]:
    def made(record: Record, view: ServerView) -> Row | None:
        newest = getattr(view, ring).last
        return make(view.name, newest) if newest is not None and newest.seq == record.seq else None

    return made


def _request(record: Record, view: ServerView) -> Row | None:
    request = view.requests.get(as_text(record.data.get("id")) or "")
    return None if request is None else request_row(view.name, request)


def _exchange(record: Record, view: ServerView) -> Row | None:
    known: Any = record.data.get("id")
    open_one = view.open_exchanges.get(known)
    if open_one is not None:
        return exchange_row(view.name, open_one)
    # It ended with this record: the newest are looked at, where it nearly always is.
    for each in reversed(view.exchanges):
        if each.id == known:
            return exchange_row(view.name, each)
    return None


def _content(record: Record, view: ServerView) -> Row | None:
    versions = view.contents.get(as_text(record.data.get("uri")) or "")
    newest = None if versions is None else versions.last
    if newest is None:
        return None
    known: Any = record.data.get("change")
    change = view.changes.get(known) if isinstance(known, int) else None
    return content_row(view.name, newest, record.seq, record.at, change, new=newest.seq == record.seq)


def _list(record: Record, view: ServerView) -> Row | None:
    kind = LIST_CHANGES.get(as_text(record.data.get("list")) or "")
    change = view.changes.get(view.list_changes.get(kind, 0)) if kind is not None else None
    return None if change is None or change.read != record.at else change_row(view.name, change)


_change = _last("changes", change_row)
_MAKERS: Final[dict[str, tuple[Callable[[Record, ServerView], Row | None], ...]]] = {
    "change": (_change,),
    "content": (_content, _change),
    "list": (_list,),
    "message": (_last("messages", message_row),),
    "notification": (_last("notifications", notification_row),),
    "log": (_last("logs", log_row),),
    "stderr": (_last("stderr", line_row),),
    "garbage": (_last("stderr", line_row),),
    "request": (_request,),
    "progress": (_request,),  # The row is as it was; that it comes again says that there is more to see.
    "exchange": (_exchange,),
    "state": (lambda record, view: state_row(view.name, record, view),),
}


Facts = dict[str, Any]

_FIRST_MODERN: Final = "2026"
"""Versions of the protocol are dates: from this year on they are of the modern era."""


def error_of(view: ErrorView | None) -> Facts | None:
    """An error as the page shows it."""
    return None if view is None else shown_error(asdict(view))


def _entry(view: ServerView) -> Facts:
    return {"name": view.name, "target": target_of(view.entry or {}), "entry": view.entry}


def level_of(view: ServerView) -> str:
    """The log level that its entry asks for."""
    return as_text(as_dict((view.entry or {}).get("tidings")).get("logLevel")) or "info"


def _connection(view: ServerView) -> Facts:
    return {
        "state": view.state,
        "words": view.words,
        "error": error_of(view.error),
        "tries": view.tries,
        "next_retry": view.next_retry,
        "connected_at": view.connected_at,
        "was_connected": view.was_connected,
        "pid": view.pid,
    }


def _hello(view: ServerView) -> Facts:
    version = view.protocol_version
    return {
        "transport": view.transport,
        "protocol_version": version,
        "era": None if version is None else "modern" if version >= _FIRST_MODERN else "legacy",
        "server_info": view.server_info,
        "capabilities": view.capabilities or {},
        "instructions": view.instructions,
        "pid": view.pid,
    }


def _answer(view: ServerView) -> Facts:
    return {"last_answer_at": view.last_answer_at, "last_answer_ms": view.last_answer_ms}


def _lists(view: ServerView) -> Facts:
    return {
        "lists": {
            name: {
                "total": len(getattr(view, name)),
                "malformed": len(view.malformed.get(name, ())),
                "duplicates": len(view.duplicates.get(name, ())),
                "at": view.loaded_at.get(name),
                "error": error_of(view.list_errors.get(name)),
            }
            for name in LIST_NAMES
        }
    }


def _counts(view: ServerView) -> Facts:
    counts = {_SINGULAR.get(name, name): asdict(count) for name, count in view.counts.items()}
    return {"counts": counts, "missed": view.missed}


_SINGULAR: Final = {
    "messages": "message",
    "exchanges": "exchange",
    "notifications": "notification",
    "logs": "log",
    "changes": "change",
    "requests": "request",
}
"""The page counts by the kinds of its rows."""


def _questions(view: ServerView) -> Facts:
    return {"questions": {known: question_of(each) for known, each in view.questions.items()}}


def question_of(view: QuestionView) -> Facts:
    """A question that waits."""
    facts = asdict(view)
    del facts["seq"]
    return {**facts, "params": view.params or {}}


def subscription_of(view: SubscriptionView) -> Facts:
    """A subscription, with the versions of its content, oldest first."""
    return {
        "uri": view.uri,
        "since": view.since,
        "updates": view.updates,
        "merged": view.merged,
        "last_update": view.last_update,
        "last_uri": view.last_uri,
        "last_read": view.last_read,
        "stale": view.stale,
        "versions": [version_of(each) for each in view.versions],
        "error": error_of(view.error),
    }


def version_of(version: Any) -> Facts:
    """A version of a content, without the content. `version` names it."""
    return {"version": version.seq, "at": version.at, "hash": version.hash, "size": version.size, "cut": version.cut}


MAKERS: Final[dict[str, Callable[[ServerView], Facts]]] = {
    "entry": _entry,
    "connection": _connection,
    "hello": _hello,
    "answer": _answer,
    "lists": _lists,
    "counts": _counts,
    "questions": _questions,
}
"""The parts that are made from a view alone. `queue`, `pace` and `subscriptions` the feed makes."""

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "server": ("entry",),
    "state": ("connection", "answer", "queue"),
    "hello": ("hello", "answer"),
    "answer-time": ("answer",),
    "list": ("lists", "counts", "pace"),
    "message": ("counts",),
    "exchange": ("counts",),
    "notification": ("counts",),
    "log": ("counts",),
    "stderr": ("counts",),
    "garbage": ("counts",),
    "missed": ("counts",),
    "request": ("queue", "counts"),
    "change": ("counts", "pace", "subscriptions"),
    "content": ("subscriptions", "counts", "pace"),
    "content-failed": ("subscriptions",),
    "subscriptions": ("subscriptions",),
    "subscription-failed": ("subscriptions",),
    "question": ("questions",),
    "answered": ("questions", "counts"),
}
"""Which parts a record of this kind may change."""


def difference(old: ContentVersion, new: ContentVersion) -> dict[str, Any]:
    """What changed from one version to another."""
    return shown_diff(change_shown(old, new))


def shown_diff(diff: Diff) -> dict[str, Any]:
    """A difference as JSON."""
    return {
        "hunks": [
            {
                "title": hunk.title,
                "lines": [
                    {
                        "mark": line.sign,
                        "old": line.old,
                        "new": line.new,
                        "words": [{"text": piece.text, "changed": piece.changed} for piece in line.pieces],
                    }
                    for line in hunk.lines
                ],
            }
            for hunk in diff.hunks
        ],
        "added": diff.added,
        "removed": diff.removed,
        "cut": diff.cut,
        "note": diff.note,
        "words": diff.words,
    }
