"""The error tree. Each error has a code, a category, a help page, and says whether to retry.

    TidingsError
    ├── NoConnection              connection   there is no connection to the server
    │   ├── ConnectFailed         retryable    the server could not be reached
    │   ├── ConnectionLost        retryable    the connection was lost
    │   ├── SessionExpired        retryable    the server no longer knows this session
    │   ├── NotConnected                       the client is not connected yet, or was disconnected
    │   └── GaveUp                             all configured attempts failed
    ├── TransportError            transport    the transport is broken or wrong
    │   ├── BadTarget                          the target is not valid
    │   ├── CommandFailed                      a stdio server did not start, or ended at once
    │   ├── NotAuthorized                      the server refuses the credentials
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
    │   └── EffectUnknown                      it is not known if the call took effect
    └── Cancelled                 cancelled    this side cancelled
        ├── RequestCancelled                   this request was cancelled
        └── Disconnected                       the connection was closed meanwhile

Each error has a `code` (stable, for programs), a `category` (one of the six above), `retryable` (true if the same call
may succeed later with nothing else changed) and a `help_page`. It may have the `server`, the `method`, the `elapsed`
seconds and the `data` of the other side. Errors never contain secrets.

Wrong arguments of a program, such as a negative window, raise Python's `ValueError` and `TypeError`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

HELP_PAGES = "https://tidings.dev/errors/"


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
    def help_page(self) -> str:
        """The address of the page that explains this error and its cures."""
        return HELP_PAGES + self.code


class NoConnection(TidingsError):
    """There is no connection to the server."""

    category = Category.CONNECTION


class ConnectFailed(NoConnection):
    """The server could not be reached."""

    code = "connect-failed"
    retryable = True


class ConnectionLost(NoConnection):
    """The connection to the server was lost."""

    code = "connection-lost"
    retryable = True


class SessionExpired(NoConnection):
    """The server no longer knows this session. A new one has to be opened."""

    code = "session-expired"
    retryable = True


class NotConnected(NoConnection):
    """The client is not connected yet, or was disconnected."""

    code = "not-connected"


class GaveUp(NoConnection):
    """All configured attempts to connect failed."""

    code = "gave-up"


class TransportError(TidingsError):
    """The transport to the other side is broken, or of the wrong kind."""

    category = Category.TRANSPORT


class BadTarget(TransportError):
    """The target of a connection is not valid."""

    code = "bad-target"


class CommandFailed(TransportError):
    """The command of a stdio server did not start, or ended at once."""

    code = "command-failed"


class NotAuthorized(TransportError):
    """The server refuses these credentials."""

    code = "not-authorized"


class MessageTooLarge(TransportError):
    """A message exceeds the size limit."""

    code = "message-too-large"


class BusUnavailable(TransportError):
    """The bus that carries changes between processes is out of reach."""

    code = "bus-unavailable"
    retryable = True


class BusMismatch(TransportError):
    """The store of a bus has a log of another shape than this bus needs."""

    code = "bus-mismatch"


class StateUnusable(TransportError):
    """The file for a client's state cannot be used."""

    code = "state-unusable"


class TimedOut(TidingsError):
    """An answer did not come in time."""

    category = Category.TIMEOUT


class ConnectTimedOut(TimedOut):
    """The connection was not made within the limit."""

    code = "connect-timed-out"
    retryable = True


class RequestTimedOut(TimedOut):
    """A request was not answered within the limit."""

    code = "request-timed-out"
    retryable = True


class AnswerTimedOut(TimedOut):
    """The user did not answer within the limit."""

    code = "answer-timed-out"


class ProtocolError(TidingsError):
    """One side broke the protocol."""

    category = Category.PROTOCOL


class UnsupportedVersion(ProtocolError):
    """The two sides have the sides share no protocol version."""

    code = "unsupported-version"


class MalformedMessage(ProtocolError):
    """A message is not JSON-RPC, or its values are of the wrong types."""

    code = "malformed-message"


class InvalidUri(ProtocolError, ValueError):
    """A URI is not valid, or cannot be subscribed to."""

    code = "invalid-uri"


class NotSupported(ProtocolError):
    """The other side lacks a capability that this needs."""

    code = "not-supported"


class ServerError(TidingsError):
    """The server refused."""

    category = Category.SERVER


class RequestFailed(ServerError):
    """The server answered with an error that has no name of its own here."""

    code = "request-failed"


class ResourceNotFound(ServerError):
    """There is no such resource, or the caller may not have it."""

    code = "resource-not-found"


class NotSubscribable(ServerError):
    """The resource may be read, but not subscribed to."""

    code = "not-subscribable"


class SourceUnavailable(ServerError):
    """The resource exists, but its source cannot be watched at present. Later it may."""

    code = "source-unavailable"
    retryable = True


class LimitReached(ServerError):
    """The server accepts no more of these at present. Later it may."""

    code = "limit-reached"
    retryable = True


class EffectUnknown(ServerError):
    """It is not known whether the call took effect, nor whether repeating it is safe."""

    code = "effect-unknown"


class Cancelled(TidingsError):
    """This side ended the operation."""

    category = Category.CANCELLED


class RequestCancelled(Cancelled):
    """This request was cancelled."""

    code = "request-cancelled"


class Disconnected(Cancelled):
    """The connection was closed on purpose while the operation waited."""

    code = "disconnected"


def leaves(kind: type[TidingsError] = TidingsError) -> Iterator[type[TidingsError]]:
    """Yields every error below `kind` that is raised, in the order of the tree."""
    for child in kind.__subclasses__():
        if child.code:
            yield child
        yield from leaves(child)
