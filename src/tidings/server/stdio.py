"""Serving over standard input and output, so that a signal ends it in good order.

The SDK reads standard input in a thread that nothing can interrupt. Here the process can end without that thread.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Self, cast

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, RequestId

from tidings.server.policy import RequestContext
from tidings.server.stop import StopSignals

_GRACE_SECONDS = 0.9
_ANSWER_SECONDS = 0.15
_CHUNK = 65_536
_QUEUED_LINES = 64


async def serve_stdio(
    server: Server[Any],
    aclose: Callable[[], Awaitable[None]],
    beside: Callable[[Callable[[SessionMessage], Awaitable[None]]], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Serves until the input or its client ends, or a signal: then `aclose` first. `beside` runs meanwhile."""
    stop = asyncio.Event()
    # A client that no longer reads, or a lifespan that does not end, would keep the process alive for ever.
    last_resort = threading.Timer(_GRACE_SECONDS, os._exit, [0])
    last_resort.daemon = True

    def asked_to_stop() -> None:
        if last_resort.ident is None:
            last_resort.start()
        stop.set()

    signals = StopSignals(asked_to_stop)
    signals.install(only_if_handled=False)

    async def stop_in_order() -> None:
        await stop.wait()
        await aclose()
        # The end of the input cancels what is not written yet, such as the results of the streams that just ended.
        with anyio.move_on_after(_ANSWER_SECONDS):
            await answers.written()
        lines.end()

    answers, failure = _Answers(), None
    server.middleware.append(answers.middleware)
    try:
        with _input(stop.set) as lines:
            async with (
                stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, answers.stream),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(stop_in_order)
                if beside is not None:
                    tasks.start_soon(beside, answers.send)
                try:
                    await server.run(read, cast("Any", answers), server.create_initialization_options())
                except Exception as error:
                    failure = error
                    raise
                tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        if failure is not None:  # It is not from the output, but from the server's own lifespan.
            raise
    finally:
        server.middleware.remove(answers.middleware)
        last_resort.cancel()
        signals.uninstall()


class _Answers:
    """The stream of messages to the client, and the requests that wait for their answer."""

    stream: Any

    def __init__(self) -> None:
        self._open: set[RequestId] = set()
        self._changed = asyncio.Event()

    async def written(self) -> None:
        while self._open:
            self._changed.clear()
            await self._changed.wait()

    async def middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        self._open.add(ctx.request_id)
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:
            self._close(ctx.request_id)
            raise

    def _close(self, request_id: RequestId) -> None:
        self._open.discard(request_id)
        self._changed.set()

    async def send(self, item: SessionMessage) -> None:
        await self.stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._close(item.message.id)

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@contextmanager
def _input(on_end: Callable[[], None]) -> Generator["_LineReader"]:
    """Yields the lines of standard input. Code that reads it meanwhile by mistake finds it empty."""
    fd = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    try:
        yield _LineReader(fd, on_end)
    finally:
        os.dup2(fd, sys.stdin.fileno())


class _LineReader:
    """Lines from a file descriptor, read in a thread that nobody waits for. They end when `on_end` has called `end`."""

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._on_end = on_end
        self._ended = asyncio.Event()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_QUEUED_LINES)
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        self._ended.set()
        self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        threading.Thread(target=self._read, name="tidings-stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            self._room.release()
            yield line.decode("utf-8", errors="replace")
        self._on_end()
        await self._ended.wait()

    def _read(self) -> None:
        for line in self._split():
            self._room.acquire()
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
            except RuntimeError:
                return  # The event loop is closed.

    def _split(self) -> Iterator[bytes | None]:
        rest = bytearray()
        while chunk := os.read(self._fd, _CHUNK):
            *lines, end = chunk.split(b"\n")
            if lines:
                yield bytes(rest) + lines[0]
                yield from lines[1:]
                rest.clear()
            rest += end
        if rest:
            yield bytes(rest)
        yield None
