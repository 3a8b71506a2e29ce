"""Views: what is known about a server, and about a session. What the faces read.

A `ServerView` is a fold over the server's records: `apply(record)` is the only thing that changes it, and it never
fails, whatever a server or a file says. Equal records give equal views, so that `replay` of a kept session is the
session. Everything in a view is plain data, to be read and not changed:

| to show                        | read |
|--------------------------------|------|
| the truth about the connection | `words`, `state`, `error` (an `ErrorView`), `tries`, `next_retry`, `last_answer_ms` |
| who the server is              | `server_info`, `title`, `protocol_version`, `transport`, `capabilities`, … |
| what it has                    | `tools`, `resources`, `templates`, `prompts`: raw JSON by name or URI, in its order |
| where it is at fault           | `duplicates`, `malformed`, `list_errors` |
| what changed                   | `changes` (with hops), `subscriptions`, `contents`: versions by URI, for `diffs` |
| what runs, and what came of it | `requests`, `questions`, `answered` |
| what went over the wire        | `messages`, `exchanges`, `notifications`, `logs`, `stderr` (and garbage) |
| numbers                        | `counts`, `unanswered`, `seq` (of the last record) |

`changes`, `messages`, `exchanges`, `notifications`, `logs`, `stderr`, `answered` are `Ring`s: they know how many they
dropped, and `ring.since(seq)` gives what came after a record in time proportional to the answer. A face that draws
at its own pace keeps the `seq` that it has drawn, and asks for the rest.

May import: `records` and what they are made of; never the client or the SDK.

How it stands, in words: short, plain, and true at the moment they are read.
"""

import logging
import math
import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.view import fold as fold_module
from tidings.inspector.view.items import (
    AnsweredView,
    ChangeView,
    ContentVersion,
    Count,
    ErrorView,
    ExchangeView,
    LineView,
    ListDifference,
    LogView,
    MessageView,
    NotificationView,
    QuestionView,
    RequestView,
    SubscriptionView,
)
from tidings.inspector.view.rings import Ring


class ConnectionFacts(Protocol):
    """What of a server the words are about."""

    state: str
    tries: int
    next_retry: float | None
    last_answer_at: float | None
    was_connected: bool
    error: ErrorView | None


def connection_words(view: ConnectionFacts, now: float) -> str:  # noqa: PLR0911 - one for each state
    """The truth about a connection: "connected, answered 2 ms ago", "lost; trying again in 3 s", "not connected"."""
    match view.state:
        case "connected":
            if view.last_answer_at is None:
                return "connected"
            return f"connected, answered {span(now - view.last_answer_at)} ago"
        case "connecting":
            return f"{_trouble(view)}; trying again now" if view.error is not None else "connecting"
        case "error":
            if view.next_retry is None:
                return _trouble(view)
            return f"{_trouble(view)}; trying again {_until(view.next_retry - now)}"
        case "disconnected":
            return "not connected" if view.error is None else f"gave up: {view.error.message}"
        case _:
            return view.state


def _trouble(view: ConnectionFacts) -> str:
    return "lost" if view.was_connected else "not reached"


def _until(seconds: float) -> str:
    return f"in {span(math.ceil(seconds))}" if seconds > 0 else "now"


def span(seconds: float) -> str:
    """A duration: "2 ms", "3 s", "5 min", "2 h", "3 days"."""
    if seconds < 1:
        return f"{max(round(seconds * 1000), 0)} ms"
    for most, size, name in ((60, 1, "s"), (3600, 60, "min"), (2 * 86400, 3600, "h")):
        if seconds < most:
            return f"{int(seconds / size)} {name}"
    return f"{int(seconds / 86400)} days"


def question_words(number: int) -> str:
    """How many questions wait: "1 question waits for you". Nothing if there is none."""
    return "" if not number else "1 question waits for you" if number == 1 else f"{number:,} questions wait for you"


def kept_words(what: str, count: Count) -> str:
    """How much there is: "12,480 messages kept, 0 dropped"."""
    return f"{count.kept:,} {what} kept, {count.dropped:,} dropped"


def difference_words(items: ListDifference) -> str:
    """What is different in a list: "search added; 12 removed"."""
    found = [_named(names, what) for what in ("added", "removed", "changed") if (names := getattr(items, what))]
    if items.more:
        found.append(f"{items.more:,} more")
    return "; ".join(found) or "nothing is different"


