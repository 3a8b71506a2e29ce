"""Records: everything the inspector knows arrives as one of these, and in no other way.

A record has a running number, a time, the name of the server it is about, a kind, and data that is plain JSON. What a
server looks like is a fold over its records (`views.ServerView.apply`), so that a session that is live, one that is
read from its journal, and one that was exported and imported again are the same thing. The shapes of the data are in
`record_data`.

| kind                  | data                | told when |
|-----------------------|---------------------|-----------|
| `server`              | `ServerData`        | a server was added, changed or removed |
| `state`               | `StateData`         | the connection went from one state to another |
| `hello`               | `HelloData`         | connected: who the server says it is |
| `list`                | `ListData`          | a list was loaded: what is different now, or why it could not be |
| `message`             | `MessageData`       | a JSON-RPC message went over the wire |
| `exchange`            | `ExchangeData`      | an HTTP exchange began, was answered, or ended: the same `id` |
| `request`             | `RequestData`       | a request was asked for, began, or ended: the same `id` |
| `progress`            | `ProgressData`      | the server told how far it is with a request |
| `change`              | `ChangeData`        | the server said that a resource or a list is different now |
| `content`             | `ContentData`       | a resource that is subscribed to was read |
| `content-failed`      | `ContentFailedData` | it could not be read |
| `subscriptions`       | `SubscriptionsData` | the set of subscriptions is another now |
| `subscription-failed` | `SubscriptionFailedData` | one could not be established, or not again |
| `log`                 | `LogData`           | the server sent a log message |
| `stderr`              | `LineData`          | a command wrote a line to its error output |
| `garbage`             | `LineData`          | the server sent something that is no message |
| `notification`        | `NotificationData`  | the server sent any other notification |
| `question`            | `QuestionData`      | the server asks something of the user |
| `answered`            | `AnsweredData`      | that was answered, refused, or is no longer wanted |
| `answer-time`         | `AnswerTimeData`    | the server answered; told at most once a second |
| `missed`              | `MissedData`        | so many records could not be kept |

A reader passes over kinds and keys that it does not know: a later version may have more. Times are seconds since the
epoch, durations are seconds, sizes are bytes. What is too large to be kept is *cut*: a mapping with `"cut": true`, its
`size`, and its `head` as text (see `bounded_json.cut`).

May import: nothing of Tidings, nor the SDK: one-shot commands and the page's start depend on it.

The shapes of the data of records, one for each kind: see the table in `records`.

All of it is plain JSON. A key that is not there says that nothing is known, or, where a record adds to one before it
with the same `id`, that this is as it was.

May import: nothing of Tidings, nor the SDK.

How much of a session is kept in memory and in its journal, as values.
"""

import json
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from tidings._kit.bounded_json import dumps, head_of

Kind = Literal[
    "server",
    "state",
    "hello",
    "list",
    "message",
    "exchange",
    "request",
    "progress",
    "change",
    "content",
    "content-failed",
    "subscriptions",
    "subscription-failed",
    "log",
    "stderr",
    "garbage",
    "notification",
    "question",
    "answered",
    "answer-time",
    "missed",
]


_BEYOND: Final = 2**53
"""Numbers from here on are not exact everywhere, and no time or number of a record."""


