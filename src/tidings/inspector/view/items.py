"""What a `ServerView` is made of: one small value for each thing that a face shows.

All of it is plain data that the fold alone writes; whoever reads it must not change it. Times are seconds since the
epoch, durations are seconds. `seq` is the number of the record that a thing came from.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_float, as_text
from tidings.inspector.view.rings import Ring

Who = Literal["you", "the network", "the server", "this program"]
MessageKind = Literal["request", "response", "error", "notification", "unknown"]


@dataclass(slots=True)
class ErrorView:
    """What went wrong, who is at fault, and what to do about it."""

    message: str
    code: str = "unknown"
    category: str = "unknown"
    """Of `tidings.errors.Category`; `input` for what was wrong before it was sent, `program` for a fault of ours."""
    who: str = "this program"
    """One of `Who`."""
    cure: str = ""
    """What to do, in one sentence."""
    help: str | None = None
    """The address of the page that explains it."""
    retryable: bool = False
    method: str | None = None
    elapsed: float | None = None
    payload: Any = None
    """What the other side sent, if it sent something."""

    @classmethod
    def read(cls, data: object) -> "ErrorView | None":
        """From a record's `ErrorData`."""
        if (found := as_dict_or_none(data)) is None:
            return None
        return cls(
            as_text(found.get("message")) or "",
            as_text(found.get("code")) or "unknown",
            as_text(found.get("category")) or "unknown",
            as_text(found.get("who")) or "this program",
            as_text(found.get("cure")) or "",
            as_text(found.get("help")),
            found.get("retryable") is True,
            as_text(found.get("method")),
            as_float(found.get("elapsed")),
            found.get("payload"),
        )


@dataclass(slots=True)
class MessageView:
    """A JSON-RPC message."""

    seq: int
    at: float
    incoming: bool
    kind: MessageKind
    method: str | None
    """Of a response: the method of the request that it answers, if that is known."""
    id: str | int | None
    body: dict[str, Any]
    size: int
    exchange: int | None = None
    """The `id` of the HTTP exchange that carried it."""
    partner: int | None = None
    """Of a response, the `seq` of its request; of a request, that of its response."""
    took: float | None = None
    """From the request to its response; known to both."""


@dataclass(slots=True)
class ExchangeView:
    """An HTTP exchange."""

    seq: int
    at: float
    id: int
    method: str = ""
    url: str = ""
    request_headers: dict[str, Any] = field(default_factory=dict[str, Any])
    status: int | None = None
    response_headers: dict[str, Any] | None = None
    is_stream: bool = False
    began: float | None = None
    answered: float | None = None
    ended: float | None = None
    error: str | None = None
    received: int = 0

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None and self.error is None

    @property
    def took(self) -> float | None:
        """From its beginning to its end."""
        return None if self.ended is None or self.began is None else self.ended - self.began


@dataclass(slots=True)
class NotificationView:
    """A notification of the server's, log messages excepted."""

    seq: int
    at: float
    method: str
    params: dict[str, Any] | None


@dataclass(slots=True)
class LogView:
    """A log message of the server's."""

    seq: int
    at: float
    level: str
    logger: str | None
    data: Any


@dataclass(slots=True)
class LineView:
    """A line of error output, or (`garbage`) something that was sent and is no message."""

    seq: int
    at: float
    text: str
    garbage: bool = False


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a change's way: how long it took to get to `name`."""

    name: str
    """`source`, `published`, `received` or `read`."""
    at: float
    took: float | None
    """Since the hop before it; None for the first. Below zero where the two clocks differ."""


