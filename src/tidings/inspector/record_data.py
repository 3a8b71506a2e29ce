"""The shapes of the data of records, one for each kind: see the table in `records`.

All of it is plain JSON. A key that is not there says that nothing is known, or, where a record adds to one before it
with the same `id`, that this is as it was.

May import: nothing of Tidings, nor the SDK.
"""

from typing import Any, Final, Literal, NotRequired, TypedDict

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
