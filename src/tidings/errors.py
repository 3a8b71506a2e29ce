"""Every error that Tidings raises by name, and what to do about each.

    TidingsError
    ├── NoConnection              connection   no way to the server, or none any more
    │   ├── ConnectFailed         retryable    it could not be reached
    │   ├── ConnectionLost        retryable    it was there, and went away
    │   ├── SessionExpired        retryable    it no longer knows this session
    │   ├── NotConnected                       nobody has connected yet, or somebody disconnected
    │   └── GaveUp                             the configured number of tries is used up
    ├── TransportError            transport    the way there is broken or of the wrong kind
    │   ├── BadTarget                          what to connect to was not understood
    │   ├── CommandFailed                      a stdio server did not start, or ended at once
    │   ├── NotAuthorized                      the server wants other credentials
    │   ├── MessageTooLarge                    a message exceeds the limit
    │   ├── BusUnavailable        retryable    the engine that carries changes is out of reach
    │   ├── BusMismatch                        the engine holds a log of another shape
    │   └── StateUnusable                      the file that keeps a client's state cannot be used
    ├── TimedOut                  timeout      an answer did not come in time
    │   ├── ConnectTimedOut       retryable    not connected within the limit
    │   ├── RequestTimedOut       retryable    no answer to a request within the limit
    │   └── AnswerTimedOut                     the person who was asked did not answer
    ├── ProtocolError             protocol     one side said what the protocol does not allow
    │   ├── UnsupportedVersion                 no version of the protocol in common
    │   ├── MalformedMessage                   not JSON-RPC, or of the wrong types
    │   ├── InvalidUri                         not a URI, or not one that can be subscribed to
    │   └── NotSupported                       the other side does not have this capability
    ├── ServerError               server       the server answered, and the answer is no
    │   ├── RequestFailed                      an error answer that has no name of its own
    │   ├── ResourceNotFound                   there is no such resource, or not for you
    │   ├── NotSubscribable                    the resource is there, but not to subscribe to
    │   ├── SourceUnavailable     retryable    the resource is there, but cannot be watched at present
    │   ├── LimitReached          retryable    the server has as many as it will take
    │   └── EffectUnknown                      the call may or may not have taken effect
    └── Cancelled                 cancelled    somebody on this side ended it
        ├── RequestCancelled                   this request was cancelled
        └── Disconnected                       the connection was closed while it waited

Each error has a `code` (stable, for programs), a `category` (one of the six above), `retryable` (whether the same
call may succeed later with nothing else changed) and a `help_page`. Whoever raises one adds what it knows: `server`,
`method`, `elapsed` seconds, `data` from the other side. Secrets are never part of an error.

Mistakes in a program's own arguments (a negative window, a text where a number belongs) raise Python's own
`ValueError` and `TypeError`, as everywhere.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

HELP_PAGES = "https://tidings.dev/errors/"


class Category(StrEnum):
    """Where an error arose, and so who can do something about it."""

    CONNECTION = "connection"
    TRANSPORT = "transport"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    SERVER = "server"
    CANCELLED = "cancelled"


class TidingsError(Exception):
    """The root of the tree. Only its leaves are raised: they are the classes that have a `code`."""

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
        """Where this error is explained, with its cures."""
        return HELP_PAGES + self.code


class NoConnection(TidingsError):
    """There is no way to the server, or none any more."""

    category = Category.CONNECTION


class ConnectFailed(NoConnection):
    """The server could not be reached."""

    code = "connect-failed"
    retryable = True


class ConnectionLost(NoConnection):
    """The connection was there, and went away."""

    code = "connection-lost"
    retryable = True


class SessionExpired(NoConnection):
    """The server no longer knows this session; a new one has to be opened."""

    code = "session-expired"
    retryable = True


class NotConnected(NoConnection):
    """Nobody has connected yet, or somebody disconnected."""

    code = "not-connected"


class GaveUp(NoConnection):
    """The configured number of tries is used up."""

    code = "gave-up"


class TransportError(TidingsError):
    """The way to the other side is broken, or of the wrong kind."""

    category = Category.TRANSPORT


class BadTarget(TransportError):
    """What to connect to was not understood."""

    code = "bad-target"


class CommandFailed(TransportError):
    """A stdio server's command did not start, or ended at once."""

    code = "command-failed"


class NotAuthorized(TransportError):
    """The server wants other credentials than these."""

    code = "not-authorized"


class MessageTooLarge(TransportError):
    """A message exceeds the limit that is set for it."""

    code = "message-too-large"


class BusUnavailable(TransportError):
    """The engine that carries changes between processes is out of reach."""

    code = "bus-unavailable"
    retryable = True


class BusMismatch(TransportError):
    """The engine holds a log that is of another shape than this bus needs."""

    code = "bus-mismatch"


class StateUnusable(TransportError):
    """The file that was to keep a client's state cannot be used."""

    code = "state-unusable"


class TimedOut(TidingsError):
    """An answer did not come in time."""

    category = Category.TIMEOUT


class ConnectTimedOut(TimedOut):
    """No connection within the limit."""

    code = "connect-timed-out"
    retryable = True


class RequestTimedOut(TimedOut):
    """No answer to a request within the limit."""

    code = "request-timed-out"
    retryable = True


class AnswerTimedOut(TimedOut):
    """The person who was asked did not answer within the limit."""

    code = "answer-timed-out"


class ProtocolError(TidingsError):
    """One side said what the protocol does not allow."""

    category = Category.PROTOCOL


class UnsupportedVersion(ProtocolError):
    """The two sides have no version of the protocol in common."""

    code = "unsupported-version"


class MalformedMessage(ProtocolError):
    """A message is not JSON-RPC, or its values are of the wrong types."""

    code = "malformed-message"


class InvalidUri(ProtocolError, ValueError):
    """Not a URI, or not one that can be subscribed to."""

    code = "invalid-uri"


class NotSupported(ProtocolError):
    """The other side does not have the capability that this needs."""

    code = "not-supported"


class ServerError(TidingsError):
    """The server answered, and the answer is no."""

    category = Category.SERVER


class RequestFailed(ServerError):
    """The server answered with an error that has no name of its own here."""

    code = "request-failed"


class ResourceNotFound(ServerError):
    """There is no such resource, or not for whoever asks."""

    code = "resource-not-found"


class NotSubscribable(ServerError):
    """The resource may be read, but not subscribed to."""

    code = "not-subscribable"


class SourceUnavailable(ServerError):
    """The resource is there, but what it comes from cannot be watched at present; later it may be."""

    code = "source-unavailable"
    retryable = True


class LimitReached(ServerError):
    """The server has as many of these as it will take; later it may take more."""

    code = "limit-reached"
    retryable = True


class EffectUnknown(ServerError):
    """The call may or may not have taken effect; repeating it is not known to be safe."""

    code = "effect-unknown"


class Cancelled(TidingsError):
    """Somebody on this side ended it."""

    category = Category.CANCELLED


class RequestCancelled(Cancelled):
    """This request was cancelled."""

    code = "request-cancelled"


class Disconnected(Cancelled):
    """The connection was closed on purpose while this waited."""

    code = "disconnected"


def leaves(kind: type[TidingsError] = TidingsError) -> Iterator[type[TidingsError]]:
    """Every error below `kind` that is raised by name, in the order of the tree."""
    for child in kind.__subclasses__():
        if child.code:
            yield child
        yield from leaves(child)
