"""The only way to a socket, and one request with its answer: the seam to httpcore. Imported with the first request.

`Guard` is the network backend of httpcore. A name is resolved once, and every address of the answer is checked; one
refused address refuses the host, because an honest answer does not mix public and private addresses. The connection
goes to a checked address and the name is not resolved again, so a second, different answer (DNS rebinding) has no
effect.

With a proxy, every connection goes to it and to nothing else. Then each request is checked in the same way before it is
sent: the name is resolved here as well, though the proxy resolves it again. A proxy whose names have other addresses
than here must itself refuse private ones.

HTTP/2 where the server supports it. No cookies, no settings from the environment. Every failure is a
`FetchError`. An answer that is not read to its end closes its connection, because the server might go on sending. So
does one with more bytes than it announced: they would be taken for the answer to the next request.
"""

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any, cast

import anyio
import anyio.to_thread
import h2.events
import h2.exceptions
import httpcore2

from tidings.web.fetch.guard import Address, FetchPolicy, real, refusal
from tidings.web.fetch.request import BadAnswer, Blocked, FetchError, Proxy, ResponseTooLarge, Unreachable
from tidings.web.fetch.urls import Url, shown

_KEPT_IDLE = 20
_IDLE_SECONDS = 15.0


Resolver = Callable[[str], Awaitable[Sequence[Address]]]
"""Returns the addresses of a host name, best first. Raises `OSError` (`socket.gaierror`) if there are none."""
CONNECT_TIMEOUT = 10.0  # seconds for one address to answer, if the request has more
ADDRESS = "vetted_address"  # the name of the stream's extra information that holds its address
_HEAD_START = 0.25  # seconds before the next address is tried in parallel
_MOST_TRIED = 6
_LOOKUPS_AT_ONCE = 16


class AddressRefused(Exception):
    """A host, port or address is not allowed. The message says why, and what to do."""


class NoSuchHost(Exception):
    """A name has no addresses. `retryable`: it may have some a moment later."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


async def look_up(host: str, threads: anyio.CapacityLimiter | None = None) -> Sequence[Address]:
    """Asks the system's resolver, in `threads` of its own, so that slow names do not delay other work."""
    ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    found = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=threads)
    return list(dict.fromkeys(ip_address(answer[4][0]) for answer in found))


