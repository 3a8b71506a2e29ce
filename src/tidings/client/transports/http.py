"""Streamable HTTP and SSE, watched: sign-in, sockets, and the outcome of each exchange, which the SDK does not pass on.

The only file with httpx's private parts. Of the older transport (one stream of events for everything that arrives, and
a POST for each message), the SDK's own accepts no event above 1 MiB, and lets a sender wait forever if its POST fails.
Here a POST that is refused fails that message alone; one that cannot be sent ends the transport.
"""

import asyncio
import functools
import logging
import math
import socket
import ssl
import urllib.request
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import urljoin

import anyio
import httpcore2
import httpx2
import mcp_types as types
from anyio.abc import AsyncResource, TaskStatus
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR

from tidings.changes import KEEP_ALIVE_HEADER
from tidings.client import sdk_seam
from tidings.client.config import ClientConfig, Timeouts
from tidings.client.http_health import HttpHealth, stated_interval
from tidings.client.masking import shown_url
from tidings.client.queue import QueueEntry
from tidings.client.sdk_seam import Clean, TransportStreams, WriteStream, quiet
from tidings.client.targets import HttpTarget
from tidings.client.transports.tap import ENCODING, BoundedTransport, TapReporter, body_of, headers_of, words_in
from tidings.errors import ConnectFailed, MalformedMessage, MessageTooLarge, NotAuthorized, SignInNeeded

logger = logging.getLogger(__name__)

# The call for which a message is sent. The sender sets it; a `HttpHealth` gets it with the outcome.
current_call: ContextVar[QueueEntry | None] = ContextVar("tidings_client_call", default=None)
_CONNECT_SECONDS: Final = 30.0
_ENDING_SECONDS: Final = 1.5  # To end the sessions, and before that for the answer that names one.
_MOST_SESSIONS: Final = 8  # A server that opens more than one, such as by mistake for each request, is odd.
_INITIALIZE: Final = b'"method":"initialize"'
_PROBES: Final = 3
_LONGEST_PROBING: Final = 32_767  # Seconds between probes that systems allow.
_SESSION: Final = MCP_SESSION_ID.encode()
_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
_KEEP_ALIVE: Final = KEEP_ALIVE_HEADER.encode()
_SESSION_PARAMETERS: Final = {"sessionId", "session_id"}
# A server with one of these answers to the first message may know only the older transport.
MAY_BE_SSE: Final = (400, 404, 405, 406, 415)
_NEVER_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


@asynccontextmanager
async def open_transport(
    target: HttpTarget,
    config: ClientConfig,
    *,
    watch: HttpHealth,
    kind: Literal["http", "sse"] | None = None,
    tap: TapReporter | None = None,
) -> AsyncGenerator[TransportStreams]:
    """Connects to `target`, and yields the streams for the SDK. `kind`: the transport, if not the target's own."""
    url = httpx2.URL(target.url)
    plain = str(url.copy_with(userinfo=b""))  # The SDK logs it.
    timeouts, max_message = config.timeouts, config.max_message
    headers = httpx2.Headers({"accept-encoding": ENCODING})
    headers.update(target.headers)
    auth = None if target.auth is None else _SignIn(target.auth, watch, timeouts.answer)
    if auth is None and url.userinfo:
        auth = httpx2.BasicAuth(url.username, url.password)
    transport = BoundedTransport(_transport(url, timeouts), max_message, tap)
    with quiet(target.clean):
        async with _WatchedClient(target, watch, timeouts, headers=headers, auth=auth, transport=transport) as client:
            if (kind or target.kind) == "sse":
                streams = sse_streams(plain, client, max_message)
            else:
                streams = streamable_http_client(
                    plain, http_client=client, terminate_on_close=False, max_sse_event_size=max_message
                )
            try:
                async with streams as (read, write):
                    yield read, _QuietWriter(write, target.clean)
            finally:
                await client.end_sessions(plain)