@dataclass(slots=True)
class ListDifference:
    """What is different in a list: the names of the first items, and how many more there are."""

    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    more: int = 0

    def add(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """One more load of the list: what it was, and what it is."""
        names = {
            "added": [name for name in now if name not in before],
            "removed": [name for name in before if name not in now],
            "changed": [name for name, item in now.items() if before.get(name, item) != item],
        }
        for what, found in names.items():
            kept: list[str] = getattr(self, what)
            room = max(0, _MOST_NAMES - len(kept))
            kept += [name[:_LONGEST_NAME] for name in found[:room]]
            self.more += max(0, len(found) - room)


_MOST_NAMES: Final = 30
_LONGEST_NAME: Final = 300


@dataclass(slots=True)
class ChangeView:
    """Something that changed, as the server told it or as it was found, and what became of it."""

    seq: int
    at: float
    change: str
    """`resource-updated`, `tools-list-changed`, `resources-list-changed` or `prompts-list-changed`."""
    uri: str | None
    cursor: str | None = None
    source: float | None = None
    published: float | None = None
    received: float | None = None
    merged: int = 0
    """How many changes of this URI before it were not yet read when it came: one read answers them all."""
    read: float | None = None
    """When the content was fresh again."""
    content: int | None = None
    """The `seq` of the `ContentVersion` that shows it, and of the one before it."""
    before: int | None = None
    away: bool = False
    """Whether it changed while the server was away: nobody told it, and it was found afterwards."""
    items: ListDifference | None = None
    """Of a list: what is different in it, once it is loaded."""

    @property
    def hops(self) -> list[Hop]:
        """The steps whose times are known, in order."""
        known = [(name, getattr(self, name)) for name in ("source", "published", "received", "read")]
        hops: list[Hop] = []
        for name, at in known:
            if at is not None:
                hops.append(Hop(name, at, at - hops[-1].at if hops else None))
        return hops

    @property
    def fresh_in(self) -> float | None:
        """From the first hop that is known to the fresh content."""
        hops = self.hops
        return None if self.read is None or len(hops) < 2 else self.read - hops[0].at


@dataclass(slots=True)
class ContentVersion:
    """The content of a resource, as it was read."""

    seq: int
    at: float
    uri: str
    hash: str
    contents: list[dict[str, Any]] | dict[str, Any]
    """As the server sent it; if it was too large, what `bounded_json.cut` left of it."""
    size: int
    took: float | None = None
    change: int | None = None
    """The `seq` of the change that it shows."""
    confirmed: float | None = None
    """When it was read again last, and was the same."""

    @property
    def text(self) -> str:
        """All its text, in order. Empty if it has none."""
        parts = self.contents if isinstance(self.contents, list) else [{"text": self.contents.get("head")}]
        return "".join(as_text(as_dict(part).get("text")) or "" for part in parts)

    @property
    def cut(self) -> bool:
        """Whether only its beginning is kept."""
        return isinstance(self.contents, dict)


@dataclass(slots=True)
class SubscriptionView:
    """A subscription: to a URI, or to all that begin with what stands before a `*`."""

    uri: str
    since: float
    versions: Ring[ContentVersion]
    """The same object as in `ServerView.contents`. Empty for a prefix: look there for each URI."""
    updates: int = 0
    merged: int = 0
    """Updates that were answered by the same read as another."""
    last_update: float | None = None
    last_uri: str | None = None
    """Which resource was updated last; for a prefix, one of many."""
    last_read: float | None = None
    error: ErrorView | None = None
    """Why it could not be established again, or its content not be read."""
    last_change: int = 0
    """The `seq` of the last change, and of the last one whose content was read."""
    last_answered: int = 0

    @property
    def stale(self) -> bool:
        """Whether it was updated, and not read since."""
        return self.last_change > self.last_answered


@dataclass(slots=True)
class RequestView:
    """A request, from when it was asked for to what came of it."""

    id: str
    seq: int
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    aside: bool = False
    """Whether the client sent it by itself: to load a list, or to read what is subscribed to."""
    status: str = "pending"
    """`pending`, `in_progress`, `completed`, `cancelled` or `error`."""
    created_at: float | None = None
    started_at: float | None = None
    completed_at: float | None = None
    attempts: int = 0
    result: Any = None
    result_size: int = 0
    error: ErrorView | None = None
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    """What the server said with its last progress."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status not in ("pending", "in_progress")

    @property
    def took(self) -> float | None:
        """From when it was asked for to its end."""
        return None if self.completed_at is None or self.created_at is None else self.completed_at - self.created_at


@dataclass(slots=True)
class QuestionView:
    """What the server asks of the user, and waits for."""

    id: str
    seq: int
    at: float
    kind: str
    """`sampling`, `elicitation` or `roots`."""
    params: dict[str, Any] | None
    message: str
    request: str | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class AnsweredView:
    """A question that is settled."""

    question: QuestionView
    seq: int
    at: float
    outcome: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Count:
    """How many there have been, are kept, and were dropped."""

    total: int
    kept: int
    dropped: int
