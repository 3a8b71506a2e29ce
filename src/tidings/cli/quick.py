"""A small MCP client for one-shot questions to a command, without the SDK, whose import alone would take longer.

It finds out the era as the SDK's client does (`server/discover`, else `initialize`), asks for lists, resources and
prompts, and ends the command in good order. Whatever is out of the ordinary (the server asks something of the user, a
result that wants input) raises `Unusual`: what this client asks for can be asked for again, by the live client.
"""

import time
from typing import Any, Final, cast

from tidings.cli.quick_asking import ME, META, METHOD_NOT_FOUND, Asking, Refused, Unusual
from tidings.cli.quick_process import Silent
from tidings.client.servers_file import Entry
from tidings.errors import (
    ConnectTimedOut,
    NotSupported,
    RequestTimedOut,
    TidingsError,
    UnsupportedVersion,
)

OLD: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)
"""The versions of the two eras, oldest first; a test holds them against the SDK's."""

_PROBE_SECONDS: Final = 10.0
_UNSUPPORTED: Final = -32022


class QuickClient:
    """A conversation with one command. `open` it, ask, and `close` it in any case."""

    def __init__(self, entry: Entry, *, era: str, timeout: float | None, can_ask: bool) -> None:
        self._era = era
        self._connect_seconds = timeout or 30.0
        self._seconds = timeout or 60.0
        # What is offered is offered so that the server asks; this client then leaves it to the live one.
        self._capabilities: dict[str, Any] = _CAN_BE_ASKED if can_ask else {}
        self._asking = Asking(entry, self._capabilities)
        self._deadline = 0.0
        self.transport = "stdio"
        self.took = 0.0
        self.protocol_version = ""
        self.server_info: dict[str, Any] | None = None
        self.capabilities: dict[str, Any] = {}
        self.instructions: str | None = None

    @property
    def name(self) -> str:
        """The command, as people call it. Secrets are left out."""
        return self._asking.name

    # The conversation

    def open(self) -> None:
        """Start the command, and shake hands.

        Raises:
            TidingsError: It does not start, or is no MCP server.
        """
        began = time.monotonic()
        self._asking.start()
        self._deadline = began + self._connect_seconds
        try:
            self._shake_hands()
        except Refused as refusal:
            raise _named(refusal, "initialize") from None
        self.took = time.monotonic() - began

    def close(self) -> None:
        """End the command."""
        self._asking.close()

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
        self._speak(version)
        # A third of the time: a server of the old era that does not answer must have time to answer `initialize`.
        limit = time.monotonic() + min(_PROBE_SECONDS, self._connect_seconds / 3)
        try:
            found = self._asking.ask("server/discover", {}, limit)
        except Silent:
            found = {}
        mutual = [each for each in MODERN if each in _texts(found.get("supportedVersions"))]
        if not mutual or not isinstance(found.get("capabilities"), dict):
            self._speak("")
            return None
        self._speak(mutual[-1])
        self._take(found, _mapping(found.get("_meta")).get(META + "serverInfo"))
        return found

    def _initialize(self) -> None:
        self._speak("")
        params = {"protocolVersion": OLD[-1], "capabilities": self._capabilities, "clientInfo": ME}
        try:
            found = self._asking.ask("initialize", params, self._deadline)
        except Silent:
            raise ConnectTimedOut(
                f"{self.name} did not answer within {self._connect_seconds:.3g} s. Give it longer with --timeout, if "
                f"it is an MCP server.{self._asking.last_words()}",
                server=self.name,
                elapsed=self._connect_seconds,
            ) from None
        version = found.get("protocolVersion")
        if not isinstance(version, str) or not isinstance(found.get("capabilities"), dict):
            raise self._asking.malformed("initialize", "it has no protocolVersion or no capabilities", found)
        if version not in OLD:
            raise UnsupportedVersion(
                f"{self.name} speaks {version}; Tidings speaks {OLD[0]} to {MODERN[-1]}. Upgrade whichever is older.",
                server=self.name,
            )
        self._take(found, found.get("serverInfo"))
        self._asking.send({"method": "notifications/initialized"})
        self.protocol_version = version

    def _take(self, found: dict[str, Any], server: object) -> None:
        self.capabilities = _mapping(found.get("capabilities"))
        self.server_info = _mapping(server) or None
        told = found.get("instructions")
        self.instructions = told if isinstance(told, str) else None

    def _speak(self, version: str) -> None:
        self.protocol_version = version
        self._asking.version = version if self.is_modern else ""

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
            result = self._asking.ask(method, params, self._deadline)
        except Silent:
            raise RequestTimedOut(
                f"{self.name} did not answer {method} within {self._seconds:g} s. Give it longer with --timeout."
                f"{self._asking.last_words()}",
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
            self._asking.ask("server/discover" if self.is_modern else "ping", {}, began + self._seconds)
        except Refused:
            pass  # An error is an answer too.
        except Silent:
            raise RequestTimedOut(
                f"{self.name} did not answer within {self._seconds:g} s.", server=self.name, method="ping"
            ) from None
        return time.monotonic() - began


_CAN_BE_ASKED: Final[dict[str, Any]] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in cast("list[Any]", value) if isinstance(each, str)] if isinstance(value, list) else []


def _named(refusal: Refused, method: str) -> TidingsError:
    """The server's error by its name; by those who know all of them, as there is time now."""
    if refusal.code == METHOD_NOT_FOUND and not refusal.data:
        # Not for this one: many servers have resources and know nothing of templates.
        data: dict[str, Any] = {"rpc_code": refusal.code, "rpc_data": {}}
        return NotSupported(f"The server has no {method} ({refusal.message}).", method=method, data=data)
    from mcp.shared.exceptions import MCPError

    from tidings.client.failures import answer_error

    return answer_error(MCPError(refusal.code, refusal.message, refusal.data), method=method)
