"""A small MCP client for one-shot requests to a command, without the SDK, whose import takes longer than the request.

It finds out the era as the SDK's client does (`server/discover`, else `initialize`), and sends one request at a time.
It raises `Unusual` for everything else, but not after it has sent a tool call, so that the live client can start again.
The SDK is imported to answer a question. A test compares the protocol versions here with the SDK's.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, Full, Queue
from threading import TIMEOUT_MAX, Thread
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

from tidings._kit.bounded_json import as_dict, as_float, as_int, as_text, as_texts
from tidings._kit.process import GRACE, end_group, signal_group
from tidings._version import __version__
from tidings.cli.exits import invalid_answer
from tidings.cli.oneshot import OneShotOptions, ServerSummary
from tidings.client.config import QUESTION_TASKS
from tidings.client.masking import forms, masked, shown_arguments
from tidings.errors import (
    CommandFailed,
    ConnectTimedOut,
    EffectUnknown,
    MessageTooLarge,
    NotSupported,
    RequestCancelled,
    RequestTimedOut,
)

if TYPE_CHECKING:
    from io import BufferedReader

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)  # The protocol versions of the two eras, oldest first
_META: Final = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND: Final = -32601
_UNSUPPORTED_VERSION: Final = -32022
_CLIENT_INFO: Final = {"name": "tidings", "version": __version__}
_TASKS: Final[dict[str, Any]] = {"extensions": {_META + "tasks": {}}}
_CAPABILITIES: Final[dict[str, Any]] = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
"""Always declared, since servers hide tools from clients that cannot be asked."""

_MAX_MESSAGE: Final = 32 * 2**20
_LONGEST_SENT: Final = 8 * 2**10
_MOST_LINES: Final = 100
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_ADDRESS: Final = re.compile(
    r"(?:https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):|\bport[ :=]+)(\d{2,5})(/[\w/.-]*)?", re.IGNORECASE
)
_ENDPOINTS: Final = ("/mcp", "/sse")

OnProgress = Callable[[float, float | None, str | None], object]


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a command: its own variables, and the few that are safe to inherit."""
    kept = {name: os.environ[name] for name in _INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**kept, **own}


class Unusual(Exception):
    """This request needs the live client."""


class _Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = as_int(error.get("code")) or 0
        self.message = str(error.get("message", ""))
        self.data: Any = error.get("data")


def _ended_task(task: str) -> dict[str, Any]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"taskId": task, "status": "completed", "createdAt": now, "lastUpdatedAt": now, "ttl": None}


