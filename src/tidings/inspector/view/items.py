"""The entries of a `ServerView`, each of which is one small value.

Only the fold changes these values. Times are seconds since the epoch, durations are seconds (`…_ms`: milliseconds), and
`seq` is the number of the record from which an entry was made.

The page gets some of them as rows with the fields that `ROW` lists. A field that is None or False is not sent.
`scripts/row-types` generates the page's TypeScript types from these fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, ClassVar, Final, Literal

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_float, as_int, as_size, as_text, head_of
from tidings.inspector.view.rings import Ring

Who = Literal["you", "the network", "the server", "this program"]
MessageKind = Literal["request", "response", "error", "notification", "unknown"]

_MOST_NAMES: Final = 30
_LONGEST: Final = 300  # Characters of a name, or of a text in a row.


@dataclass(slots=True)
class ErrorView:
    """An error: the fault, its cause and its cure."""

    message: str
    code: str = "unknown"
    #: A value of `tidings.errors.Category`, `input` (wrong before it was sent) or `program` (a bug of Tidings).
    category: str = "unknown"
    who: str = "this program"  #: The cause: one of `Who`.
    cure: str = ""
    help: str | None = None  #: The address of the page that explains it.
    retryable: bool = False
    method: str | None = None
    elapsed: float | None = None
    payload: Any = None  #: The other side's answer, if there was one.

    @classmethod
    def read(cls, data: object) -> "ErrorView | None":
        if (found := as_dict_or_none(data)) is None:
            return None
        error = cls("")
        take(error, found)
        return error


@dataclass(slots=True)
class Item:
    """Something that happened."""

    KIND: ClassVar[str]  #: The kind of its row.
    ROW: ClassVar[tuple[str, ...]]  #: The fields of its row.

    seq: int
    at: float

    @property
    def ms(self) -> float | None:
        """The time that it took, if known."""
        return _ms(getattr(self, "took", None))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)


@dataclass(slots=True)
class MessageView(Item):
    """A JSON-RPC message."""

    KIND = "message"
    ROW = ("incoming", "method", "id", "size", "ms", "subject", "outcome", "answer_size", "ping")

    incoming: bool
    kind: MessageKind
    method: str | None  #: For a response: the method of the request that it answers, if known.
    id: str | int | None
    body: dict[str, Any]
    size: int
    exchange: int | None = None  #: The `id` of the HTTP exchange that carried it.
    partner: int | None = None  #: The `seq` of the response to this request, or of the request of this response.
    took: float | None = None  #: The time from the request to its response; set on both.
    #: Of a request that has ended: `ok`, `isError`, the code of its error, `cancelled`, or `lost` with the connection.
    outcome: str | None = None
    answer_size: int | None = None
    about: str | None = None  #: For a progress notification: the subject of its request.
    answer: dict[str, Any] | None = None  #: For a liveness check: the response, which has no entry of its own.

    @property
    def ping(self) -> bool:
        """True for a liveness check, which the client sent automatically."""
        return self.answer is not None

    @property
    def subject(self) -> str | None:
        """The tool, resource or prompt that the message is about, or the beginning of its text."""
        params = as_dict(self.body.get("params"))
        found = (params.get(key) for key in ("name", "uri", "message", "taskId", "level"))
        named = _referred(params) or next((each for each in found if each), None)
        if self.method == "notifications/message":
            return f"{named}: {head_of(params.get('data'), _LONGEST)}"
        return self.about or as_text(named) or ("next page" if params.get("cursor") else None)

    def end(self, answer: "MessageView") -> None:
        result, error = as_dict(answer.body.get("result")), answer.body.get("error")
        failed = "isError" if result.get("isError") is True else "ok"
        self.outcome = failed if error is None else str(as_dict(error).get("code", "error"))
        self.partner, self.answer_size = answer.seq, answer.size


def _referred(params: dict[str, Any]) -> str | None:
    """Returns the prompt or the template that a request for completions is about."""
    ref = as_dict(params.get("ref"))
    return as_text(ref.get("name")) or as_text(ref.get("uri"))


@dataclass(slots=True)
class ExchangeView(Item):
    """An HTTP exchange. Its row is sent again when it is answered and when it ends."""

    KIND = "exchange"
    ROW = ("id", "method", "url", "status", "ms", "is_stream")

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
        return self.ended is None and self.error is None

    @property
    def took(self) -> float | None:
        return None if self.ended is None or self.began is None else self.ended - self.began


@dataclass(slots=True)
class NotificationView(Item):
    """A notification from the server that is not a log message."""

    KIND = "notification"
    ROW = ("method", "summary")

    method: str = ""
    params: dict[str, Any] | None = None

    @property
    def summary(self) -> str:
        shown = {key: value for key, value in (self.params or {}).items() if key != "_meta"}
        uri = as_text(shown.get("uri")) if len(shown) == 1 else None
        return head_of(shown if uri is None else uri, _LONGEST) if shown else ""


@dataclass(slots=True)
class LogView(Item):
    """A log message from the server."""

    KIND = "log"
    ROW = ("level", "logger", "text")

    level: str = "info"
    logger: str | None = None
    data: Any = None

    @property
    def text(self) -> str:
        """The beginning of its message."""
        data = as_dict(self.data)
        message = next((data[key] for key in ("message", "msg", "text") if isinstance(data.get(key), str)), self.data)
        return head_of(message, _LONGEST)


@dataclass(slots=True)
class LineView(Item):
    """A line of error output or, with `garbage`, something from the server that is not a message."""

    KIND = "stderr"
    ROW = ("text", "garbage")

    text: str = ""
    garbage: bool = False


@dataclass(slots=True)
class StateView(Item):
    """A change of the connection's state."""

    KIND = "state"
    ROW = ("state", "words")

    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A step in the delivery of a change."""

    name: str  #: `source`, `published`, `received` or `read`.
    at: float
    took: float | None  #: The time since the previous hop; None for the first. Negative where two clocks differ.


@dataclass(slots=True)
class ListDifference:
    """The differences between two loads of a list: some names, and the number of other ones."""

    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    more: int = 0

    def add(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for kept, found in (
            (self.added, [name for name in now if name not in before]),
            (self.removed, [name for name in before if name not in now]),
            (self.changed, [name for name, item in now.items() if before.get(name, item) != item]),
        ):
            room = max(0, _MOST_NAMES - len(kept))
            kept += [name[:_LONGEST] for name in found[:room]]
            self.more += max(0, len(found) - room)

    @property
    def words(self) -> str:
        """The differences as text: "search added; 12 removed"."""
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        shown = {what: ", ".join(names) if len(names) < 4 else f"{len(names):,}" for what, names in kinds.items()}
        found = [f"{names} {what}" for what, names in shown.items() if names]
        return "; ".join([*found, *([f"{self.more:,} more"] if self.more else [])]) or "nothing is different"


@dataclass(slots=True)
class ChangeView(Item):
    """A change to a resource or a list, as the server sent it or as it was found later, with its effect.

    Its row is sent again when more is known about it.
    """

    KIND = "change"
    ROW = ("change", "uri", "merged", "fresh_ms", "away", "different")

    change: str  #: `resource-updated`, `tools-list-changed`, `resources-list-changed` or `prompts-list-changed`.
    uri: str | None
    cursor: str | None = None
    source: float | None = None
    published: float | None = None
    received: float | None = None
    merged: int = 0  #: The number of earlier changes to the same that were not read yet: one read covers them all.
    read: float | None = None  #: The time at which the content was up to date again.
    content: int | None = None  #: The `seq` of the `ContentVersion` that shows it, and of the one before it.
    before: int | None = None
    away: bool = False  #: True if it happened while the server was away, and was found later.
    items: ListDifference | None = None  #: The differences of a list, once the list is loaded.

    @property
    def hops(self) -> list[Hop]:
        """The steps with known times, in order."""
        hops: list[Hop] = []
        for name in ("source", "published", "received", "read"):
            if (at := getattr(self, name)) is not None:
                hops.append(Hop(name, at, at - hops[-1].at if hops else None))
        return hops

    @property
    def fresh_in(self) -> float | None:
        """The time from the first known hop until the content was up to date."""
        hops = self.hops
        return None if self.read is None or len(hops) < 2 else self.read - hops[0].at

    @property
    def fresh_ms(self) -> float | None:
        return _ms(self.fresh_in)

    @property
    def different(self) -> str | None:
        """The differences of a list, as text."""
        return None if self.items is None else self.items.words


@dataclass(slots=True)
class ContentVersion(Item):
    """The content of a resource, as it was read."""

    uri: str
    hash: str
    #: As the server sent it, or cut (`bounded_json.cut`) if it was too large.
    contents: list[dict[str, Any]] | dict[str, Any]
    size: int
    took: float | None = None
    change: int | None = None  #: The `seq` of the change that it shows.
    confirmed: float | None = None  #: The time of the last read that returned the same.

    @property
    def text(self) -> str:
        parts = self.contents if isinstance(self.contents, list) else [{"text": self.contents.get("head")}]
        return "".join(as_text(as_dict(part).get("text")) or "" for part in parts)

    @property
    def cut(self) -> bool:
        """True if only its beginning is kept."""
        return isinstance(self.contents, dict)


@dataclass(slots=True)
class SubscriptionView:
    """A subscription to a URI, or to a prefix that ends in `*`."""

    uri: str
    since: float
    versions: Ring[ContentVersion]  #: The same object as in `ServerView.contents`. Empty for a prefix.
    updates: int = 0
    merged: int = 0  #: Updates that were covered by the same read as another one.
    last_update: float | None = None
    last_uri: str | None = None  #: The resource that was updated last: for a prefix, one of many.
    last_read: float | None = None
    error: ErrorView | None = None  #: The reason why it could not be restored, or its content could not be read.
    last_change: int = 0  #: The `seq` of the last change, and of the last change whose content was read.
    last_answered: int = 0

    @property
    def stale(self) -> bool:
        """True if it was updated and has not been read since then."""
        return self.last_change > self.last_answered


@dataclass(slots=True)
class TaskView:
    """A tool call that the server runs as a task."""

    id: str
    status: str | None = None
    """`working`, `input_required`, `completed`, `failed` or `cancelled`; None if the server was not asked yet."""
    message: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    ttl: float | None = None  #: The seconds for which the server keeps it, from its creation. None: no limit.
    poll_interval: float | None = None
    listening: bool = False  #: True if the server announces its changes. Otherwise it is polled.
    pending: bool = False  #: True if its outcome is unknown, and can still be requested.

    @property
    def ends(self) -> float | None:
        """The time until which the server keeps it."""
        return None if self.created_at is None or self.ttl is None else self.created_at + self.ttl


@dataclass(slots=True)
class RequestView:
    """A request and its result. Its row is sent again when its status changes."""

    KIND: ClassVar = "request"
    ROW: ClassVar = (
        *("id", "method", "title", "status", "state", "ms", "error_code", "aside", "task_id", "task_message"),
        *("given", "result_size", "is_error"),
    )

    id: str
    seq: int
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    aside: bool = False  #: True if the client sent it automatically, to load a list or to read a subscribed resource.
    status: str = "pending"  #: `pending`, `in_progress`, `completed`, `cancelled` or `error`.
    created_at: float | None = None
    started_at: float | None = None
    completed_at: float | None = None
    attempts: int = 0
    result: Any = None
    result_size: int = 0
    error: ErrorView | None = None
    progress: float | None = None
    total: float | None = None
    message: str | None = None  #: The message of the last progress notification.
    task: TaskView | None = None  #: The task that it became.

    @property
    def title(self) -> str:
        """The subject: its tool, resource or prompt."""
        texts = (as_text(self.params.get(key)) for key in ("name", "uri", "uriTemplate"))
        return next((text for text in texts if text is not None), _referred(self.params) or self.method)

    @property
    def given(self) -> str:
        """The beginning of its arguments."""
        values = as_dict(self.params.get("arguments")).values()
        return ", ".join(head_of(each, 60) for each in [*values][:6])

    @property
    def is_error(self) -> bool:
        """True if the tool reports that it failed."""
        return as_dict(self.result).get("isError") is True

    @property
    def state(self) -> str:
        """The status. While its task runs, the status of the task; `left` if nobody follows the task any more."""
        if self.task is None:
            return self.status
        if self.over:
            return "left" if self.task.pending else self.status
        return self.task.status or "working"

    @property
    def over(self) -> bool:
        return self.status not in ("pending", "in_progress")

    @property
    def took(self) -> float | None:
        return None if self.completed_at is None or self.created_at is None else self.completed_at - self.created_at

    @property
    def at(self) -> float:
        return self.created_at or 0.0

    @property
    def ms(self) -> float | None:
        return _ms(self.took)

    @property
    def error_code(self) -> str | None:
        return None if self.error is None else self.error.code

    @property
    def task_id(self) -> str | None:
        return None if self.task is None else self.task.id

    @property
    def task_message(self) -> str | None:
        """The server's message about the status of the task."""
        return None if self.task is None else self.task.message


