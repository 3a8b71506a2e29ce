"""The error tree. Each error has a code, a category, a help page, and says whether to retry.

    TidingsError
    ├── NoConnection              connection   there is no connection to the server
    │   ├── ConnectFailed         retryable    the server could not be reached
    │   ├── ConnectionLost        retryable    the connection was lost
    │   ├── SessionExpired        retryable    the server no longer knows this session
    │   ├── NotConnected                       the client is not connected yet, or was disconnected
    │   └── GaveUp                             a lost connection did not come back in the configured attempts
    ├── TransportError            transport    the transport is broken or wrong
    │   ├── BadTarget                          the target is not valid
    │   ├── CommandFailed                      a stdio server did not start, or ended at once
    │   ├── NotAuthorized                      the server refuses the credentials
    │   │   └── SignInNeeded                   a person has to sign in to the server
    │   ├── MessageTooLarge                    a message exceeds the size limit
    │   ├── BusUnavailable        retryable    the bus is out of reach
    │   ├── BusMismatch                        the bus has a log of another shape
    │   └── StateUnusable                      the file with a client's state cannot be used
    ├── TimedOut                  timeout      an answer did not come in time
    │   ├── ConnectTimedOut       retryable    not connected within the limit
    │   ├── RequestTimedOut       retryable    no answer to a request within the limit
    │   └── AnswerTimedOut                     the user did not answer
    ├── ProtocolError             protocol     one side broke the protocol
    │   ├── UnsupportedVersion                 the sides share no protocol version
    │   ├── MalformedMessage                   a message is not JSON-RPC, or has wrong types
    │   ├── InvalidUri                         a URI is not valid, or cannot be subscribed to
    │   └── NotSupported                       the other side lacks this capability
    ├── ServerError               server       the server refused
    │   ├── RequestFailed                      an error that has no name of its own here
    │   ├── ResourceNotFound                   there is no such resource, or no permission
    │   ├── NotSubscribable                    the resource cannot be subscribed to
    │   ├── SourceUnavailable     retryable    the resource cannot be watched at present
    │   ├── LimitReached          retryable    the server accepts no more at present
    │   ├── EventNotFound                      there is no such event type or subscription to events
    │   ├── CallbackFailed                     the address for webhooks cannot be used
    │   ├── EffectUnknown                      it is not known if the call took effect
    │   ├── TaskFailed                         a task ended with an error
    │   ├── TaskCancelled                      a task was cancelled by the server, or by somebody else
    │   └── TaskLost                           the server no longer knows a task: its outcome is unknown
    └── Cancelled                 cancelled    this side cancelled
        ├── RequestCancelled                   this request was cancelled
        └── Disconnected                       the connection was closed meanwhile

Each error has a `code` (stable, for programs), a `category` (one of the six above), `retryable` (true if the same call
may succeed later with nothing else changed) and a `help`. It may have the `server`, the `method`, the `elapsed`
seconds, the `data` of the other side, and `retry_after`, the seconds that the other side asks to wait. Errors never
contain secrets.

Wrong arguments of a program, such as a negative window, raise Python's `ValueError` and `TypeError`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

EXPLAINED_BY = "tidings explain "


class Category(StrEnum):
    """The part in which an error arose."""

    CONNECTION = "connection"
    TRANSPORT = "transport"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    SERVER = "server"
    CANCELLED = "cancelled"


class TidingsError(Exception):
    """The root of the tree. Only its leaves, which have a `code`, are raised."""

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    retryable: ClassVar[bool] = False
    retry_after: float | None = None  # The seconds that the server asks to wait, by `Retry-After`.

    def __init_subclass__(
        cls, *, code: str | None = None, category: Category | None = None, retryable: bool | None = None
    ) -> None:
        super().__init_subclass__()
        for name, value in (("code", code), ("category", category), ("retryable", retryable)):
            if value is not None:
                setattr(cls, name, value)

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        method: str | None = None,
        elapsed: float | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.method = method
        self.elapsed = elapsed
        self.data = data

    @property
    def help(self) -> str:
        """The command that prints the page about this error and its cures."""
        return EXPLAINED_BY + self.code


class NoConnection(TidingsError, category=Category.CONNECTION):
    """There is no connection to the server."""


class ConnectFailed(NoConnection, code="connect-failed", retryable=True):
    """The server could not be reached."""


class ConnectionLost(NoConnection, code="connection-lost", retryable=True):
    """The connection to the server was lost."""


class SessionExpired(NoConnection, code="session-expired", retryable=True):
    """The server no longer knows this session. A new one has to be opened."""


class NotConnected(NoConnection, code="not-connected"):
    """The client is not connected yet, or was disconnected."""


class GaveUp(NoConnection, code="gave-up"):
    """A connection was lost, and all configured attempts to connect again failed."""


class TransportError(TidingsError, category=Category.TRANSPORT):
    """The transport to the other side is broken, or of the wrong kind."""


class BadTarget(TransportError, code="bad-target"):
    """The target of a connection is not valid."""


class CommandFailed(TransportError, code="command-failed"):
    """The command of a stdio server did not start, or ended at once."""


class NotAuthorized(TransportError, code="not-authorized"):
    """The server refuses these credentials."""


class SignInNeeded(NotAuthorized, code="sign-in-needed"):
    """The server wants a sign-in: nobody is signed in, or the sign-in has ended or lacks a right."""


class MessageTooLarge(TransportError, code="message-too-large"):
    """A message exceeds the size limit."""


class BusUnavailable(TransportError, code="bus-unavailable", retryable=True):
    """The bus that carries changes between processes is out of reach."""


class BusMismatch(TransportError, code="bus-mismatch"):
    """The store of a bus has a log of another shape than this bus needs."""


class StateUnusable(TransportError, code="state-unusable"):
    """The file for a client's state cannot be used."""


