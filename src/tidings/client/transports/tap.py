"""`Tap`: gets each message and each HTTP exchange that goes over the wire, with secrets masked. Bodies of bounded size.

`connect(target, tap=...)` sets it. It is called where a message is sent or arrives, in that order. It must be quick;
what it raises is logged and does no harm.

On HTTP, the tap is at the lowest place, where everything passes, sign-in included. A server object gets a stream pair
for it.
"""

import json
import logging
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Protocol, cast

import httpx2
from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from tidings._kit.bounded_json import as_dict, as_text, mapped
from tidings._kit.decompress import Corrupt, Decompressor
from tidings._kit.text import harmless, one_line
from tidings.client.masking import MASK, forms, looks_secret, masked, shown_url
from tidings.client.sdk_seam import InMemoryTransport, TransportStreams
from tidings.client.targets import Target


@dataclass(frozen=True, slots=True)
class Message:
    """One JSON-RPC message, as sent or received."""

    incoming: bool
    body: dict[str, Any]
    size: int
    """The size in bytes, as transferred."""
    exchange: int | None = None
    """The id of the HTTP exchange that carried it, if any."""
    cut: bool = False
    """True if the message exceeds `ClientConfig.max_message` and was dropped. `body` has only its id, if known."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An HTTP exchange, reported when it begins, is answered, and ends. Times are seconds since 1970.

    Exchanges in which an `auth` object signs in are included.
    """

    id: int
    method: str
    url: str
    """The URL, without user, password and query."""
    request_headers: Mapping[str, str]
    status: int | None = None
    """None until the answer begins."""
    response_headers: Mapping[str, str] | None = None
    is_stream: bool = False
    """True if the answer is a stream of events."""
    began: float = 0.0
    answered: float | None = None
    ended: float | None = None
    error: str | None = None
    """The reason why the answer is missing or incomplete."""
    received: int = 0
    """The size of the answer's body in bytes, decompressed. Known when the exchange has ended."""


class Tap(Protocol):
    """Gets every message and every HTTP exchange."""

    def message(self, message: Message) -> None:
        """Called when a message is about to be sent, or has arrived."""

    def exchange(self, exchange: Exchange) -> None:
        """Called when an HTTP exchange began, was answered, or ended."""


logger = logging.getLogger(__name__)

_HIDDEN_HEADERS: Final = {"authorization", "cookie", "set-cookie"}
_URL_HEADERS: Final = {"location", "content-location", "referer", "link"}
_OUTER_KEYS: Final = {"jsonrpc", "id", "method", "params", "result", "error"}


class TapReporter:
    """Reports the messages and exchanges of one client to a tap. Raises nothing."""

    def __init__(self, tap: Tap, target: Target) -> None:
        self._tap = tap
        self._own_headers = {name.lower() for name in getattr(target, "headers", ())}
        self._known = target.secrets
        self._secrets = target.secrets
        self._learned: deque[str] = deque(maxlen=16)  # The latest tokens from signing in.
        self._ids = count(1)

    def message(self, raw: bytes | str, *, incoming: bool, exchange: int | None = None) -> None:
        """Reports a message, given as JSON. Anything else is ignored."""
        try:
            parsed: Any = from_json(raw)
        except ValueError:
            return
        if isinstance(parsed, dict) and "jsonrpc" in parsed:
            body = cast("dict[str, Any]", parsed)
            size = len(raw) if isinstance(raw, bytes) else len(raw.encode())
            self._report(self._tap.message, lambda: Message(incoming, self._masked_body(raw, body), size, exchange))

    def too_large(self, size: int, *, request: str | int | None = None, exchange: int | None = None) -> None:
        """Reports a message that was dropped. `request` is the id of the request that it would have answered."""
        body: dict[str, Any] = {"jsonrpc": "2.0"} | ({} if request is None else {"id": request})
        self._report(self._tap.message, lambda: Message(True, body, size, exchange, cut=True))

    def begin(self, method: str, url: str, headers: Mapping[str, str]) -> Exchange:
        if (token := headers.get("authorization")) and token not in self._learned:
            self._learned.append(token)
            self._secrets = self._known | forms(self._learned)
        shown = self._headers(headers)
        exchange = Exchange(next(self._ids), method, self.clean(shown_url(url)), shown, began=time.time())
        self._report(self._tap.exchange, lambda: exchange)
        return exchange

    def answered(self, exchange: Exchange, status: int, headers: Mapping[str, str], *, is_stream: bool) -> Exchange:
        shown = self._headers(headers)
        now = replace(exchange, status=status, response_headers=shown, is_stream=is_stream, answered=time.time())
        self._report(self._tap.exchange, lambda: now)
        return now

    def ended(self, exchange: Exchange, error: BaseException | None = None, *, received: int = 0) -> None:
        why = None if error is None else self.clean(f"{type(error).__name__}: {error}".rstrip(": "))
        self._report(self._tap.exchange, lambda: replace(exchange, ended=time.time(), error=why, received=received))

    def clean(self, text: str) -> str:
        """Returns `text` with secrets masked: those of the target, and those from signing in."""
        return masked(text, self._secrets)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        def shown(name: str, value: str) -> str:
            # This name looks secret, but it says what a server wants, not what it got.
            is_secret = looks_secret(name) and name != "www-authenticate"
            if is_secret or name in _HIDDEN_HEADERS or name in self._own_headers or name.startswith("proxy-"):
                return MASK
            return self.clean(shown_url(value) if name in _URL_HEADERS else value)

        return {name: shown(name.lower(), value) for name, value in headers.items()}

    def _masked_body(self, raw: bytes | str, body: dict[str, Any]) -> dict[str, Any]:
        if not self._secrets:
            return body
        text = raw if isinstance(raw, str) else raw.decode(errors="replace")
        # A secret may be written with escapes.
        if "\\" not in text and not any(secret in text for secret in self._secrets):
            return body

        def shown(value: Any) -> Any:
            if isinstance(value, int | float) and self.clean(str(value)) != str(value):
                return MASK
            return self.clean(value) if isinstance(value, str) else value

        # Value by value: masking a number or a word of the protocol in the text would break the JSON.
        return {key if key in _OUTER_KEYS else self.clean(key): mapped(value, shown) for key, value in body.items()}

    def _report(self, listener: Callable[[Any], None], make: Callable[[], Any]) -> None:
        try:
            listener(make())
        except Exception:
            logger.exception("A tap failed; the connection goes on")


