"""Why there is no connection to a server, by its name: what was raised meanwhile, as one of Tidings' errors."""

# ruff: noqa: PLR0911 - one return for each name

from collections.abc import Iterator, Sequence
from typing import cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tidings.client.failures import (
    NO_DETAILS,
    PATH_HINT,
    SPOKEN,
    answer_error,
    http_error,
    is_broken_off,
    is_lost_session,
)
from tidings.errors import (
    ConnectFailed,
    ConnectionLost,
    MalformedMessage,
    NotSupported,
    RequestFailed,
    SessionExpired,
    TidingsError,
    UnsupportedVersion,
)


def connect_error(
    error: BaseException, name: str, status: int | None = None, speaks: Sequence[object] = ()
) -> TidingsError:
    """Why there is no connection to the server called `name`.

    Args:
        error: What was raised.
        name: What the server is called.
        status: What its web server said, if it is one.
        speaks: The versions that it says it speaks.
    """
    for cause in sorted(_causes(error), key=_is_consequence):
        match cause:
            case TidingsError():
                return cause
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return ConnectFailed(_unreachable(name, cause), server=name)
            case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
                return ConnectFailed(f"{name} is not an address that can be connected to: {cause}", server=name)
            case httpx2.TransportError():
                return ConnectFailed(
                    f"{name} broke the connection off ({type(cause).__name__}: {cause}). Is it an MCP server, and does "
                    "it speak what its address begins with, http:// or https://?",
                    server=name,
                )
            case httpx2.HTTPStatusError():
                return connect_refused(name, cause.response.status_code)
            case httpx2.SSEError():
                return MalformedMessage(f"{name} answered with no stream of events. {PATH_HINT}", server=name)
            case MCPError() if is_lost_session(cause):
                return SessionExpired(f"{name} no longer knows this session.", server=name)
            case MCPError() | ValidationError() | RuntimeError():
                return _handshake_error(cause, name, status, speaks)
            case _:
                continue
    first = next(_causes(error), error)
    return ConnectFailed(f"No connection to {name}: {type(first).__name__}: {first}", server=name)


def _is_consequence(error: BaseException) -> bool:
    """Whether this only says that the connection ended, of which another is the reason."""
    return isinstance(error, MCPError) and is_broken_off(error.error.code, error.error.message)


def _handshake_error(error: Exception, name: str, status: int | None, speaks: Sequence[object]) -> TidingsError:
    if isinstance(error, MCPError) and NO_DETAILS.fullmatch(error.error.message) and status is not None:
        return connect_refused(name, status)
    told = answer_error(error, method="initialize", status=status)
    told.server = name
    match told:
        case ConnectionLost():
            return ConnectFailed(told.message, server=name)
        case NotSupported() if speaks:
            versions = ", ".join(map(str, speaks))
            return UnsupportedVersion(
                f"{name} speaks {versions}; {SPOKEN}. Upgrade whichever is older.",
                server=name,
                data={"supported": list(speaks)},
            )
        case NotSupported():
            return UnsupportedVersion(
                f"{name} takes no connection of the kind that versions up to {HANDSHAKE_PROTOCOL_VERSIONS[-1]} begin "
                "with. Leave era out to take what it speaks; if that does not help, it is no MCP server.",
                server=name,
            )
        case _:
            return told


def connect_refused(name: str, status: int) -> TidingsError:
    """What an HTTP status without a message says of a connection that did not come about."""
    match http_error(status):
        case None if status < 500:
            return MalformedMessage(f"{name} answered HTTP {status}, as no MCP server does. {PATH_HINT}", server=name)
        case None:
            return RequestFailed(f"{name} failed (HTTP {status}). Its log says why.", server=name)
        case ConnectionLost() as away:
            return ConnectFailed(away.message, server=name)
        case error:
            error.server = name
            return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups, or the one exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(inner)
    else:
        yield error


def _unreachable(name: str, cause: Exception) -> str:
    text = str(cause) or type(cause).__name__
    lower = text.lower()
    if any(sign in lower for sign in ("name or service not known", "nodename", "getaddrinfo", "name resolution")):
        return f"No host of this name was found for {name}. Check the spelling, and the network."
    if "certificate" in lower:
        return f"{name} has no certificate that this machine trusts ({text})."
    if "ssl" in lower or "tls" in lower:
        return f"{name} does not speak https:// there ({text}). Try http://."
    if "connection attempts failed" in lower or "refused" in lower or "connect call failed" in lower:
        return f"Nothing answers at {name}. Is the server running, and on this port?"
    return f"{name} cannot be reached: {text}"
