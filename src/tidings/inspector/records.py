"""Records: everything that happens in a session, as numbered JSON values.

A view is a fold over the records of its server (`view.fold`). So a live session looks the same as one that is read from
its journal, or one that was exported and imported. These are the kinds of records, and their data:

- `server`, a server was added, changed or removed: `what`, `entry` (of the catalog, secrets masked).
- `state`, the state changed: `state` (`disconnected`, `connecting`, `connected`, `disconnecting`, `error`),
  `old`, `signal`, `error`, `tries` (failed attempts in a row), `next_retry`.
- `hello`, the handshake is done: `transport`, `era` (`modern`, `legacy`), `protocol_version`, `server_info`,
  `capabilities`, `instructions`, `pid`.
- `list`, a list was loaded: `list`, `added`, `changed`, `removed` (names), `order` (names; left out if it is the old
  order, then what was added), `duplicates`, `malformed` (`item`, `reason`), `total`. If it failed: `list`, `error`.
- `message`, a JSON-RPC message was sent or received: `incoming`, `body`, `size`, `exchange` (id).
- `exchange`, an HTTP exchange began, was answered, or ended: `id`, `method`, `url`, `request_headers`, `status`,
  `response_headers`, `is_stream`, `began`, `answered`, `ended`, `error`, `received`.
- `request`, a request was made, began, or ended: `id`, `method`, `params`, `aside` (the client sent it by itself; its
  result is not recorded), `status` (`pending`, `in_progress`, `completed`, `cancelled`, `error`), `created_at`,
  `started_at`, `completed_at`, `attempts`, `result`, `result_size`, `error`.
- `progress`, the server reported progress: `id`, `progress`, `total`, `message`.
- `task`, a tool call runs as a task at the server, and more is known about it: `request` (id), `id`, `status`
  (`working`, `input_required`, `completed`, `failed`, `cancelled`), `message`, `created_at`, `updated_at`, `ttl`,
  `poll_interval`, `listening` (by notification, not by polling), `pending` (its outcome is not known yet).
- `change`, the server announced a change: `change` (a `ChangeName`), `uri`, `cursor`, `times` (`source`, `published`,
  `received`), `merged` (earlier changes that were not read yet), `size`.
- `changes-missed`, changes may have been missed up to now, even if the state is the same.
- `content`, a resource was read: `uri`, `contents`, `hash`, `size`, `took`, `change` (the `seq` of the change that it
  answers), `changes` (how many it answers).
- `content-failed`, a resource could not be read again: `uri`, `error`.
- `subscriptions`, the set of subscriptions changed: `uris`.
- `subscription-failed`, a subscription could not be established: `uri`, `error`.
- `log`, the server sent a log message: `level`, `logger`, `data`, `size`.
- `stderr`, a line of error output, and `garbage`, something that is not a message: `text`.
- `notification`, the server sent any other notification: `method`, `params`, `size`.
- `question`, the server asks the user: `id`, `kind` (`sampling`, `elicitation`, `roots`), `params`, `message`,
  `request` (id), `deadline`.
- `answered`, a question was settled: `id`, `answer`, `outcome` (`answered`, `declined`, `cancelled`, `refused`,
  `timed out`, `no longer wanted`).
- `answer-time`, a liveness check was answered: `ms`, `body`, `answer`, `size`, `answer_size`. It is not stored.
- `missed`, records could not be stored: `count`.

A missing key means that nothing is known. In a later record with the same `id`, it means that nothing changed. Readers
skip unknown kinds and keys. Times are seconds since the epoch, durations seconds, sizes bytes. An `error` has the
fields of an `ErrorView`. A value that is too large is cut (`bounded_json.cut`).
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

from tidings._kit.bounded_json import dumps, head_of, type_of

_LARGEST_NUMBER: Final = 2**53  # Larger numbers are not exact everywhere.

ListName = Literal["tools", "resources", "templates", "prompts"]


class ListKind(NamedTuple):
    """One of a server's lists."""

    word: ListName
    one: str  #: The word for one of its items.
    method: str
    key: str  #: The key of the list in the answer.
    id: str  #: The key that identifies an item.
    capability: str