class Guard(httpcore2.AsyncNetworkBackend):
    """The network backend that connects only to addresses that the policy allows; with a proxy, only to that."""

    def __init__(self, policy: FetchPolicy, resolver: Resolver | None = None, proxy: Proxy | None = None) -> None:
        self._policy = policy
        self.proxy = proxy
        self._resolve = resolver or partial(look_up, threads=anyio.CapacityLimiter(_LOOKUPS_AT_ONCE))
        self._plain = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def vetted(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of `host`. Raises `AddressRefused` if one of them, or the port, is not allowed."""
        if reason := self._policy.refuses(host, port):
            raise AddressRefused(reason)
        addresses = await self._addresses(host)
        for address in addresses:
            if reason := self._policy.refuses_address(host, address):
                raise AddressRefused(reason)
        return [real(address) for address in addresses]

    async def _addresses(self, host: str) -> Sequence[Address]:
        with suppress(ValueError):
            return [ip_address(host)]
        try:
            addresses = await self._resolve(host)
        except socket.gaierror as error:
            retryable = error.errno == socket.EAI_AGAIN
            raise NoSuchHost(f"the name {host} cannot be resolved ({error.strerror})", retryable=retryable) from None
        except (OSError, UnicodeError) as error:
            raise NoSuchHost(f"the name {host} cannot be resolved ({error})", retryable=False) from None
        if not addresses:
            raise NoSuchHost(f"the name {host} has no addresses", retryable=False)
        return addresses

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Returns a stream to the first checked address that answers."""
        # The operator chose the proxy: it may well be in a private network.
        found = await (self.vetted(host, port) if self.proxy is None else self._addresses(self.proxy.host))
        port = self.proxy.port if self.proxy else port
        addresses = _alternating(found)[:_MOST_TRIED]
        if len(addresses) == 1:
            return await self._connect(addresses[0], port)
        won: list[httpcore2.AsyncNetworkStream] = []
        failures: list[Exception] = []

        async def attempt(address: Address, done: anyio.Event, race: anyio.CancelScope) -> None:
            try:
                stream = await self._connect(address, port)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failures.append(error)
            else:
                if won:
                    await stream.aclose()
                else:
                    won.append(stream)
                    race.cancel()
            done.set()

        try:
            async with anyio.create_task_group() as tasks:
                # In order, each with a head start; the first stream wins.
                for address in addresses:
                    done = anyio.Event()
                    tasks.start_soon(attempt, address, done, tasks.cancel_scope)
                    with anyio.move_on_after(_HEAD_START):
                        await done.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                for stream in won:
                    await stream.aclose()
            raise
        if not won:
            raise failures[0]
        return won[0]

    async def connect_unix_socket(self, *args: object, **kwargs: object) -> httpcore2.AsyncNetworkStream:
        """Refuses: no page is served from a local socket."""
        raise AddressRefused("local sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _connect(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return _GuardedStream(await self._plain.connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT), address)


class _GuardedStream(httpcore2.AsyncNetworkStream):
    """A stream that knows its address. It is closed when TLS cannot be started on it, or starting it is cancelled."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, address: Address) -> None:
        self._stream = stream
        self._address = address

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
    ) -> httpcore2.AsyncNetworkStream:
        try:
            secure = await self._stream.start_tls(ssl_context, server_hostname, CONNECT_TIMEOUT)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return _GuardedStream(secure, self._address)

    def get_extra_info(self, info: str) -> Any:
        # The socket cannot be asked: it no longer knows once the peer is gone.
        return self._address if info == ADDRESS else self._stream.get_extra_info(info)


def _alternating(addresses: Sequence[Address]) -> list[Address]:
    # If IPv6 (or IPv4) does not work here, this costs one head start, not one for each address.
    first = [address for address in addresses if address.version == addresses[0].version]
    other = [address for address in addresses if address.version != addresses[0].version]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]


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
        with _translated(self._url):
            async with aclosing(cast("AsyncGenerator[bytes]", aiter(stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        self._check_end()
        self.complete = True

    def _check_end(self) -> None:
        """Has the connection closed if more came than the answer. Raises `BadAnswer`, unless no body was expected."""
        connection = getattr(getattr(self._response.stream, "_stream", None), "_connection", None)
        state: Any = getattr(connection, "_h11_state", None)  # None with HTTP/2, where answers cannot run together
        if state is not None and state.trailing_data[0]:
            state.send_failed()  # httpcore closes a connection in this state
            if self.status not in (204, 304):
                message = f"{self._url} sent more bytes than it announced; the fault is at the server"
                raise BadAnswer(message, url=str(self._url))


class Client:
    """The connection pool."""

    def __init__(self, guard: Guard, *, at_once: int, tls: ssl.SSLContext | None = None) -> None:
        self._guard, proxy = guard, guard.proxy
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
            with _translated(url):
                through = await self._through_proxy(url)
                sent = httpcore2.Request("POST" if body else "GET", where, headers=raw, content=body or None)
                response = await self._pool.handle_async_request(sent)
            answer = HttpAnswer(url, response, through)
            yield answer
        finally:
            with anyio.CancelScope(shield=True):
                if response is not None:
                    await response.aclose()
                if answer is None or not answer.complete:
                    await self._drop(where.origin)

    async def _through_proxy(self, url: Url) -> Sequence[Address]:
        """Returns the vetted addresses of a site that is reached through the proxy; nothing without a proxy."""
        if self._guard.proxy is None:
            return ()
        if ":" in url.host:
            raise AddressRefused("a proxy gets no addresses of IPv6, which it could read in another way")
        return await self._guard.vetted(url.host, url.port)

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


@contextmanager
def _translated(url: Url) -> Generator[None]:
    try:
        yield
    except Exception as error:
        raise _fetch_error(error, url) from error


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
