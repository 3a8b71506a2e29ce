"""What a host and its server say to each other, recorded between them: over stdio, and over HTTP.

`python wire.py LOG COMMAND...` runs a server on stdio and copies every message to LOG. `relay` does the same for a
server on HTTP. It passes the bytes on as they are, and refuses connections as the server does.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

Json = dict[str, Any]
Side = Literal["host", "server"]


@dataclass(frozen=True)
class Message:
    """One message of the protocol."""

    at: float
    side: Side
    body: Json
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Of the HTTP request that brought it."""

    @property
    def method(self) -> str:
        return self.body.get("method", "")

    @property
    def params(self) -> Json:
        return self.body.get("params") or {}

    @property
    def result(self) -> Json:
        return self.body.get("result") or {}


class Wire:
    """The messages that were recorded in a file, oldest first."""

    def __init__(self, log: Path) -> None:
        self.log = log
        log.touch()

    def messages(self, method: str | None = None) -> list[Message]:
        """Everything, or the requests and notifications of one method."""
        lines = self.log.read_text("utf-8").splitlines()
        every = [Message(**json.loads(line)) for line in lines if line.endswith("}")]
        return every if method is None else [message for message in every if message.method == method]

    def answers(self, method: str) -> Iterator[tuple[Message, Message]]:
        """Each request of a method that was answered, with the first answer."""
        messages = self.messages()
        for place, request in enumerate(messages):
            if request.method == method and "id" in request.body:
                for later in messages[place:]:
                    if later.side != request.side and not later.method and later.body.get("id") == request.body["id"]:
                        yield request, later
                        break

    def tasks(self) -> list[str]:
        """The ids of the tasks that the server has begun."""
        results = [message.result for message in self.messages() if message.side == "server"]
        return [result["taskId"] for result in results if result.get("resultType") == "task"]

    def polls(self, task: str, since: float = 0.0) -> list[Message]:
        gets = self.messages("tasks/get")
        return [message for message in gets if message.params["taskId"] == task and message.at > since]


class _Recorder:
    def __init__(self, log: Path) -> None:
        self._file = log.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self.close = self._file.close

    def add(self, side: Side, text: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            body = json.loads(text)
        except ValueError:
            return
        line = json.dumps({"at": time.time(), "side": side, "body": body, "headers": headers or {}})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


# Over stdio


def tapped(log: Path, command: list[str]) -> list[str]:
    """Returns the command that runs a server on stdio and records what it says."""
    return [sys.executable, str(Path(__file__).resolve()), str(log), *command]


def _tap(log: Path, command: list[str]) -> int:
    recorder = _Recorder(log)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout

        def copy(side: Side, source: IO[bytes], target: IO[bytes]) -> None:
            with contextlib.suppress(OSError), target:
                for line in source:
                    recorder.add(side, line)
                    target.write(line)
                    target.flush()

        threading.Thread(target=copy, args=("host", sys.stdin.buffer, server.stdin), daemon=True).start()
        copy("server", server.stdout, sys.stdout.buffer)
        return server.wait()


# Over HTTP


class _Body:
    """Collects the messages in one direction of a connection."""

    def __init__(self, side: Side, recorder: _Recorder) -> None:
        self._side: Side = side
        self._recorder = recorder
        self.headers: dict[str, str] = {}
        self._data = b""

    def on_message_begin(self) -> None:
        self.headers, self._data = {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._data += data
        if "event-stream" in self.headers.get("content-type", ""):
            *events, self._data = self._data.replace(b"\r\n", b"\n").split(b"\n\n")
            for line in (line for event in events for line in event.split(b"\n")):
                if line.startswith(b"data:"):
                    self._recorder.add(self._side, line[5:])

    def on_message_complete(self) -> None:
        self._recorder.add(self._side, self._data, self.headers if self._side == "host" else None)


@asynccontextmanager
async def relay(log: Path, server_port: int) -> AsyncGenerator[int]:
    """Records what goes to and from a server on HTTP. Yields the port for hosts."""
    import httptools  # The tap must start fast.

    recorder = _Recorder(log)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parser: Any) -> None:
        try:
            while data := await reader.read(65_536):
                with contextlib.suppress(httptools.HttpParserError):
                    parser.feed_data(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                there, back = await asyncio.open_connection("127.0.0.1", server_port)
            except OSError:
                writer.transport.abort()
                return
            await asyncio.gather(
                copy(reader, back, httptools.HttpRequestParser(_Body("host", recorder))),
                copy(there, writer, httptools.HttpResponseParser(_Body("server", recorder))),
                return_exceptions=True,
            )

    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(task := asyncio.ensure_future(serve(reader, writer)))
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        recorder.close()


if __name__ == "__main__":
    sys.exit(_tap(Path(sys.argv[1]), sys.argv[2:]))
