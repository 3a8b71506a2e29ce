"""Rows and facts: JSON for the page, made of a view.

A row is one thing that happened, short enough for lists of 100,000; its fields are described in `view.items`. A
request, an exchange and a list's change have one row each, with the `seq` they began with, which is sent again when it
changes. The page fetches the whole thing (`/api/record/{seq}`) when it is shown.

Facts are what is known of a server, in parts that are sent again when they change; each part is some fields of the
page's `ServerFacts`. `PARTS` lists the parts that each kind of record may change.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_text, head_of
from tidings._kit.text import shortened
from tidings.inspector.http.exchange import shown_error
from tidings.inspector.records import LIST_CHANGES, LIST_NAMES, Record
from tidings.inspector.view import items
from tidings.inspector.view.diffs import Diff, change_shown
from tidings.inspector.view.items import ChangeView, ContentVersion, ErrorView, QuestionView, SubscriptionView
from tidings.inspector.view.view import ServerView, difference_words, target_of

Row = dict[str, Any]
"""One of `items.Row`, without the fields that are None or False."""

_LONGEST: Final = 300
_LONGEST_URI: Final = 2_000


def _sent(row: items.Row) -> Row:
    return {name: value for name, value in row.items() if value is not None and value is not False}


def _head(server: str, seq: int, at: float) -> items.RowHead:
    return {"seq": seq, "at": at, "server": server}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)


def _short(text: str | None) -> str | None:
    return None if text is None else shortened(text, _LONGEST)


def change_row(server: str, view: ChangeView) -> Row:
    """Returns the row of a change."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "change",
            "change": view.change,
            "uri": None if view.uri is None else shortened(view.uri, _LONGEST_URI),
            "merged": view.merged or None,
            "fresh_ms": _ms(view.fresh_in),
            "away": view.away,
            "different": None if view.items is None else shortened(difference_words(view.items), _LONGEST),
        }
    )


def message_row(server: str, view: items.MessageView) -> Row:
    """Returns the row of a message."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "message",
            "incoming": view.incoming,
            "method": _short(view.method),
            "id": _short(view.id) if isinstance(view.id, str) else view.id,
            "size": view.size,
            "ms": _ms(view.took),
            "is_error": view.kind == "error",
        }
    )


def notification_row(server: str, view: items.NotificationView) -> Row:
    """Returns the row of a notification."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "notification",
            "method": shortened(view.method, _LONGEST),
            "summary": _summary(view.params),
        }
    )


def log_row(server: str, view: items.LogView) -> Row:
    """Returns the row of a log message."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "log",
            "level": shortened(view.level, _LONGEST),
            "logger": _short(view.logger),
            "text": _log_text(view.data),
        }
    )


def line_row(server: str, view: items.LineView) -> Row:
    """Returns the row of a line of error output, or of something that is not a message."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "stderr",
            "line": shortened(view.text, _LONGEST),
            "garbage": view.garbage,
        }
    )


def request_row(server: str, view: items.RequestView) -> Row:
    """Returns the row of a request."""
    return _sent(
        {
            **_head(server, view.seq, view.created_at or 0.0),
            "kind": "request",
            "id": view.id,
            "method": view.method,
            "title": shortened(request_title(view.method, view.params), _LONGEST),
            "status": view.status,
            "ms": _ms(view.took),
            "error": None if view.error is None else view.error.code,
            "aside": view.aside,
        }
    )


def request_title(method: str, params: dict[str, Any]) -> str:
    """Returns the subject of a request: its tool, resource or prompt."""
    for key in ("name", "uri", "uriTemplate"):
        if isinstance(found := params.get(key), str):
            return found
    ref = as_dict(params.get("ref"))
    return as_text(ref.get("name")) or as_text(ref.get("uri")) or method


def exchange_row(server: str, view: items.ExchangeView) -> Row:
    """Returns the row of an HTTP exchange."""
    return _sent(
        {
            **_head(server, view.seq, view.at),
            "kind": "exchange",
            "id": view.id,
            "method": view.method,
            "url": shortened(view.url, _LONGEST_URI),
            "status": view.status,
            "ms": _ms(view.took),
            "is_stream": view.is_stream,
        }
    )


def content_row(server: str, view: ContentVersion, seq: int, at: float, change: ChangeView | None, *, new: bool) -> Row:
    """Returns the row of a content that was read."""
    return _sent(
        {
            **_head(server, seq, at),
            "kind": "content",
            "uri": shortened(view.uri, _LONGEST_URI),
            "hash": view.hash,
            "change": None if change is None else change.seq,
            "took_ms": _ms(view.took),
            "fresh_ms": None if change is None else _ms(change.fresh_in),
            "is_new": new,
        }
    )


def state_row(server: str, record: Record, view: ServerView) -> Row:
    """Returns the row of a change of the connection's state."""
    words = view.words_at(record.at)
    return _sent({**_head(server, record.seq, record.at), "kind": "state", "state": view.state, "words": words})


def _summary(params: dict[str, Any] | None) -> str:
    if not params:
        return ""
    shown = {key: value for key, value in params.items() if key != "_meta"}
    if list(shown) == ["uri"] and isinstance(shown["uri"], str):
        return shown["uri"][:_LONGEST]
    return head_of(shown, _LONGEST) if shown else ""


def _log_text(data: Any) -> str:
    """Returns the message of a logged object, or the beginning of any other value."""
    found = as_dict(data)
    said = next((found[key] for key in ("message", "msg", "text") if isinstance(found.get(key), str)), data)
    return head_of(said, _LONGEST)


def rows_of(record: Record, view: ServerView) -> list[Row]:
    """Returns the rows of a record that was just folded into the view."""
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
    # It ended with this record. It is nearly always among the newest.
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
    "progress": (_request,),  # The row is unchanged: it is sent again so that the page fetches the request's progress.
    "exchange": (_exchange,),
    "state": (lambda record, view: state_row(view.name, record, view),),
}


Facts = dict[str, Any]


def error_of(view: ErrorView | None) -> Facts | None:
    """Returns an error as the page shows it."""
    return None if view is None else shown_error(asdict(view))


def _entry(view: ServerView) -> Facts:
    return {"name": view.name, "target": target_of(view.entry or {}), "entry": view.entry}


def level_of(view: ServerView) -> str:
    """Returns the log level of the server's entry."""
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
    return {
        "transport": view.transport,
        "protocol_version": view.protocol_version,
        "era": view.era,
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
"""The kind of row that each count is of."""


def _questions(view: ServerView) -> Facts:
    return {"questions": {known: question_of(each) for known, each in view.questions.items()}}


def question_of(view: QuestionView) -> Facts:
    """Returns an open question."""
    facts = asdict(view)
    del facts["seq"]
    return {**facts, "params": view.params or {}}


def subscription_of(view: SubscriptionView) -> Facts:
    """Returns a subscription, with the versions of its content, oldest first."""
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
    """Returns a version of a content, without the content. `version` identifies it."""
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
"""The parts that are made of a view alone. The feed makes `queue`, `pace` and `subscriptions`."""

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
"""The parts that each kind of record may change."""


def difference(old: ContentVersion, new: ContentVersion) -> dict[str, Any]:
    """Returns the difference between two versions as JSON."""
    return shown_diff(change_shown(old, new))


def shown_diff(diff: Diff) -> dict[str, Any]:
    """Returns a difference as JSON."""
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
