"""A server that is a command: one JSON message a line on its standard input and output, of bounded length.

The SDK's own transport hides how the program ended and what it wrote to its standard error, and accepts lines of any
length.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import AsyncResource
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter
from pydantic_core import from_json

from tidings._kit.bounded_json import as_dict
from tidings._kit.process import GRACE, explain_start
from tidings._kit.program import Program
from tidings._kit.tasks import run_to_end
from tidings.client.sdk_seam import TransportStreams
from tidings.client.targets import CommandTarget
from tidings.client.transports.tap import TapReporter
from tidings.errors import CommandFailed, MessageTooLarge

_ENDS: Final = 1024  # Bytes that are kept of the beginning and of the end of a line that is skipped.
_IDLE: Final = 0.25
"""Seconds of silence after which a program that has ended is taken to have written everything. Other processes may hold
its pipes open."""
_CHUNK: Final = 64 * 2**10
_LAST_ID: Final = re.compile(rb'[,{]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*\}\s*$')
_id_adapter: Final = TypeAdapter[types.RequestId](types.RequestId)

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """A line that was skipped: its length, its beginning and its end."""

    size: int
    head: bytes
    tail: bytes

    def answers(self) -> types.RequestId | None:
        """Returns the id of the request that the line would have answered, if that can be seen."""
        try:
            seen = as_dict(from_json(self.head, allow_partial="trailing-strings"))
            # It may be a request of the server, with an id of the server's own: that answers nothing.
            if not seen.keys().isdisjoint(("method", "params")):
                return None
            found = seen["id"] if "id" in list(seen)[:-1] else None  # The last value may have been cut.
            if found is None and not seen.keys().isdisjoint(("result", "error")):
                # Many servers put the id last. The brace that ends the line is the outermost one.
                last = _LAST_ID.search(self.tail)
                found = last and from_json(last[1])
            return _id_adapter.validate_python(found, strict=True)
        except ValueError:
            return None


class LineSplitter:
    """Splits bytes into lines. A line of more than `limit` bytes is skipped, whatever its length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes | LineTooLong]:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            yield self.rest()
            start = end + 1
        self._add(data[start:])

    def rest(self) -> bytes | LineTooLong:
        """Returns the line that has begun, as if it ended here."""
        kept, size, head = bytes(self._kept), self._size, self._head
        self._kept.clear()
        self._size, self._head = 0, b""
        return LineTooLong(size, head, kept[-_ENDS:]) if size > self._limit else kept

    def _add(self, piece: bytes) -> None:
        if len(self._head) < _ENDS:
            self._head += piece[: _ENDS - len(self._head)]
        self._size += len(piece)
        self._kept += piece
        if self._size > self._limit:
            del self._kept[:-_ENDS]


