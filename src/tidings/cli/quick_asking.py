"""Questions to a command, one after the other: for the small client, without the SDK.

What is no message is remembered and passed over; what the server asks in turn is refused, or raises `Unusual`.
"""

import itertools
import json
import time
from typing import Any, Final, cast

from tidings._version import __version__
from tidings.cli.exits import Failed, malformed
from tidings.cli.quick_process import Conversation, Gone, Silent, TooLong, environment
from tidings.client.masking import forms, masked, shown_arguments
from tidings.client.servers_file import Entry
from tidings.errors import CommandFailed, MessageTooLarge, TidingsError

META: Final = "io.modelcontextprotocol/"
METHOD_NOT_FOUND: Final = -32601
ME: Final = {"name": "tidings", "version": __version__}
MAX_MESSAGE: Final = 32 * 2**20
_STDERR_SHOWN: Final = 1_000


class Unusual(Exception):
    """This is for the live client."""


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Asking:
    """A command that is asked. `start` it, `ask`, and `close` it in any case."""

    def __init__(self, entry: Entry, capabilities: dict[str, Any]) -> None:
        self._entry = entry
        self._capabilities = capabilities
        self._numbers = itertools.count(1)
        self._garbage = ""
        self._astray: Any = None
        self._talk: Conversation | None = None
        self.version = ""
        """The version of the new era that each request is to say, once that is known."""

    @property
    def name(self) -> str:
        """The command, as people call it. Secrets are left out."""
        shown = " ".join([self._entry.command or "", *shown_arguments(self._entry.args)[0]])
        return self._entry.name or self._clean(shown)

    def _clean(self, text: str) -> str:
        secrets = {*self._entry.env.values(), *self._entry.hidden} | shown_arguments(self._entry.args)[1]
        return masked(text, forms(secrets))

    def start(self) -> None:
        """Start the command.

        Raises:
            TidingsError: It does not start.
        """
        entry = self._entry
        env = environment(entry.env)
        try:
            self._talk = Conversation((entry.command or "", *entry.args), env, entry.cwd, MAX_MESSAGE)
        except (OSError, ValueError) as error:
            raise _not_started(entry, error, env) from error

    def close(self) -> None:
        """End the command."""
        if self._talk is not None:
            self._talk.close()

    @property
    def _running(self) -> Conversation:
        if self._talk is None:
            raise RuntimeError("a command is asked before it is started")
        return self._talk

    def ask(self, method: str, params: dict[str, Any], deadline: float) -> dict[str, Any]:
        """The server's answer to a request.

        Raises:
            Silent: There is none in time, by the monotonic clock.
            Refused: It is an error.
            Unusual: The server asks something first.
            TidingsError, Failed: It went away, or answered what is none.
        """
        number = next(self._numbers)
        if self.version:
            stamp = {"protocolVersion": self.version, "clientInfo": ME, "clientCapabilities": self._capabilities}
            params = {**params, "_meta": {META + key: value for key, value in stamp.items()}}
        self.send({"id": number, "method": method, **({"params": params} if params else {})})
        while True:
            message = self._next(method, deadline)
            if "method" in message:
                self._heard(message)
            elif message.get("id") == number:
                return self._result(message, method)
            elif message.get("id") is not None and self._astray is None:
                self._astray = message["id"]

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self._running.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _next(self, method: str, deadline: float) -> dict[str, Any]:
        """The next message; what is none is remembered, and passed over."""
        while True:
            if time.monotonic() > deadline:  # A flood must not keep us for ever.
                raise Silent
            try:
                line = self._running.line(deadline)
            except TooLong:
                raise MessageTooLarge(
                    f"{self.name} sent a message of more than {MAX_MESSAGE:,} bytes, which is the limit.",
                    server=self.name,
                    method=method,
                ) from None
            except Gone:
                raise self._died() from None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return cast("dict[str, Any]", message)
            if line.strip():
                self._garbage = self._garbage or line[:200].decode(errors="replace").strip()

    def _heard(self, message: dict[str, Any]) -> None:
        """The server asks or tells something."""
        if "id" not in message:
            return
        if message["method"] == "ping":
            self.send({"id": message["id"], "result": {}})
        elif self._capabilities:
            raise Unusual
        else:
            error = {"code": METHOD_NOT_FOUND, "message": "This client cannot be asked."}
            self.send({"id": message["id"], "error": error})

    def _result(self, message: dict[str, Any], method: str) -> dict[str, Any]:
        error = message.get("error")
        if isinstance(error, dict):
            told = cast("dict[str, Any]", error)
            code = told.get("code")
            raise Refused(code if isinstance(code, int) else 0, str(told.get("message", "")), told.get("data"))
        result = message.get("result")
        if not isinstance(result, dict):
            raise self.malformed(method, "it has neither a result nor an error", message)
        return cast("dict[str, Any]", result)

    # What went wrong

    def malformed(self, method: str, reason: str, payload: Any) -> Failed:
        """The end of a command whose server answered what is no answer."""
        return malformed(f"The server's answer to {method} is not what the protocol says ({reason}).", payload)

    def _died(self) -> TidingsError:
        code = self._running.last_words()
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code}"
        said = self.last_words() or " It said nothing. Does it speak MCP on its standard output?"
        return CommandFailed(f"{self.name} {how} before it answered.{said}", server=self.name)

    def last_words(self) -> str:
        """What the command said that may explain what became of it."""
        said = self._clean(self._running.said)[-_STDERR_SHOWN:]
        text = (
            f" On its standard output it said what is no message: {self._clean(self._garbage)!r}."
            if self._garbage
            else ""
        )
        if self._astray is not None:
            text += f" It answered a request {self._astray!r}, which nobody made."
        return text + (f" It said: {said}" if said else "")


def _not_started(entry: Entry, error: Exception, env: dict[str, str]) -> TidingsError:
    from tidings.client.addresses import CommandTarget
    from tidings.client.launching import not_started

    target = CommandTarget(entry.command or "", entry.args, entry.env, entry.cwd, entry.name or None, entry.hidden)
    return not_started(target, error, env)
