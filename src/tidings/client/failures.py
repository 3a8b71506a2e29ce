"""What went wrong, by its name: the SDK's exceptions, JSON-RPC errors and HTTP answers as Tidings' errors."""

# ruff: noqa: PLR0911 - one return for each name

from collections.abc import Iterator
from typing import Any, Final, cast

import httpx2
from mcp.client._input_required import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from pydantic import ValidationError

from tidings.client.shapes import as_dict, as_list
from tidings.errors import (
    ConnectFailed,
    ConnectionLost,
    LimitReached,
    MalformedMessage,
    MessageTooLarge,
    NotAuthorized,
    NotSupported,
    RequestFailed,
    ResourceNotFound,
    SessionExpired,
    TidingsError,
    UnsupportedVersion,
    leaves,
)

RESOURCE_NOT_FOUND: Final = -32002
"""The old era's code. The new one has -32602, with the URI in the data."""

_BY_CODE: Final = {kind.code: kind for kind in leaves()}
_READS: Final = ("resources/read", "resources/subscribe")
_TOO_LARGE: Final = (
    "Message too large",
    "Failed to parse JSON response: Body too large",
    "SSE stream failed: Server-sent",
)
_NO_DETAILS: Final = "Server returned an error response"
_SESSION_WORDS: Final = ("not found", "terminated", "expired", "no valid", "invalid", "unknown", "missing")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups, or the one exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from causes(inner)
    else:
        yield error


def answer_error(error: Exception, *, method: str, status: int | None = None) -> TidingsError:
    """Why the server's answer is no answer. `status` is what its web server said, if it is one."""
    match error:
        case TidingsError():
            return error
        case MCPError():
            return _rpc_error(error, method, status)
        case ValidationError():
            details = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'result'}: {item['msg']}" for item in error.errors()[:3]
            )
            return MalformedMessage(
                f"The server's answer to {method} is not what the protocol says ({details}). This is a fault of the "
                "server: tell its authors.",
                method=method,
            )
        case InputRequiredRoundsExceededError():
            return RequestFailed(
                f"The server asked for input more than {error.max_rounds} times during one {method}.", method=method
            )
        case RuntimeError() if "protocol version" in str(error):
            return UnsupportedVersion(
                f"{error}. Tidings speaks 2024-11-05 to 2026-07-28: upgrade the server, or Tidings.", method=method
            )
        case RuntimeError():  # What a tool returned does not match the schema that it announced.
            return MalformedMessage(f"{error}. This is a fault of the server: tell its authors.", method=method)
        case _:
            return RequestFailed(f"{method} failed: {type(error).__name__}: {error}", method=method)


def _rpc_error(error: MCPError, method: str, status: int | None) -> TidingsError:
    code, text, data = error.error.code, error.error.message, as_dict(error.error.data)
    details: dict[str, Any] = {"method": method, "data": {"rpc_code": code, "rpc_data": data}}
    if (kind := _BY_CODE.get(str(data.get("code")))) is not None:
        return kind(text, **details)  # A Tidings server names its errors.
    if (
        status is not None
        and status >= 400
        and (by_status := http_error(status)) is not None
        and code != INVALID_PARAMS
    ):
        return by_status
    if text.startswith(_TOO_LARGE):
        return MessageTooLarge(
            f"The server's answer to {method} exceeds the limit for one message ({text}). Ask for less, or raise "
            "ClientConfig.max_message.",
            **details,
        )
    if code == RESOURCE_NOT_FOUND or (code == INVALID_PARAMS and method in _READS and "uri" in data):
        return ResourceNotFound(text or "There is no such resource.", **details)
    if code == METHOD_NOT_FOUND:
        return NotSupported(f"The server has no {method} ({text}).", **details)
    if code == UNSUPPORTED_PROTOCOL_VERSION:
        versions = ", ".join(map(str, as_list(data.get("supported")))) or "other versions of the protocol"
        return UnsupportedVersion(
            f"The server speaks {versions}; Tidings speaks 2024-11-05 to 2026-07-28. Upgrade whichever is older.",
            **details,
        )
    if code == PARSE_ERROR:
        return MalformedMessage(f"The answer to {method} could not be read: {text}", **details)
    if text == _NO_DETAILS and status is not None:
        return RequestFailed(f"The server answered {method} with HTTP {status}, and nothing else.", **details)
    return RequestFailed(text or f"The server answered {method} with error {code}.", **details)


def is_lost_session(error: Exception) -> bool:
    """Whether an old-era server says that it does not know the session any more.

    The specification's word for it is HTTP 404, which is noticed elsewhere. Many servers answer 400 with a text.
    """
    if not isinstance(error, MCPError):
        return False
    text = error.error.message.lower()
    return "session" in text and any(word in text for word in _SESSION_WORDS)


def http_error(status: int) -> TidingsError | None:
    """The error that an HTTP status stands for, if it stands for one by itself."""
    match status:
        case 401 | 403:
            return NotAuthorized(
                f"The server refused these credentials (HTTP {status}). Pass others: token=..., headers=... or auth=..."
            )
        case 413:
            return MessageTooLarge("The server takes no message of this size (HTTP 413). Send less at once.")
        case 429:
            return LimitReached("The server asks for fewer requests (HTTP 429). Wait, and try again.")
        case 502 | 503 | 504:
            return ConnectionLost(f"Something before the server says that it is away (HTTP {status}).")
        case _:
            return None


def connect_error(error: BaseException, name: str, status: int | None = None) -> TidingsError:
    """Why there is no connection to the server called `name`. `status` is what its web server said, if it is one."""
    for cause in causes(error):
        match cause:
            case TidingsError():
                return cause
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return ConnectFailed(_unreachable(name, cause), server=name)
            case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
                return ConnectFailed(f"{name} is not an address that can be connected to: {cause}", server=name)
            case httpx2.TransportError():
                return ConnectFailed(
                    f"{name} broke the connection off ({type(cause).__name__}: {cause}). Is it an MCP server?",
                    server=name,
                )
            case MCPError() if is_lost_session(cause):
                return SessionExpired(f"{name} no longer knows this session.", server=name)
            case MCPError() | ValidationError() | RuntimeError():
                return answer_error(cause, method="initialize", status=status)
            case _:
                continue
    return ConnectFailed(f"No connection to {name}: {error!r}", server=name)


def _unreachable(name: str, cause: Exception) -> str:
    text = str(cause) or type(cause).__name__
    lower = text.lower()
    if any(sign in lower for sign in ("name or service not known", "nodename", "getaddrinfo", "name resolution")):
        return f"No host of this name was found for {name}. Check the spelling, and the network."
    if "certificate" in lower or "ssl" in lower:
        return f"{name} has no certificate that this machine trusts ({text})."
    if "connection attempts failed" in lower or "refused" in lower or "connect call failed" in lower:
        return f"Nothing answers at {name}. Is the server running, and on this port?"
    return f"{name} cannot be reached: {text}"
