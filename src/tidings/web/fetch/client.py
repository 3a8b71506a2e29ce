"""One request and its bounded answer, over connections that the guard made: the seam to httpcore.

    async with client.get(url, headers) as answer:
        body = await read(answer.chunks(), answer.headers, limit, url=str(url))

HTTP/2 where the server supports it. No proxy, no cookies, no settings from the environment. Every failure is a
`FetchError`. An answer that is not read to its end closes its connection, because the server might go on sending.

A body is bounded as it arrives and again when it is decompressed. A `Content-Length` is trusted only if it exceeds the
limit.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import cast

import anyio
import h2.events
import h2.exceptions
import httpcore2

from tidings._kit.decompress import PIECE, Corrupt, Decompressor, OverLimit
from tidings.web.fetch.guard import ADDRESS, CONNECT_TIMEOUT, Address, AddressRefused, Guard, NoSuchHost, refusal
from tidings.web.fetch.request import MIB, BadAnswer, Blocked, FetchError, ResponseTooLarge, Unreachable
from tidings.web.fetch.urls import Url, shown

_KEPT_IDLE = 20
_IDLE_SECONDS = 15.0

Progress = Callable[[int, int | None], Awaitable[None]]
"""Called with the bytes received and the total, None if unknown; equal when the body is complete."""


class HttpAnswer:
    """Status and headers of an answer, and its body, still to be read."""

    def __init__(self, url: Url, response: httpcore2.Response) -> None:
        self._url = url
        self._response = response
        self.status = response.status
        self.headers = _headers(response.headers)
        extensions = cast("Mapping[str, httpcore2.AsyncNetworkStream]", response.extensions)  # pyright: ignore[reportUnknownMemberType]
        address = cast("Address", extensions["network_stream"].get_extra_info(ADDRESS))
        self.private = refusal(address) is not None
        """True if it comes from an address outside the public internet."""
        self.complete = False
        """True once all of the body has been read."""

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yields the body as it arrives, still compressed. Raises `FetchError` if it breaks off or is not HTTP."""
        stream = cast("AsyncIterator[bytes]", self._response.stream)
        with _translated(self._url):
            async with aclosing(cast("AsyncGenerator[bytes]", aiter(stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        self.complete = True


class Client:
    """The connection pool."""

    def __init__(self, guard: Guard, *, at_once: int, tls: ssl.SSLContext | None = None) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or httpcore2.default_ssl_context(),
            max_connections=at_once + _KEPT_IDLE,
            max_keepalive_connections=_KEPT_IDLE,
            keepalive_expiry=_IDLE_SECONDS,
            http2=True,
            network_backend=guard,
        )

    @asynccontextmanager
    async def get(self, url: Url, headers: Sequence[tuple[str, str]]) -> AsyncGenerator[HttpAnswer]:
        """Requests `url`. Raises `FetchError` if there is no answer."""
        where = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        sent = [("Host", url.authority), *headers]
        raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in sent]
        answer: HttpAnswer | None = None
        response: httpcore2.Response | None = None
        try:
            with _translated(url):
                response = await self._pool.handle_async_request(httpcore2.Request("GET", where, headers=raw))
            answer = HttpAnswer(url, response)
            yield answer
        finally:
            with anyio.CancelScope(shield=True):
                if response is not None:
                    await response.aclose()
                if answer is None or not answer.complete:
                    await self._drop(where.origin)

    async def aclose(self) -> None:
        """Closes every connection."""
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()

    async def _drop(self, origin: httpcore2.Origin) -> None:
        # HTTP/1.1 closes its connection when an answer is left early. With HTTP/2 the server would go on sending and
        # fill the window that all its streams share. Other requests on that connection are retried.
        for connection in self._pool.connections:
            if connection.can_multiplex() and connection.can_handle_request(origin):
                await connection.aclose()


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    headers.pop("set-cookie", None)  # Cookies are never kept, and must not be stored with the headers.
    return headers


@contextmanager
def _translated(url: Url) -> Generator[None]:
    try:
        yield
    except Exception as error:
        raise _fetch_error(error, url) from error


def _fetch_error(error: Exception, url: Url) -> FetchError:  # noqa: PLR0911 - a table
    def unreachable(why: str, *, retryable: bool = False) -> FetchError:
        return Unreachable(f"{url} cannot be reached: {why}", url=str(url), retryable=retryable)

    # httpcore passes the original error as the argument; its `__cause__` is lost.
    translated = isinstance(error, (httpcore2.ProtocolError, httpcore2.NetworkError))
    cause = error.args[0] if translated and error.args else error
    match error, cause:
        case AddressRefused(), _:
            return Blocked(f"{url} is not fetched: {error}", url=str(url))
        case NoSuchHost(retryable=retryable), _:
            return unreachable(f"{error}; check the spelling of the name, or the network", retryable=retryable)
        case httpcore2.ConnectTimeout(), _:
            return unreachable(
                f"{url.host} does not answer within {CONNECT_TIMEOUT:g} s; try again later", retryable=True
            )
        case httpcore2.ConnectError(), ssl.SSLCertVerificationError():
            why = f"its certificate is not trusted ({cause.verify_message})"
            return unreachable(f"{why}; try http, or another address of the site")
        case httpcore2.ConnectError(), ssl.SSLError():
            why = f"no secure connection could be made ({cause.reason or cause})"
            return unreachable(f"{why}; check that it speaks TLS on port {url.port}")
        case httpcore2.ConnectError(), _:
            return unreachable(f"{shown(str(error) or type(error).__name__)}; try again later", retryable=True)
        case httpcore2.NetworkError(), _:
            return _broken_off(url)
        case _:
            # A hostile server can cause any error inside the libraries.
            return _not_http(error, cause, url)


def _not_http(error: Exception, cause: object, url: Url) -> FetchError:
    too_large = isinstance(cause, h2.exceptions.DenialOfServiceError)
    if too_large or getattr(cause, "error_status_hint", None) == 431:
        return ResponseTooLarge(f"{url} cannot be fetched: its headers are too large", url=str(url))
    ended = isinstance(cause, (h2.events.StreamReset, h2.events.ConnectionTerminated))
    # The last of these: another request on the same connection was abandoned, which closed the connection.
    if ended or any(words in str(error) for words in ("isconnected", "peer closed", "ConnectionState.CLOSED")):
        return _broken_off(url)
    # The libraries' messages quote the server, which must not reach the reader through an error.
    return BadAnswer(f"{url} sent an answer that is not valid HTTP; the fault is at the server", url=str(url))


def _broken_off(url: Url) -> FetchError:
    message = f"{url} broke off: the connection ended before the answer did; try again"
    return Unreachable(message, url=str(url), retryable=True)


@dataclass(frozen=True)
class ResponseBody:
    """A body, decompressed. `truncated`: a part of it is missing."""

    data: bytes
    truncated: bool = False


async def read(
    chunks: AsyncIterator[bytes],
    headers: Mapping[str, str],
    limit: int,
    *,
    url: str,
    cut: bool = False,
    progress: Progress | None = None,
) -> ResponseBody:
    """Returns the body, decompressed.

    A body over the limit, compressed or not, raises `ResponseTooLarge`; with `cut` it is truncated instead. One that
    cannot be decompressed raises `BadAnswer`.
    """
    length = headers.get("content-length", "")
    total = int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None
    hint = "allow more with max_bytes, or fetch a smaller page"
    if total is not None and total > limit and not cut:
        raise ResponseTooLarge(f"{url} has {_size(total)}, more than the {_size(limit)} allowed; {hint}", url=url)
    data = bytearray()
    try:
        encodings = headers.get("content-encoding", "").split(",")
        decompressor = Decompressor([name.strip().lower() for name in encodings], limit)
        received = reported = 0
        async for chunk in chunks:
            received += len(chunk)
            for piece in decompressor.feed(chunk):
                data += piece
            if progress is not None and received - reported >= PIECE:
                reported = received
                await progress(received, total)
        if progress is not None and (reported, total) != (received, received):
            await progress(received, received)
    except OverLimit:
        if cut:
            return ResponseBody(bytes(data), truncated=True)
        raise ResponseTooLarge(f"{url} has more than the {_size(limit)} allowed; {hint}", url=url) from None
    except Corrupt as error:
        raise BadAnswer(f"{url} cannot be decompressed: {error}; the fault is at the server", url=url) from None
    return ResponseBody(bytes(data), truncated=decompressor.cut_short)


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB" if count >= MIB else f"{count:,} bytes"
