"""Turns exceptions, JSON-RPC errors and HTTP answers into named errors, for requests and for connecting."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tidings import errors
from tidings._kit import event_wire
from tidings._kit.bounded_json import as_dict, as_list, mapped
from tidings._kit.tasks import causes
from tidings._kit.text import shortened
from tidings.client.sdk_seam import InputRequiredRoundsExceededError
from tidings.errors import TidingsError

# ruff: noqa: PLR0911 - one return for each error

AWAY: Final = (502, 503, 504)  # HTTP statuses of a proxy that cannot reach the server.
_CREDENTIALS: Final = (
    "The server refused these credentials (HTTP {status}). Pass others: token=..., headers=... or auth=..."
)
_PROXY: Final = "A proxy cannot reach the server: it is away (HTTP {status}). Wait, or check whether it runs."
_BY_STATUS: Final[dict[int, tuple[type[TidingsError], str]]] = {
    **dict.fromkeys((401, 403), (errors.NotAuthorized, _CREDENTIALS)),
    **dict.fromkeys(AWAY, (errors.ConnectionLost, _PROXY)),
    413: (errors.MessageTooLarge, "The server accepts no message of this size (HTTP 413). Send less at once."),
    421: (errors.NotAuthorized, "The server does not answer to this host (HTTP 421). Add it to those that it allows."),
    429: (errors.LimitReached, "The server asks for fewer requests (HTTP 429). Wait, and try again."),
}
RESOURCE_NOT_FOUND: Final = -32002  # The code of the legacy era. The modern era has -32602, with the URI in the data.
# The errors that a server may name. It cannot decide whether there is a connection.
_BY_CODE: Final = {kind.code: kind for kind in errors.leaves() if not issubclass(kind, errors.NoConnection)}
_EVENT_ERRORS: Final = {  # Other servers and methods use these codes for other things.
    code: kind
    for codes, kind in (
        (event_wire.NOT_FOUND, errors.EventNotFound),
        (event_wire.FORBIDDEN, errors.NotAuthorized),
        (event_wire.EXHAUSTED, errors.LimitReached),
        (event_wire.UNSUPPORTED, errors.NotSupported),
        (event_wire.CALLBACK_FAILED, errors.CallbackFailed),
    )
    for code in codes
}
_READS: Final = ("resources/read", "resources/subscribe")
_TOO_LARGE: Final = (
    "Message too large",
    "Failed to parse JSON response: Body too large",
    "SSE stream failed: Server-sent",
)
# The SDK's words for an answer that breaks the protocol.
_NO_MESSAGE: Final = ("Unexpected content type", "Redirect to ", "server answered a request with 202")
# The SDK's words if there will be no answer. A server may use the same code for something else.
_BROKEN_OFF: Final = ("Connection closed", "SSE stream ended")
# The SDK's words for an HTTP status without a message.
NO_DETAILS: Final = re.compile(r"Server returned an error response( \(\d+\))?|Not Found")
_GIVEN: Final = re.compile(r"input_value=(.*?), input_type")
_NOT_JSON: Final = re.compile(r"Invalid JSON: .*?(?= \[type)")
_LONGEST: Final = 2000  # Characters of a server's words that become part of an error.
FAULT: Final = "This is a fault of the server: report it to its authors."
PATH_HINT: Final = "Is the path right? Most MCP servers answer at /mcp."
SPOKEN: Final = f"Tidings speaks {KNOWN_PROTOCOL_VERSIONS[0]} to {KNOWN_PROTOCOL_VERSIONS[-1]}"
_SESSION_WORDS: Final = ("not found", "terminated", "expired", "no valid", "invalid", "unknown", "missing")


def answer_error(error: Exception, *, method: str, status: int | None = None) -> TidingsError:
    """Returns the named error for a failed request. `status` is the HTTP status, if there is one."""
    match error:
        case TidingsError():
            return error
        case MCPError():
            return _rpc_error(error, method, status)
        case ValidationError():
            # An answer may also be a request for input. Complaints about that shape are left out.
            items = [item for item in error.errors() if "InputRequired" not in str(item["loc"])] or error.errors()
            wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'result'}: {item['msg']}" for item in items[:3])
            text = f"The server's answer to {method} breaks the protocol ({wrong}). {FAULT}"
            return errors.MalformedMessage(text, method=method)
        case InputRequiredRoundsExceededError():
            text = f"The server asked for input more than {error.max_rounds} times during one {method}."
            return errors.RequestFailed(text, method=method)
        case RuntimeError() if "protocol version" in str(error):
            return errors.UnsupportedVersion(f"{error}. {SPOKEN}: upgrade whichever is older.", method=method)
        case RuntimeError():  # A tool's result does not fit its schema.
            reason = shortened(str(error).partition("\n")[0], _LONGEST)
            return errors.MalformedMessage(f"{reason}. {FAULT}", method=method)
        case _:
            return errors.RequestFailed(f"{method} failed: {type(error).__name__}: {error}", method=method)


def _rpc_error(error: MCPError, method: str, status: int | None) -> TidingsError:
    code, text, data = error.error.code, shortened(error.error.message, _LONGEST), as_dict(error.error.data)
    said = {"rpc_code": code, "rpc_message": text, "rpc_data": data or error.error.data}
    details: dict[str, Any] = {"method": method, "data": said}
    if (kind := _BY_CODE.get(str(data.get("code")))) is not None:
        own = kind is errors.SignInNeeded  # Found by this client, while a Tidings server names all others.
        return kind(text, method=method, data=None if own else said)
    by_status = http_error(status) if status is not None and status >= 400 else None
    if by_status is not None and code != types.INVALID_PARAMS:
        return by_status
    if (no_answer := _no_answer(code, text, method, status, details)) is not None:
        return no_answer
    if "events/" in method and (kind := _EVENT_ERRORS.get(code)) is not None:
        return kind(text or f"The server answered {method} with error {code}.", **details)
    if code == RESOURCE_NOT_FOUND or (code == types.INVALID_PARAMS and method in _READS and "uri" in data):
        return errors.ResourceNotFound(text or "There is no such resource.", **details)
    if "no back-channel" in text:
        text = f"{text} The server can ask questions only in the legacy era: connect with era='legacy'."
        return errors.RequestFailed(text, **details)
    if code == types.METHOD_NOT_FOUND:
        return errors.NotSupported(f"The server has no {method} ({text}).", **details)
    if code == types.UNSUPPORTED_PROTOCOL_VERSION:
        versions = ", ".join(map(str, as_list(data.get("supported")))) or "other versions of the protocol"
        text = f"The server speaks {versions}; {SPOKEN}. Upgrade whichever is older."
        return errors.UnsupportedVersion(text, **details)
    if code == types.INTERNAL_ERROR and "limit reached" in text.lower():  # So says the SDK's server.
        return errors.LimitReached(f"{text}. Wait, and try again; or use one client for all.", **details)
    return errors.RequestFailed(text or f"The server answered {method} with error {code}.", **details)


def _no_answer(code: int, text: str, method: str, status: int | None, details: dict[str, Any]) -> TidingsError | None:
    if text.startswith(_TOO_LARGE):
        cure = "Ask for less, or raise ClientConfig.max_message."
        text = f"The server's answer to {method} exceeds the limit for one message ({text}). {cure}"
        return errors.MessageTooLarge(text, **details)
    if code == types.PARSE_ERROR:
        text = f"The server's answer to {method} is not a message of the protocol ({unreadable(text)}). {FAULT}"
        return errors.MalformedMessage(text, **details)
    if text.startswith(_NO_MESSAGE):
        text = f"The server did not answer {method} with a message of the protocol: {text}. {PATH_HINT}"
        return errors.MalformedMessage(text, **details)
    if code == types.CONNECTION_CLOSED and text.startswith(_BROKEN_OFF):
        return errors.ConnectionLost(f"The server broke off its answer to {method}.", **details)
    if NO_DETAILS.fullmatch(text) and status is not None and code != types.METHOD_NOT_FOUND:
        text = f"The server answered {method} with HTTP {status}, and nothing else. Its log may say why."
        return errors.RequestFailed(text, **details)
    return None


def unreadable(text: str) -> str:
    """Returns the essence of the SDK's words about something that it could not read."""
    if (found := _GIVEN.search(text)) is None:
        return text.partition(": ")[2] or text
    reason = _NOT_JSON.search(text)
    return f"{reason[0] if reason else 'not JSON-RPC'}: {found[1]}"


