"""Errors as people see them: the fault, its cause and its cure.

| cause          | for |
|----------------|-----|
| `you`          | a wrong address, credentials or arguments: it cannot be sent, or not be answered |
| `the network`  | the server was not reached, or the connection was lost |
| `the server`   | it answered with an error, too late or against the protocol, or its process ended |
| `this program` | anything unexpected |
"""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_int, cut, plain, weigh
from tidings.errors import CommandFailed, ConnectFailed, TidingsError
from tidings.inspector.records import ErrorData
from tidings.inspector.view.items import Who

_INVALID_PARAMS: Final = -32602
_METHOD_NOT_FOUND: Final = -32601
_MOST_PAYLOAD: Final = 65_536

_CURES: Final[dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_name("cures.json").read_text("utf-8"))
_KNOWN: Final[dict[str, tuple[Who, str]]] = _CURES["errors"]  # By the code of an error: its cause and its cure.


def error_data(error: BaseException, *, is_command: bool = False, method: str | None = None) -> ErrorData:
    """Returns any exception as a record keeps it. `is_command`: the server is a process on this machine."""
    if not isinstance(error, TidingsError):
        return _foreign(error, method)
    who, cure = _KNOWN.get(error.code, ("this program", "Please report this error."))
    code = as_int(as_dict(error.data).get("rpc_code"))
    if error.code == "request-failed" and code == _INVALID_PARAMS:
        who, cure = "you", "The server does not accept these arguments. Its answer says why."
    elif error.code == "request-failed" and code == _METHOD_NOT_FOUND:
        cure = "The server does not know this method. Its capabilities list what it offers."
    elif is_command and who == "the network":  # There is no network between.
        who, cure = "the server", _CURES["of_commands"].get(error.code, cure)
    elif isinstance(error, CommandFailed) and "could not be started" in error.message:
        who, cure = "you", "Correct the command, its folder or its environment in this server's entry."
    elif isinstance(error, ConnectFailed) and "not an address" in error.message:
        who, cure = "you", "Correct the address of this server."
    size = weigh(error.data, _MOST_PAYLOAD)
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
        "payload": plain(error.data) if size <= _MOST_PAYLOAD else cut(error.data, size),
    }


def _foreign(error: BaseException, method: str | None) -> ErrorData:
    """Reports an exception that is not one of Tidings."""
    if isinstance(error, asyncio.CancelledError):
        who, cure = _KNOWN["request-cancelled"]
        return _simple("request-cancelled", "cancelled", who, "The request was cancelled.", cure)
    if isinstance(error, ValueError):  # The client refuses to send it.
        found = _simple("bad-input", "input", "you", str(error), "Correct the values.")
    else:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        found = _simple("unforeseen", "program", "this program", text, "Please report this error.")
    found["method"] = method
    return found


def _simple(code: str, category: str, who: Who, message: str, cure: str) -> ErrorData:
    return {"code": code, "category": category, "who": who, "message": message, "cure": cure, "retryable": False}
