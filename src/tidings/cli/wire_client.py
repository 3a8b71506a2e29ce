"""A small MCP client for one-shot requests to a command, without the SDK, whose import takes longer than the request.

It finds out the era as the SDK's client does (`server/discover`, else `initialize`), sends one request at a time, and
ends the command. It raises `Unusual` for everything else, for example a question to the user: all its requests are safe
to repeat, so the live client then starts again. Output that is not a message is skipped and quoted in errors.

This file knows the protocol versions of both eras by itself: a test compares them with the SDK's.
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
from typing import Any, Final, Self, cast

from tidings._kit.bounded_json import as_dict, as_texts
from tidings._kit.process import GRACE, end_group, explain_start, signal_group
from tidings._version import __version__
from tidings.cli.exits import invalid_answer
from tidings.cli.oneshot import OneShotOptions, ServerFacts
from tidings.client.masking import forms, masked, shown_arguments
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
MODERN: Final = ("2026-07-28",)  # The protocol versions of the two eras, oldest first
_META: Final = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND: Final = -32601
_UNSUPPORTED_VERSION: Final = -32022
_CLIENT_INFO: Final = {"name": "tidings", "version": __version__}
_CAN_BE_ASKED: Final[dict[str, Any]] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}

_MAX_MESSAGE: Final = 32 * 2**20
_CHUNK: Final = 64 * 2**10
_LONGEST_POLL: Final = 86_400.0  # Seconds. The system refuses to wait for more than about 24 days.
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a command: its own variables, and the few that are safe to inherit."""
    kept = {name: os.environ[name] for name in _INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**kept, **own}


class Unusual(Exception):
    """This request needs the live client."""


class _TooLong(Exception):
    """A line is longer than a message may be."""


class _Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        code = error.get("code")
        self.code = code if isinstance(code, int) else 0
        self.message = str(error.get("message", ""))
        self.data: Any = error.get("data")


