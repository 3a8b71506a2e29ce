"""One connection to one NATS server, from the handshake to its end.

What it promises, whatever the client library does:
- It ends once, with a reason (`ended`), as soon as anything is wrong with it, and never comes back: whoever wants
  another opens another. So nobody has to guess what was lost in between.
- Everything that was asked is answered once: by the server, or by the end of the connection.
- It is closed within a moment, even when the other side has stopped to read.
- Where TLS was asked for, nothing is said in the clear.

May import: `errors`, `nats`.

The NATS client library as a `NatsBus` uses it: one connection, that ends at once and for good when it is broken.

May import: `nats`.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

from tidings.bus.nats.address import Access, NatsAddress
from tidings.bus.nats.errors import NO_TLS, ApiError, NatsTimeout, explain
from tidings.errors import TransportError

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


class NatsWire(Client):
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


logger = logging.getLogger(__name__)

Answer = dict[str, Any] | Exception
"""What came of a request: the object in the answer, or why there is none."""


class NatsConnection:
    """A connection to the server at `address`. `ended` has its end's reason, as soon as there is one."""

    def __init__(self, address: NatsAddress, *, insist_on_tls: bool) -> None:
        self.address = address
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._wire = NatsWire(insist_on_tls=insist_on_tls or address.tls, broken=self.fail)
        self._connecting = True
        self._inbox = ""
        self._tokens = itertools.count()
        self._answers: dict[str, Callable[[Answer], None]] = {}

    @classmethod
    async def open(cls, address: NatsAddress, access: Access, *, seconds: float) -> "NatsConnection":
        """Connect and sign in within `seconds`.

        Raises:
            BusUnavailable: It did not come about; the error says why.
        """
        connection = cls(address, insist_on_tls=access.tls is not None)
        try:
            async with asyncio.timeout(seconds):
                await connection._open(access, seconds)
        except BaseException as error:
            await connection.close()
            if isinstance(error, Exception):
                raise explain(error, address.url, seconds=seconds) from error
            raise
        return connection

    async def _open(self, access: Access, seconds: float) -> None:
        connecting = self._wire.connect(
            **access.options(self.address),
            name="tidings",
            allow_reconnect=False,
            connect_timeout=seconds,  # pyright: ignore[reportArgumentType] - any number will do
            # Nothing is held back for a connection that is not there.
            pending_size=0,
            error_cb=self._error,
            closed_cb=self._closed,
        )
        task = asyncio.get_running_loop().create_task(connecting)
        try:
            await asyncio.wait([task])
        finally:
            await end(task)
        task.result()
        self._connecting = False
        self._inbox = self._wire.new_inbox()
        await self.listen(f"{self._inbox}.*", self._answered)

    @property
    def info(self) -> dict[str, Any]:
        """What the server says of itself."""
        return self._wire.info

    def inbox(self) -> str:
        """A subject of one's own."""
        return self._wire.new_inbox()

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Have `heard` called for each message on `subject`, one after the other."""
        return await self._wire.listen(subject, heard)

    async def say(self, subject: str, body: bytes = b"") -> None:
        """Send what nobody answers."""
        await self._wire.publish(subject, body)

    async def post(
        self, subject: str, body: bytes, answered: Callable[[Answer], None], headers: dict[str, str] | None = None
    ) -> str:
        """Send what is answered later, through `answered`; the token that this was given lets go of it."""
        if self.ended.done():
            raise self.ended.result()
        token = str(next(self._tokens))
        self._answers[token] = answered
        try:
            await self._wire.publish(subject, body, reply=f"{self._inbox}.{token}", headers=headers)
        except BaseException:
            self.forget(token)
            raise
        return token

    def forget(self, token: str) -> None:
        """Nobody waits for this answer any more."""
        self._answers.pop(token, None)

    async def ask(self, subject: str, body: object = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Send `body` (bytes, or what becomes JSON) and wait for the answer.

        Raises:
            ApiError: The answer is no.
            NoAnswer: Nobody is there to answer.
            Exception: The connection has ended, with this reason.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        def answered(what: Answer) -> None:
            if not answer.done():
                answer.set_result(what)

        token = await self.post(subject, data, answered, headers)
        try:
            found = await answer
        finally:
            self.forget(token)
        if isinstance(found, Exception):
            raise found
        return found

    async def _answered(self, message: Msg) -> None:
        answered = self._answers.pop(message.subject.rpartition(".")[2], None)
        if answered is not None:
            answered(_answer_in(message))

    def fail(self, reason: Exception) -> None:
        """End it: everybody who waits for an answer gets `reason`. The first reason is the one that counts."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        answers, self._answers = self._answers, {}
        for answered in answers.values():
            answered(reason)

    async def _error(self, error: Exception) -> None:
        if self._connecting:
            # The library would try again, for as long as it was told to, and then not say why.
            raise error
        # To hear of some events early is not permitted everywhere, and nothing depends on it.
        if "$js.event." in str(error):
            return
        if not isinstance(error, nats.errors.Error | OSError | TransportError):
            logger.error("the connection to %s is given up", self.address, exc_info=error)
        self.fail(error)

    async def _closed(self) -> None:
        self.fail(nats.errors.UnexpectedEOF())

    async def close(self) -> None:
        """Let go of the socket, after what was sent before if the other side reads it at once."""
        self.fail(nats.errors.ConnectionClosedError())
        closing = asyncio.get_running_loop().create_task(self._close())
        try:
            await asyncio.wait([closing], timeout=CLOSE_SECONDS)
        finally:
            await self._wire.abort()
            await end(closing)

    async def _close(self) -> None:
        # Whatever it finds fault with now is of no interest to anybody.
        with suppress(Exception):
            await self._wire.close()


def _answer_in(message: Msg) -> Answer:
    if message.headers and message.headers.get("Status") == "503":
        return NatsTimeout()
    try:
        found = json.loads(message.data)
        error = found.get("error")
    except (ValueError, AttributeError):
        return ApiError(0, "an answer that is not understood")
    if error is not None:
        return ApiError(error.get("err_code", 0), error.get("description", "no reason given"))
    return found