class _WatchedClient(httpx2.AsyncClient):
    """Reports the outcome of each message to a `HttpHealth`, whatever signing in took."""

    def __init__(self, target: HttpTarget, watch: HttpHealth, timeouts: Timeouts, **options: Any) -> None:
        # The sender of a request limits its time; and a stream may be silent for hours.
        super().__init__(timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None), **options)
        self._target = target
        self._watch = watch
        self._timeouts = timeouts
        self._accepted = False  # True if the server has accepted a message.
        self._keep_alive: float | None = None  # Seconds. If the server states them, it begins every stream at once.
        self._sessions: dict[bytes, bytes] = {}  # Those that the server opened, with the version of the protocol.

    async def end_sessions(self, url: str) -> None:
        """Ends the server's sessions. The SDK would send the DELETE from a scope that may be cancelled."""
        with anyio.move_on_after(_ENDING_SECONDS, shield=True):
            for session, version in self._sessions.items():
                headers = {_SESSION: session, **({_VERSION: version} if version else {})}
                with suppress(Exception):  # A server that is away, or keeps its sessions, concerns nobody here.
                    await sdk_seam.request_within_origin(self, "DELETE", url, headers=headers)

    def _note_session(self, request: httpx2.Request, response: httpx2.Response) -> None:
        sent = headers_of(request)
        used = sent.get(_SESSION)
        if used and response.status_code == 404:
            self._sessions.pop(used, None)
        elif session := headers_of(response).get(_SESSION) or used:
            self._sessions[session] = sent.get(_VERSION, b"")
            if len(self._sessions) > _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    async def _initialize(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends the request that opens a session. If cancelled, waits briefly: the answer names the session to end."""
        sending = asyncio.ensure_future(super().send(request, **options))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((sending,), timeout=_ENDING_SECONDS)
                if not sending.done():
                    sending.cancel()
                    await asyncio.wait((sending,))
                elif sending.exception() is None:
                    self._note_session(request, sending.result())
                    await sending.result().aclose()
            raise

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":  # The end of a session, whose outcome says nothing about the connection.
            return await super().send(request, **options)
        call = current_call.get()
        head = request.content[:200] if request.method == "POST" else b""
        opens = _INITIALIZE in head
        # A notification or an answer has a limit; a request has that of its sender. The SDK sends no other message
        # until the server has accepted it. Many servers do one thing at a time, so it may take as long as a request.
        # Somebody who has to sign in may take longer.
        is_request = b'"id"' in head and b'"method"' in head
        limit = None if is_request or not head or self._target.auth else self._timeouts.request
        try:
            with self._watch.stream_asked(request.method, self._keep_alive):
                async with nullcontext() if limit is None else asyncio.timeout(limit):
                    sending = self._initialize(request, **options) if opens else super().send(request, **options)
                    response = await sending
        except NotAuthorized as error:
            if not self._accepted:
                raise
            # The SDK would end the connection, though only this message was refused.
            response = _refusal(request, error)
        except Exception as error:
            if limit is not None and isinstance(error, TimeoutError):
                self._watch.stuck(limit)
            self._watch.failed(call, request.method, error, sent=not isinstance(error, _NEVER_SENT))
            raise
        self._note_session(request, response)
        headers = headers_of(response)
        interval = stated_interval(headers.get(_KEEP_ALIVE))
        self._keep_alive = interval or self._keep_alive
        target = self._target  # Any header may identify the user.
        if response.status_code == 401 and not (target.headers or target.auth or httpx2.URL(target.url).userinfo):
            wanted = await _token_wanted(response, target)
            if request.method == "GET" and not self._accepted:
                raise wanted  # The older transport begins with its stream, and no message could carry the refusal.
            response = _refusal(request, wanted)
        # The older transport names its session in the URL.
        has_session = _SESSION in headers_of(request) or (
            bool(request.url.query) and bool(_SESSION_PARAMETERS & request.url.params.keys())
        )
        self._watch.asked_to_wait(response.status_code, headers.get(b"retry-after", b"").decode("latin-1"))
        self._watch.responded(call, request.method, response.status_code, has_session=has_session)
        self._accepted = self._accepted or response.is_success
        if (body := body_of(response)) is not None:
            body.on_failure = lambda error: self._watch.failed(call, request.method, error, sent=True)
            if body.is_stream and response.is_success:
                silence = self._watch.stream_open(call, request.method, interval)
                body.on_data = silence.heard if silence is not None else body.on_data
                body.on_end = lambda: self._watch.stream_over(request.method, silence)
        return response


@dataclass(eq=False, repr=False)
class _SignIn(httpx2.Auth):
    """An `auth` object, watched while it signs in. Whatever it raises becomes `NotAuthorized`."""

    inner: httpx2.Auth
    watch: HttpHealth
    seconds: float

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self.inner.async_auth_flow(request)
        refused = False
        call = current_call.get()
        try:
            # It may admit one request at a time, and hold this one back for as long as another takes.
            self.watch.held_back(call, is_so=True)
            outgoing = await anext(flow)
            self.watch.held_back(call, is_so=False)
            while True:
                response = yield outgoing
                refused = refused or response.status_code in (401, 403)
                if refused and request.method == "DELETE":
                    return  # Nobody signs in to end a session.
                outgoing = await (self._signing_in(flow.asend(response)) if refused else flow.asend(response))
        except StopAsyncIteration:
            return
        except (httpx2.TransportError, SignInNeeded):
            raise  # The former is unreachable, and refuses nothing.
        except Exception as error:
            raise NotAuthorized(f"Signing in failed: {error or type(error).__name__}") from error
        finally:
            await flow.aclose()

    async def _signing_in(self, step: Awaitable[httpx2.Request]) -> httpx2.Request:
        call = current_call.get()
        self.watch.signing_in(call, busy=True)
        try:
            async with asyncio.timeout(self.seconds):
                return await step
        except TimeoutError:
            raise TimeoutError(f"it took longer than {self.seconds:g} s (Timeouts.answer)") from None
        finally:
            self.watch.signing_in(call, busy=False)


async def _token_wanted(response: httpx2.Response, to: HttpTarget) -> SignInNeeded:
    """Returns the error for a server that wants credentials and got none, with the server's own words."""
    words = ""
    if (body := body_of(response)) is not None and not body.is_stream:
        with suppress(TimeoutError, httpx2.TransportError, httpx2.StreamError):
            async with asyncio.timeout(1.0):
                words = words_in(response.headers.get("content-type", ""), await response.aread())
    await response.aclose()
    said = f" It says: {words}" if words else ""
    cure = f'Run `tidings sign-in {shown_url(to.url)}`, or pass a token: connect(url, token="...").'
    return SignInNeeded(f"The server wants a sign-in, and no token was sent (HTTP 401). {cure}{said}", server=to.name)


def _refusal(request: httpx2.Request, error: NotAuthorized) -> httpx2.Response:
    details = {"code": INTERNAL_ERROR, "message": error.message, "data": {"code": error.code}}
    return httpx2.Response(401, json={"jsonrpc": "2.0", "id": None, "error": details}, request=request)


@dataclass(eq=False, repr=False)
class _QuietWriter(AsyncResource):
    """Writes to the SDK, whose transport logs in the context of the sender."""

    inner: WriteStream[SessionMessage]
    clean: Clean

    async def send(self, item: SessionMessage, /) -> None:
        with quiet(self.clean):
            await self.inner.send(item)

    async def aclose(self) -> None:
        await self.inner.aclose()


def _transport(url: httpx2.URL, timeouts: Timeouts) -> httpx2.AsyncHTTPTransport:
    # As many connections as there are requests: each stream keeps one, and the queue limits the requests.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    try:
        return watch_sockets(httpx2.AsyncHTTPTransport(verify=_tls(), limits=limits, proxy=_proxy(url)), timeouts)
    except (ValueError, ImportError) as error:
        raise ConnectFailed(f"The proxy in this machine's settings cannot be used: {error}") from error


@functools.cache
def _tls() -> ssl.SSLContext:
    """Returns the settings that all connections share: loading the certificates takes 40 ms and 0.7 MB each time."""
    return httpx2.create_ssl_context()


def _proxy(url: httpx2.URL) -> str | None:
    """Returns the proxy in this machine's settings, as Python reads them; never for a server on this machine."""
    if url.host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


# Sockets. httpx offers no public way to set options on them, or to close one in the middle of a TLS handshake.


def watch_sockets(transport: httpx2.AsyncHTTPTransport, timeouts: Timeouts) -> httpx2.AsyncHTTPTransport:
    """Makes a transport close every socket, also after a broken TLS handshake, and notice a dead network.

    A busy server answers no ping either, but its operating system does: silent connections are probed by it.
    (`TCP_USER_TIMEOUT` would count a full buffer as silence.)
    """
    pool: Any = getattr(transport, "_pool", None)
    backend: Any = getattr(pool, "_network_backend", None)
    if backend is None:
        logger.warning("this version of httpx2 is not known: dead networks are noticed later than they could be")
        return transport
    connect, socket_options = backend.connect_tcp, _probing(timeouts)

    async def connect_tcp(*arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        stream = await connect(*arguments, **options)
        for option in socket_options:
            with suppress(OSError):  # Not every system supports every option that Python knows.
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

    backend.connect_tcp = connect_tcp
    return transport


def _probing(timeouts: Timeouts) -> list[tuple[int, int, int]]:
    """Returns the socket options that break off a silent connection as fast as pings would, in whole seconds."""
    seconds = (timeouts.ping_interval, timeouts.ping / _PROBES)
    idle, between = (math.ceil(min(value, _LONGEST_PROBING)) for value in seconds)
    # On macOS, the first is called TCP_KEEPALIVE.
    values = {"TCP_KEEPIDLE": idle, "TCP_KEEPALIVE": idle, "TCP_KEEPINTVL": between, "TCP_KEEPCNT": _PROBES}
    known = {getattr(socket, name): value for name, value in values.items() if hasattr(socket, name)}
    options = [(socket.IPPROTO_TCP, option, value) for option, value in known.items()]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options]


# The older transport.

_Read = sdk_seam.ContextSendStream[SessionMessage | Exception]
_Written = sdk_seam.ContextReceiveStream[SessionMessage]


@asynccontextmanager
async def sse_streams(
    url: str, client: httpx2.AsyncClient, max_message: int
) -> AsyncGenerator[sdk_seam.TransportStreams]:
    """Connects to the stream of events at `url`, and yields the streams for the SDK."""
    async with sdk_seam.sse_within_origin(client, url, max_event_size=max_message) as source:
        source.response.raise_for_status()
        read_writer, read = sdk_seam.create_context_streams[SessionMessage | Exception](0)
        write, written = sdk_seam.create_context_streams[SessionMessage](0)
        async with read_writer, read, write, written, anyio.create_task_group() as tasks:
            endpoint: str = await tasks.start(_receive, source, url, read_writer)
            tasks.start_soon(_send, client, endpoint, written, read_writer)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()


async def _receive(source: httpx2.EventSource, url: str, read: _Read, *, task_status: TaskStatus[str]) -> None:
    """Passes on each message. Has started when the server has named the address for messages."""
    endpoint: str | None = None
    async with read:
        try:
            async for event in source:
                if event.event == "endpoint" and endpoint is None:
                    endpoint = _same_origin(url, event.data)
                    task_status.started(endpoint)
                elif event.event == "message" and event.data and endpoint is not None:
                    await read.send(_parsed(event.data))
        except httpx2.SSEError as error:
            if endpoint is None:
                raise
            await read.send(MessageTooLarge(f"{error} Raise ClientConfig.max_message, or ask for less."))
        except httpx2.HTTPError:
            if endpoint is None:
                raise
            # The `HttpHealth` has it. For the session, the stream ends.
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # The session is over.
    if endpoint is None:
        text = "The server ended its stream of events before it named the address for messages."
        cure = "Is it an MCP server with the SSE transport, and is this the address of its stream?"
        raise ConnectFailed(f"{text} {cure}")


def _same_origin(url: str, data: str) -> str:
    """Returns the address for messages. On another host, credentials would leak, so it is refused."""
    endpoint = urljoin(url, data)
    here, there = httpx2.URL(url), httpx2.URL(endpoint)
    if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
        text = f"The server wants its messages sent to another host, {there.host}, which is refused."
        raise MalformedMessage(f"{text} This is a fault of the server, or of a proxy before it.")
    return endpoint


def _parsed(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error


async def _send(client: httpx2.AsyncClient, endpoint: str, written: _Written, read: _Read) -> None:
    """Posts each message. Requests and answers go at the same time; a request precedes what cancels it."""
    under_way: dict[types.RequestId, anyio.Event] = {}
    post = partial(_post, client, endpoint, read)

    async def request(message: SessionMessage, number: types.RequestId, taken: anyio.Event) -> None:
        await post(message)
        taken.set()
        if under_way.get(number) is taken:
            del under_way[number]

    async def cancellation(message: SessionMessage, taken: anyio.Event) -> None:
        await taken.wait()
        await post(message)

    async with written, anyio.create_task_group() as posts:
        async for message in written:
            # The sender's context variables hold for its message, too.
            context = written.last_context or copy_context()
            match message.message:
                case types.JSONRPCRequest(id=number, method=method) if method != "initialize":
                    under_way[number] = taken = anyio.Event()
                    context.run(posts.start_soon, request, message, number, taken)
                case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": number}) if (
                    taken := under_way.get(number)
                ):
                    context.run(posts.start_soon, cancellation, message, taken)
                case types.JSONRPCResponse() | types.JSONRPCError():
                    context.run(posts.start_soon, post, message)
                case _:
                    async with anyio.create_task_group() as one:
                        context.run(one.start_soon, post, message)


async def _post(client: httpx2.AsyncClient, endpoint: str, read: _Read, message: SessionMessage) -> None:
    body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
    response = await sdk_seam.request_within_origin(
        client, "POST", endpoint, content=body, headers={"content-type": "application/json"}
    )
    if response.is_success or not isinstance(message.message, types.JSONRPCRequest):
        return
    gone = response.status_code == 404
    error = types.ErrorData(
        code=types.INVALID_REQUEST if gone else types.INTERNAL_ERROR,
        message="Session terminated" if gone else f"Server returned an error response ({response.status_code})",
    )
    refusal = types.JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # The session is over.
        await read.send(SessionMessage(refusal))