def _named(names: list[str], what: str) -> str:
    return f"{', '.join(names) if len(names) < 4 else f'{len(names):,}'} {what}"


def target_of(entry: dict[str, Any]) -> str:
    """What a server is reached by, in one line: its address or its command. Secrets are masked in it already."""
    words: list[Any] = []
    for key in ("target", "url", "command", "args"):
        found = entry.get(key)
        words += cast("list[Any]", found) if isinstance(found, list) else [] if found is None else [found]
    return shlex.join(str(each) for each in words)[:1_000] if len(words) > 1 else str(words[0] if words else "")


logger = logging.getLogger(__name__)

Clock = Callable[[], float]
Items = dict[str, dict[str, Any]]


@dataclass(slots=True, init=False)
class ServerView:
    """All that is known about one server. See the module's table."""

    name: str
    """The name under which it was added."""
    limits: SessionLimits
    clock: Clock = field(compare=False, repr=False)
    """What time it is: only `words` depends on it."""
    entry: dict[str, Any] | None
    """The catalog's entry, secrets masked."""
    seq: int
    """The number of the last record that was applied."""
    at: float
    removed: bool

    state: str
    """`disconnected`, `connecting`, `connected`, `disconnecting` or `error`."""
    error: ErrorView | None
    """What went wrong last, until it is mended."""
    tries: int
    next_retry: float | None
    was_connected: bool
    """Whether it was, since somebody asked for it."""
    connected_at: float | None
    transport: str | None
    protocol_version: str | None
    server_info: dict[str, Any] | None
    capabilities: dict[str, Any] | None
    instructions: str | None
    pid: int | None
    last_answer_at: float | None
    last_answer_ms: float | None

    tools: Items
    resources: Items
    templates: Items
    prompts: Items
    duplicates: dict[str, list[dict[str, Any]]]
    """For each list: items whose name one before them has."""
    malformed: dict[str, list[dict[str, Any]]]
    """For each list: `{"item": …, "reason": …}`."""
    list_errors: dict[str, ErrorView]
    """For each list that could not be loaded: why."""
    loaded_at: dict[str, float]
    """For each list: when it was loaded last."""

    subscriptions: dict[str, SubscriptionView]
    contents: dict[str, Ring[ContentVersion]]
    """For each URI: the versions of its content. The URI that was read last is last."""
    contents_dropped: int
    """Versions that went because all contents together took too much."""
    changes: Ring[ChangeView]
    messages: Ring[MessageView]
    exchanges: Ring[ExchangeView]
    notifications: Ring[NotificationView]
    """All of them, changes included; only log messages are elsewhere."""
    logs: Ring[LogView]
    stderr: Ring[LineView]
    """A command's error output, and what was sent and is no message."""
    requests: dict[str, RequestView]
    """Those that wait and run, and the newest of those that ended."""
    requests_total: int
    questions: dict[str, QuestionView]
    """What waits for an answer, oldest first."""
    answered: Ring[AnsweredView]
    missed: int
    """Records that could not be kept."""
    faults: int
    """Records that could not be understood. A fault of this program, if there ever is one."""

    asked: dict[tuple[bool, str | int], MessageView] = field(repr=False)
    """Requests on the wire that have no response yet. These six serve the fold."""
    list_changes: dict[str, int] = field(repr=False)
    """For each kind of list: the `seq` of its last change."""
    prefixes: tuple[str, ...] = field(repr=False)
    open_exchanges: dict[int, ExchangeView] = field(repr=False)
    ended: dict[str, int] = field(repr=False)
    ended_aside: dict[str, int] = field(repr=False)

    def __init__(self, name: str, *, limits: SessionLimits | None = None, clock: Clock = time.time) -> None:
        self.limits = limits = limits or SessionLimits()
        self.name, self.clock, self.seq, self.at = name, clock, 0, 0.0
        self.entry, self.removed, self.missed, self.faults = None, False, 0, 0
        self.state, self.error, self.tries, self.next_retry = "disconnected", None, 0, None
        self.was_connected, self.connected_at = False, None
        self.transport = self.protocol_version = self.instructions = None
        self.server_info = self.capabilities = self.pid = None
        self.last_answer_at = self.last_answer_ms = None
        self.tools, self.resources, self.templates, self.prompts = {}, {}, {}, {}
        self.duplicates, self.malformed, self.list_errors, self.loaded_at = {}, {}, {}, {}
        self.subscriptions, self.contents, self.contents_dropped = {}, {}, 0
        self.changes = Ring(limits.changes, limits.ring_bytes)
        self.messages = Ring(limits.messages, limits.message_bytes)
        self.exchanges = Ring(limits.exchanges, limits.ring_bytes)
        self.notifications = Ring(limits.notifications, limits.ring_bytes)
        self.logs = Ring(limits.logs, limits.ring_bytes)
        self.stderr = Ring(limits.stderr, limits.ring_bytes)
        self.requests, self.requests_total, self.questions = {}, 0, {}
        self.answered = Ring(limits.requests, limits.ring_bytes)
        self.asked, self.list_changes, self.open_exchanges = {}, {}, {}
        self.ended, self.ended_aside, self.prefixes = {}, {}, ()

    def apply(self, record: Record) -> None:
        """Take in one more record. Never fails."""
        self.seq, self.at = record.seq, record.at
        fold = _FOLDS.get(record.kind)
        if fold is None:
            return
        try:
            fold(self, record)
        except Exception:
            self.faults += 1
            logger.exception("a record of kind %s could not be understood", record.kind)

    @property
    def title(self) -> str:
        """What the server calls itself, or else the name under which it was added."""
        info = self.server_info or {}
        return next((text for key in ("title", "name") if isinstance(text := info.get(key), str) and text), self.name)

    @property
    def words(self) -> str:
        """How the connection stands, in words, at this moment."""
        return self.words_at(self.clock())

    def words_at(self, now: float) -> str:
        """How the connection stands, in words, if this is the time."""
        return connection_words(self, now)

    @property
    def question_words(self) -> str:
        """How many questions wait: "1 question waits for you". Nothing if there is none."""
        return question_words(len(self.questions))

    @property
    def unanswered(self) -> int:
        """Requests to the server, on the wire, that have no response yet. A stream of changes is none of them: it is
        open as long as somebody listens.
        """
        return sum(not each.incoming and each.method != "subscriptions/listen" for each in self.asked.values())

    @property
    def counts(self) -> dict[str, Count]:
        """Of each ring and of the requests: how many there have been, are kept, and were dropped."""
        rings = {name: getattr(self, name) for name in _RINGS}
        counts = {name: Count(ring.total, len(ring), ring.dropped) for name, ring in rings.items()}
        kept = len(self.requests)
        counts["requests"] = Count(self.requests_total, kept, self.requests_total - kept)
        return counts


