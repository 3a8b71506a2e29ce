"""Rows and facts: JSON for the page, made of a view.

A row is one thing that happened, short enough for lists of 100,000; its fields are described in `view.items`. A
request, an exchange and a change have one row each, with the `seq` they began with, which is sent again when more is
known of it. The page fetches the whole thing (`/api/record/{seq}`) when it is shown.

Facts are what is known of a server, in parts that are sent again when they change; each part is some fields of the
page's `ServerFacts`. `PARTS` lists the parts that each kind of record may change.
"""

from dataclasses import asdict
from typing import Any, Final

from tidings._kit.bounded_json import as_text
from tidings._kit.diff import DiffLine
from tidings._kit.text import shortened
from tidings.errors import EXPLAINED_BY
from tidings.inspector.records import LIST_CHANGES, LIST_NAMES, Record
from tidings.inspector.view import items
from tidings.inspector.view.diffs import Diff
from tidings.inspector.view.error_report import error_view
from tidings.inspector.view.view import ServerView, target_of

Row = dict[str, Any]
Facts = dict[str, Any]

_LONGEST: Final = 300
_LONGEST_URI: Final = 2_000

# The ring of a view that has the things of each kind of row.
RINGS: Final = {
    "change": "changes",
    "message": "messages",
    "notification": "notifications",
    "log": "logs",
    "stderr": "stderr",
    "exchange": "exchanges",
    "answer-time": "pings",
}
_KINDS: Final = {ring: kind for kind, ring in RINGS.items()} | {"requests": "request"}


def row_of(server: str, item: Any) -> Row:
    """Returns the row of a thing, without the fields that are None or False."""
    row = {"seq": item.seq, "at": item.at, "server": server, "kind": item.KIND}
    for name in item.ROW:
        if isinstance(value := getattr(item, name), str):
            row[name] = shortened(value, _LONGEST_URI if name in ("uri", "url") else _LONGEST)
        elif value is not None and value is not False:
            row[name] = value
    return row


def row_of_record(record: Record, view: ServerView) -> Row | None:
    """Returns the row of a record that was just folded into the view; None if the page needs none."""
    thing = _thing_of(record, view)
    return None if thing is None else row_of(view.name, thing)


def _thing_of(record: Record, view: ServerView) -> Any:  # noqa: PLR0911 - one for each kind of record
    data = record.data
    match record.kind:
        case "state":
            return items.StateView(record.seq, record.at, view.state, view.words_at(record.at))
        case "request" | "progress":  # Its progress is not in the row: the page fetches it when the row is sent again.
            return view.requests.get(as_text(data.get("id")) or "")
        case "task":
            return view.requests.get(as_text(data.get("request")) or "")
        case "exchange":
            known: Any = data.get("id")
            # One that ended with this record is nearly always among the newest.
            ended = (each for each in reversed(view.exchanges) if each.id == known)
            return view.open_exchanges.get(known) or next(ended, None)
        case "list":
            kind = LIST_CHANGES.get(as_text(data.get("list")) or "")
            change = None if kind is None else view.changes.get(view.list_changes.get(kind, 0))
            return change if change is not None and change.read == record.at else None
        case "message":  # A response is part of its request's row, which is sent again.
            message = view.messages.last
            asked = None if message is None or message.partner is None else view.messages.get(message.partner)
            return message if asked is None else asked
        case "content":
            # The change that it answers; or one that was found by it, because it happened while the server was away.
            shown = view.last_shown
            return shown if shown is not None and shown.read == record.at else None
        case "change" if (known := view.unread.get(as_text(data.get("uri") or data.get("change")) or "")) is not None:
            return known
        case _:
            kind = "stderr" if record.kind == "garbage" else record.kind
            newest = getattr(view, RINGS[kind]).last if kind in RINGS else None
            return newest if newest is not None and newest.seq == record.seq else None


