"""A small MCP client for one-shot questions to a command, without the SDK, whose import alone would take longer.

It finds out the era as the SDK's client does (`server/discover`, else `initialize`), asks for lists, resources and
prompts, and ends the command in good order. Whatever is out of the ordinary (the server asks something of the user, a
result that wants input) raises `Unusual`: what this client asks for can be asked for again, by the live client.

A command that speaks MCP on its standard input and output, for one short conversation, without an event loop.

It runs in a process group of its own and does not outlive whoever started it: its input is closed, it is asked to end,
it is killed, each after a second; and so is what it started and left behind. What it says is bounded: one message, the
messages for one answer, and the last of what it wrote to standard error.

Questions to a command, one after the other: for the small client, without the SDK.

What is no message is remembered and passed over; what the server asks in turn is refused, or raises `Unusual`.
"""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tidings._version import __version__
from tidings.cli.exits import OneShotFailed, malformed
from tidings.client.masking import forms, masked, shown_arguments
from tidings.client.servers_file import ServersFileEntry
from tidings.errors import (
    CommandFailed,
    ConnectTimedOut,
    MessageTooLarge,
    NotSupported,
    RequestTimedOut,
    TidingsError,
    UnsupportedVersion,
)

_GRACE: Final = 1.0
_CHUNK: Final = 64 * 2**10
_TAIL: Final = 4096
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What the program finds in its environment: the few variables that are safe to inherit, and its own."""
    kept = {name: os.environ[name] for name in _INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**kept, **own}


class MessageTooLong(Exception):
    """A line has more bytes than a message may have."""


class Silent(Exception):
    """Nothing more came in time."""


class ProcessGone(Exception):
    """The program ended, or closed its output."""


class Conversation:
    """A running program, and the lines that go both ways.

    Raises:
        OSError, ValueError: It could not be started.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str | None, max_message: int) -> None:
        self._max_message = max_message
        self._process = subprocess.Popen(  # noqa: S603 - what the user asked for
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        if not (self._process.stdin and self._process.stdout and self._process.stderr):
            raise ValueError("a program has three pipes")
        self._in, self._out, self._err = (
            self._process.stdin.fileno(),
            self._process.stdout.fileno(),
            self._process.stderr.fileno(),
        )
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._lines: deque[bytes] = deque()
        self._said = bytearray()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._open = {self._out, self._err}

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def said(self) -> str:
        """The last that it wrote to its standard error."""
        return self._said.decode(errors="replace").strip()

    def send(self, line: bytes) -> None:
        """Have a line written, as soon as the program reads."""
        self._outgoing += line + b"\n"
        self._write()

    def _write(self) -> None:
        try:
            while self._outgoing:
                written = os.write(self._in, self._outgoing[:_CHUNK])
                del self._outgoing[:written]
        except BlockingIOError:
            self._poll.register(self._in, select.POLLOUT)
            return
        except OSError:  # It does not listen any more; it may have said why.
            self._outgoing.clear()
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._in)

    def line(self, deadline: float) -> bytes:
        """The next line that it writes.

        Raises:
            Silent: None came before `deadline`, by the monotonic clock.
            Gone: There will be none.
            TooLong: It is longer than a message may be.
        """
        while not self._lines:
            if self._out not in self._open:
                raise ProcessGone
            left = deadline - time.monotonic()
            ready = self._poll.poll(max(left, 0) * 1000)
            if not ready and left <= 0:
                raise Silent
            for pipe, _ in ready:
                self._write() if pipe == self._in else self._read(pipe)
        return self._lines.popleft()

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(pipe)
            self._open.discard(pipe)
            if pipe == self._out and self._incoming:
                self._lines.append(bytes(self._incoming))
        elif pipe == self._err:
            self._said = (self._said + data)[-_TAIL:]
        else:
            *whole, rest = data.split(b"\n")
            for piece in whole:
                self._lines.append(bytes(self._incoming + piece))
                self._incoming.clear()
            self._incoming += rest
            if len(self._incoming) > self._max_message:
                raise MessageTooLong

    def last_words(self) -> int | None:
        """Hear what it still says on standard error; returns its exit code, or the negative number of a signal."""
        until = time.monotonic() + _GRACE / 2
        while self._err in self._open and (left := until - time.monotonic()) > 0:
            for pipe, _ in self._poll.poll(left * 1000):
                if pipe != self._in:
                    with contextlib.suppress(MessageTooLong):
                        self._read(pipe)
        return self._wait(max(until - time.monotonic(), 0.05))

    def close(self) -> None:
        """End it, in good order if it lets us. Takes a few seconds at most."""
        process = self._process
        try:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    self._signal(number)
                if self._drained(_GRACE) is not None:
                    break
        finally:  # Whoever interrupts the wait, nobody is left behind.
            if process.poll() is None:
                self._signal(signal.SIGKILL)
                process.wait(_GRACE)
            self._sweep()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _drained(self, seconds: float) -> int | None:
        """Wait for its end, reading what it still writes: one that cannot write may not get to its end."""
        until = time.monotonic() + seconds
        while (code := self._process.poll()) is None and (left := until - time.monotonic()) > 0:
            # A program that closes its output is most likely at its end; how it ends is seen a moment later.
            ready = self._poll.poll(min(left, 0.05) * 1000) if self._open else []
            for pipe, _ in ready:
                with contextlib.suppress(OSError):
                    if pipe == self._in or not os.read(pipe, _CHUNK):
                        self._poll.unregister(pipe)
                        self._open.discard(pipe)
            if not self._open:
                return self._wait(max(until - time.monotonic(), 0))
        return code

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _sweep(self) -> None:
        """End what the program started and left behind, at once: later, its number may be another's."""
        if not self._signal(signal.SIGTERM):
            return
        until = time.monotonic() + _GRACE
        while self._signal(0):
            if time.monotonic() > until:
                self._signal(signal.SIGKILL)
                return
            time.sleep(0.01)

    def _signal(self, number: int) -> bool:
        """Send a signal to the program and all that it started; False if nobody is left."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


META: Final = "io.modelcontextprotocol/"
METHOD_NOT_FOUND: Final = -32601
ME: Final = {"name": "tidings", "version": __version__}
MAX_MESSAGE: Final = 32 * 2**20
_STDERR_SHOWN: Final = 1_000


class Unusual(Exception):
    """This is for the live client."""


class RequestRefused(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Asking:
    """A command that is asked. `start` it, `ask`, and `close` it in any case."""

    def __init__(self, entry: ServersFileEntry, capabilities: dict[str, Any]) -> None:
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
            except MessageTooLong:
                raise MessageTooLarge(
                    f"{self.name} sent a message of more than {MAX_MESSAGE:,} bytes, which is the limit.",
                    server=self.name,
                    method=method,
                ) from None
            except ProcessGone:
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
            raise RequestRefused(code if isinstance(code, int) else 0, str(told.get("message", "")), told.get("data"))
        result = message.get("result")
        if not isinstance(result, dict):
            raise self.malformed(method, "it has neither a result nor an error", message)
        return cast("dict[str, Any]", result)

    # What went wrong

    def malformed(self, method: str, reason: str, payload: Any) -> OneShotFailed:
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


def _not_started(entry: ServersFileEntry, error: Exception, env: dict[str, str]) -> TidingsError:
    from tidings.client.targets import CommandTarget
    from tidings.client.transports.stdio import not_started

    target = CommandTarget(entry.command or "", entry.args, entry.env, entry.cwd, entry.name or None, entry.hidden)
    return not_started(target, error, env)


OLD: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)
"""The versions of the two eras, oldest first; a test holds them against the SDK's."""