class TimedOut(TidingsError, category=Category.TIMEOUT):
    """An answer did not come in time."""


class ConnectTimedOut(TimedOut, code="connect-timed-out", retryable=True):
    """The connection was not made within the limit."""


class RequestTimedOut(TimedOut, code="request-timed-out", retryable=True):
    """A request was not answered within the limit."""


class AnswerTimedOut(TimedOut, code="answer-timed-out"):
    """The user did not answer within the limit."""


class ProtocolError(TidingsError, category=Category.PROTOCOL):
    """One side broke the protocol."""


class UnsupportedVersion(ProtocolError, code="unsupported-version"):
    """The two sides share no protocol version."""


class MalformedMessage(ProtocolError, code="malformed-message"):
    """A message is not JSON-RPC, or its values are of the wrong types."""


class InvalidUri(ProtocolError, ValueError, code="invalid-uri"):
    """A URI is not valid, or cannot be subscribed to."""


class NotSupported(ProtocolError, code="not-supported"):
    """The other side lacks a capability that this needs."""


class ServerError(TidingsError, category=Category.SERVER):
    """The server refused."""


class RequestFailed(ServerError, code="request-failed"):
    """The server answered with an error that has no name of its own here."""


class ResourceNotFound(ServerError, code="resource-not-found"):
    """There is no such resource, or the caller may not have it."""


class NotSubscribable(ServerError, code="not-subscribable"):
    """The resource may be read, but not subscribed to."""


class SourceUnavailable(ServerError, code="source-unavailable", retryable=True):
    """The resource exists, but its source cannot be watched at present. Later it may."""


class LimitReached(ServerError, code="limit-reached", retryable=True):
    """The server accepts no more of these at present. Later it may."""


class EventNotFound(ServerError, code="event-not-found"):
    """The server has no such type of event, or no such subscription to events, for this user."""


class CallbackFailed(ServerError, code="callback-failed"):
    """The server cannot use the address to which it is to send events. `data` has the reason."""


class EffectUnknown(ServerError, code="effect-unknown"):
    """It is not known whether the call took effect, nor whether repeating it is safe."""


class TaskFailed(ServerError, code="task-failed"):
    """A tool call ran as a task at the server, and ended with an error."""


class TaskCancelled(ServerError, code="task-cancelled"):
    """A tool call ran as a task, which was cancelled: by the server, or by another client."""


class TaskLost(ServerError, code="task-lost"):
    """The server no longer knows a task, or was out of reach for longer than it keeps it. The outcome is unknown."""


class Cancelled(TidingsError, category=Category.CANCELLED):
    """This side ended the operation."""


class RequestCancelled(Cancelled, code="request-cancelled"):
    """This request was cancelled."""


class Disconnected(Cancelled, code="disconnected"):
    """The connection was closed on purpose while the operation waited."""


def leaves(kind: type[TidingsError] = TidingsError) -> Iterator[type[TidingsError]]:
    """Yields every error below `kind` that is raised, in the order of the tree."""
    for child in kind.__subclasses__():
        if child.code:
            yield child
        yield from leaves(child)