# The parts of the facts that are made of a view alone. The feed makes `level`, `queue`, `pace` and `subscriptions`.
VIEW_PARTS: Final = ("entry", "connection", "hello", "answer", "lists", "counts", "questions")
# The parts that each kind of record may change.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "server": ("entry",),
    "state": ("connection", "answer", "queue"),
    "hello": ("hello", "answer"),
    "answer-time": ("answer", "counts"),
    "list": ("lists", "counts", "pace"),
    **dict.fromkeys(("message", "exchange", "notification", "log", "stderr", "garbage", "missed"), ("counts",)),
    "request": ("queue", "counts"),
    "task": ("queue",),
    "change": ("counts", "pace", "subscriptions"),
    "content": ("subscriptions", "counts", "pace"),
    **dict.fromkeys(("content-failed", "subscriptions", "subscription-failed"), ("subscriptions",)),
    "question": ("questions",),
    "answered": ("questions", "counts"),
}


def facts_of(part: str, view: ServerView) -> Facts:  # noqa: PLR0911 - one for each part
    """Returns one of `VIEW_PARTS`."""
    match part:
        case "entry":
            return {"name": view.name, "target": target_of(view.entry or {}), "entry": view.entry}
        case "connection":
            names = "state", "words", "tries", "next_retry", "connected_at", "was_connected", "pid"
            return {**fields_of(view, *names), "error": error_of(view.error)}
        case "hello":
            names = "transport", "protocol_version", "era", "server_info", "instructions", "pid"
            return {**fields_of(view, *names), "capabilities": view.capabilities or {}}
        case "answer":
            return fields_of(view, "last_answer_at", "last_answer_ms")
        case "lists":
            lists: Facts = {}
            for name in LIST_NAMES:
                faults = {what: len(getattr(view, what).get(name, ())) for what in ("malformed", "duplicates")}
                loaded = {"at": view.loaded_at.get(name), "error": error_of(view.list_errors.get(name))}
                lists[name] = {"total": len(getattr(view, name)), **faults, **loaded}
            return {"lists": lists}
        case "counts":
            counts = {_KINDS.get(name, name): asdict(count) for name, count in view.counts.items()}
            history = {"bytes": view.messages.bytes, "limit": view.limits.message_bytes, "whole": view.whole_since}
            return {"counts": counts, "missed": view.missed, "history": history}
        case _:
            names = "id", "at", "kind", "message", "request", "deadline"
            open_ones = view.questions.items()
            questions = {known: {**fields_of(each, *names), "params": each.params or {}} for known, each in open_ones}
            return {"questions": questions}


def error_facts(error: BaseException) -> Facts | None:
    """Returns an exception as the page shows it."""
    return error_of(error_view(error))


def error_of(view: items.ErrorView | None) -> Facts | None:
    """Returns an error as the page shows it."""
    if view is None:
        return None
    page = "" if view.category in ("input", "program") else EXPLAINED_BY + view.code
    payload = {} if view.payload is None else {"payload": view.payload}
    return {**fields_of(view, "code", "category", "who", "message", "cure"), "help_page": view.help or page, **payload}


def is_index(text: str) -> bool:
    """Returns whether a text is a whole number of a sensible size, from 0."""
    return text.isascii() and text.isdigit() and len(text) <= 15


def fields_of(view: object, *names: str) -> Facts:
    """Returns some fields of a view."""
    return {name: getattr(view, name) for name in names}


def subscription_of(view: items.SubscriptionView) -> Facts:
    """Returns a subscription, with the versions of its content, oldest first."""
    names = "uri", "since", "updates", "merged", "last_update", "last_uri", "last_read", "stale"
    versions = [version_of(each) for each in view.versions]
    return {**fields_of(view, *names), "versions": versions, "error": error_of(view.error)}


def version_of(version: items.ContentVersion) -> Facts:
    """Returns a version of a content, without the content. `version` identifies it."""
    return {"version": version.seq, **fields_of(version, "at", "hash", "size", "cut")}


def shown_diff(diff: Diff) -> dict[str, Any]:
    """Returns a difference as JSON."""

    def shown(line: DiffLine) -> dict[str, Any]:
        words = [piece._asdict() for piece in line.pieces]
        return {"mark": line.sign, "old": line.old, "new": line.new, "words": words}

    hunks = [{"title": hunk.title, "lines": list(map(shown, hunk.lines))} for hunk in diff.hunks]
    return {"hunks": hunks, **fields_of(diff, "added", "removed", "cut", "note", "words")}
