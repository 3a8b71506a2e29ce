"""The ways to a server at a URL, watched: streamable HTTP, by the SDK, and the older SSE.

Whoever holds the connection learns of each exchange what the SDK keeps to itself: what the web server said, whether a
request can have arrived, when a stream was opened.

The sockets of HTTP connections: closed in any case, and watched by the operating system.

When a connection is given up while it begins to speak TLS, the HTTP library forgets its socket without closing it. A
server that accepts connections and then says nothing would cost one with each attempt.

While a request runs, a server that answers no ping may be busy, and a network that swallows everything looks the same.
The systems below know the difference: that of a busy server still acknowledges what it gets. So they are told to probe
a connection on which nothing comes, and to break it off when nobody acknowledges that.

They do so only where all that was sent has arrived. What is still on its way may wait for a server that is too busy to
read, and has the time of its request. `TCP_USER_TIMEOUT` would end that sooner, and counts a full buffer as silence.
With it, Linux would also count its time rather than the probes.
"""

import asyncio
import math
import socket
import urllib.request
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

import anyio
import httpcore2
import httpx2
from mcp.client._transport import TransportStreams, WriteStream
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR

from tidings.client.config import Timeouts
from tidings.client.sdk_logging import Clean, quiet
from tidings.client.targets import HttpTarget
from tidings.client.transports.bodies import ENCODING, BodyTooLarge, BoundedTransport, body_of, words_in
from tidings.client.transports.sse import sse_streams
from tidings.client.transports.tap import TapReporter
from tidings.client.transports.tapped import TappedTransport
from tidings.errors import ConnectFailed, NotAuthorized

__all__ = ["BodyTooLarge", "TransportWatch", "current_call", "fallback_to_sse", "open_transport"]

current_call: ContextVar[Any | None] = ContextVar("tidings_client_call", default=None)
"""The call on whose behalf a message is sent. The sender sets it; a `TransportWatch` gets it with the outcome."""

_CONNECT_SECONDS: Final = 30.0
_FAREWELL_SECONDS: Final = 1.0
"""How long a server may take to hear that its session is over. Nobody else waits for a request here."""

_WORDS_SECONDS: Final = 1.0
"""How long what a refusal says may take to arrive. That it is one is known without."""

_SESSION_HEADER: Final = MCP_SESSION_ID.encode()
_SESSION_PARAMETERS: Final = {"sessionId", "session_id"}
_NEVER_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


class TransportWatch(Protocol):
    """Hears of each exchange with the web server. Called where the exchange runs: be quick, and raise nothing.

    Requests that an `auth` object makes to sign in are its own affair; only what came of them is told.
    """

    def responded(self, call: Any | None, method: str, status: int, *, has_session: bool) -> None:
        """The server answered with this status. `has_session`: the request named a session."""
        ...

    def failed(self, call: Any | None, method: str, error: Exception, *, sent: bool) -> None:
        """There is no answer, or not all of it. `sent` is false if the request certainly did not reach the server."""
        ...

    def held_back(self, call: Any | None, *, is_so: bool) -> None:
        """The request waits for an `auth` object, or does so no more."""
        ...

    def stream_open(self, call: Any | None, method: str) -> None:
        """The answer is a stream of events, and has begun."""
        ...

    def stream_over(self, call: Any | None, method: str) -> None:
        """The stream of events has ended, in good order."""
        ...

    def signing_in(self, call: Any | None, *, busy: bool) -> None:
        """The server refused a message, and the `auth` object sees to it, or has done so. It may ask a person."""
        ...


def fallback_to_sse(status: int) -> bool:
    """Whether a server that answers the first message so may be one that knows only the older transport."""
    return status in (400, 404, 405, 406, 415)


@asynccontextmanager
async def open_transport(
    target: HttpTarget,
    *,
    max_message: int,
    watch: TransportWatch,
    kind: Literal["http", "sse"] | None = None,
    timeouts: Timeouts | None = None,
    tap: TapReporter | None = None,
) -> AsyncGenerator[TransportStreams]:
    """A way to `target`: what the SDK reads from and writes to.

    Args:
        target: The server.
        max_message: Bytes of one message from the server.
        watch: Hears of each exchange.
        kind: The transport; unless given the target's own, or streamable HTTP.
        timeouts: How long a person may take to sign in, and a connection be silent.
        tap: Tells a tap of everything that goes over the wire.
    """
    url = httpx2.URL(target.url)
    plain = str(url.copy_with(userinfo=b""))  # The SDK puts it in its log.
    with quiet(target.clean):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                _WatchedClient(
                    target, url, max_message=max_message, watch=watch, timeouts=timeouts or Timeouts(), tap=tap
                )
            )
            if (kind or target.kind) == "sse":
                way = sse_streams(plain, client, max_message)
            else:
                way = streamable_http_client(plain, http_client=client, max_sse_event_size=max_message)
            read, write = await stack.enter_async_context(way)
            yield read, _QuietWriter(write, target.clean)


