"""The NATS client library as a `NatsBus` uses it: one connection, that ends at once and for good when it is broken.

May import: `nats`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

from tidings.bus._nats_errors import NO_TLS

CLOSE_SECONDS: Final = 0.1
"""How long the other side may take to read the last bytes, and a task to end."""


class _Tcp(TcpTransport):
    """A transport that can be dropped, and that says itself when it is `broken`.

    The library says so too, but not in all its versions. That only the reader finds out is because it does not expect
    the same news from the writer, and would break off in the middle of its cleaning up.
    """

    def __init__(self, broken: Callable[[Exception], None]) -> None:
        super().__init__()
        self._broken = broken

    async def read(self, buffer_size: int) -> bytes:
        try:
            data = await super().read(buffer_size)
        except OSError as error:
            self._broken(error)
            raise
        if not data:
            self._broken(nats.errors.UnexpectedEOF())
        return data

    def write(self, payload: bytes) -> None:
        if self._io_writer is not None and not self._io_writer.is_closing():
            self._io_writer.write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        # Python 3.12 and 3.13 would take a socket that is closed for another one that was opened since.
        self.write(b"".join(payload))

    async def drain(self) -> None:
        with suppress(OSError):
            await super().drain()

    def abort(self) -> None:
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    def __bool__(self) -> bool:
        # Or the client would take another one in its place before the first use.
        return True


class Wire(Client):
    """The library's client, without its own idea of coming back."""

    def __init__(self, *, insist_on_tls: bool, broken: Callable[[Exception], None]) -> None:
        super().__init__()
        self.info: dict[str, Any] = {}
        self._insist_on_tls = insist_on_tls
        self._tcp = self._transport = _Tcp(broken)
        self._listening: set[asyncio.Task[Any]] = set()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """The server has introduced itself; nothing was said to it yet, where this is the first time."""
        self.info |= info
        if initial_connection and self._insist_on_tls and not info.get("tls_required"):
            if not info.get("tls_available"):
                raise nats.errors.Error(NO_TLS)
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Subscription:
        subscription = await self.subscribe(subject, cb=heard, pending_bytes_limit=0)  # pyright: ignore[reportUnknownMemberType]
        for task in _tasks_of(subscription):
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)
        return subscription

    async def abort(self) -> None:
        """Drop the connection, and whatever the library still does about it."""
        self._tcp.abort()
        for task in _tasks_of(self) | self._listening:
            await end(task)


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel `task` until it has ended: the library swallows a cancellation now and then, and goes on."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS)
    if not task.cancelled():
        # What it failed with is of no interest any more.
        task.exception()


def _tasks_of(owner: object) -> set[asyncio.Task[Any]]:
    """The tasks that the library has begun for a thing of its own. It ends them itself, but not always, nor at once."""
    return {task for task in vars(owner).values() if isinstance(task, asyncio.Task)}
