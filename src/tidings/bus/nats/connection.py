"""`NatsConnection`: one connection to one NATS server, at an address. The only file that imports nats-py.

It ends once, with a reason (`ended`), as soon as anything is wrong, and never reconnects: so it is known what may be
lost. Every request is answered once, by the server or by the end. It is closed within a moment, even if the other side
has stopped reading. If TLS was asked for, nothing is sent in the clear.

| private name of nats-py | used for | without it |
|---|---|---|
| `TcpTransport._io_writer`, `._bare_io_writer` | dropping a connection | `BusUnavailable` |
| `Client._transport` | noticing at once that it is broken | `BusUnavailable` |
| `Client._process_info` | insisting on TLS before anything is sent | `BusUnavailable` |

`tests/bus/test_private_names.py` pins each of them.
"""

import asyncio
import itertools
import json
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from tidings._kit.lazy import install_command
from tidings._kit.tasks import retrieve
from tidings._kit.text import is_ip
from tidings.bus.nats.errors import NO_TLS, ApiError, NatsTimeout, explain
from tidings.errors import BusUnavailable, TransportError

try:
    import nats.errors
    from nats.aio.client import Client, RawCredentials
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.aio.transport import TcpTransport
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "nats":
        raise
    raise ModuleNotFoundError(f"NatsBus needs the NATS client: {install_command('nats')}", name="nats") from error

logger = logging.getLogger(__name__)

Answer = dict[str, Any] | Exception  # The object in the answer to a request, or the reason why there is none.

CLOSE_SECONDS: Final = 0.1  # For the other side to read the last bytes, and for a task to end.


