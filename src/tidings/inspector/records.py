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
`size`, and its `head` as text (see `bounds.cut`).

May import: nothing of Tidings, nor the SDK: one-shot commands and the page's start depend on it.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tidings.inspector.bounds import dumps, head_of

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
