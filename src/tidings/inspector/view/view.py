"""Views: everything that is known about a server or a session. The page and the terminal app read them.

A view is plain data that only `fold` changes. Equal records give equal views. A reader that draws at its own pace keeps
the last `seq` that it has drawn: `since(seq)` of a `Ring` returns the entries after it.
"""

import math
import shlex
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, cast

from tidings._kit.text import rough_duration
from tidings.inspector.records import SessionLimits
from tidings.inspector.view import items
from tidings.inspector.view.rings import Ring

Clock = Callable[[], float]
Items = dict[str, dict[str, Any]]
Faults = dict[str, list[dict[str, Any]]]

PACE_SECONDS: Final = 3_600
_RINGS: Final = ("messages", "exchanges", "notifications", "logs", "changes", "stderr", "answered", "pings")


@dataclass(slots=True)
class ServerView:
    """Everything that is known about one server."""

    name: str  #: The name under which it was added.
    _: KW_ONLY
    limits: SessionLimits = field(default_factory=SessionLimits)
    clock: Clock = field(default=time.time, compare=False, repr=False)  #: Only `words` depends on it.
    entry: dict[str, Any] | None = None  #: The catalog's entry, secrets masked.
    seq: int = 0  #: The number of the last record.
    at: float = 0.0
    removed: bool = False

    state: str = "disconnected"  #: `disconnected`, `connecting`, `connected`, `disconnecting` or `error`.
    error: items.ErrorView | None = None  #: The last failure of the connection, until it is restored.
    tries: int = 0
    next_retry: float | None = None
    was_connected: bool = False  #: True if it was connected since the user asked for a connection.
    connected_at: float | None = None
    #: The time since which no change was missed: of a connection, or of its stream.
    informed_since: float | None = None
    transport: str | None = None
    era: str | None = None  #: `modern` or `legacy`.
    protocol_version: str | None = None
    server_info: dict[str, Any] | None = None
    capabilities: dict[str, Any] | None = None
    instructions: str | None = None
    pid: int | None = None
    last_answer_at: float | None = None
    last_answer_ms: float | None = None

    tools: Items = field(default_factory=Items)
    resources: Items = field(default_factory=Items)
    templates: Items = field(default_factory=Items)
    prompts: Items = field(default_factory=Items)
    duplicates: Faults = field(default_factory=Faults)  #: For each list: items with the name of an earlier item.
    malformed: Faults = field(default_factory=Faults)  #: For each list: `{"item": …, "reason": …}`.
    #: For each list that could not be loaded: the reason.
    list_errors: dict[str, items.ErrorView] = field(default_factory=dict[str, items.ErrorView])
    loaded_at: dict[str, float] = field(default_factory=dict[str, float])  #: For each list: the time of the last load.

    subscriptions: dict[str, items.SubscriptionView] = field(default_factory=dict[str, items.SubscriptionView])
    #: For each URI: its versions. The last URI was read last.
    contents: dict[str, Ring[items.ContentVersion]] = field(default_factory=dict[str, Ring[items.ContentVersion]])
    contents_dropped: int = 0  #: Versions that were dropped because all contents together took too much.
    #: For the last seconds with changes: the second, and their number by kind.
    pace: deque[tuple[int, Counter[str]]] = field(default_factory=lambda: deque(maxlen=PACE_SECONDS))
    changes: Ring[items.ChangeView] = field(init=False)
    messages: Ring[items.MessageView] = field(init=False)
    #: The liveness checks that the client sent by itself. They are not stored.
    pings: Ring[items.MessageView] = field(init=False, compare=False)
    whole_since: float | None = None  #: The time of the last message whose body was cut to keep more messages, if any.
    exchanges: Ring[items.ExchangeView] = field(init=False)
    notifications: Ring[items.NotificationView] = field(init=False)  #: Including changes, but not log messages.
    logs: Ring[items.LogView] = field(init=False)
    stderr: Ring[items.LineView] = field(init=False)  #: Error output, and everything sent that is not a message.
    #: The requests that wait or run, and the newest of those that ended.
    requests: dict[str, items.RequestView] = field(default_factory=dict[str, items.RequestView])
    requests_total: int = 0
    #: Open questions, oldest first.
    questions: dict[str, items.QuestionView] = field(default_factory=dict[str, items.QuestionView])
    answered: Ring[items.AnsweredView] = field(init=False)
    missed: int = 0  #: Records that could not be stored.
    faults: int = 0  #: Records that could not be folded, because of a bug.

    #: Requests on the wire without a response. The fold needs these ten.
    asked: dict[tuple[bool, str | int], items.MessageView] = field(default_factory=dict[Any, Any], repr=False)
    list_changes: dict[str, int] = field(default_factory=dict[Any, Any], repr=False)  #: The `seq` of the last of each.
    prefixes: tuple[str, ...] = field(default=(), repr=False)
    #: The changes that were not read yet, by URI or list; and for those that are a part of another row: its `seq`.
    unread: dict[str, items.ChangeView] = field(default_factory=dict[Any, Any], repr=False)
    merged_into: dict[int, int] = field(default_factory=dict[Any, Any], repr=False)
    last_shown: items.ChangeView | None = field(default=None, repr=False)  #: The change whose content was read last.
    large: deque[int] = field(default_factory=deque[int], repr=False)  #: The messages with large bodies.
    open_exchanges: dict[int, items.ExchangeView] = field(default_factory=dict[Any, Any], repr=False)
    ended: dict[str, int] = field(default_factory=dict[Any, Any], repr=False)
    ended_aside: dict[str, int] = field(default_factory=dict[Any, Any], repr=False)

    def __post_init__(self) -> None:
        limits = self.limits
        self.messages = Ring(limits.messages, limits.message_bytes)
        for name in _RINGS[1:]:
            most = limits.requests if name in ("answered", "pings") else getattr(limits, name)
            setattr(self, name, Ring(most, limits.ring_bytes))

    @property
    def title(self) -> str:
        """The server's own name, if that of its entry was only derived from a command or an address."""
        info = (self.server_info or {}) if (self.entry or {}).get("derived") else {}
        return next((text for key in ("title", "name") if isinstance(text := info.get(key), str) and text), self.name)

    @property
    def words(self) -> str:
        return self.words_at(self.clock())

    def words_at(self, now: float) -> str:  # noqa: PLR0911 - one for each state
        """Returns the state as text: "connected, answered 2 ms ago", "lost; trying again in 3 s", "not connected"."""
        trouble = "lost" if self.was_connected else "not reached"
        if self.state in ("error", "disconnected") and self.error is not None and self.error.code == "sign-in-needed":
            return "sign in needed"
        match self.state:
            case "connected":
                last = self.last_answer_at
                return "connected" if last is None else f"connected, answered {rough_duration(now - last)} ago"
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


def target_of(entry: dict[str, Any]) -> str:
    """Returns the address or the command of an entry in one line."""
    words: list[Any] = []
    for key in ("target", "url", "command", "args"):
        found = entry.get(key)
        words += cast("list[Any]", found) if isinstance(found, list) else [] if found is None else [found]
    return shlex.join(str(each) for each in words)[:1_000] if len(words) > 1 else str(words[0] if words else "")