LISTS: Final = {
    kind.word: kind
    for kind in (
        ListKind("tools", "tool", "tools/list", "tools", "name", "tools"),
        ListKind("resources", "resource", "resources/list", "resources", "uri", "resources"),
        ListKind("templates", "template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
        ListKind("prompts", "prompt", "prompts/list", "prompts", "name", "prompts"),
    )
}
LIST_NAMES: Final = tuple(LISTS)
LIST_KEYS: Final[dict[str, str]] = {name: kind.id for name, kind in LISTS.items()}

ChangeName = Literal["resource-updated", "tools-list-changed", "resources-list-changed", "prompts-list-changed"]
CHANGE_METHODS: Final[dict[str, ChangeName]] = {
    "notifications/resources/updated": "resource-updated",
    "notifications/tools/list_changed": "tools-list-changed",
    "notifications/resources/list_changed": "resources-list-changed",
    "notifications/prompts/list_changed": "prompts-list-changed",
}
#: The change that announces differences in each list.
LIST_CHANGES: Final[dict[str, str]] = {name: f"{kind.capability}-list-changed" for name, kind in LISTS.items()}
LIVENESS_CHECKS: Final = ("ping", "server/discover")
NOT_STORED: Final = "answer-time"  #: The kind of record that would fill a session in which nothing happens.


@dataclass(frozen=True, slots=True)
class Record:
    """Something that happened. Its data is never changed."""

    seq: int  #: Increases by one with each record of a session, for all servers together. The first is 1.
    at: float
    server: str  #: The name of the server, unique in the session.
    kind: str  #: One of the kinds above. A file from a later version may have others.
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"seq": self.seq, "at": self.at, "server": self.server, "kind": self.kind, "data": self.data}

    def to_line(self) -> str:
        """Returns the record as one line of ASCII JSON, without the newline."""
        return dumps(self.to_json())

    @classmethod
    def from_json(cls, value: object) -> "Record":
        """Reads what `to_json` returned. Raises `ValueError` with the reason if it is not a record."""
        if not isinstance(value, dict):
            raise ValueError(f"a record is a JSON object, not {type_of(value)}")  # noqa: TRY004 - it is data, not code
        found = cast("dict[str, Any]", value)
        seq, at, server, kind = (found.get(key) for key in ("seq", "at", "server", "kind"))
        data: object = found.get("data")
        if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq < _LARGEST_NUMBER:
            raise ValueError(f"`seq` is a number of 0 or more, not {_shown(seq)}")
        if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < _LARGEST_NUMBER:
            raise ValueError(f"`at` is a time in seconds, not {_shown(at)}")
        if not isinstance(server, str) or not isinstance(kind, str):
            raise ValueError("`server` and `kind` are strings")  # noqa: TRY004 - see above
        if any("\ud800" <= each <= "\udfff" for each in server + kind):  # It could not be stored or sent.
            raise ValueError("`server` and `kind` are strings without lone surrogates")
        if not isinstance(data, dict):
            raise ValueError(f"`data` is a JSON object, not {type_of(data)}")  # noqa: TRY004 - see above
        return cls(seq, float(at), server, kind, cast("dict[str, Any]", data))

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """Reads what `to_line` returned. Raises `ValueError` with the reason if it is not a record."""
        try:
            return cls.from_json(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _shown(value: object) -> str:
    return head_of(value, 60) if isinstance(value, str | int | float) else type_of(value)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits for each server of a session. The oldest entries beyond them are dropped and counted."""

    messages: int = 20_000
    message_bytes: int = 64_000_000
    logs: int = 20_000
    notifications: int = 20_000
    changes: int = 20_000
    stderr: int = 10_000
    exchanges: int = 5_000
    requests: int = 2_000  #: Ended requests. Running ones are always kept.
    ring_bytes: int = 32 * 2**20
    """Bytes for each of logs, notifications, changes, error output, exchanges, and results of requests."""
    versions: int = 20  #: Versions of the content of one resource.
    contents: int = 1_000  #: Resources with content.
    contents_bytes: int = 256 * 2**20  #: All versions of all resources together.
    record_bytes: int = 2**20  #: Larger messages, log messages and notifications are cut.
    content_bytes: int = 8 * 2**20  #: Larger contents and results are cut.
    records: int = 20_000
    """Records of all servers that `Session.since` can return to a reader that was away for a moment."""
    recent_bytes: int = 64 * 2**20  #: Bytes of these records.