def is_broken_off(error: BaseException) -> bool:
    """Returns whether an error means that the connection, or the stream with the answer, ended."""
    said = error.error if isinstance(error, MCPError) else None
    return said is not None and said.code == types.CONNECTION_CLOSED and said.message.startswith(_BROKEN_OFF)


def is_lost_session(error: Exception) -> bool:
    """Returns whether a server no longer knows the session."""
    # The specification demands HTTP 404, which `HttpHealth` handles. Many servers answer 400 with a text.
    text = error.error.message.lower() if isinstance(error, MCPError) else ""
    return "session" in text and any(word in text for word in _SESSION_WORDS)


def http_error(status: int) -> TidingsError | None:
    """Returns the error of an HTTP status, if the status alone says enough."""
    kind, text = _BY_STATUS.get(status, (None, ""))
    return None if kind is None else kind(text.format(status=status))


def with_wait(error: TidingsError, seconds: float | None) -> TidingsError:
    """Returns `error` with the seconds that the server asks to wait, if it does."""
    if seconds is not None and error.retry_after is None:
        error.retry_after = seconds
        error.message = f"{error.message} The server asks to wait {seconds:g} s."
        error.args = (error.message,)
    return error


def cleaned(error: TidingsError, clean: Callable[[str], str]) -> TidingsError:
    """Returns `error` with the server's words passed through `clean`, which masks secrets."""
    error.message = clean(error.message)
    error.args = (error.message,)
    if error.data is not None:
        error.data = mapped(error.data, lambda each: clean(each) if isinstance(each, str) else each)
    return error