@dataclass(frozen=True, slots=True)
class Record:
    """Something that happened, as it is kept and told. Its data is never changed."""

    seq: int
    """Rises by one from record to record of a session, whichever server they are about. The first is 1."""
    at: float
    server: str
    """The name under which the server was added; unique in a session."""
    kind: str
    """One of `Kind`. A text, because a file may be of a later version."""
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The record as a mapping of JSON values."""
        return {"seq": self.seq, "at": self.at, "server": self.server, "kind": self.kind, "data": self.data}

    def to_line(self) -> str:
        """The record as one line of JSON, in ASCII, without the line's end."""
        return dumps(self.to_json())

    @classmethod
    def from_json(cls, value: object) -> "Record":
        """The record that `to_json` made a mapping of.

        Raises:
            ValueError: It is none, and the reason.
        """
        if not isinstance(value, dict):
            raise ValueError(f"a record is a JSON object, not {_kind_of(value)}")  # noqa: TRY004 - it is data, not code
        found = cast("dict[str, Any]", value)
        seq, at, server, kind = (found.get(key) for key in ("seq", "at", "server", "kind"))
        data: object = found.get("data")
        if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq < _BEYOND:
            raise ValueError(f"`seq` is a number of 0 or more, not {_shown(seq)}")
        if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < _BEYOND:
            raise ValueError(f"`at` is a time in seconds, not {_shown(at)}")
        if not isinstance(server, str) or not isinstance(kind, str):
            raise ValueError("`server` and `kind` are texts")  # noqa: TRY004 - see above
        if not _is_whole(server) or not _is_whole(kind):
            raise ValueError("`server` and `kind` are texts without half characters")
        if not isinstance(data, dict):
            raise ValueError(f"`data` is a JSON object, not {_kind_of(data)}")  # noqa: TRY004 - see above
        return cls(seq, float(at), server, kind, cast("dict[str, Any]", data))

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """The record that `to_line` made a line of.

        Raises:
            ValueError: It is none, and the reason.
        """
        try:
            return cls.from_json(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _is_whole(text: str) -> bool:
    """Whether nothing in it is half of a character: such a text can neither be stored nor sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_of(value: object) -> str:
    names: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    return head_of(value, 60) if isinstance(value, str | int | float) else _kind_of(value)


ListName = Literal["tools", "resources", "templates", "prompts"]
LIST_NAMES: Final[tuple[ListName, ...]] = ("tools", "resources", "templates", "prompts")
LIST_KEYS: Final[dict[str, str]] = {
    "tools": "name",
    "resources": "uri",
    "templates": "uriTemplate",
    "prompts": "name",
}
"""What an item of a list is known by."""

ChangeName = Literal["resource-updated", "tools-list-changed", "resources-list-changed", "prompts-list-changed"]
CHANGE_METHODS: Final[dict[str, ChangeName]] = {
    "notifications/resources/updated": "resource-updated",
    "notifications/tools/list_changed": "tools-list-changed",
    "notifications/resources/list_changed": "resources-list-changed",
    "notifications/prompts/list_changed": "prompts-list-changed",
}
LIST_CHANGES: Final[dict[str, ChangeName]] = {
    "tools": "tools-list-changed",
    "resources": "resources-list-changed",
    "templates": "resources-list-changed",
    "prompts": "prompts-list-changed",
}
"""Which change tells that a list is different."""

Items = list[dict[str, Any]]
Names = list[str]


class ServerData(TypedDict):
    """A server was added, changed or removed. The secrets of its entry are masked."""

    what: Literal["added", "changed", "removed"]
    entry: NotRequired[dict[str, Any]]
    """The catalog's entry, as JSON."""


class ErrorData(TypedDict, total=False):
    """What went wrong. `errors_seen` makes it, and says who is at fault and what to do."""

    code: str
    category: str
    who: str
    """"you", "the network", "the server" or "this program"."""
    message: str
    cure: str
    help: str
    retryable: bool
    method: str | None
    elapsed: float | None
    payload: Any
    """What the other side sent, if it sent something."""


class StateData(TypedDict, total=False):
    """The connection went from one state to another."""

    state: str
    """`disconnected`, `connecting`, `connected`, `disconnecting` or `error`."""
    old: str
    signal: str
    error: ErrorData | None
    tries: int
    """How many attempts have failed in a row."""
    next_retry: float | None
    """When the next attempt begins, if there will be one."""


class HelloData(TypedDict, total=False):
    """Who the server says it is, once it is connected."""

    transport: str | None
    """`stdio`, `http`, `sse` or `memory`."""
    protocol_version: str | None
    server_info: dict[str, Any] | None
    capabilities: dict[str, Any] | None
    instructions: str | None
    pid: int | None
    """The process of a command."""


class ListData(TypedDict, total=False):
    """A list was loaded. Only what is different from before is told, so that 10,000 resources are not repeated."""

    list: ListName
    added: Items
    changed: Items
    """Items with a name that was there before, as they are now."""
    removed: Names
    """What the items that are gone were known by: see `LIST_KEYS`."""
    order: Names
    """The names in the server's order. Left out if that is: what was there, as it was, then what was added."""
    duplicates: Items
    """Items whose name another item before them has. Present whenever there are or were some."""
    malformed: Items
    """Each `{"item": …, "reason": …}`: what is not as the protocol says. Present whenever there are or were some."""
    total: int
    error: ErrorData | None
    """Why it could not be loaded. Nothing else is told then: what was known stays."""


class MessageData(TypedDict, total=False):
    """A JSON-RPC message as it went over the wire, secrets masked."""

    incoming: bool
    body: dict[str, Any]
    """If it was cut, it has `jsonrpc`, `id` and `method` beside `cut`, `size` and `head`."""
    size: int
    exchange: int | None
    """The `id` of the HTTP exchange that carried it."""


class ExchangeData(TypedDict, total=False):
    """An HTTP exchange. What is told later has only what is new, and its `id`."""

    id: int
    method: str
    url: str
    request_headers: dict[str, str]
    status: int | None
    response_headers: dict[str, str] | None
    is_stream: bool
    began: float
    answered: float | None
    ended: float | None
    error: str | None
    received: int


class RequestData(TypedDict, total=False):
    """A request of the user's, or of the client's own. What is told later has only what is new, and its `id`."""

    id: str
    method: str
    params: dict[str, Any]
    aside: bool
    """Whether the client sent it by itself. Its result is not kept here: `list` and `content` have it."""
    status: str
    """`pending`, `in_progress`, `completed`, `cancelled` or `error`."""
    created_at: float
    started_at: float | None
    completed_at: float | None
    attempts: int
    result: Any
    """What the server answered, as JSON, or cut."""
    result_size: int
    error: ErrorData | None


class ProgressData(TypedDict, total=False):
    """How far the server is with a request."""

    id: str
    progress: float
    total: float | None
    message: str | None


class ChangeTimes(TypedDict, total=False):
    """When a change passed each hop, as far as it is known."""

    source: float
    """The file or page changed (`_meta["dev.tidings/times"]`)."""
    published: float
    """The server published it (likewise)."""
    received: float
    """It was read from the wire."""


class ChangeData(TypedDict, total=False):
    """The server said that something is different now."""

    change: str
    """One of `ChangeName`."""
    uri: str | None
    """Of an updated resource."""
    cursor: str | None
    times: ChangeTimes
    merged: int
    """How many changes of this URI before it were not yet read when it came: one read will answer them all."""
    size: int


class ContentData(TypedDict, total=False):
    """The content of a resource that is subscribed to, as it was read."""

    uri: str
    contents: list[dict[str, Any]] | dict[str, Any]
    """As the server sent it, or cut."""
    hash: str
    """Equal for equal content."""
    size: int
    took: float | None
    """How long it took to read."""
    change: int | None
    """The `seq` of the change that it answers; None if it was read for another reason."""
    changes: int
    """How many changes it answers."""


class ContentFailedData(TypedDict):
    """A resource that is subscribed to could not be read."""

    uri: str
    error: ErrorData


class SubscriptionsData(TypedDict):
    """All that is subscribed to, now."""

    uris: list[str]


class SubscriptionFailedData(TypedDict):
    """A subscription could not be established, or not again."""

    uri: str
    error: ErrorData


class LogData(TypedDict, total=False):
    """A log message of the server."""

    level: str
    logger: str | None
    data: Any
    size: int


class LineData(TypedDict):
    """A line of a command's error output, or what was no message."""

    text: str


class NotificationData(TypedDict, total=False):
    """A notification that is neither a change nor a log message."""

    method: str
    params: dict[str, Any] | None
    size: int


class QuestionData(TypedDict, total=False):
    """What the server asks of the user."""

    id: str
    kind: str
    """`sampling`, `elicitation` or `roots`."""
    params: dict[str, Any] | None
    """What the server sent."""
    message: str
    """What is asked, in words."""
    request: str | None
    """The `id` of the request on whose behalf it is asked, if that is known."""
    deadline: float | None
    """When it is refused if nobody answered."""


class AnsweredData(TypedDict, total=False):
    """A question is settled."""

    id: str
    outcome: str
    """`answered`, `declined`, `cancelled`, `refused`, `timed out` or `no longer wanted`."""
    answer: Any
    """What the server got, as JSON; of a refusal, the reason."""


class AnswerTimeData(TypedDict):
    """The server answered."""

    ms: float


class MissedData(TypedDict):
    """Records could not be kept: the disk was full, or too slow for too long."""

    count: int


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds, each for one server of a session. What goes beyond them is dropped, the oldest first, and counted."""

    messages: int = 20_000
    message_bytes: int = 64 * 2**20
    logs: int = 20_000
    notifications: int = 20_000
    changes: int = 20_000
    stderr: int = 10_000
    exchanges: int = 5_000
    requests: int = 2_000
    """Those that ended; what runs is kept in any case."""
    ring_bytes: int = 32 * 2**20
    """For each of the others: logs, notifications, changes, error output, exchanges, results of requests."""
    versions: int = 20
    """Versions of a resource's content."""
    contents: int = 1_000
    """Resources whose content is kept."""
    contents_bytes: int = 256 * 2**20
    """All versions of all resources together."""
    record_bytes: int = 2**20
    """A larger message, log message or notification is cut."""
    content_bytes: int = 8 * 2**20
    """A larger content or result is cut: its hash, its size and its beginning are kept."""
    records: int = 20_000
    """Records of all servers that `Session.since` still knows; for a reader who was away for a moment."""
    recent_bytes: int = 64 * 2**20
    """What those may take."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"SessionLimits needs {each.name} >= 1, not {value!r}")
