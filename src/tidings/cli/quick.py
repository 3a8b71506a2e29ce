"""A small MCP client for one-shot questions to a command, without the SDK, whose import alone would take longer.

It finds out the era as the SDK's client does (`server/discover`, else `initialize`), asks for lists, resources and
prompts, and ends the command in good order. Whatever is out of the ordinary (the server asks something of the user, a
result that wants input) raises `Unusual`: what this client asks for can be asked for again, by the live client.
"""

import itertools
import json
import time
from typing import Any, Final, cast

from tidings import __version__
from tidings.cli.exits import Failed, malformed
from tidings.cli.quick_process import Conversation, Gone, Silent, TooLong, environment
from tidings.client.masking import forms, masked, shown_arguments
from tidings.client.servers_file import Entry
from tidings.errors import (
    CommandFailed,
    ConnectTimedOut,
    MessageTooLarge,
    NotSupported,
    RequestTimedOut,
    TidingsError,
    UnsupportedVersion,
)

OLD: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)
"""The versions of the two eras, oldest first; a test holds them against the SDK's."""

MAX_MESSAGE: Final = 32 * 2**20
MAX_PAGES: Final = 1_000
_PROBE_SECONDS: Final = 10.0
_META: Final = "io.modelcontextprotocol/"
_UNSUPPORTED: Final = -32022
_METHOD_NOT_FOUND: Final = -32601
_STDERR_SHOWN: Final = 1_000