@dataclass(slots=True)
class QuestionView:
    """A question from the server that waits for an answer."""

    id: str
    seq: int
    at: float
    kind: str = ""  #: `sampling`, `elicitation` or `roots`.
    params: dict[str, Any] | None = None
    message: str = ""
    request: str | None = None  #: The id of the request that led to it, if that is certain.
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class AnsweredView:
    """A question that was answered, refused or withdrawn."""

    question: QuestionView
    outcome: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Count:
    """The number of things that arrived, are kept, and were dropped."""

    total: int
    kept: int
    dropped: int


# How a value in a record is read, by the type of its field. It may be anything: a file can be edited.
_READS: Final[dict[Any, Callable[[object], Any]]] = {
    str | None: as_text,
    bool: lambda value: value is True,
    int: as_size,
    int | None: as_int,
    float | None: as_float,
    dict[str, Any]: as_dict,
    dict[str, Any] | None: as_dict_or_none,
    ErrorView | None: ErrorView.read,
    Any: lambda value: value,
}


def take(item: object, data: Mapping[str, Any]) -> None:
    """Updates an item with the fields of a record, except those that identify and place the item."""
    for name, read in _reads(type(item)).items():
        if name in data:
            setattr(item, name, read(data[name]))


@cache
def _reads(kind: type[Any]) -> dict[str, Callable[[object], Any]]:
    named = {each.name: each for each in fields(kind) if each.name not in ("id", "seq", "at")}

    def read_text(default: Any, value: object) -> str:
        return as_text(value) or (default if isinstance(default, str) else "")

    texts = {name: partial(read_text, each.default) for name, each in named.items() if each.type is str}
    return {name: _READS[each.type] for name, each in named.items() if each.type in _READS} | texts


#: Everything that the page has rows of.
ROWS: Final = (*(ChangeView, MessageView, NotificationView, LogView), *(LineView, RequestView, ExchangeView, StateView))