_RINGS: Final = ("messages", "exchanges", "notifications", "logs", "changes", "stderr", "answered")

Fold = Callable[[ServerView, Record], None]
_FOLDS: Final[dict[str, Fold]] = {
    **fold_module.CONNECTION_FOLDS,
    **fold_module.LIST_FOLDS,
    **fold_module.FOLDS,
    **fold_module.CONTENT_FOLDS,
    **fold_module.REQUEST_FOLDS,
}


@dataclass(slots=True)
class SessionView:
    """All servers of a session, in the order in which they were added, as far as they were not removed."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    clock: Clock = field(default=time.time, compare=False, repr=False)
    servers: dict[str, ServerView] = field(default_factory=dict[str, ServerView])
    seq: int = 0
    """The number of the last record that was applied."""

    def apply(self, record: Record) -> None:
        """Take in one more record. Never fails."""
        self.seq = record.seq
        view = self.servers.get(record.server)
        if view is None:
            if record.kind == "server" and record.data.get("what") == "removed":
                return
            view = ServerView(record.server, limits=self.limits, clock=self.clock)
            self.servers[record.server] = view
        view.apply(record)
        if view.removed:
            del self.servers[record.server]

    @classmethod
    def of(
        cls, records: Iterable[Record], *, limits: SessionLimits | None = None, clock: Clock = time.time
    ) -> "SessionView":
        """The view that these records, in order, add up to."""
        view = cls(limits or SessionLimits(), clock)
        for record in records:
            view.apply(record)
        return view

    @property
    def questions(self) -> list[tuple[str, QuestionView]]:
        """What waits for an answer, of all servers, oldest first, each with its server's name."""
        waiting = [(view.name, each) for view in self.servers.values() for each in view.questions.values()]
        return sorted(waiting, key=lambda found: found[1].seq)