_PORT = 4222


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """One server: from a URL, or named by another server of its cluster."""

    host: str
    port: int = _PORT
    tls: bool = False  # The URL asks for it.
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_name: str | None = None  # The name in its certificate, if `host` is an IP address.

    @classmethod
    def parse(cls, url: str) -> Self:
        """Returns the address in `url`. The `ValueError` for one that is not valid does not show its password."""
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            port = parts.port or _PORT
        except ValueError as error:
            # The message of the error may contain a part of the password.
            why = "look at its port and its brackets" if "@" in url else str(error)
            raise ValueError(f"The URL of a NATS server is not valid: {why}") from None
        if parts.scheme not in {"nats", "tls"}:
            raise ValueError(f"The URL of a NATS server must begin with nats:// or tls://, not with {parts.scheme}://")
        if not parts.hostname:
            raise ValueError("The URL of a NATS server must name its host, as in nats://localhost:4222")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("The URL of a NATS server must end with its port. In a password, write '/' as %2F.")
        name, password = (part if part is None else unquote(part) for part in (parts.username, parts.password))
        # A user without a password is a token, as everywhere with NATS.
        user, token = (None, name) if password is None else (name, None)
        return cls(parts.hostname, port, parts.scheme == "tls", user, password, token)

    def beside(self, place: str) -> "NatsAddress | None":
        """Returns the address of another server of the cluster, which has the same credentials; None if not valid."""
        try:
            found = NatsAddress.parse(place)
        except ValueError:
            return None
        name = self.tls_name or self.host
        return replace(self, host=found.host, port=found.port, tls_name=name if is_ip(found.host) else None)

    @property
    def url(self) -> str:
        """The URL without secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials that are given as arguments, which come before those of a URL."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    tls: ssl.SSLContext | None = None

    def options(self, address: NatsAddress) -> dict[str, Any]:
        """Returns the options of the client library. Raises `BusUnavailable` if the credentials file is unusable."""
        named = self.user is not None or self.token is not None
        options: dict[str, Any] = {
            "servers": address.url,
            "user": self.user if named else address.user,
            "password": self.password if named else address.password,
            "token": self.token if named else address.token,
            "tls": self.tls,
            "tls_hostname": address.tls_name,
        }
        path = self.credentials
        if path is None:
            return options
        try:
            text = path.read_text("utf-8")  # Each time, because it may have been renewed.
        except (OSError, UnicodeDecodeError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not text"
            text = f"The credentials file {path} cannot be used: {why}. Name a file that this user may read."
            raise BusUnavailable(text) from error
        # The client library would search for these lines for ever.
        if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
            raise BusUnavailable(
                f"{path} cannot be used: it is not a credentials file. Name one that nsc or the account's admin made."
            )
        return options | {"user_credentials": text}


def addresses(urls: str | Sequence[str]) -> list[NatsAddress]:
    """Returns the servers in `urls`: one URL, several with commas between, or a list."""
    texts = urls.split(",") if isinstance(urls, str) else list(urls)
    found = [NatsAddress.parse(text.strip()) for text in texts]
    if not found:
        raise ValueError("A NATS bus needs the URL of at least one server")
    return found


class _Tcp(TcpTransport):
    """A transport that can be dropped, and calls `broken` when it is: only on reading, as the library expects it."""

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
            self._broken(ConnectionResetError("unexpected EOF"))
        return data

    def write(self, payload: bytes) -> None:
        if self._io_writer is not None and not self._io_writer.is_closing():
            self._io_writer.write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        # Python 3.12 and 3.13 would confuse a closed socket with another one that was opened since.
        self.write(b"".join(payload))

    async def drain(self) -> None:
        with suppress(OSError):
            await super().drain()

    def abort(self) -> None:
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    def __bool__(self) -> bool:
        # Otherwise the client would replace it before the first use.
        return True


class NatsWire(Client):
    """The library's client, without its own way to reconnect."""

    def __init__(self, *, insist_on_tls: bool, broken: Callable[[Exception], None]) -> None:
        super().__init__()
        names = {"_io_writer", "_bare_io_writer"} - vars(TcpTransport()).keys()
        names |= {name for name in ("_transport", "_process_info") if not hasattr(self, name)}
        if names:
            raise BusUnavailable(
                f"The installed version of nats-py lacks {', '.join(sorted(names))}, which NatsBus needs. "
                "Install a version that Tidings was tested with: see its dependencies."
            )
        self.info: dict[str, Any] = {}
        self._insist_on_tls = insist_on_tls
        self._tcp = self._transport = _Tcp(broken)
        self._listening: set[asyncio.Task[Any]] = set()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Checks the server's introduction. At the first one, nothing has been sent to the server yet."""
        self.info.update(info)
        if initial_connection and self._insist_on_tls and not info.get("tls_required"):
            if not info.get("tls_available"):
                raise nats.errors.Error(NO_TLS)
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Calls `heard` for each message on `subject`, one after the other."""
        subscription = await self.subscribe(subject, cb=heard, pending_bytes_limit=0)  # pyright: ignore[reportUnknownMemberType]
        for task in _tasks_of(subscription):
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)
        return subscription

    async def abort(self) -> None:
        """Drops the connection, and ends the library's tasks."""
        self._tcp.abort()
        for task in _tasks_of(self) | self._listening:
            await end(task)


async def end(task: asyncio.Task[Any]) -> None:
    """Cancels `task` until it has ended: the library sometimes swallows a cancellation, and goes on."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS)
    retrieve(task)


def _tasks_of(owner: object) -> set[asyncio.Task[Any]]:
    """Returns the library's tasks for one of its objects. It ends them itself, but not always, and not at once."""
    return {task for task in vars(owner).values() if isinstance(task, asyncio.Task)}


