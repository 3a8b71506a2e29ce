"""Views: everything that is known about a server, and about a session. The page and the terminal app read them.

A view is plain data that only `fold` changes; equal records give equal views.

| to show              | read |
|----------------------|------|
| the connection       | `words`, `state`, `error` (an `ErrorView`), `tries`, `next_retry`, `last_answer_ms` |
| the server           | `server_info`, `title`, `protocol_version`, `transport`, `capabilities`, … |
| its lists            | `tools`, `resources`, `templates`, `prompts`: raw JSON by name or URI, in its order |
| its faults           | `duplicates`, `malformed`, `list_errors` |
| changes              | `changes` (with hops), `pace`, `subscriptions`, `contents`: versions by URI, for `diffs` |
| requests             | `requests`, `questions`, `answered` |
| the wire             | `messages`, `exchanges`, `notifications`, `logs`, `stderr` (and garbage) |
| numbers              | `counts`, `seq` (of the last record) |

Most of these are `Ring`s: they count what they drop, and `ring.since(seq)` returns the entries after a record in time
proportional to their number. A reader that draws at its own pace keeps the `seq` that it has drawn.
"""

import math
import shlex
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tidings._kit.text import rough_duration
from tidings.inspector.records import SessionLimits
from tidings.inspector.view import items
from tidings.inspector.view.rings import Ring

Clock = Callable[[], float]
Items = dict[str, dict[str, Any]]

PACE_SECONDS: Final = 300
_RINGS: Final = ("messages", "exchanges", "notifications", "logs", "changes", "stderr", "answered")


