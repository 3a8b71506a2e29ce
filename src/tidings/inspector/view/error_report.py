"""Errors as people see them: what went wrong, who is at fault, and what to do about it.

`seen(error)` makes the `ErrorData` of a record, of anything that was raised. `ErrorView.read` makes a view of that.

| who            | when |
|----------------|------|
| you            | what was asked for cannot be sent, or not be answered: a wrong address, credentials, arguments |
| the network    | the server was not reached, or is not any more |
| the server     | it answered with an error, not in time, or against the protocol; or its process ended |
| this program   | anything that nobody foresaw |

May import: `errors`.
"""

import asyncio
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_int, cut, plain, weigh
from tidings.errors import CommandFailed, ConnectFailed, TidingsError
from tidings.inspector.records import ErrorData
from tidings.inspector.view.items import Who

_INVALID_PARAMS: Final = -32602
_METHOD_NOT_FOUND: Final = -32601
_PAYLOAD: Final = 65_536

_KNOWN: Final[dict[str, tuple[Who, str]]] = {
    "connect-failed": ("the network", "See that the server runs and that the address is right."),
    "connection-lost": ("the network", "It is tried again by itself. If it stays away, look at the server's log."),
    "session-expired": ("the server", "It was restarted, most likely; a new session is opened by itself."),
    "not-connected": ("you", "Connect to it first."),
    "gave-up": ("the network", "See that the server runs, then reconnect."),
    "bad-target": ("you", "Correct the address or the command of this server."),
    "command-failed": ("the server", "Run the command by hand, and look at what it writes to its error output."),
    "not-authorized": ("you", "Give other credentials: a token or headers in this server's entry."),
    "message-too-large": ("the server", "Ask for less at once, or raise the limit for a message."),
    "state-unusable": ("this program", "Move the file away; it is made anew."),
    "connect-timed-out": ("the network", "See that the server runs, or give it longer in its entry."),
    "request-timed-out": ("the server", "Try again, or give it longer in its entry."),
    "answer-timed-out": ("you", "Call it again, and answer its question in time."),
    "unsupported-version": ("the server", "Choose another era in its entry, or upgrade whichever side is older."),
    "malformed-message": ("the server", "Its answer is not what the protocol says: the payload shows it."),
    "invalid-uri": ("you", "Write it as a URI: a scheme, a colon, and the rest without spaces."),
    "not-supported": ("the server", "It does not offer this: its capabilities say what it does."),
    "request-failed": ("the server", "The payload is its answer; its log may say more."),
    "resource-not-found": ("you", "Look at the list of resources for the right URI."),
    "not-subscribable": ("the server", "It can be read, but not subscribed to."),
    "source-unavailable": ("the server", "What it comes from cannot be watched at present; try later."),
    "limit-reached": ("the server", "It has as many as it takes: end some, or try later."),
    "effect-unknown": ("the network", "Look at the server whether the call took effect before you repeat it."),
    "request-cancelled": ("you", "Nothing: it was cancelled on this side."),
    "disconnected": ("you", "Connect again."),
}

_OF_COMMANDS: Final = {
    "connection-lost": "Its process ended: look at its error output.",
    "gave-up": "Its process ended: look at its error output.",
    "connect-timed-out": "See that it is an MCP server, or give it longer in its entry.",
}


def seen(error: BaseException, *, is_command: bool = False, method: str | None = None) -> ErrorData:
    """What went wrong, as a record keeps it. `is_command` says that the server is a process on this machine."""
    if not isinstance(error, TidingsError):
        return _foreign(error, method)
    who, cure = _KNOWN.get(error.code, ("this program", "Please report it."))
    answer = as_dict(error.data)
    code = as_int(answer.get("rpc_code"))
    if error.code == "request-failed" and code == _INVALID_PARAMS:
        who, cure = "you", "The server does not take these arguments: see what it answered."
    elif error.code == "request-failed" and code == _METHOD_NOT_FOUND:
        cure = "It does not know this method: its capabilities say what it offers."
    elif is_command and who == "the network":  # There is none between.
        who, cure = "the server", _OF_COMMANDS.get(error.code, cure)
    elif isinstance(error, CommandFailed) and "could not be started" in error.message:
        who, cure = "you", "Correct the command, its folder or its environment in this server's entry."
    elif isinstance(error, ConnectFailed) and "not an address" in error.message:
        who, cure = "you", "Correct the address of this server."
    return {
        "code": error.code,
        "category": error.category.value,
        "who": who,
        "message": error.message,
        "cure": cure,
        "help": error.help_page,
        "retryable": error.retryable,
        "method": error.method or method,
        "elapsed": error.elapsed,
        "payload": _bounded(error.data),
    }


def _foreign(error: BaseException, method: str | None) -> ErrorData:
    """What is none of Tidings' own errors."""
    if isinstance(error, asyncio.CancelledError):
        return _simple("request-cancelled", "cancelled", "you", "It was cancelled.", _KNOWN["request-cancelled"][1])
    if isinstance(error, ValueError):  # By which the client refuses what cannot be sent.
        found = _simple("bad-input", "input", "you", str(error), "Correct what is sent.")
    else:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        found = _simple("unforeseen", "program", "this program", text, "Please report it.")
    found["method"] = method
    return found


def _simple(code: str, category: str, who: Who, message: str, cure: str) -> ErrorData:
    return {"code": code, "category": category, "who": who, "message": message, "cure": cure, "retryable": False}


def _bounded(payload: Any) -> Any:
    size = weigh(payload, _PAYLOAD)
    return plain(payload) if size <= _PAYLOAD else cut(payload, size)
