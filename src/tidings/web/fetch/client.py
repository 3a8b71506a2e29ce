"""One request with its answer, over sockets that `tidings._kit.address_guard` opens. Imported with the first request.

With a proxy, every connection goes to it. Then the name of each request is resolved and checked here first, though the
proxy resolves it again. No cookies, no settings from the environment. Every failure is a `FetchError`. An answer that
is not read to its end, or has more bytes than it announced, closes its connection: they would be taken for the answer
to the next request.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import anyio
import h2.events
import h2.exceptions
import httpcore2

from tidings._kit.address_guard import ADDRESS, CONNECT_TIMEOUT, AddressRefused, Guard, NoSuchHost
from tidings._kit.addresses import Address, refusal
from tidings.web.fetch.request import BadAnswer, Blocked, FetchError, Proxy, ResponseTooLarge, Unreachable
from tidings.web.fetch.urls import Url, shown

_KEPT_IDLE = 20
_IDLE_SECONDS = 15.0


class HttpAnswer:
    """Status and headers of an answer, and its body, still to be read."""

    def __init__(self, url: Url, response: httpcore2.Response, through: Sequence[Address] = ()) -> None:
        self._url = url
        self._response = response
        self.status = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self.headers.pop("set-cookie", None)  # Cookies are never kept, and must not be stored with the headers.
        extensions = cast("Mapping[str, httpcore2.AsyncNetworkStream]", response.extensions)  # pyright: ignore[reportUnknownMemberType]
        addresses = through or [cast("Address", extensions["network_stream"].get_extra_info(ADDRESS))]
        # True if it comes from an address outside the public internet.
        self.private = any(refusal(address) is not None for address in addresses)
        self.complete = False  # true once all of the body has been read

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yields the body as it arrives, still compressed. Raises `FetchError` if it breaks off or is not HTTP."""
        stream = cast("AsyncIterator[bytes]", self._response.stream)
        try:
            async with aclosing(cast("AsyncGenerator[bytes]", aiter(stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Exception as error:
            raise _fetch_error(error, self._url) from error
        connection = getattr(getattr(self._response.stream, "_stream", None), "_connection", None)
        state: Any = getattr(connection, "_h11_state", None)  # None with HTTP/2, where answers cannot run together
        if state is not None and state.trailing_data[0]:
            state.send_failed()  # httpcore closes a connection in this state
            if self.status not in (204, 304):
                message = f"{self._url} sent more bytes than it announced; the fault is at the server"
                raise BadAnswer(message, url=str(self._url))
        self.complete = True


class Client:
    """The connection pool."""

    def __init__(
        self, guard: Guard, *, at_once: int, proxy: Proxy | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._guard = guard
        self._has_proxy = proxy is not None
        self._pool = httpcore2.AsyncConnectionPool(
            proxy=proxy and httpcore2.Proxy(f"http://{proxy.host}:{proxy.port}", auth=proxy.login),
            ssl_context=tls or httpcore2.default_ssl_context(),
            max_connections=at_once + _KEPT_IDLE,
            max_keepalive_connections=_KEPT_IDLE,
            keepalive_expiry=_IDLE_SECONDS,
            http2=True,
            network_backend=guard,
        )

    @asynccontextmanager
    async def get(self, url: Url, headers: Sequence[tuple[str, str]], body: bytes = b"") -> AsyncGenerator[HttpAnswer]:
        """Requests `url`, with POST if there is a body. Raises `FetchError` if there is no answer."""
        where = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        length = [("content-length", str(len(body)))] if body else []
        named = [("Host", url.authority), *headers, *length]
        raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in named]
        answer: HttpAnswer | None = None
        response: httpcore2.Response | None = None
        try:
            if self._has_proxy and ":" in url.host:
                why = "a proxy gets no addresses of IPv6, which it could read in another way"
                raise Blocked(f"{url} is not fetched: {why}", url=str(url))
            try:
                through = await self._guard.vetted(url.host, url.port) if self._has_proxy else ()
                sent = httpcore2.Request("POST" if body else "GET", where, headers=raw, content=body or None)
                response = await self._pool.handle_async_request(sent)
            except Exception as error:
                raise _fetch_error(error, url) from error
            answer = HttpAnswer(url, response, through)
            yield answer
        finally:
            with anyio.CancelScope(shield=True):
                if response is not None:
                    await response.aclose()
                # HTTP/1.1 closes its connection when an answer is left early. With HTTP/2 the server would go on, and
                # fill the window that all its streams share. Other requests on that connection are retried.
                left = answer is None or not answer.complete
                for connection in self._pool.connections if left else ():
                    if connection.can_multiplex() and connection.can_handle_request(where.origin):
                        await connection.aclose()

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()


def _fetch_error(error: Exception, url: Url) -> FetchError:
    # httpcore passes the original error as the argument; its `__cause__` is lost.
    translated = isinstance(error, (httpcore2.ProtocolError, httpcore2.NetworkError))
    cause = error.args[0] if translated and error.args else error
    retryable = False
    match error, cause:
        case AddressRefused(), _:
            return Blocked(f"{url} is not fetched: {error}", url=str(url))
        case NoSuchHost(), _:
            why, retryable = f"{error}; check the spelling of the name, or the network", error.retryable
        case httpcore2.ProxyError(), _:
            why = f"the proxy refuses it ({shown(str(error))}); check --proxy and what the proxy allows"
        case httpcore2.ConnectTimeout(), _:
            why, retryable = f"{url.host} does not answer within {CONNECT_TIMEOUT:g} s; try again later", True
        case httpcore2.ConnectError(), ssl.SSLCertVerificationError():
            why = f"its certificate is not trusted ({cause.verify_message}); try http, or another address of the site"
        case httpcore2.ConnectError(), ssl.SSLError():
            why = f"no secure connection could be made ({cause.reason or cause})"
            why += f"; check that it speaks TLS on port {url.port}"
        case httpcore2.ConnectError(), OSError(__cause__=ConnectionRefusedError()):
            why, retryable = f"nothing listens on port {url.port}; check the address, or start the server", True
        case httpcore2.ConnectError(), _:
            why, retryable = f"{shown(str(error) or type(error).__name__)}; try again later", True
        case _:
            return _bad_answer(error, cause, url)
    return Unreachable(f"{url} cannot be reached: {why}", url=str(url), retryable=retryable)


def _bad_answer(error: Exception, cause: object, url: Url) -> FetchError:
    """Returns the error for an answer that began. A hostile server can cause any error inside the libraries."""
    broken = isinstance(error, httpcore2.NetworkError)
    too_large = isinstance(cause, h2.exceptions.DenialOfServiceError)
    if not broken and (too_large or getattr(cause, "error_status_hint", None) == 431):
        return ResponseTooLarge(f"{url} cannot be fetched: its headers are too large", url=str(url))
    ended = isinstance(cause, (h2.events.StreamReset, h2.events.ConnectionTerminated))
    # The last of these: another request on the same connection was abandoned, which closed the connection.
    closed = any(words in str(error) for words in ("isconnected", "peer closed", "ConnectionState.CLOSED"))
    if broken or ended or closed:
        message = f"{url} broke off: the connection ended before the answer did; try again"
        return Unreachable(message, url=str(url), retryable=True)
    # The libraries' messages quote the server, which must not reach the reader through an error.
    return BadAnswer(f"{url} sent an answer that is not valid HTTP; the fault is at the server", url=str(url))
