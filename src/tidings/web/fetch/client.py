"""One request and its answer, over connections that the guard made.

    async with client.get(url, headers) as answer:
        answer.status, answer.headers
        async for chunk in answer.chunks(): ...

HTTP/2 where the server speaks it. No proxy, no cookie, nothing from the environment has a say. Whatever goes wrong
on the wire is a `FetchError`. An answer that is left before its end costs its connection: no server can go on sending
what nobody reads.

Bodies that stay within their limits: as they come over the wire, and again when they are unpacked.

    read(chunks, headers, limit, ...) -> Body

What a server says of the length is believed only where it says too much.
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

from tidings.web.fetch.guard import ADDRESS, CONNECT_TIMEOUT, Address, AddressRefused, Guard, NoSuchHost, refusal
from tidings.web.fetch.packings import PIECE, Corrupt, OverLimit, Unpacker
from tidings.web.fetch.request import MIB, BadAnswer, Blocked, FetchError, ResponseTooLarge, Unreachable
from tidings.web.fetch.urls import Url, shown

_KEPT_IDLE = 20
_IDLE_SECONDS = 15.0


class HttpAnswer:
    """What a server answered; its body is still on the way."""

    def __init__(self, url: Url, response: httpcore2.Response) -> None:
        self._url = url
        self._response = response
        self.status = response.status
        self.headers = _headers(response.headers)
        self.private = _is_private(response)
        """Whether it comes from an address that is not of the public internet."""
        self.complete = False
        """Whether all of the body has been read."""

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body, as it comes, packed as it is.

        Raises:
            FetchError: It broke off, or is not HTTP.
        """
        stream = cast("AsyncIterator[bytes]", self._response.stream)
        with _translated(self._url):
            async with aclosing(cast("AsyncGenerator[bytes]", aiter(stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        self.complete = True


class Client:
    """The pool of connections."""

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
        """Ask for `url`.

        Raises:
            FetchError: There is no answer.
        """
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
        """Close every connection."""
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()

    async def _drop(self, origin: httpcore2.Origin) -> None:
        # HTTP/1.1 closes its connection by itself when an answer is left early. With HTTP/2 the server would go on
        # sending, and fill the window that all its streams share. Whoever else is on that connection asks again.
        for connection in self._pool.connections:
            if connection.can_multiplex() and connection.can_handle_request(origin):
                await connection.aclose()


def _is_private(response: httpcore2.Response) -> bool:
    extensions = cast("Mapping[str, httpcore2.AsyncNetworkStream]", response.extensions)  # pyright: ignore[reportUnknownMemberType]
    stream = extensions["network_stream"]
    return refusal(cast("Address", stream.get_extra_info(ADDRESS))) is not None


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    headers.pop("set-cookie", None)  # Nothing here keeps cookies, and nobody who stores headers should.
    return headers


@contextmanager
def _translated(url: Url) -> Generator[None]:
    try:
        yield
    except Exception as error:
        raise _fetch_error(error, url) from error


def _fetch_error(error: Exception, url: Url) -> FetchError:
    text = str(url)
    match error:
        case AddressRefused():
            return Blocked(f"{url} is not fetched: {error}", url=text)
        case NoSuchHost(again=again):
            cure = "check its spelling, or the network"
            return Unreachable(f"{url} cannot be reached: {error}; {cure}", url=text, again=again)
        case httpcore2.ConnectTimeout():
            silence = f"{url.host} does not answer within {CONNECT_TIMEOUT:g} s"
            return Unreachable(f"{url} cannot be reached: {silence}; try again later", url=text, again=True)
        case httpcore2.ConnectError():
            return _no_connection(error, url)
        case httpcore2.NetworkError():
            return _broken_off(url)
        case _:
            # Whatever a hostile server brings forth inside of the libraries is its fault, not the caller's.
            return _no_http(error, url)


def _no_connection(error: Exception, url: Url) -> FetchError:
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = f"its certificate is not to be trusted ({cause.verify_message}); try http, or another address of the site"
        return Unreachable(f"{url} cannot be reached: {why}", url=str(url))
    if isinstance(cause, ssl.SSLError):
        why = f"no secure connection could be made ({cause.reason or cause}); does it speak TLS on port {url.port}?"
        return Unreachable(f"{url} cannot be reached: {why}", url=str(url))
    return Unreachable(f"{url} cannot be reached: {_said(error)}; try again later", url=str(url), again=True)


def _no_http(error: Exception, url: Url) -> FetchError:
    cause = _cause(error)
    too_large = isinstance(cause, h2.exceptions.DenialOfServiceError)
    if too_large or getattr(cause, "error_status_hint", None) == 431:
        return ResponseTooLarge(f"{url} sends more headers than any page needs; it cannot be fetched", url=str(url))
    ended = isinstance(cause, (h2.events.StreamReset, h2.events.ConnectionTerminated))
    # The last of these: another request that shared the connection was left, and the connection with it.
    if ended or any(words in str(error) for words in ("isconnected", "peer closed", "ConnectionState.CLOSED")):
        return _broken_off(url)
    # What the libraries say quotes the server, and no server shall speak through an error.
    return BadAnswer(f"{url} answered with something that is not HTTP; it is broken at its source", url=str(url))


def _broken_off(url: Url) -> FetchError:
    message = f"{url} broke off: the connection ended before the answer did; try again"
    return Unreachable(message, url=str(url), again=True)


def _cause(error: Exception) -> object:
    """What a library says was the reason; the error itself if it does not."""
    # httpcore passes on what it translates as the argument; as the cause it is lost on the way.
    translated = isinstance(error, (httpcore2.ProtocolError, httpcore2.NetworkError))
    return error.args[0] if translated and error.args else error


def _said(error: Exception) -> str:
    return shown(str(error) or type(error).__name__)


Progress = Callable[[int, int | None], Awaitable[None]]
"""Is told of the bytes that came, and of how many will come if the server said so; equal when all are here."""

_CURE = "allow more with max_bytes, or fetch a part of it from elsewhere"


@dataclass(frozen=True)
class ResponseBody:
    """What came, unpacked."""

    data: bytes
    truncated: bool = False
    """There is more of it that is not here."""


async def read(
    chunks: AsyncIterator[bytes],
    headers: Mapping[str, str],
    limit: int,
    *,
    url: str,
    cut: bool = False,
    progress: Progress | None = None,
) -> ResponseBody:
    """The body, within `limit`. With `cut`, what is over the limit is left out instead of refused.

    Raises:
        TooLarge: It is over the limit, packed or unpacked.
        BadAnswer: It is not packed as it says.
    """
    total = _length(headers)
    if total is not None and total > limit and not cut:
        raise ResponseTooLarge(f"{url} has {_size(total)}, more than the {_size(limit)} allowed; {_CURE}", url=url)
    data = bytearray()
    try:
        unpacker = Unpacker(_names(headers.get("content-encoding", "")), limit)
        came = told = 0
        async for chunk in chunks:
            came += len(chunk)
            for piece in unpacker.feed(chunk):
                data += piece
            if progress is not None and came - told >= PIECE:
                told = came
                await progress(came, total)
        if progress is not None and (told, total) != (came, came):
            await progress(came, came)
    except OverLimit:
        if cut:
            return ResponseBody(bytes(data), truncated=True)
        raise ResponseTooLarge(f"{url} has more than the {_size(limit)} allowed; {_CURE}", url=url) from None
    except Corrupt as error:
        raise BadAnswer(f"{url} cannot be unpacked: {error}; it is broken at its source", url=url) from None
    return ResponseBody(bytes(data), truncated=unpacker.cut_short)


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split(",")]


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB" if count >= MIB else f"{count:,} bytes"
