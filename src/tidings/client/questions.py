"""What a server asks of the user, as a value: for a person to see, and for a responder to answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Literal

from mcp_types import (
    CreateMessageRequestParams,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    TextContent,
)

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