class _WatchedClient(httpx2.AsyncClient):
    """Tells a `TransportWatch` of each message that is sent and what came of it, whatever it took to sign in."""

    def __init__(
        self,
        target: HttpTarget,
        url: httpx2.URL,
        *,
        max_message: int,
        watch: TransportWatch,
        timeouts: Timeouts,
        tap: TapReporter | None,
    ) -> None:
        auth = None if target.auth is None else _SignIn(target.auth, watch, timeouts.answer)
        if auth is None and url.userinfo:
            auth = httpx2.BasicAuth(url.username, url.password)
        headers = httpx2.Headers({"accept-encoding": ENCODING})
        headers.update(target.headers)
        transport: httpx2.AsyncBaseTransport = BoundedTransport(_transport(url, timeouts), max_message)
        if tap is not None:
            transport = TappedTransport(transport, tap, max_message)
        super().__init__(
            headers=headers,
            auth=auth,
            # A request is timed by whoever sends it; and a stream may be silent for hours.
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
            transport=transport,
        )
        self._target = target
        self._watch = watch
        self._welcome = False
        """Whether the server has answered a message as one does."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        call = current_call.get()
        if request.method == "DELETE":
            limits = httpx2.Timeout(_FAREWELL_SECONDS).as_dict()
            request.extensions = {**request.extensions, "timeout": limits}
        try:
            response = await super().send(request, **options)
        except NotAuthorized as error:
            if not self._welcome:
                raise
            # The SDK would end the connection, though only this message may not be sent.
            response = _refusal(request, error)
        except Exception as error:
            self._watch.failed(call, request.method, error, sent=not isinstance(error, _NEVER_SENT))
            raise
        if response.status_code == 401 and not self._target.has_credentials:
            wanted = await _token_wanted(response, self._target.name)
            if request.method == "GET" and not self._welcome:
                raise wanted  # The older transport begins with its stream, and no message could say it.
            response = _refusal(request, wanted)
        # The older transport names its session in the address.
        has_session = _SESSION_HEADER in dict(request.headers.raw) or (
            bool(request.url.query) and bool(_SESSION_PARAMETERS & request.url.params.keys())
        )
        self._watch.responded(call, request.method, response.status_code, has_session=has_session)
        self._welcome = self._welcome or response.is_success
        if (body := body_of(response)) is not None:
            body.on_failure = lambda error: self._watch.failed(call, request.method, error, sent=True)
            if body.is_stream and response.is_success:
                body.on_end = lambda: self._watch.stream_over(call, request.method)
                self._watch.stream_open(call, request.method)
        return response


class _SignIn(httpx2.Auth):
    """An `auth` object: watched while it signs in, and with a name for whatever it raises, since nobody could."""

    def __init__(self, inner: httpx2.Auth, watch: TransportWatch, seconds: float) -> None:
        self._inner = inner
        self._watch = watch
        self._seconds = seconds

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._inner.async_auth_flow(request)
        refused = False
        call = current_call.get()
        try:
            # It may let one request after the other through, and so hold this one back for as long as another takes.
            self._watch.held_back(call, is_so=True)
            outgoing = await anext(flow)
            self._watch.held_back(call, is_so=False)
            while True:
                response = yield outgoing
                refused = refused or response.status_code in (401, 403)
                outgoing = await (self._patiently(flow.asend(response)) if refused else flow.asend(response))
        except StopAsyncIteration:
            return
        except httpx2.TransportError:
            raise  # Away is not the same as refused.
        except Exception as error:
            raise NotAuthorized(f"Signing in failed: {error or type(error).__name__}") from error
        finally:
            await flow.aclose()

    async def _patiently(self, step: Awaitable[httpx2.Request]) -> httpx2.Request:
        call = current_call.get()
        self._watch.signing_in(call, busy=True)
        try:
            async with asyncio.timeout(self._seconds):
                return await step
        except TimeoutError:
            raise TimeoutError(f"it took longer than {self._seconds:g} s (Timeouts.answer)") from None
        finally:
            self._watch.signing_in(call, busy=False)


async def _token_wanted(response: httpx2.Response, server: str) -> NotAuthorized:
    """That the server wants credentials, of which it got none; in its own words, if it has some."""
    words = ""
    if (body := body_of(response)) is not None and not body.is_stream:
        with suppress(TimeoutError, httpx2.TransportError, httpx2.StreamError):
            async with asyncio.timeout(_WORDS_SECONDS):
                words = words_in(response.headers.get("content-type", ""), await response.aread())
    await response.aclose()
    said = f" It says: {words}" if words else ""
    return NotAuthorized(
        f'The server wants a token, and none was sent (HTTP 401). Pass it: connect(url, token="...").{said}',
        server=server,
    )


def _refusal(request: httpx2.Request, error: NotAuthorized) -> httpx2.Response:
    """What a server would answer that had itself found that nobody is signed in."""
    details = {"code": INTERNAL_ERROR, "message": error.message, "data": {"code": error.code}}
    return httpx2.Response(401, json={"jsonrpc": "2.0", "id": None, "error": details}, request=request)


class _QuietWriter:
    """Writes to the SDK. Its transport works in the context of whoever sends, so that is where it must be quiet."""

    def __init__(self, inner: WriteStream[SessionMessage], clean: Clean) -> None:
        self._inner = inner
        self._clean = clean

    async def send(self, item: SessionMessage, /) -> None:
        with quiet(self._clean):
            await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _transport(url: httpx2.URL, timeouts: Timeouts) -> httpx2.AsyncHTTPTransport:

    # As many connections as there are requests: each stream keeps one, and how many run at once is decided elsewhere.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    proxy = _proxy(url)
    try:
        return keep(httpx2.AsyncHTTPTransport(limits=limits, proxy=proxy), timeouts)
    except (ValueError, ImportError) as error:
        raise ConnectFailed(f"The proxy that this machine is set to use cannot be used: {error}") from error


def _proxy(url: httpx2.URL) -> str | None:
    """The proxy that this machine is set to use, as for any program in Python; never for a server on itself."""
    if url.host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


# pyright: reportPrivateUsage=false


_PROBES: Final = 3
"""One may get lost."""
_LONGEST: Final = 32_767
"""Seconds between probes, as systems have it."""


def keep(transport: httpx2.AsyncHTTPTransport, timeouts: Timeouts) -> httpx2.AsyncHTTPTransport:
    """`transport`, which from now on closes what it opens, and notices when its packets vanish."""
    pool: Any = transport._pool  # noqa: SLF001 - pinned by a test
    pool._network_backend = _Backend(pool._network_backend, _probing(timeouts))  # noqa: SLF001 - see above
    return transport


def _probing(timeouts: Timeouts) -> list[tuple[int, int, int]]:
    """Socket options that break a quiet connection off as a ping would: `ping_interval` and `ping` seconds after the
    last sign of life, in whole seconds.
    """
    idle, between = _seconds(timeouts.ping_interval), _seconds(timeouts.ping / _PROBES)
    values = {
        "TCP_KEEPIDLE": idle,
        "TCP_KEEPALIVE": idle,  # What macOS calls it.
        "TCP_KEEPINTVL": between,
        "TCP_KEEPCNT": _PROBES,
    }
    known = [
        (socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in values.items() if hasattr(socket, name)
    ]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *known]


def _seconds(value: float) -> int:
    return math.ceil(min(value, _LONGEST))


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, inner: httpcore2.AsyncNetworkBackend, probing: list[tuple[int, int, int]]) -> None:
        self._inner = inner
        self._probing = probing
        self.connect_unix_socket = inner.connect_unix_socket
        self.sleep = inner.sleep

    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(*arguments, **options)
        for option in self._probing:
            with suppress(OSError):  # Not every system has all that Python knows of.
                stream.get_extra_info("socket").setsockopt(*option)
        start = stream.start_tls

        async def start_tls(*arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
            try:
                return await start(*arguments, **options)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
                raise

        stream.start_tls = start_tls
        return stream