@dataclass(slots=True, init=False)
class ServerView:
    """Everything that is known about one server. See the module's table."""

    name: str  #: The name under which it was added.
    limits: SessionLimits
    clock: Clock = field(compare=False, repr=False)  #: Only `words` depends on it.
    entry: dict[str, Any] | None  #: The catalog's entry, secrets masked.
    seq: int  #: The number of the last record.
    at: float
    removed: bool

    state: str  #: `disconnected`, `connecting`, `connected`, `disconnecting` or `error`.
    error: items.ErrorView | None  #: The last failure of the connection, until it is restored.
    tries: int
    next_retry: float | None
    was_connected: bool  #: True if it was connected since the user asked for a connection.
    connected_at: float | None
    informed_since: float | None  #: The time since which no change was missed: of a connection, or of its stream.
    transport: str | None
    era: str | None  #: `modern` or `legacy`.
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
    duplicates: dict[str, list[dict[str, Any]]]  #: For each list: items whose name an earlier item has.
    malformed: dict[str, list[dict[str, Any]]]  #: For each list: `{"item": …, "reason": …}`.
    list_errors: dict[str, items.ErrorView]  #: For each list that could not be loaded: the reason.
    loaded_at: dict[str, float]  #: For each list: the time of the last load.

    subscriptions: dict[str, items.SubscriptionView]
    contents: dict[str, Ring[items.ContentVersion]]  #: For each URI: its versions. The last URI was read last.
    contents_dropped: int  #: Versions that were dropped because all contents together took too much.
    changes: Ring[items.ChangeView]
    pace: deque[tuple[int, Counter[str]]]  #: For the last seconds with changes: the second, and their number by kind.
    messages: Ring[items.MessageView]
    exchanges: Ring[items.ExchangeView]
    notifications: Ring[items.NotificationView]  #: All notifications, changes included, but not log messages.
    logs: Ring[items.LogView]
    stderr: Ring[items.LineView]  #: A command's error output, and everything it sent that is not a message.
    requests: dict[str, items.RequestView]  #: The requests that wait or run, and the newest of those that ended.
    requests_total: int
    questions: dict[str, items.QuestionView]  #: Open questions, oldest first.
    answered: Ring[items.AnsweredView]
    missed: int  #: Records that could not be stored.
    faults: int  #: Records that could not be folded, because of a bug.

    #: Requests on the wire without a response. The fold needs these six.
    asked: dict[tuple[bool, str | int], items.MessageView] = field(repr=False)
    list_changes: dict[str, int] = field(repr=False)  #: For each kind of list: the `seq` of its last change.
    prefixes: tuple[str, ...] = field(repr=False)
    open_exchanges: dict[int, items.ExchangeView] = field(repr=False)
    ended: dict[str, int] = field(repr=False)
    ended_aside: dict[str, int] = field(repr=False)

    def __init__(self, name: str, *, limits: SessionLimits | None = None, clock: Clock = time.time) -> None:
        self.limits = limits = limits or SessionLimits()
        self.name, self.clock, self.seq, self.at = name, clock, 0, 0.0
        self.entry, self.removed, self.missed, self.faults = None, False, 0, 0
        self.state, self.error, self.tries, self.next_retry = "disconnected", None, 0, None
        self.was_connected, self.connected_at, self.informed_since = False, None, None
        self.transport = self.era = self.protocol_version = self.instructions = None
        self.server_info = self.capabilities = self.pid = None
        self.last_answer_at = self.last_answer_ms = None
        self.tools, self.resources, self.templates, self.prompts = {}, {}, {}, {}
        self.duplicates, self.malformed, self.list_errors, self.loaded_at = {}, {}, {}, {}
        self.subscriptions, self.contents, self.contents_dropped = {}, {}, 0
        self.changes, self.pace = Ring(limits.changes, limits.ring_bytes), deque(maxlen=PACE_SECONDS)
        self.messages = Ring(limits.messages, limits.message_bytes)
        self.exchanges = Ring(limits.exchanges, limits.ring_bytes)
        self.notifications = Ring(limits.notifications, limits.ring_bytes)
        self.logs = Ring(limits.logs, limits.ring_bytes)
        self.stderr = Ring(limits.stderr, limits.ring_bytes)
        self.requests, self.requests_total, self.questions = {}, 0, {}
        self.answered = Ring(limits.requests, limits.ring_bytes)
        self.asked, self.list_changes, self.open_exchanges = {}, {}, {}
        self.ended, self.ended_aside, self.prefixes = {}, {}, ()

    @property
    def title(self) -> str:
        """The server's own name, or else the name under which it was added."""
        info = self.server_info or {}
        return next((text for key in ("title", "name") if isinstance(text := info.get(key), str) and text), self.name)

    @property
    def words(self) -> str:
        """The state of the connection, as text, at this moment."""
        return self.words_at(self.clock())

    def words_at(self, now: float) -> str:  # noqa: PLR0911 - one for each state
        """Returns the state as text: "connected, answered 2 ms ago", "lost; trying again in 3 s", "not connected"."""
        trouble = "lost" if self.was_connected else "not reached"
        match self.state:
            case "connected":
                if self.last_answer_at is None:
                    return "connected"
                return f"connected, answered {rough_duration(now - self.last_answer_at)} ago"
            case "connecting":
                return "connecting" if self.error is None else f"{trouble}; trying again now"
            case "error":
                if self.next_retry is None:
                    return trouble
                seconds = self.next_retry - now
                when = f"in {rough_duration(math.ceil(seconds))}" if seconds > 0 else "now"
                return f"{trouble}; trying again {when}"
            case "disconnected":
                return "not connected" if self.error is None else f"gave up: {self.error.message}"
            case _:
                return self.state

    @property
    def counts(self) -> dict[str, items.Count]:
        """The numbers of each ring and of the requests."""
        rings: dict[str, Ring[Any]] = {name: getattr(self, name) for name in _RINGS}
        counts = {name: items.Count(ring.total, len(ring), ring.dropped) for name, ring in rings.items()}
        kept = len(self.requests)
        counts["requests"] = items.Count(self.requests_total, kept, self.requests_total - kept)
        return counts


@dataclass(slots=True)
class SessionView:
    """All servers of a session, in the order in which they were added, without the removed ones."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    clock: Clock = field(default=time.time, compare=False, repr=False)
    servers: dict[str, ServerView] = field(default_factory=dict[str, ServerView])
    seq: int = 0  #: The number of the last record.


def difference_words(different: items.ListDifference) -> str:
    """Returns the differences of a list as text: "search added; 12 removed"."""
    found = [
        f"{', '.join(names) if len(names) < 4 else f'{len(names):,}'} {what}"
        for what in ("added", "removed", "changed")
        if (names := getattr(different, what))
    ]
    if different.more:
        found.append(f"{different.more:,} more")
    return "; ".join(found) or "nothing is different"


def target_of(entry: dict[str, Any]) -> str:
    """Returns the address or the command of an entry in one line."""
    words: list[Any] = []
    for key in ("target", "url", "command", "args"):
        found = entry.get(key)
        words += cast("list[Any]", found) if isinstance(found, list) else [] if found is None else [found]
    return shlex.join(str(each) for each in words)[:1_000] if len(words) > 1 else str(words[0] if words else "")