class NatsConnection:
    """A connection to the server at `address`. When it ends, `ended` has the reason."""

    def __init__(self, address: NatsAddress, *, insist_on_tls: bool) -> None:
        self.address = address
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._wire = NatsWire(insist_on_tls=insist_on_tls or address.tls, broken=self.fail)
        self.info = self._wire.info  # The server's introduction: version, limits, the other servers of its cluster.
        self.listen, self.inbox = self._wire.listen, self._wire.new_inbox  # The latter: a new subject for answers.
        self._connecting = True
        self._inbox = ""
        self._tokens = itertools.count()
        self._answers: dict[str, Callable[[Answer], None]] = {}

    @classmethod
    async def open(cls, address: NatsAddress, access: Access, *, seconds: float) -> "NatsConnection":
        """Connects and signs in within `seconds`. Raises `BusUnavailable` if that did not succeed."""
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
        options = access.options(self.address)
        if "user_credentials" in options:
            options["user_credentials"] = RawCredentials(options["user_credentials"])
        connecting = self._wire.connect(
            **options,
            name="tidings",
            allow_reconnect=False,
            connect_timeout=seconds,  # pyright: ignore[reportArgumentType] - any number will do
            # Nothing is buffered for a connection that does not exist yet.
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
        self._inbox = self.inbox()
        await self.listen(f"{self._inbox}.*", self._answered)

    async def send(self, subject: str, body: bytes = b"") -> None:
        """Sends a message that has no answer."""
        await self._wire.publish(subject, body)

    async def post(
        self, subject: str, body: bytes, answered: Callable[[Answer], None], headers: dict[str, str] | None = None
    ) -> str:
        """Sends a message, and calls `answered` with the answer. Returns the token under which it is awaited."""
        if self.ended.done():
            raise self.ended.result()
        token = str(next(self._tokens))
        self._answers[token] = answered
        try:
            await self._wire.publish(subject, body, reply=f"{self._inbox}.{token}", headers=headers)
        except BaseException:
            self._answers.pop(token, None)
            raise
        return token

    async def ask(self, subject: str, body: object = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Sends `body`, bytes or something to send as JSON, and returns the answer.

        Raises `ApiError` if JetStream refused, `NatsTimeout` if nothing answers, or the reason of the connection's end.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()

        def answered(what: Answer) -> None:
            if not answer.done():
                answer.set_result(what)

        token = await self.post(subject, data, answered, headers)
        try:
            found = await answer
        finally:
            self._answers.pop(token, None)
        if isinstance(found, Exception):
            raise found
        return found

    async def _answered(self, message: Msg) -> None:
        answered = self._answers.pop(message.subject.rpartition(".")[2], None)
        if answered is not None:
            answered(_answer_in(message))

    def fail(self, reason: Exception) -> None:
        """Ends the connection, and all requests with `reason`. Only the first reason counts."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        answers, self._answers = self._answers, {}
        for answered in answers.values():
            answered(reason)

    async def _error(self, error: Exception) -> None:
        if self._connecting:
            # Otherwise the library tries again until the timeout, and then does not say why.
            raise error
        # Advisories are not permitted everywhere, and nothing depends on them.
        if "$js.event." in str(error):
            return
        if not isinstance(error, nats.errors.Error | OSError | TransportError):
            logger.error("The connection to %s is closed after an unexpected error", self.address.url, exc_info=error)
        self.fail(error)

    async def _closed(self) -> None:
        self.fail(ConnectionResetError("unexpected EOF"))

    async def close(self) -> None:
        """Closes the socket, after what was sent before if the other side reads it at once."""
        self.fail(nats.errors.ConnectionClosedError())
        closing = asyncio.get_running_loop().create_task(self._wire.close())
        try:
            await asyncio.wait([closing], timeout=CLOSE_SECONDS)
        finally:
            await self._wire.abort()
            await end(closing)


def _answer_in(message: Msg) -> Answer:
    if message.headers and message.headers.get("Status") == "503":
        return NatsTimeout()
    try:
        found = json.loads(message.data)
        error = found.get("error")
    except (ValueError, AttributeError):
        return ApiError(0, "the answer is not JSON of the JetStream API")
    return found if error is None else ApiError(error.get("err_code", 0), error.get("description", "no reason given"))
