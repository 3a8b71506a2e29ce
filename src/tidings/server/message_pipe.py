"""`lighter_ends`: two ends that take the place of a memory stream of anyio's, and of a task that waits in it.

In each legacy session of the SDK a task waits in two such streams, which takes 4 KB each. Here such a wait is one
future. As there, nothing is buffered: a sender waits until its message is taken. Only one task at a time may receive.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from anyio import BrokenResourceError, BusyResourceError, ClosedResourceError, EndOfStream, WouldBlock
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

Ends = tuple[MemoryObjectSendStream[Any], MemoryObjectReceiveStream[Any]]


def lighter_ends(ends: Ends) -> "tuple[Inlet, Outlet] | None":
    """Returns what takes the place of the `ends` of a stream from now on; None if a sender waits in it."""
    now = ends[0].statistics()
    if now.tasks_waiting_send or now.current_buffer_used or now.tasks_waiting_receive > 1:
        return None
    outlet = Outlet(ends)
    if not now.tasks_waiting_receive:
        outlet.leave_stream()
    return Inlet(outlet), outlet


def forget(envelope: Any) -> None:
    """Empties a message of the SDK's, which would keep it until the next one. `envelope` has its context, too."""
    if envelope is not None and isinstance(envelope[1], SessionMessage):
        envelope[1].message = envelope[1].metadata = cast("Any", None)


class Outlet:
    """The end where messages are received. A message is emptied when the next one is asked for: it was passed on."""

    __slots__ = ("_closed", "_ended", "_ends", "_last", "_receiving", "_sending")

    def __init__(self, ends: Ends) -> None:
        self._ends: Ends | None = ends  # Of the stream that it replaces, while a task waits there.
        self._receiving: asyncio.Future[Any] | None = None
        self._sending: list[tuple[Any, asyncio.Future[None]]] = []
        self._last: Any = None
        self._ended = False  # By the sender.
        self._closed = False

    def receive(self) -> Awaitable[Any]:
        """Returns the next message, to be waited for. Raises as the stream of anyio's does."""
        if self._receiving is not None and not self._receiving.done():
            raise BusyResourceError("receiving from")
        forget(self._last)
        self._last = None
        if self._closed:
            raise ClosedResourceError
        if self._sending:
            return self._take()
        if self._ended:
            raise EndOfStream
        self._receiving = asyncio.get_running_loop().create_future()
        return self._receiving

    async def _take(self) -> Any:
        await checkpoint()
        while self._sending:
            message, taken = self._sending.pop(0)
            if not taken.done():  # Else its sender was cancelled.
                taken.set_result(None)
                self._last = message
                return message
        return await self.receive()

    async def send(self, message: Any) -> None:
        await checkpoint_if_cancelled()  # The next one waits until this one is taken, so that nobody starves.
        if self._ended:
            raise ClosedResourceError
        if self._closed:
            raise BrokenResourceError
        if self._hand_over(message):
            self._last = message
            return
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending.append((message, taken))
        await taken

    def _hand_over(self, message: Any) -> bool:
        """Gives a message to the task that waits for it. Returns False if none does."""
        if self._ends is not None:
            try:
                self._ends[0].send_nowait(message)
            except WouldBlock:
                return False  # The task there was cancelled.
            else:
                return True
            finally:
                self.leave_stream()
        if self._receiving is None or self._receiving.done():
            return False
        self._receiving.set_result(message)
        return True

    def leave_stream(self) -> None:
        if self._ends is not None:
            for end in self._ends:
                end.close()
            self._ends = None

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._close(0, ClosedResourceError(), EndOfStream())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._close(1, BrokenResourceError(), ClosedResourceError())

    def _close(self, end: int, for_senders: Exception, for_receiver: Exception) -> None:
        if self._ends is not None:
            self._ends[end].close()
        for waiting in [taken for _, taken in self._sending]:
            _fail(waiting, for_senders)
        if self._receiving is not None:
            _fail(self._receiving, for_receiver)

    async def aclose(self) -> None:
        self.close()


class Inlet:
    """The end where messages are sent."""

    __slots__ = ("_outlet",)

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def send(self, message: Any) -> Awaitable[None]:
        return self._outlet.send(message)

    def close(self) -> None:
        self._outlet.end()

    async def aclose(self) -> None:
        self.close()


def _fail(waiting: asyncio.Future[Any], error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # So that asyncio does not complain if the task that waits is cancelled at the same time.