_PROBE_SECONDS: Final = 10.0
_UNSUPPORTED: Final = -32022


class WireClient:
    """A conversation with one command. `open` it, ask, and `close` it in any case."""

    def __init__(self, entry: ServersFileEntry, *, era: str, timeout: float | None, can_ask: bool) -> None:
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
        except RequestRefused as refusal:
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
            except RequestRefused as refusal:
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
        except RequestRefused as refusal:
            raise _named(refusal, method) from None
        if result.get("resultType", "complete") != "complete":
            raise Unusual
        return result

    def ping(self) -> float:
        """Seconds that the server takes to answer."""
        began = time.monotonic()
        try:
            self._asking.ask("server/discover" if self.is_modern else "ping", {}, began + self._seconds)
        except RequestRefused:
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


def _named(refusal: RequestRefused, method: str) -> TidingsError:
    """The server's error by its name; by those who know all of them, as there is time now."""
    if refusal.code == METHOD_NOT_FOUND and not refusal.data:
        # Not for this one: many servers have resources and know nothing of templates.
        data: dict[str, Any] = {"rpc_code": refusal.code, "rpc_data": {}}
        return NotSupported(f"The server has no {method} ({refusal.message}).", method=method, data=data)
    from mcp.shared.exceptions import MCPError

    from tidings.client.failures import answer_error

    return answer_error(MCPError(refusal.code, refusal.message, refusal.data), method=method)
