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
    │   ├── BusUnavailable        retryable    the bus cannot be reached
    │   ├── BusMismatch                        the bus cannot use its engine, or the log in it
    │   └── StateUnusable                      the file with a client's state cannot be used
    ├── TimedOut                  timeout      an answer did not come in time
    │   ├── ConnectTimedOut       retryable    there was no connection within the limit
    │   ├── RequestTimedOut       retryable    there was no answer to a request within the limit
    │   └── AnswerTimedOut                     the user did not answer
    ├── ProtocolError             protocol     one side broke the protocol
    │   ├── UnsupportedVersion                 the sides share no protocol version
    │   ├── MalformedMessage                   a message is not JSON-RPC, or has wrong types
    │   ├── InvalidUri                         a URI is not valid, or nobody can subscribe to it
    │   └── NotSupported                       the other side lacks this capability
    ├── ServerError               server       the server refused
    │   ├── RequestFailed                      an error without a class of its own
    │   ├── ResourceNotFound                   there is no such resource, or you may not read it
    │   ├── NotSubscribable                    clients cannot subscribe to the resource
    │   ├── SourceUnavailable     retryable    the resource cannot be watched at present
    │   ├── LimitReached          retryable    the server accepts no more at present
    │   ├── EventNotFound                      there is no such event type or subscription to events
    │   ├── CallbackFailed                     the address for webhooks cannot be used
    │   ├── EffectUnknown                      it is unknown whether the call took effect
    │   ├── TaskFailed                         a task ended with an error
    │   ├── TaskCancelled                      a task was cancelled by the server or another client
    │   └── TaskLost                           the server no longer knows a task: its outcome is unknown
    └── Cancelled                 cancelled    this side cancelled
        ├── RequestCancelled                   this request was cancelled
        └── Disconnected                       the connection was closed on purpose meanwhile

Each error has a `code` (stable, for programs), a `category` (one of the six above), `retryable` (true if the same call
may succeed later with nothing else changed) and `help` (the command that explains it). It may also have the `server`,
the `method`, the `elapsed` seconds, the `data` that the other side sent, and `retry_after`, the seconds that the other
side asks to wait. Errors never contain secrets.

Wrong arguments in your program, such as a negative window, raise Python's `ValueError` or `TypeError`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

EXPLAINED_BY = "tidings explain "


class Category(StrEnum):
    """The part of the system in which an error occurred."""

    CONNECTION = "connection"
    TRANSPORT = "transport"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    SERVER = "server"
    CANCELLED = "cancelled"


class TidingsError(Exception):
    """The root of the tree. Only the leaves of the tree, which have a `code`, are raised."""

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    retryable: ClassVar[bool] = False
    retry_after: float | None = None  # The seconds that the server asks to wait, in `Retry-After`.

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
        """The command that prints the help page of this error."""
        return EXPLAINED_BY + self.code


class NoConnection(TidingsError, category=Category.CONNECTION):
    """There is no connection to the server."""


class ConnectFailed(NoConnection, code="connect-failed", retryable=True):
    """The server could not be reached."""


class ConnectionLost(NoConnection, code="connection-lost", retryable=True):
    """The connection to the server was lost."""


class SessionExpired(NoConnection, code="session-expired", retryable=True):
    """The server no longer knows this session. A new one must be opened."""


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
    """The server requires a sign-in: nobody is signed in, or the sign-in has expired or lacks a right."""


class MessageTooLarge(TransportError, code="message-too-large"):
    """A message exceeds the size limit."""


class BusUnavailable(TransportError, code="bus-unavailable", retryable=True):
    """The bus that carries changes between processes cannot be reached."""


class BusMismatch(TransportError, code="bus-mismatch"):
    """This bus cannot use its engine, or the log that it found there."""


class StateUnusable(TransportError, code="state-unusable"):
    """The file with a client's state cannot be used."""


class TimedOut(TidingsError, category=Category.TIMEOUT):
    """An answer did not come in time."""


class ConnectTimedOut(TimedOut, code="connect-timed-out", retryable=True):
    """The connection was not made within the time limit."""


class RequestTimedOut(TimedOut, code="request-timed-out", retryable=True):
    """A request was not answered within the time limit."""


class AnswerTimedOut(TimedOut, code="answer-timed-out"):
    """The user did not answer within the time limit."""


class ProtocolError(TidingsError, category=Category.PROTOCOL):
    """One side broke the protocol."""


class UnsupportedVersion(ProtocolError, code="unsupported-version"):
    """The two sides share no protocol version."""


class MalformedMessage(ProtocolError, code="malformed-message"):
    """A message is not JSON-RPC, or its values are of the wrong types."""


class InvalidUri(ProtocolError, ValueError, code="invalid-uri"):
    """A URI is not valid, or cannot be subscribed to."""


class NotSupported(ProtocolError, code="not-supported"):
    """The other side lacks a capability that this operation needs."""


class ServerError(TidingsError, category=Category.SERVER):
    """The server refused."""


class RequestFailed(ServerError, code="request-failed"):
    """The server answered with an error that has no class of its own in Tidings."""


class ResourceNotFound(ServerError, code="resource-not-found"):
    """There is no such resource, or the caller may not read it."""


class NotSubscribable(ServerError, code="not-subscribable"):
    """Clients cannot subscribe to this resource, although they may be able to read it."""


class SourceUnavailable(ServerError, code="source-unavailable", retryable=True):
    """The resource exists, but its source cannot be watched at present. Try again later."""


class LimitReached(ServerError, code="limit-reached", retryable=True):
    """The server accepts no more of these at present. Try again later."""


class EventNotFound(ServerError, code="event-not-found"):
    """The server has no such type of event, or no such subscription to events, for this user."""


class CallbackFailed(ServerError, code="callback-failed"):
    """The server cannot use the address to which it should send events. `data` has the reason."""


class EffectUnknown(ServerError, code="effect-unknown"):
    """It is not known whether the call took effect, or whether repeating it is safe."""


class TaskFailed(ServerError, code="task-failed"):
    """A tool call that ran as a task at the server ended with an error."""


class TaskCancelled(ServerError, code="task-cancelled"):
    """A tool call that ran as a task was cancelled by the server, or by another client."""


class TaskLost(ServerError, code="task-lost"):
    """The server no longer knows a task, or could not be reached while it kept the task. The outcome is unknown."""


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
