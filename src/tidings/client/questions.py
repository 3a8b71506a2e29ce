"""A question of the server as a value, and its answer as the protocol wants it. Plain values are accepted, too.

| asked for   | the SDK's type                                        | or plainly                                  |
|-------------|-------------------------------------------------------|---------------------------------------------|
| elicitation | `ElicitResult`                                        | a dict: accepted, with this content         |
| sampling    | `CreateMessageResult`, `CreateMessageResultWithTools` | a text: the assistant's, of model "tidings" |
| roots       | `ListRootsResult`                                     | a list of `file://` URIs, paths and `Root`s |

A form that is accepted gets its defaults for fields that were left out (SEP-1034), and is checked. A URL that a person
agrees to open is accepted without content: `{}`.
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
    """A question of the server that waits for an answer."""

    id: str
    kind: Kind
    request: Params = None
    """The server's parameters. None for roots."""
    server: str = ""
    created_at: datetime = field(default_factory=_now)

    @property
    def age(self) -> float:
        """Seconds since it arrived."""
        return max(0.0, (_now() - self.created_at).total_seconds())

    @property
    def message(self) -> str:
        """The question in words: the message of an elicitation, or the last message to sample from."""
        match self.request:
            case CreateMessageRequestParams(messages=[*_, last]):
                return "\n".join(part.text for part in last.content_as_list if isinstance(part, TextContent))
            case ElicitRequestFormParams() | ElicitRequestURLParams():
                return self.request.message
            case _:
                return ""

    @property
    def mode(self) -> Literal["form", "url"] | None:
        """The mode of an elicitation; None for the other kinds."""
        return self.request.mode if isinstance(self.request, ElicitRequestFormParams | ElicitRequestURLParams) else None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The form to fill in, as JSON Schema, if there is one."""
        return self.request.requested_schema if isinstance(self.request, ElicitRequestFormParams) else None

    @property
    def url(self) -> str | None:
        """The URL to open, if there is one."""
        return self.request.url if isinstance(self.request, ElicitRequestURLParams) else None


class Ask(Enum):
    """The type of `ASK`."""

    ASK = "ask"


ASK: Final = Ask.ASK
"""Returned by a responder to leave a question to the person."""
Responder = Callable[[PendingRequest], Awaitable[Any] | Any]
"""Answers a question: with a result of the SDK, a plain value as for `resolve`, `refusal(reason)`, or `ASK`.
It runs on the event loop, so a slow one is a coroutine function. A person may still be quicker."""


Sampled = CreateMessageResult | CreateMessageResultWithTools
Answer = Sampled | ElicitResult | ListRootsResult

MODEL: Final = "tidings"  # The stated model of a plain text.
REJECTED: Final = -1  # The specification's JSON-RPC code for a person's refusal.
_FAILED: Final = "The client failed to answer"
_CODES: Final[dict[type[Exception], int]] = {
    AnswerTimedOut: REQUEST_TIMEOUT,
    Disconnected: CONNECTION_CLOSED,
    RequestCancelled: REJECTED,
}


def sampled(value: object) -> Sampled:
    """Returns the answer to a request for a sample."""
    match value:
        case CreateMessageResult() | CreateMessageResultWithTools():
            return value
        case str():
            content = TextContent(text=value)
            return CreateMessageResult(role="assistant", content=content, model=MODEL, stop_reason="endTurn")
        case _:
            raise ValueError(f"Sampling is answered with a text or a CreateMessageResult, not with {_kind(value)}.")


def elicited(request: ElicitRequestParams, value: object) -> ElicitResult:
    """Returns the answer to a form, or to the request to open a URL."""
    match value:
        case ElicitResult(action="accept"):
            return value.model_copy(update={"content": _content(request, value.content or {})})
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
        raise ValueError("The question is to open a URL. Accept it without content ({}), decline or cancel.")
    return None


def rooted(value: object) -> ListRootsResult:
    """Returns the answer to a request for roots."""
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
    """Returns what a responder returns to refuse. The server gets the reason."""
    return refused(RequestCancelled(reason))


def refused(error: Exception) -> ErrorData:
    """Returns the error that the server gets instead of an answer, without details of a program's own failures.

    In the 2026 era, the SDK raises it to the caller of the tool. The name of the error is in its data.
    """
    code = _CODES.get(type(error))
    if not isinstance(error, TidingsError) or code is None:
        return ErrorData(code=INTERNAL_ERROR, message=_FAILED)
    return ErrorData(code=code, message=error.message, data={"code": error.code, "retryable": error.retryable})


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__!r}" if value != "" else "an empty text"
