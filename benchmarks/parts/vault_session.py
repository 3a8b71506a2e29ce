"""A client of a server on standard input and output, as bare as can be: what it measures is the server.

It speaks the protocol that all servers here know, in JSON lines, and sees the time at which a line arrived.
"""

import json
import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from benchmarks.process import ProcessFailed

VERSION = "2025-06-18"
MB = 1_000_000


class Memory(NamedTuple):
    """What a server and its children occupy, in MB."""

    resident: float
    shared: float
    """Its part of what it shares with others counted only (PSS)."""
    own: float
    """What only it has."""
    peak: float
    """The most that the server itself ever had resident."""


class Notified(NamedTuple):
    """A notification, and when it arrived."""

    at: float
    method: str
    params: dict[str, Any]


class Session:
    """A server, from its start until the block ends."""

    def __init__(self, command: Sequence[str | Path], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self._log = log
        self._numbers = iter(range(1, 1 << 60))
        self._rest = b""
        self._notified: deque[Notified] = deque()
        with log.open("wb") as err:
            self.began = time.monotonic()
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                # As installers leave them, packages are compiled.
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(env or {})},
            )
        assert self._popen.stdin
        assert self._popen.stdout
        self._in, self._out = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> list[str]:
        """Shake hands and list the tools, as every client does first; returns their names."""
        about = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", about)
        self._send({"method": "notifications/initialized"})
        return [tool["name"] for tool in self.request("tools/list")["tools"]]

    def request(self, method: str, params: dict[str, Any] | None = None, patience: float = 120) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            ProcessFailed: There is none in time, it is an error, or the server is gone.
        """
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params or {}})
        deadline = time.monotonic() + patience
        while True:
            message = self._next(deadline)
            if message.get("id") != number or "method" in message:
                self._take(message)
            elif "error" in message:
                raise ProcessFailed(f"{self.name}, {method}: {message['error'].get('message')}")
            else:
                return message["result"]

    def call(self, tool: str, patience: float = 120, **arguments: Any) -> dict[str, Any]:
        """Call a tool; returns its structured answer, or what its text says in JSON.

        Raises:
            ProcessFailed: As for `request`, or the tool says that it failed.
        """
        result = self.request("tools/call", {"name": tool, "arguments": arguments}, patience)
        text = "".join(part.get("text", "") for part in result.get("content", []))
        if result.get("isError"):
            raise ProcessFailed(f"{self.name}, {tool}: {text[:200]}")
        return result.get("structuredContent") or {"result": json.loads(text)}

    def read(self, uri: str) -> str:
        return self.request("resources/read", {"uri": uri})["contents"][0]["text"]

    def subscribe(self, uri: str) -> None:
        self.request("resources/subscribe", {"uri": uri})

    def updated(self, uri: str, patience: float = 10) -> float:
        """Wait until this resource was said to be updated; returns when."""
        deadline = time.monotonic() + patience
        while True:
            while self._notified:
                notified = self._notified.popleft()
                if notified.method.endswith("resources/updated") and notified.params.get("uri") == uri:
                    return notified.at
            self._take(self._next(deadline))

    def forget(self) -> list[Notified]:
        """The notifications that have arrived; they are not seen again."""
        while self._selector.select(0):
            self._take(self._next(time.monotonic() + 1))
        seen = list(self._notified)
        self._notified.clear()
        return seen

    # What it costs

    def cpu(self) -> float:
        """Seconds of CPU that the server itself has used, of all its threads, more exactly than /proc tells."""
        return time.clock_gettime((~self._popen.pid << 3) | 2)

    def whole_cpu(self) -> float:
        """The same with its children, in steps of 10 ms."""
        server = psutil.Process(self._popen.pid)
        ended = server.cpu_times()
        return self.cpu() + ended.children_user + ended.children_system + sum(map(_cpu, server.children(True)))

    def memory(self) -> Memory:
        server = psutil.Process(self._popen.pid)
        all_of_it = [each.memory_full_info() for each in (server, *server.children(True))]
        peak = next(
            line.split()[1]
            for line in Path(f"/proc/{self._popen.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM")
        )
        return Memory(
            sum(each.rss for each in all_of_it) / MB,
            sum(each.pss for each in all_of_it) / MB,
            sum(each.uss for each in all_of_it) / MB,
            int(peak) * 1024 / MB,
        )

    def close(self, patience: float = 10) -> None:
        """End it as clients do, by closing its input; harder if it does not end by that in time."""
        assert self._popen.stdin
        assert self._popen.stdout
        if self._popen.stdin.closed:
            return
        self._selector.close()
        self._popen.stdin.close()
        try:
            self._popen.wait(patience)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(10)
        self._popen.stdout.close()

    # Lines

    def _send(self, message: dict[str, Any]) -> None:
        view = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        try:
            while view:
                view = view[os.write(self._in, view) :]
        except BrokenPipeError:
            raise self._gone() from None

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise ProcessFailed(f"{self.name} says nothing. {self._said()}")
            data = os.read(self._out, 1 << 20)
            if not data:
                raise self._gone()
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._notified.append(Notified(time.monotonic(), message["method"], message.get("params") or {}))
        elif message.get("method") == "ping":
            self._send({"id": message["id"], "result": {}})
        elif "method" in message:
            self._send({"id": message["id"], "error": {"code": -32601, "message": "This client has none of that."}})

    def _gone(self) -> ProcessFailed:
        return ProcessFailed(f"{self.name} is gone (exit code {self._popen.wait(5)}). {self._said()}")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-500:]


def _cpu(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.Error:
        return 0.0
    return used.user + used.system
