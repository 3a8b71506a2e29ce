"""What goes over the wire, for whoever listens in: each message and each HTTP exchange, with secrets masked.

`connect(target, tap=...)` tells a `Tap`. It is called where the message is sent or arrives, in that order: it must be
quick, and whatever it raises is logged and harms nothing. Without one, nothing of this costs anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One JSON-RPC message, as it was sent or arrived."""

    incoming: bool
    body: dict[str, Any]
    size: int
    """Bytes as sent."""
    exchange: int | None = None
    """The id of the HTTP exchange that carried it, if one did."""
    cut: bool = False
    """It was larger than `ClientConfig.max_message`, and was not kept. `body` has its id, if that was seen."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An HTTP exchange. Told when it begins, when the answer begins, and when it ends. Times are seconds since 1970.

    Those that an `auth` object makes to sign in are told too.
    """

    id: int
    method: str
    url: str
    """Without user, password and query."""
    request_headers: Mapping[str, str]
    status: int | None = None
    """None until the answer begins."""
    response_headers: Mapping[str, str] | None = None
    is_stream: bool = False
    """Whether the answer is a stream of events."""
    began: float = 0.0
    answered: float | None = None
    ended: float | None = None
    error: str | None = None
    """Why there was no answer, or not all of it."""
    received: int = 0
    """Bytes of the answer's body, unpacked. Known when it has ended."""


class Tap(Protocol):
    """Hears of everything that goes over the wire."""

    def message(self, message: Message) -> None:
        """A message is about to be sent, or has arrived."""
        ...

    def exchange(self, exchange: Exchange) -> None:
        """An HTTP exchange began, was answered, or ended."""
        ...