class Unusual(Exception):
    """This is for the live client."""


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class QuickClient:
    """A conversation with one command. `open` it, ask, and `close` it in any case."""

    def __init__(self, entry: Entry, *, era: str, timeout: float | None, can_ask: bool) -> None:
        self._entry = entry
        self._era = era
        self._connect_seconds = timeout or 30.0
        self._seconds = timeout or 60.0
        # What is offered is offered so that the server asks; this client then leaves it to the live one.
        self._capabilities: dict[str, Any] = _CAN_BE_ASKED if can_ask else {}
        self._numbers = itertools.count(1)
        self._garbage = ""
        self._deadline = 0.0
        self.transport = "stdio"
        self.took = 0.0
        self.protocol_version = ""
        self.server_info: dict[str, Any] | None = None
        self.capabilities: dict[str, Any] = {}
        self.instructions: str | None = None
        self.pid: int | None = None

    @property
    def name(self) -> str:
        """The command, as people call it. Secrets are left out."""
        shown = " ".join([self._entry.command or "", *shown_arguments(self._entry.args)[0]])
        return self._entry.name or self._clean(shown)

    def _clean(self, text: str) -> str:
        secrets = {*self._entry.env.values(), *self._entry.hidden} | shown_arguments(self._entry.args)[1]
        return masked(text, forms(secrets))

    # The conversation

    def open(self) -> None:
        """Start the command, and shake hands.

        Raises:
            TidingsError: It does not start, or is no MCP server.
        """
        entry = self._entry
        env = environment(entry.env)
        began = time.monotonic()
        try:
            self._talk = Conversation((entry.command or "", *entry.args), env, entry.cwd, MAX_MESSAGE)
        except (OSError, ValueError) as error:
            raise _not_started(entry, error, env) from error
        self.pid = self._talk.pid
        self._deadline = began + self._connect_seconds
        try:
            self._shake_hands()
        except Refused as refusal:
            raise _named(refusal, "initialize") from None
        self.took = time.monotonic() - began

    def close(self) -> None:
        """End the command."""
        if hasattr(self, "_talk"):
            self._talk.close()

    def _shake_hands(self) -> None:
        if self._era == "legacy":
            self._initialize()
            return
        version = MODERN[-1]
        for _ in range(2):
            try:
                found = self._discover(version)
            except Refused as refusal:
                supported = _texts(_mapping(refusal.data).get("supported"))
                if refusal.code != _UNSUPPORTED or not supported:
                    break
                mutual = [each for each in MODERN if each in supported]
                if mutual and mutual[-1] != version:
                    version = mutual[-1]
                    continue
                if not any(each in OLD for each in supported):
                    raise
                break
            if found is not None:
                return
            break
        if self._era != "auto":
            raise Unusual  # The live client knows how to say what the server speaks instead.
        self._initialize()

    def _discover(self, version: str) -> dict[str, Any] | None:
        self.protocol_version = version
        # A third of the time: a server of the old era that does not answer must have time to answer `initialize`.
        limit = time.monotonic() + min(_PROBE_SECONDS, self._connect_seconds / 3)
        try:
            found = self._ask("server/discover", {}, limit)
        except Silent:
            found = {}
        mutual = [each for each in MODERN if each in _texts(found.get("supportedVersions"))]
        if not mutual or not isinstance(found.get("capabilities"), dict):
            self.protocol_version = ""
            return None
        self.protocol_version = mutual[-1]
        self._take(found, _mapping(found.get("_meta")).get(_META + "serverInfo"))
        return found

    def _initialize(self) -> None:
        self.protocol_version = ""
        params = {"protocolVersion": OLD[-1], "capabilities": self._capabilities, "clientInfo": _ME}
        try:
            found = self._ask("initialize", params, self._deadline)
        except Silent:
            raise ConnectTimedOut(
                f"{self.name} did not answer within {self._connect_seconds:.3g} s. Give it longer with --timeout, if "
                f"it is an MCP server.{self._last_words()}",
                server=self.name,
                elapsed=self._connect_seconds,
            ) from None
        version = found.get("protocolVersion")
        if not isinstance(version, str) or not isinstance(found.get("capabilities"), dict):
            raise self._malformed("initialize", "it has no protocolVersion or no capabilities", found)
        if version not in OLD:
            raise UnsupportedVersion(
                f"{self.name} speaks {version}; Tidings speaks {OLD[0]} to {MODERN[-1]}. Upgrade whichever is older.",
                server=self.name,
            )
        self._take(found, found.get("serverInfo"))
        self._send({"method": "notifications/initialized"})
        self.protocol_version = version

    def _take(self, found: dict[str, Any], server: object) -> None:
        self.capabilities = _mapping(found.get("capabilities"))
        self.server_info = _mapping(server) or None
        told = found.get("instructions")
        self.instructions = told if isinstance(told, str) else None

    @property
    def is_modern(self) -> bool:
        """Whether the connection is one of the new era."""
        return self.protocol_version in MODERN

    # Requests

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The server's answer to a request.

        Raises:
            TidingsError: There is none, or it is no.
            Unusual: It is a question.
        """
        self._deadline = time.monotonic() + self._seconds
        try:
            result = self._ask(method, params, self._deadline)
        except Silent:
            raise RequestTimedOut(
                f"{self.name} did not answer {method} within {self._seconds:g} s. Give it longer with --timeout."
                f"{self._last_words()}",
                server=self.name,
                method=method,
                elapsed=self._seconds,
            ) from None
        except Refused as refusal:
            raise _named(refusal, method) from None
        if result.get("resultType", "complete") != "complete":
            raise Unusual
        return result

    def ping(self) -> float:
        """Seconds that the server takes to answer."""
        began = time.monotonic()
        try:
            self._ask("server/discover" if self.is_modern else "ping", {}, began + self._seconds)
        except Refused:
            pass  # An error is an answer too.
        except Silent:
            raise RequestTimedOut(
                f"{self.name} did not answer within {self._seconds:g} s.", server=self.name, method="ping"
            ) from None
        return time.monotonic() - began

    def _ask(self, method: str, params: dict[str, Any], deadline: float) -> dict[str, Any]:
        number = next(self._numbers)
        if self.protocol_version in MODERN:
            stamp = {
                "protocolVersion": self.protocol_version,
                "clientInfo": _ME,
                "clientCapabilities": self._capabilities,
            }
            params = {**params, "_meta": {_META + key: value for key, value in stamp.items()}}
        self._send({"id": number, "method": method, **({"params": params} if params else {})})
        while True:
            message = self._next(method, deadline)
            if "method" in message:
                self._heard(message)
            elif message.get("id") == number:
                return self._result(message, method)

    def _send(self, message: dict[str, Any]) -> None:
        self._talk.send(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def _next(self, method: str, deadline: float) -> dict[str, Any]:
        """The next message; what is none is remembered, and passed over."""
        while True:
            if time.monotonic() > deadline:  # A flood must not keep us for ever.
                raise Silent
            try:
                line = self._talk.line(deadline)
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
            self._send({"id": message["id"], "result": {}})
        elif self._capabilities:
            raise Unusual
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": "This client cannot be asked."}
            self._send({"id": message["id"], "error": error})

    def _result(self, message: dict[str, Any], method: str) -> dict[str, Any]:
        error = message.get("error")
        if isinstance(error, dict):
            told = cast("dict[str, Any]", error)
            code = told.get("code")
            raise Refused(code if isinstance(code, int) else 0, str(told.get("message", "")), told.get("data"))
        result = message.get("result")
        if not isinstance(result, dict):
            raise self._malformed(method, "it has neither a result nor an error", message)
        return cast("dict[str, Any]", result)

    # What went wrong

    def _malformed(self, method: str, reason: str, payload: Any) -> Failed:
        return malformed(f"The server's answer to {method} is not what the protocol says ({reason}).", payload)

    def _died(self) -> TidingsError:
        code = self._talk.last_words()
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code}"
        said = self._last_words() or " It said nothing. Does it speak MCP on its standard output?"
        return CommandFailed(f"{self.name} {how} before it answered.{said}", server=self.name)

    def _last_words(self) -> str:
        said = self._clean(self._talk.said)[-_STDERR_SHOWN:]
        text = (
            f" On its standard output it said what is no message: {self._clean(self._garbage)!r}."
            if self._garbage
            else ""
        )
        return text + (f" It said: {said}" if said else "")


_ME: Final = {"name": "tidings", "version": __version__}
_CAN_BE_ASKED: Final[dict[str, Any]] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in cast("list[Any]", value) if isinstance(each, str)] if isinstance(value, list) else []


def _named(refusal: Refused, method: str) -> TidingsError:
    """The server's error by its name; by those who know all of them, as there is time now."""
    if refusal.code == _METHOD_NOT_FOUND and not refusal.data:
        # Not for this one: many servers have resources and know nothing of templates.
        data: dict[str, Any] = {"rpc_code": refusal.code, "rpc_data": {}}
        return NotSupported(f"The server has no {method} ({refusal.message}).", method=method, data=data)
    from mcp.shared.exceptions import MCPError

    from tidings.client.failures import answer_error

    return answer_error(MCPError(refusal.code, refusal.message, refusal.data), method=method)


def _not_started(entry: Entry, error: Exception, env: dict[str, str]) -> TidingsError:
    from tidings.client.addresses import CommandTarget
    from tidings.client.launching import not_started

    target = CommandTarget(entry.command or "", entry.args, entry.env, entry.cwd, entry.name or None, entry.hidden)
    return not_started(target, error, env)
