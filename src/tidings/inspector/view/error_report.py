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
import re
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_int, cut, plain, weigh
from tidings.errors import CommandFailed, ConnectFailed, TidingsError
from tidings.inspector.view.items import ErrorView, Who

_INVALID_PARAMS: Final = -32602
_METHOD_NOT_FOUND: Final = -32601
_MOST_PAYLOAD: Final = 65_536

CURES: Final[dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_name("cures.json").read_text("utf-8"))
_KNOWN: Final[dict[str, tuple[Who, str]]] = CURES["errors"]  # By the code of an error: its cause and its cure.
_SIGN_IN: Final = re.compile(r" Run `tidings sign-in [^`]*`, or pass a token: connect\(url, token=\"...\"\)\.")
_TIMEOUT: Final = re.compile(r"(timeout=\.\.\. or )?Timeouts\((\w+)=\.\.\.\)")  # Advice for programs

_PAGES: Final = (  # With the package, or in a clone
    Path(__file__).parents[1] / "errors",
    Path(__file__).parents[4] / "docs" / "errors",
)


def help_pages() -> dict[str, Path]:
    """Returns the pages about errors, as Markdown, by the code of the error."""
    return {
        path.stem: path
        for folder in _PAGES
        if folder.is_dir()
        for path in sorted(folder.glob("*.md"))
        if path.stem != "index"
    }


def error_view(error: BaseException, *, is_command: bool = False, method: str | None = None) -> ErrorView:
    """Returns any exception as people see it. `is_command`: the server is a process on this machine."""
    if not isinstance(error, TidingsError):
        return _foreign(error, method)
    who, cure = _KNOWN.get(error.code, ("this program", "Please report this error."))
    code = as_int(as_dict(error.data).get("rpc_code"))
    if error.code == "request-failed" and code == _INVALID_PARAMS:
        who, cure = "you", "The server does not accept these arguments. Its answer says why."
    elif error.code == "request-failed" and code == _METHOD_NOT_FOUND:
        cure = "The server does not know this method. Its capabilities list what it offers."
    elif is_command and who == "the network":  # There is no network between.
        who, cure = "the server", CURES["of_commands"].get(error.code, cure)
    elif isinstance(error, CommandFailed) and "could not be started" in error.message:
        who, cure = "you", "Correct the command, its folder or its environment in this server's entry."
    elif isinstance(error, ConnectFailed) and "not an address" in error.message:
        who, cure = "you", "Correct the address of this server."
    size = weigh(error.data, _MOST_PAYLOAD)
    payload: Any = plain(error.data) if size <= _MOST_PAYLOAD else cut(error.data, size)
    # Advice for programs, in the words of the inspector: a key or a button signs in.
    message = _TIMEOUT.sub(r"the \2 timeout of its entry", error.message)
    message = _SIGN_IN.sub("", message)
    message = message.replace("connect with era='legacy'", "set the era of this server to legacy")
    facts = message, error.code, error.category.value, who, cure, error.help, error.retryable
    return ErrorView(*facts, error.method or method, error.elapsed, payload)


def _foreign(error: BaseException, method: str | None) -> ErrorView:
    if isinstance(error, asyncio.CancelledError):
        return ErrorView("The request was cancelled.", "request-cancelled", "cancelled", *_KNOWN["request-cancelled"])
    if isinstance(error, ValueError):  # The client refuses to send it.
        return ErrorView(str(error), "bad-input", "input", "you", "Correct the values.", method=method)
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return ErrorView(text, "unforeseen", "program", "this program", "Please report this error.", method=method)