def connect_error(
    error: BaseException, name: str, status: int | None = None, speaks: Sequence[object] = ()
) -> TidingsError:
    """Returns the named error for a failed connection. `speaks` are the protocol versions that the server states."""
    for cause in sorted(causes(error), key=is_broken_off):  # Another error is the reason for the end.
        match cause:
            case TidingsError():
                return cause
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return errors.ConnectFailed(_unreachable(name, cause), server=name)
            case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
                return errors.ConnectFailed(f"{name} is not an address that can be connected to: {cause}", server=name)
            case httpx2.SSEError():
                return errors.MalformedMessage(f"{name} answered with no stream of events. {PATH_HINT}", server=name)
            case httpx2.TransportError():
                return errors.ConnectFailed(
                    f"{name} broke the connection off ({type(cause).__name__}: {cause}). Is it an MCP server, and does "
                    "it speak what its address begins with, http:// or https://?",
                    server=name,
                )
            case httpx2.HTTPStatusError():
                return connect_refused(name, cause.response.status_code)
            case MCPError() if is_lost_session(cause):
                return errors.SessionExpired(f"{name} no longer knows this session.", server=name)
            case MCPError() | ValidationError() | RuntimeError():
                return _handshake_error(cause, name, status, speaks)
            case _:
                continue
    first = next(causes(error), error)
    return errors.ConnectFailed(f"No connection to {name}: {type(first).__name__}: {first}", server=name)


def _handshake_error(error: Exception, name: str, status: int | None, speaks: Sequence[object]) -> TidingsError:
    if isinstance(error, MCPError) and NO_DETAILS.fullmatch(error.error.message) and status is not None:
        return connect_refused(name, status)
    told = answer_error(error, method="initialize", status=status)
    told.server = name
    match told:
        case errors.ConnectionLost():
            return errors.ConnectFailed(told.message, server=name)
        case errors.NotSupported() if speaks:
            versions = ", ".join(map(str, speaks))
            text = f"{name} speaks {versions}; {SPOKEN}. Upgrade whichever is older."
            return errors.UnsupportedVersion(text, server=name, data={"supported": list(speaks)})
        case errors.NotSupported():
            return errors.UnsupportedVersion(
                f"{name} does not know the handshake of versions up to {HANDSHAKE_PROTOCOL_VERSIONS[-1]}. Leave era "
                "out to use what it speaks; if that does not help, it is not an MCP server.",
                server=name,
            )
        case _:
            return told


def connect_refused(name: str, status: int) -> TidingsError:
    """Returns the error for an HTTP status without a message, while connecting."""
    match http_error(status):
        case None if status < 500:
            text = f"{name} answered HTTP {status}, as no MCP server does. {PATH_HINT}"
            return errors.MalformedMessage(text, server=name)
        case None:
            text = f"{name} failed (HTTP {status}). Its log says why. Otherwise, check that it is an MCP server."
            return errors.RequestFailed(text, server=name)
        case errors.ConnectionLost() as away:
            return errors.ConnectFailed(away.message, server=name)
        case error:
            error.server = name
            return error


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
