"""What a server asks of the user, as a value: for a person to see, and for a responder to answer.

Answers to what a server asks, as the protocol wants them. Plain values are taken for convenience.

| asked for   | the SDK's type                                        | or plainly                                  |
|-------------|-------------------------------------------------------|---------------------------------------------|
| elicitation | `ElicitResult`                                        | a dict: accepted, with this content         |
| sampling    | `CreateMessageResult`, `CreateMessageResultWithTools` | a text: the assistant's, of model "tidings" |
| roots       | `ListRootsResult`                                     | a list of `file://` URIs, paths and `Root`s |

What is accepted in a form gets the form's defaults for the fields that were left out (SEP-1034), and is checked
against the form. A URL that a person agreed to open is accepted with no content: `{}`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, cast

from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import ValidationError

from tidings.client.schema import fill_in
from tidings.errors import AnswerTimedOut, Disconnected, RequestCancelled, TidingsError

Kind = Literal["sampling", "elicitation", "roots"]
METHODS: Final[dict[Kind, str]] = {
    "sampling": "sampling/createMessage",
    "elicitation": "elicitation/create",
    "roots": "roots/list",
}

Params = CreateMessageRequestParams | ElicitRequestParams | None


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """Something that the server asked for, and waits for."""

    id: str
    kind: Kind
    request: Params = None
    """What the server sent. None for roots: there is nothing to it."""
    server: str = ""
    created_at: datetime = field(default_factory=_now)

    @property
    def age(self) -> float:
        """Seconds since it came."""
        return max(0.0, (_now() - self.created_at).total_seconds())

    @property
    def message(self) -> str:
        """What is asked, in words: the message of an elicitation, the text of the last message to sample from."""
        match self.request:
            case CreateMessageRequestParams(messages=[*_, last]):
                return "\n".join(part.text for part in last.content_as_list if isinstance(part, TextContent))
            case ElicitRequestFormParams() | ElicitRequestURLParams():
                return self.request.message
            case _:
                return ""

    @property
    def mode(self) -> Literal["form", "url"] | None:
        """How an elicitation wants to be answered; None for the other kinds."""
        return self.request.mode if isinstance(self.request, ElicitRequestFormParams | ElicitRequestURLParams) else None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The form to fill in, as JSON Schema; None if there is none."""
        return self.request.requested_schema if isinstance(self.request, ElicitRequestFormParams) else None

    @property
    def url(self) -> str | None:
        """The address to open; None if there is none."""
        return self.request.url if isinstance(self.request, ElicitRequestURLParams) else None


class Ask(Enum):
    """The type of `ASK`."""

    ASK = "ask"


ASK: Final = Ask.ASK
"""What a responder returns to leave a question to the person."""

Responder = Callable[[PendingRequest], Awaitable[Any] | Any]
"""Answers a question: with a result of the SDK or a plain value as `resolve` takes it, with `refusal(reason)`, or with
`ASK`. It runs on the event loop: one that takes its time is a coroutine function. A person may still be quicker."""


Sampled = CreateMessageResult | CreateMessageResultWithTools
Answer = Sampled | ElicitResult | ListRootsResult

MODEL: Final = "tidings"
"""The model that a plain text is said to come from."""

REJECTED: Final = -1
"""The JSON-RPC code with which the specification shows a person's refusal."""

_FAILED: Final = "The client failed to answer"
_CODES: Final[dict[type[Exception], int]] = {
    AnswerTimedOut: REQUEST_TIMEOUT,
    Disconnected: CONNECTION_CLOSED,
    RequestCancelled: REJECTED,
}


def sampled(value: object) -> Sampled:
    """The answer to a request for a sample."""
    match value:
        case CreateMessageResult() | CreateMessageResultWithTools():
            return value
        case str():
            content = TextContent(text=value)
            return CreateMessageResult(role="assistant", content=content, model=MODEL, stop_reason="endTurn")
        case _:
            raise ValueError(f"Sampling is answered with a text or a CreateMessageResult, not with {_kind(value)}.")


def elicited(request: ElicitRequestParams, value: object) -> ElicitResult:
    """The answer to a form, or to the request to open a URL."""
    match value:
        case ElicitResult(action="accept"):
            content = _content(request, value.content or {})
            return value.model_copy(update={"content": content})
        case ElicitResult():
            return value.model_copy(update={"content": None})
        case Mapping():
            return ElicitResult(action="accept", content=_content(request, cast("Mapping[str, Any]", value)))
        case _:
            raise ValueError(f"Elicitation is answered with a dict or an ElicitResult, not with {_kind(value)}.")


def _content(request: ElicitRequestParams, content: Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(request, ElicitRequestFormParams):
        return dict(fill_in(request.requested_schema, content))
    if content:
        raise ValueError("What is asked is to open a URL: accept it with no content ({}), decline or cancel.")
    return None


def rooted(value: object) -> ListRootsResult:
    """The answer to a request for roots."""
    match value:
        case ListRootsResult():
            return value
        case list() | tuple():
            return ListRootsResult(roots=[_root(each) for each in cast("list[Any]", value)])
        case _:
            raise ValueError(f"Roots are a list of paths and file:// URIs, or a ListRootsResult, not {_kind(value)}.")


def _root(value: object) -> Root:
    match value:
        case Root():
            return value
        case str() if "://" in value:
            try:
                return Root.model_validate({"uri": value})
            except ValidationError:
                raise ValueError(f"{value!r} cannot be a root: the protocol allows only file:// URIs.") from None
        case str() | os.PathLike() if value:
            path = Path(cast("str | os.PathLike[str]", value)).expanduser().absolute()
            return Root.model_validate({"uri": path.as_uri()})
        case _:
            raise ValueError(f"A root is a path or a file:// URI, not {_kind(value)}.")


def refusal(reason: str) -> ErrorData:
    """What a responder returns to refuse with a reason, which the server is told."""
    return refused(RequestCancelled(reason))


def refused(error: Exception) -> ErrorData:
    """What the server is told when there is no answer. A program's own failures are none of its business.

    In the modern era the SDK raises it to the caller of the tool; the name in the data tells what it was.
    """
    code = _CODES.get(type(error))
    if not isinstance(error, TidingsError) or code is None:
        return ErrorData(code=INTERNAL_ERROR, message=_FAILED)
    return ErrorData(code=code, message=error.message, data={"code": error.code, "retryable": error.retryable})


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__!r}" if value != "" else "an empty text"