# A carriage return at the very end may be the first half of a line end.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


@dataclass(eq=False, repr=False)
class BodyTap:
    """Reads along while a body arrives: a stream of `events`, each with a message, or at most one message."""

    tap: TapReporter
    exchange: Exchange
    events: "SseParser | None"

    def __post_init__(self) -> None:
        self._received = 0
        self._pieces: list[bytes] = []
        self._is_over = False

    def part(self, part: bytes) -> None:
        self._received += len(part)
        if self.events is None:
            self._pieces.append(part)  # The body has a limit.
            return
        for data in self.events.feed(part):
            if isinstance(data, int):
                self.tap.too_large(data, exchange=self.exchange.id)
            else:
                self.tap.message(data, incoming=True, exchange=self.exchange.id)

    def over(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if error is None and self.events is None:  # An incomplete event does not count.
            self.tap.message(b"".join(self._pieces), incoming=True, exchange=self.exchange.id)
        self.tap.ended(self.exchange, error, received=self._received)


class SseParser:
    """Splits a stream of events into the data of each message; above `limit`, its size so far."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # The line that has begun.
        self._data: list[bytes] = []
        self._size = 0
        self._is_message = True
        self._is_skipped = False

    def feed(self, piece: bytes) -> Iterator[bytes | int]:
        """Yields what `piece` completes."""
        if self._line.endswith(b"\r") or b"\n" in piece or b"\r" in piece:
            *lines, piece = _LINE_END.split(bytes(self._line) + piece)
            self._line.clear()
            for line in lines:
                yield from self._take(line)
        self._line += piece
        if self._size + len(self._line) > self._limit:
            yield from self._skip()

    def _take(self, line: bytes) -> Iterator[bytes | int]:
        if not line:
            if self._data and self._is_message and not self._is_skipped:
                yield b"\n".join(self._data)
            self._data, self._size, self._is_message, self._is_skipped = [], 0, True, False
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._is_message = value in (b"", b"message")
        elif name == b"data" and not self._is_skipped:
            self._data.append(value)
            self._size += len(value)
            if self._size > self._limit:
                yield from self._skip()

    def _skip(self) -> Iterator[int]:
        """Drops the event so far. The rest is skipped up to the event's end."""
        if not self._is_skipped:
            self._is_skipped = True
            yield self._size + len(self._line)
        self._data, self._size = [], 0
        if self._line:
            # Only the fact that the line is not empty is kept.
            self._line = bytearray(b":\r" if self._line.endswith(b"\r") else b":")


@asynccontextmanager
async def tapped_streams(transport: InMemoryTransport, tap: TapReporter) -> AsyncGenerator[TransportStreams]:
    """Enters a transport, and yields its two streams with a tap on them."""
    async with transport as (read, write):
        yield _TappedStream(read, tap), _TappedStream(write, tap)


@dataclass(eq=False, repr=False)
class _TappedStream(ObjectReceiveStream[SessionMessage | Exception]):
    """One of the two streams of a transport, to read from or to write to."""

    inner: Any
    tap: TapReporter

    @property
    def last_context(self) -> Context | None:
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item = await self.inner.receive()
        self._report(item, incoming=True)
        return item

    async def send(self, item: SessionMessage, /) -> None:
        self._report(item, incoming=False)
        await self.inner.send(item)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _report(self, item: SessionMessage | Exception, *, incoming: bool) -> None:
        if isinstance(item, SessionMessage):
            with suppress(ValueError):  # Such as half a surrogate pair.
                self.tap.message(item.message.model_dump_json(by_alias=True, exclude_unset=True), incoming=incoming)


ENCODING: Final = "gzip"  # The only compression that is asked for.
_STREAM: Final = b"text/event-stream"
_EXTENSION: Final = "tidings.body"
_ERROR_KEYS: Final = ("error_description", "error", "message", "detail")


class BodyTooLarge(httpx2.StreamError):
    """An answer exceeds the limit for one message."""


class BodyUnreadable(httpx2.StreamError):
    """An answer is compressed in a way that was not asked for, or is corrupt."""


@dataclass(eq=False, repr=False)
class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport that decompresses its answers, raises `BodyTooLarge` for one that is too long, and feeds a `tap`."""

    inner: httpx2.AsyncBaseTransport
    limit: int
    tap: TapReporter | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if (tap := self.tap) is None:
            response = await self.inner.handle_async_request(request)
            self._bound(response)
            return response
        exchange = tap.begin(request.method, str(request.url), request.headers)
        try:
            with suppress(httpx2.RequestNotRead):  # Sent in pieces, as only sign-in requests are.
                tap.message(request.content, incoming=False, exchange=exchange.id)
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            tap.ended(exchange, error)
            raise
        body = self._bound(response)
        exchange = tap.answered(exchange, response.status_code, response.headers, is_stream=body.is_stream)
        body.tap = BodyTap(tap, exchange, SseParser(self.limit) if body.is_stream else None)
        return response

    def _bound(self, response: httpx2.Response) -> "BoundedBody":
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport has asynchronous streams")
        response.stream = body = BoundedBody(response.stream, self.limit, headers_of(response))
        response.extensions[_EXTENSION] = body
        if body.encoding == ENCODING:
            del response.headers["content-encoding"]
        return body

    async def aclose(self) -> None:
        await self.inner.aclose()


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, decompressed."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, headers: Mapping[bytes, bytes]) -> None:
        self._inner = inner
        # True if it is a stream of events.
        self.is_stream = headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == _STREAM
        self._limit = None if self.is_stream else limit
        self.encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        stated = b"" if self.is_stream else headers.get(b"content-length", b"")
        self._stated = int(stated) if stated.isdigit() else 0
        self.on_failure: Callable[[Exception], None] = lambda _: None  # Called with an error while it is read.
        self.on_end: Callable[[], None] = lambda: None  # Called when all of it was read, or nobody reads on.
        self.on_data: Callable[[bytes], None] = lambda _: None  # Called with each piece as it arrives.
        self.tap: BodyTap | None = None  # Gets each part, decompressed, and the end or failure.
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.encoding not in ("", "identity", ENCODING):
            raise self._failed(BodyUnreadable(f"Body compressed with {self.encoding}, which was not asked for."))
        try:
            self._check(self._stated)
            decompressor = Decompressor([self.encoding], None) if self.encoding == ENCODING else None
            size = 0
            async for piece in self._inner:
                self.on_data(piece)
                for part in decompressor.feed(piece) if decompressor else (piece,):
                    size += len(part)
                    self._check(size)
                    if self.tap is not None:
                        self.tap.part(part)
                    yield part
        except Corrupt as error:
            raise self._failed(BodyUnreadable(f"Body corrupt: {error}.")) from error
        except Exception as error:
            self._failed(error)
            raise
        self._end()

    def _failed(self, error: Exception) -> Exception:
        if self.tap is not None:
            self.tap.over(error)
        self.on_failure(error)
        return error

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self.tap is not None:
                self.tap.over(None)
            self.on_end()

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise BodyTooLarge(f"Body too large: {size:,} bytes or more, and the limit is {self._limit:,}.")

    async def aclose(self) -> None:
        self._end()
        await self._inner.aclose()


def headers_of(message: httpx2.Request | httpx2.Response) -> Mapping[bytes, bytes]:
    """Returns the headers by their names in lower case. A look at a single one of httpx's goes through all of them."""
    return {name.lower(): value for name, value in message.headers.raw}


def body_of(response: httpx2.Response) -> BoundedBody | None:
    """Returns the body of an answer that came through a `BoundedTransport`, otherwise None."""
    return response.extensions.get(_EXTENSION)


def words_in(content_type: str, content: bytes) -> str:
    """Returns the words of an error answer in one line; empty if it has none that can be shown."""
    kind = content_type.partition(";")[0].strip().lower()
    text: Any = content.decode(errors="replace") if kind == "text/plain" else ""
    if kind.endswith("json"):
        try:
            answer = as_dict(json.loads(content))
        except (ValueError, RecursionError):
            answer = {}
        found = (answer.get(name) for name in _ERROR_KEYS)
        text = next((text for each in found if (text := as_text(as_dict(each).get("message", each)))), "")
    return one_line(harmless(text, mark=" "), 200)