class CommandPipe:
    """A running command and the lines that go both ways, without an event loop.

    The command runs in a process group of its own, which `close` ends.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        self._process = process = subprocess.Popen(  # noqa: S603 - the command that the user gave
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
        self._in, self._out, self._err = (pipe.fileno() for pipe in self._pipes)
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._lines: deque[bytes] = deque()
        self._stderr = bytearray()
        self._poll = select.poll()
        self._open = {self._out, self._err}
        for pipe in self._open:
            self._poll.register(pipe, select.POLLIN)

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace").strip()

    def send(self, line: bytes) -> None:
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
        except OSError:  # It reads no more. Its output may say why.
            self._outgoing.clear()
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._in)

    def line(self, deadline: float) -> bytes:
        """Returns the next line of output. `deadline` is by the monotonic clock.

        Raises `TimeoutError` if none came in time, and `EOFError` if the command ended or closed its output.
        """
        while not self._lines:
            if self._out not in self._open:
                raise EOFError
            left = deadline - time.monotonic()
            ready = self._poll.poll(min(max(left, 0), _LONGEST_POLL) * 1000)
            if not ready and left <= 0:
                raise TimeoutError
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
            self._stderr = (self._stderr + data)[-4096:]
        else:
            *whole, rest = data.split(b"\n")
            for piece in whole:
                self._lines.append(bytes(self._incoming + piece))
                self._incoming.clear()
            self._incoming += rest
            if len(self._incoming) > _MAX_MESSAGE:
                raise _TooLong

    def exit_code(self) -> int | None:
        """Reads the rest of standard error and returns the exit code; None if the command still runs."""
        until = time.monotonic() + GRACE / 2
        while self._err in self._open and (left := until - time.monotonic()) > 0:
            for pipe, _ in self._poll.poll(left * 1000):
                if pipe != self._in:
                    with contextlib.suppress(_TooLong):
                        self._read(pipe)
        return self._wait(max(until - time.monotonic(), 0.05))

    def close(self) -> None:
        """Ends the command: closes its input, asks it to end, kills it, with a second for each step."""
        process, pid = self._process, self._process.pid
        try:
            with contextlib.suppress(OSError):
                self._pipes[0].close()
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    signal_group(pid, number)
                if self._ended():
                    break
        finally:  # Also if the wait is interrupted.
            if process.poll() is None:
                signal_group(pid, signal.SIGKILL)
                process.wait(GRACE)
            end_group(pid)
            for pipe in self._pipes[1:]:
                pipe.close()

    def _ended(self) -> bool:
        """Waits for the end of the command. Reads its output meanwhile: a command that cannot write may never end."""
        until = time.monotonic() + GRACE
        while self._process.poll() is None and (left := until - time.monotonic()) > 0:
            if not self._open:
                return self._wait(left) is not None
            for pipe, _ in self._poll.poll(min(left, 0.05) * 1000):
                with contextlib.suppress(OSError):
                    if pipe == self._in or not os.read(pipe, _CHUNK):
                        self._poll.unregister(pipe)
                        self._open.discard(pipe)
        return self._process.returncode is not None

    def _wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


class WireClient:
    """One connection to a command. Entering it starts the command and performs the handshake."""

    server: ServerFacts

    def __init__(self, options: OneShotOptions) -> None:
        self._entry = entry = options.entry
        self._era = options.era
        self._connect_seconds = options.timeout or 30.0
        self._request_seconds = options.timeout or 60.0
        # If these are offered, the server may ask: then `Unusual` hands over to the live client.
        self._capabilities = _CAN_BE_ASKED if options.can_ask else {}
        shown, secrets = shown_arguments(entry.args)
        self._secrets = forms({*entry.env.values(), *entry.hidden} | secrets)
        self._name = entry.name or self._clean(" ".join([entry.command or "", *shown]))
        self._numbers = itertools.count(1)
        self._version = ""  # The modern version that each request states; empty in the old era
        self._garbage = ""
        self._stray_id: Any = None

    def _clean(self, text: str) -> str:
        return masked(text, self._secrets)

    def __enter__(self) -> Self:
        entry, env = self._entry, environment(self._entry.env)
        self._began = time.monotonic()
        try:
            self._pipe = CommandPipe((entry.command or "", *entry.args), env, entry.cwd)
        except (OSError, ValueError) as error:
            reason = explain_start(entry.command or "", entry.cwd, env, error)
            message = self._clean(f"{self._name} could not be started: {reason}")
            raise CommandFailed(message, server=self._name) from error
        try:
            if self._era == "legacy" or not self._discover():
                self._initialize()
        except BaseException:
            self._pipe.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()

    # Handshake

    def _discover(self) -> bool:
        """Tries the modern era. False: try the old one."""
        self._version = MODERN[-1]
        # At most a third of the time: a server of the old era may not answer, and needs time for `initialize`.
        limit = time.monotonic() + min(10.0, self._connect_seconds / 3)
        found: dict[str, Any] = {}
        try:
            found = self._ask("server/discover", {}, limit)
        except TimeoutError:
            pass
        except _Refused as refusal:
            supported = as_texts(as_dict(refusal.data).get("supported"))
            if refusal.code == _UNSUPPORTED_VERSION and supported and not set(supported) & set(OLD):
                raise _named(refusal, "server/discover") from None
        mutual = [each for each in MODERN if each in as_texts(found.get("supportedVersions"))]
        if not mutual or not isinstance(found.get("capabilities"), dict):
            self._version = ""
            return False
        self._version = mutual[-1]
        self._take(found, self._version, "modern", as_dict(found.get("_meta")).get(_META + "serverInfo"))
        return True

    def _initialize(self) -> None:
        if self._era not in ("auto", "legacy"):
            raise Unusual  # The live client explains which versions the server supports.
        params = {"protocolVersion": OLD[-1], "capabilities": self._capabilities, "clientInfo": _CLIENT_INFO}
        try:
            found = self._ask("initialize", params, self._began + self._connect_seconds)
        except _Refused as refusal:
            raise _named(refusal, "initialize") from None
        except TimeoutError:
            raise ConnectTimedOut(
                f"{self._name} did not answer within {self._connect_seconds:.3g} s. If it is an MCP server, give it "
                f"more time with --timeout.{self._last_output()}",
                server=self._name,
                elapsed=self._connect_seconds,
            ) from None
        version = found.get("protocolVersion")
        if not isinstance(version, str) or not isinstance(found.get("capabilities"), dict):
            raise invalid_answer("initialize", "it has no protocolVersion or no capabilities", found)
        if version not in OLD:
            raise UnsupportedVersion(
                f"{self._name} speaks protocol version {version}; Tidings speaks {OLD[0]} to {MODERN[-1]}. Upgrade the "
                "older of the two.",
                server=self._name,
            )
        self._take(found, version, "legacy", found.get("serverInfo"))
        self._send({"method": "notifications/initialized"})

    def _take(self, found: dict[str, Any], version: str, era: str, server_info: object) -> None:
        instructions = found.get("instructions")
        self.server = ServerFacts(
            name=self._name,
            transport="stdio",
            protocol_version=version,
            era=era,
            server_info=as_dict(server_info) or None,
            capabilities=as_dict(found.get("capabilities")),
            instructions=instructions if isinstance(instructions, str) else None,
            seconds=time.monotonic() - self._began,
        )

    # Requests

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            result = self._ask(method, params, time.monotonic() + self._request_seconds)
        except TimeoutError:
            raise RequestTimedOut(
                f"{self._name} did not answer {method} within {self._request_seconds:g} s. Give it more time with "
                f"--timeout.{self._last_output()}",
                server=self._name,
                method=method,
                elapsed=self._request_seconds,
            ) from None
        except _Refused as refusal:
            raise _named(refusal, method) from None
        if result.get("resultType", "complete") != "complete":
            raise Unusual
        return result

    def ping(self) -> float:
        began = time.monotonic()
        try:
            self._ask("server/discover" if self._version else "ping", {}, began + self._request_seconds)
        except _Refused:
            pass  # An error is an answer too.
        except TimeoutError:
            raise RequestTimedOut(
                f"{self._name} did not answer within {self._request_seconds:g} s.", server=self._name, method="ping"
            ) from None
        return time.monotonic() - began

    def _ask(self, method: str, params: dict[str, Any], deadline: float) -> dict[str, Any]:
        number = next(self._numbers)
        if self._version:
            stamp = {
                "protocolVersion": self._version,
                "clientInfo": _CLIENT_INFO,
                "clientCapabilities": self._capabilities,
            }
            params = {**params, "_meta": {_META + key: value for key, value in stamp.items()}}
        self._send({"id": number, "method": method, **({"params": params} if params else {})})
        while True:
            message = self._receive(method, deadline)
            if "method" in message:
                self._answer(message)
            elif message.get("id") == number:
                break
            elif message.get("id") is not None and self._stray_id is None:
                self._stray_id = message["id"]
        if isinstance(message.get("error"), dict):
            raise _Refused(message["error"])
        if not isinstance(message.get("result"), dict):
            raise invalid_answer(method, "it has neither a result nor an error", message)
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._pipe.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _receive(self, method: str, deadline: float) -> dict[str, Any]:
        while True:
            if time.monotonic() > deadline:  # Also if lines keep coming.
                raise TimeoutError
            try:
                line = self._pipe.line(deadline)
            except _TooLong:
                raise MessageTooLarge(
                    f"{self._name} sent a message of more than {_MAX_MESSAGE:,} bytes, which is the limit.",
                    server=self._name,
                    method=method,
                ) from None
            except EOFError:
                raise self._ended() from None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return cast("dict[str, Any]", message)
            if line.strip():
                self._garbage = self._garbage or line[:200].decode(errors="replace").strip()

    def _answer(self, message: dict[str, Any]) -> None:
        """Answers a request of the server. Notifications are ignored."""
        if "id" not in message:
            return
        if message["method"] == "ping":
            self._send({"id": message["id"], "result": {}})
        elif self._capabilities:
            raise Unusual
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": "This client cannot be asked."}
            self._send({"id": message["id"], "error": error})

    def _ended(self) -> TidingsError:
        code = self._pipe.exit_code()
        how = "closed its output" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code}"
        output = self._last_output() or " It wrote nothing. Does it speak MCP on its standard output?"
        return CommandFailed(f"{self._name} {how} before it answered.{output}", server=self._name)

    def _last_output(self) -> str:
        text = ""
        if self._garbage:
            text = f" Its standard output is not an MCP message: {self._clean(self._garbage)!r}."
        if self._stray_id is not None:
            text += f" It answered a request with the id {self._stray_id!r}, which was never sent."
        stderr = self._clean(self._pipe.stderr)[-1_000:]
        return text + (f" Its standard error: {stderr}" if stderr else "")


def _named(refusal: _Refused, method: str) -> TidingsError:
    """Returns the named error of an error answer. Imports the SDK: a failing command may take longer."""
    if refusal.code == _METHOD_NOT_FOUND and not refusal.data:
        # Without the SDK, because it is common: many servers with resources have no templates.
        data: dict[str, Any] = {"rpc_code": refusal.code, "rpc_data": {}}
        return NotSupported(f"The server has no {method} ({refusal.message}).", method=method, data=data)
    from mcp.shared.exceptions import MCPError

    from tidings.client.failures import answer_error

    return answer_error(MCPError(refusal.code, refusal.message, refusal.data), method=method)