@dataclass(eq=False, repr=False)
class RunningCommand:
    """A command that speaks MCP, and how it ended.

    A message of more than `max_message` bytes is skipped, and the request that waits for it fails. `on_garbage` gets
    the beginning of each line of standard output that is not a message. Secrets are masked.
    """

    target: CommandTarget
    max_message: int
    on_stderr: OnText
    on_garbage: OnText
    tap: TapReporter | None = None

    def __post_init__(self) -> None:
        self._read_writer, self._read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._input = _Input(self._pass_in)
        # For the SDK. Reading ends with the program, or with its standard output.
        self.streams: TransportStreams = self._read, self._input
        self._stderr: deque[str] = deque(maxlen=20)
        self.program: Program | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._chunks = 0
        self._waits_for_more = False
        self.ended = asyncio.Event()  # Set when the program has ended, and `stderr_tail` is complete.

    @property
    def stderr_tail(self) -> str:
        """The end of its standard error, secrets masked: 20 lines, 4 KB at most."""
        return "\n".join(self._stderr)[-4096:]

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[TransportStreams]:
        """Runs the command while this is entered. It is gone when this is left, however that happens."""
        try:
            await run_to_end(self._start())
            yield self.streams
        finally:
            await run_to_end(self._close())

    async def _start(self) -> None:
        target = self.target
        env = get_default_environment() | dict(target.env)
        words = (target.command, *target.args)
        try:
            self.program = program = await Program.start(words, env, target.cwd, grace=GRACE)
        except (OSError, ValueError) as error:
            reason = explain_start(target.command, target.cwd, env, error)
            text = target.clean(f"{target.name} could not be started: {reason}")
            raise CommandFailed(text, server=target.name) from error
        self._reader = self._spawn(self._read_stdout(program.stdout))
        self._listener = self._spawn(self._read_stderr(program.stderr))

        async def watch() -> None:
            await program.exited.wait()
            await asyncio.wait((self._listener,), timeout=_IDLE)
            self.ended.set()
            await self._until_silent()
            self._reader.cancel()

        self._spawn(watch())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _close(self) -> None:
        """Ends the program, in good order if it cooperates. Takes a few seconds at most."""
        self._read.close()  # Its output is still read, and dropped: a program that cannot write does not read.
        self._input.closed = True
        try:
            if self.program is not None:
                await self.program.stop()
        finally:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            self._end_streams()
            self.ended.set()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_silent(self) -> None:
        """Waits until the program's output is passed on, but not for others that hold its output open."""
        seen = -1
        while not self._reader.done() and not (self._waits_for_more and seen == self._chunks):
            seen = self._chunks
            await asyncio.wait((self._reader,), timeout=_IDLE)

    def _end_streams(self) -> None:
        self._read_writer.close()
        self._input.broken = True

    async def _read_stdout(self, stdout: asyncio.StreamReader) -> None:
        lines = LineSplitter(self.max_message)
        try:
            while data := await self._more(stdout):
                for line in lines.feed(data):
                    await self._deliver(line)
            await self._deliver(lines.rest())
        finally:
            self._end_streams()

    async def _more(self, stdout: asyncio.StreamReader) -> bytes:
        self._waits_for_more = True
        try:
            return await stdout.read(_CHUNK)
        except OSError:
            return b""
        finally:
            self._waits_for_more = False
            self._chunks += 1

    async def _deliver(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            request = line.answers()
            if self.tap is not None:
                self.tap.too_large(line.size, request=request)
            text = f"A message of {line.size:,} bytes was skipped; the limit is {self.max_message:,}."
            await self._pass_out(MessageTooLarge(text, server=self.target.name))
            if request is not None:  # So that only that request fails.
                text = f"Message too large: {line.size:,} bytes, the limit is {self.max_message:,}."
                await self._refuse(request, types.PARSE_ERROR, text)
            return
        try:
            message = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            if garbage := self._shown(line):
                self.on_garbage(garbage[:200])
            return
        if self.tap is not None:
            self.tap.message(line, incoming=True)
        await self._pass_out(message)

    def _shown(self, line: bytes) -> str:
        # Cut after secrets are masked, so that half a secret does not remain.
        return self.target.clean(line[: 64 * 2**10].decode(errors="replace")).rstrip()[:4096]

    async def _refuse(self, request: types.RequestId, code: int, text: str) -> None:
        error = types.ErrorData(code=code, message=text)
        await self._pass_out(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error)))

    async def _pass_out(self, item: SessionMessage | Exception) -> None:
        # If the stream is closed, the session is over, and nobody needs the message.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            try:
                self._read_writer.send_nowait(item)  # Takes a turn of the loop less.
            except anyio.WouldBlock:
                await self._read_writer.send(item)

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        def keep(line: bytes | LineTooLong) -> None:
            is_long = isinstance(line, LineTooLong)
            if text := f"(a line of {line.size:,} bytes)" if is_long else self._shown(line):
                self._stderr.append(text)
                self.on_stderr(text)

        lines = LineSplitter(64 * 2**10)
        with suppress(OSError):
            while data := await stderr.read(_CHUNK):
                for line in lines.feed(data):
                    keep(line)
        keep(lines.rest())

    async def _pass_in(self, message: SessionMessage) -> None:
        try:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        except ValueError as error:  # Such as half a surrogate pair.
            if isinstance(message.message, types.JSONRPCRequest):
                text = f"This cannot be sent as JSON: {error}"
                self._spawn(self._refuse(message.message.id, types.INVALID_REQUEST, text))
            return
        if self.program is None:
            return
        if self.tap is not None:
            self.tap.message(text, incoming=False)
        try:
            self.program.stdin.write(text.encode() + b"\n")
            await self.program.stdin.drain()
        except OSError:  # The program no longer reads. Its last output may say why.
            self._spawn(self._until_silent()).add_done_callback(lambda _: self._end_streams())


@dataclass(eq=False, repr=False)
class _Input(AsyncResource):
    """The stream that the SDK writes to: straight into the program's standard input, without a task in between."""

    pass_in: Callable[[SessionMessage], Coroutine[Any, Any, None]]
    closed: bool = False
    broken: bool = False

    async def send(self, item: SessionMessage, /) -> None:
        if self.closed:
            raise anyio.ClosedResourceError
        if self.broken:
            raise anyio.BrokenResourceError
        await self.pass_in(item)

    async def aclose(self) -> None:
        self.closed = True