class CommandPipe:
    """A running command, without an event loop: a thread reads each of its outputs. `close` ends its process group."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603 - the command that the user gave
            words, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd=cwd, start_new_session=True
        )
        # Bounded, as otherwise a command that never stops writing would fill the memory. Nothing: it has ended. A blank
        # one: there may be something new on standard error.
        self._lines: Queue[bytes] = Queue(_MOST_LINES)
        self._closing = False
        self._stderr = b""
        self._readers = [Thread(target=work, daemon=True) for work in (self._read, self._read_stderr)]
        for thread in self._readers:
            thread.start()

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace").strip()

    def send(self, message: dict[str, Any], most: int | None = None) -> None:
        """Sends a message. Raises `Unusual` if it has over `most` bytes: a pipe may not hold it."""
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        if most is not None and len(line) > most:
            raise Unusual
        pipe = cast("IO[bytes]", self._process.stdin)
        with contextlib.suppress(OSError):
            pipe.write(line)
            pipe.flush()

    def line(self, deadline: float) -> bytes:
        """Returns the next line of output. Raises `TimeoutError`, `EOFError`, or `OverflowError` if it is too long."""
        try:
            found = self._lines.get(timeout=min(max(deadline - time.monotonic(), 0), TIMEOUT_MAX))
        except Empty:
            raise TimeoutError from None
        if not found:
            self._lines.put(found)
            raise EOFError
        if len(found) > _MAX_MESSAGE:
            raise OverflowError
        return found

    def _read(self) -> None:
        with cast("IO[bytes]", self._process.stdout) as pipe, contextlib.suppress(OSError):
            while (line := pipe.readline(_MAX_MESSAGE + 1)) or not self._closing:
                if not self._closing:
                    self._lines.put(line)
                if not line:
                    break

    def _read_stderr(self) -> None:
        with cast("BufferedReader", self._process.stderr) as pipe, contextlib.suppress(OSError):
            while data := pipe.read1(4096):
                self._stderr = (self._stderr + data)[-4096:]
                with contextlib.suppress(Full):
                    self._lines.put_nowait(b"\n")

    def exit_code(self) -> int | None:
        """Reads the rest of standard error and returns the exit code; None if the command still runs."""
        until = time.monotonic() + GRACE / 2
        self._readers[-1].join(GRACE / 2)
        return self._wait(max(until - time.monotonic(), 0.05))

    def close(self) -> None:
        """Ends the command: closes its input, asks it to end, kills it, with a second for each step."""
        process, pid = self._process, self._process.pid
        try:
            self._closing = True
            while not self._lines.empty():  # Its output is read on: a command that cannot write may never end.
                self._lines.get_nowait()
            with contextlib.suppress(OSError):
                cast("IO[bytes]", process.stdin).close()
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    signal_group(pid, number)
                if self._wait(GRACE) is not None:
                    break
        finally:  # Also if the wait is interrupted.
            if process.poll() is None:
                signal_group(pid, signal.SIGKILL)
                process.wait(GRACE)
            end_group(pid)

    def _wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


class WireClient:
    """One connection to a command. Entering it starts the command and performs the handshake."""

    server: ServerSummary

    def __init__(self, options: OneShotOptions) -> None:
        self._options = options
        self._entry = entry = options.entry
        self._era = options.era
        self._answers: dict[str, dict[str, Any]] = {}  # To questions that were asked as tasks.
        self._connect_seconds = options.timeout or 30.0
        self._request_seconds = options.timeout or 60.0
        shown, secrets = shown_arguments(entry.args)
        self._secrets = forms({*entry.env.values(), *entry.hidden} | secrets)
        self._name = entry.name or masked(" ".join([entry.command or "", *shown]), self._secrets)
        self._numbers = itertools.count(1)
        self._version = ""  # The modern version that each request states; empty in the legacy era
        self._garbage = ""
        self._stray_id: Any = None
        self._is_connected = False
        self._on_progress: OnProgress | None = None  # That of the tool call that runs

    def __enter__(self) -> Self:
        entry = self._entry
        self._began = time.monotonic()
        try:
            self._pipe = CommandPipe((entry.command or "", *entry.args), environment(entry.env), entry.cwd)
        except (OSError, ValueError):
            raise Unusual from None  # The live client says why it cannot be started.
        try:
            if self._era == "legacy" or not self._discover():
                self._initialize()
        except BaseException:
            self._pipe.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()

    def _discover(self) -> bool:
        """Tries the modern era. False: try the legacy era."""
        self._version = MODERN[-1]
        # At most a third of the time: a server of the legacy era may not answer, and needs time for `initialize`.
        limit = time.monotonic() + min(10.0, self._connect_seconds / 3)
        found: dict[str, Any] = {}
        try:
            found = self._ask("server/discover", {}, limit)
        except TimeoutError:
            pass
        except _Refused as refusal:
            if refusal.code == _UNSUPPORTED_VERSION:
                raise Unusual from None
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
        params = {"protocolVersion": LEGACY[-1], "capabilities": _CAPABILITIES | {"tasks": QUESTION_TASKS}}
        params |= {"clientInfo": _CLIENT_INFO}
        try:
            found = self._ask("initialize", params, self._began + self._connect_seconds)
        except _Refused:
            raise Unusual from None
        except TimeoutError:
            raise ConnectTimedOut(
                f"{self._name} did not answer within {self._connect_seconds:.3g} s. If it is an MCP server, give it "
                f"more time with --timeout.{self._last_output()}",
                server=self._name,
                elapsed=self._connect_seconds,
            ) from None
        version = found.get("protocolVersion")
        if not isinstance(version, str) or version not in LEGACY or not isinstance(found.get("capabilities"), dict):
            raise Unusual
        self._take(found, version, "legacy", found.get("serverInfo"))
        self._pipe.send({"method": "notifications/initialized"})

    def _take(self, found: dict[str, Any], version: str, era: str, server_info: object) -> None:
        self.server = ServerSummary(
            name=self._name,
            transport="stdio",
            protocol_version=version,
            era=era,
            server_info=as_dict(server_info) or None,
            capabilities=as_dict(found.get("capabilities")),
            instructions=as_text(found.get("instructions")),
            seconds=time.monotonic() - self._began,
        )
        self._is_connected = True

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the result of a request. Questions that come instead of it are answered first."""
        more: dict[str, Any] = {}
        try:
            while True:
                result = self._ask_in_time(method, params | more)
                if (kind := result.get("resultType", "complete")) == "complete":
                    return result
                asked, state = as_dict(result.get("inputRequests")), result.get("requestState")
                if kind != "input_required" or not (asked or state):
                    reason = f"its resultType is {kind!r}" if kind != "input_required" else "it asks for nothing"
                    raise invalid_answer(method, reason, result)
                answers = {key: self._answer_to(as_dict(question)) for key, question in asked.items()}
                refused = next((as_dict(each["error"]) for each in answers.values() if "error" in each), None)
                if refused is not None:
                    raise RequestCancelled(str(refused.get("message")), method=method)
                more = {"inputResponses": {key: each["result"] for key, each in answers.items()}}
                more |= {"requestState": state} if state else {}
        except _Refused as refusal:
            if refusal.code == _METHOD_NOT_FOUND and not refusal.data:
                # Without the SDK, because it is common: many servers with resources have no templates.
                data: dict[str, Any] = {"rpc_code": refusal.code, "rpc_data": {}}
                text = f"The server has no {method} ({refusal.message})."
                raise NotSupported(text, method=method, data=data) from None
            from mcp.shared.exceptions import MCPError

            from tidings.client.failures import answer_error

            named = MCPError(refusal.code, refusal.message, refusal.data)
            raise answer_error(named, method=method) from None

    def call(self, tool: str, arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        """Returns the result of a tool call, which is sent once. `Unusual`: it was not sent."""
        self._on_progress = on_progress
        try:
            return self.request("tools/call", {"name": tool, "arguments": arguments})
        except CommandFailed as error:
            words = f"The connection was lost while {tool} ran ({error.message.rstrip('.')})."
            cure = "It may have taken effect or not: check the server before you repeat it."
            raise EffectUnknown(f"{words} {cure}", server=self._name, method="tools/call") from error

    def ping(self) -> float:
        began = time.monotonic()
        with contextlib.suppress(_Refused):  # An error is an answer too.
            self._ask_in_time("server/discover" if self._version else "ping", {})
        return time.monotonic() - began

    def _ask_in_time(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._ask(method, params, time.monotonic() + self._request_seconds)
        except TimeoutError:
            raise RequestTimedOut(
                f"{self._name} did not answer {method} within {self._request_seconds:g} s. Give it more time with "
                f"--timeout.{self._last_output()}",
                server=self._name,
                method=method,
                elapsed=self._request_seconds,
            ) from None

    def _ask(self, method: str, params: dict[str, Any], deadline: float) -> dict[str, Any]:
        number = next(self._numbers)
        meta: dict[str, Any] = {} if self._on_progress is None else {"progressToken": number}
        if self._version:
            stamp = {
                "protocolVersion": self._version,
                "clientInfo": _CLIENT_INFO,
                "clientCapabilities": _CAPABILITIES | (_TASKS if method.startswith("tasks/") else {}),
            }
            meta |= {_META + key: value for key, value in stamp.items()}
        params = params | ({"_meta": meta} if meta else {})
        message = {"id": number, "method": method, **({"params": params} if params else {})}
        self._pipe.send(message, None if "inputResponses" in params else _LONGEST_SENT)
        try:
            message = self._answer_to_request(number, deadline)
        except (TimeoutError, KeyboardInterrupt):
            if self._on_progress is not None:
                self._pipe.send({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        if isinstance(message.get("error"), dict):
            raise _Refused(message["error"])
        if not isinstance(message.get("result"), dict):
            raise invalid_answer(method, "it has neither a result nor an error", message)
        return message["result"]

    def _answer_to_request(self, number: int, deadline: float) -> dict[str, Any]:
        """Returns the answer to a request. Progress moves the deadline, and so does a question to the user."""
        until = deadline + 4 * self._request_seconds
        while True:
            message, began = self._receive(deadline), time.monotonic()
            params = as_dict(message.get("params"))
            if message.get("method") == "notifications/progress" and params.get("progressToken") == number:
                if self._on_progress is not None and (done := as_float(params.get("progress"))) is not None:
                    self._on_progress(done, as_float(params.get("total")), as_text(params.get("message")))
                    deadline = min(began + self._request_seconds, until)
            elif "method" in message:
                if "id" in message:  # Notifications are ignored.
                    answer: dict[str, Any] = {"result": {}} if message["method"] == "ping" else self._answer_to(message)
                    self._pipe.send({"id": message["id"], **answer})
                took = time.monotonic() - began
                deadline, until = deadline + took, until + took
            elif message.get("id") == number:
                return message
            elif message.get("id") is not None and self._stray_id is None:
                self._stray_id = message["id"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while True:
            if time.monotonic() > deadline:  # Also if lines keep coming.
                raise TimeoutError
            try:
                line = self._pipe.line(deadline)
            except OverflowError:
                text = f"{self._name} sent a message of more than {_MAX_MESSAGE:,} bytes, which is the limit."
                raise MessageTooLarge(text, server=self._name) from None
            except EOFError:
                code = self._pipe.exit_code()
                how = "closed its output" if code is None else f"ended with exit code {code}"
                if code is not None and code < 0:
                    how = f"was ended by signal {-code}"
                output = self._last_output() or " It wrote nothing. Does it speak MCP on its standard output?"
                raise CommandFailed(f"{self._name} {how} before it answered.{output}", server=self._name) from None
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return cast("dict[str, Any]", message)
            self._garbage = self._garbage or line[:200].decode(errors="replace").strip()
            if not self._is_connected:
                self._refuse_http()

    def _refuse_http(self) -> None:
        """Raises `CommandFailed` with the address if the command serves MCP over HTTP, by what it wrote."""
        text = f"{self._garbage}\n{self._pipe.stderr}"
        for found in _ADDRESS.finditer("" if "in use" in text else text):
            port, path = int(found[1]), found[2] or "/"
            for place in (path, *_ENDPOINTS) if path != "/" else _ENDPOINTS:
                if _speaks_http(port, place):
                    url = f"http://127.0.0.1:{port}{place}"
                    raise CommandFailed(
                        f"{self._name} serves MCP over HTTP, at {url}, and not on its standard input and output. "
                        f"Start it yourself, and use its address as TARGET: {url}",
                        server=self._name,
                    )

    def _answer_to(self, question: dict[str, Any]) -> dict[str, Any]:
        method, params = question.get("method"), as_dict(question.get("params"))
        if isinstance(params.pop("task", None), dict):  # The server fetches the answer, which is there at once.
            task = f"question-{len(self._answers) + 1}"
            self._answers[task] = self._answer_to(question)
            return {"result": {"task": _ended_task(task)}}
        if (task := as_text(params.get("taskId"))) in self._answers:
            return {"result": _ended_task(task)} if method == "tasks/get" else self._answers[task]
        if method == "roots/list":  # With roots to offer, the live client speaks.
            return {"result": {"roots": []}}
        from tidings.cli.asking import answered

        return answered(self._options, str((self.server.server_info or {}).get("name", self._name)), question)

    def _last_output(self) -> str:
        text = ""
        if self._garbage:
            text = f" Its standard output is not an MCP message: {masked(self._garbage, self._secrets)!r}."
        if self._stray_id is not None:
            text += f" It answered a request with the id {self._stray_id!r}, which was never sent."
        stderr = masked(self._pipe.stderr, self._secrets)[-1_000:]
        return text + (f" Its standard error: {stderr}" if stderr else "")


def _speaks_http(port: int, path: str) -> bool:
    """Returns whether there is an MCP endpoint on this machine. One that wants another method or a header is one."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", path, headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        return response.status != 404 and "html" not in response.headers.get("content-type", "")
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
