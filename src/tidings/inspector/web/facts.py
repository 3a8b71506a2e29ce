"""Facts: what is known about a server, in parts that are told anew when they change.

Each part is a few fields of the page's `ServerFacts`. `PARTS` says which kinds of records touch which parts.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tidings.inspector.reading import as_dict, as_text
from tidings.inspector.record_data import LIST_NAMES
from tidings.inspector.view_items import ErrorView, QuestionView, SubscriptionView
from tidings.inspector.view_words import target_of
from tidings.inspector.views import ServerView
from tidings.inspector.web.answers import shown_error

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
