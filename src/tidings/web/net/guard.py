"""The one way to a socket.

    connect(host, port) -> a stream to an address of the host that was vetted

A name is resolved once; every address of the answer is judged, and one that is refused refuses the host, since an
answer that mixes public and private addresses has no honest reason. The connection goes to an address that was judged,
never to the name again, so that a second answer (rebinding) is never asked for. TLS is spoken with the name by whoever
asked for the stream.

`Guard` is a network backend for httpcore, which has no other way out.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any, cast

import anyio
import anyio.to_thread
import httpcore2

from tidings.web.net.addresses import Address, real
from tidings.web.net.policy import Policy

Resolver = Callable[[str], Awaitable[Sequence[Address]]]
"""From a host name to its addresses, best first. Raises `OSError` (`socket.gaierror`) if there are none."""

CONNECT_TIMEOUT = 10.0
"""Seconds for one address to answer, should the request have more."""
ADDRESS = "vetted_address"
"""By this name a stream tells the address that it leads to."""
_HEAD_START = 0.25
"""Seconds that an address has before the next one is tried beside it."""
_MOST_TRIED = 6
_LOOKUPS_AT_ONCE = 16


class Refused(Exception):
    """Nothing may be fetched from there. The text says why, and the cure."""


class NoSuchHost(Exception):
    """The name has no addresses: `again` if that may be otherwise in a moment."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


class Lookup:
    """The system's resolver, in threads of its own: names that are slow to resolve hold up no other work."""

    def __init__(self) -> None:
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, host: str) -> Sequence[Address]:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_LOOKUPS_AT_ONCE)
        found = await anyio.to_thread.run_sync(_getaddrinfo, host, abandon_on_cancel=True, limiter=self._threads)
        return list(dict.fromkeys(ip_address(answer[4][0]) for answer in found))


def _getaddrinfo(host: str) -> "list[tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]]":
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)  # pyright: ignore[reportReturnType]


class Guard(httpcore2.AsyncNetworkBackend):
    """Connects to what the policy allows."""

    def __init__(self, policy: Policy, resolver: Resolver | None = None) -> None:
        self._policy = policy
        self._resolve = resolver or Lookup()
        self._plain = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def vetted(self, host: str, port: int) -> list[Address]:
        """The addresses of `host`, all of them good.

        Raises:
            Refused: The host, the port or one of the addresses is not allowed.
            NoSuchHost: There are none.
        """
        if reason := self._policy.refuses(host, port):
            raise Refused(reason)
        addresses = await self._addresses(host)
        for address in addresses:
            if reason := self._policy.refuses_address(host, address):
                raise Refused(reason)
        return [real(address) for address in addresses]

    async def _addresses(self, host: str) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        try:
            addresses = await self._resolve(host)
        except socket.gaierror as error:
            again = error.errno == socket.EAI_AGAIN
            raise NoSuchHost(f"the name {host} cannot be resolved ({error.strerror})", again=again) from None
        except (OSError, UnicodeError) as error:
            raise NoSuchHost(f"the name {host} cannot be resolved ({error})", again=False) from None
        if not addresses:
            raise NoSuchHost(f"the name {host} has no addresses", again=False)
        return addresses

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A stream to the first vetted address that answers."""
        addresses = await self.vetted(host, port)
        return await self._first_of(_alternating(addresses)[:_MOST_TRIED], port)

    async def connect_unix_socket(self, *args: object, **kwargs: object) -> httpcore2.AsyncNetworkStream:
        """There is no way to such a socket."""
        raise Refused("local sockets are not of the web")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _connect(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._plain.connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT), address)

    async def _first_of(self, addresses: Sequence[Address], port: int) -> httpcore2.AsyncNetworkStream:
        if len(addresses) == 1:
            return await self._connect(addresses[0], port)
        race = _Race(self._connect, port)
        try:
            await race.run(addresses)
        except BaseException:
            await race.forget()
            raise
        return race.result()


class _Stream(httpcore2.AsyncNetworkStream):
    """A stream that knows where it leads. It is closed when TLS cannot be begun on it, also when that is called off."""

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
        return _Stream(secure, self._address)

    def get_extra_info(self, info: str) -> Any:
        # Not the socket's word: it has none any more when the other end is gone.
        return self._address if info == ADDRESS else self._stream.get_extra_info(info)


class _Race:
    """Tries addresses one after the other, each with a head start; the first stream wins."""

    def __init__(self, connect: Callable[[Address, int], Awaitable[httpcore2.AsyncNetworkStream]], port: int) -> None:
        self._connect = connect
        self._port = port
        self._won: httpcore2.AsyncNetworkStream | None = None
        self._failure: Exception | None = None

    async def run(self, addresses: Sequence[Address]) -> None:
        async with anyio.create_task_group() as tasks:
            for address in addresses:
                done = anyio.Event()
                tasks.start_soon(self._try, address, done, tasks.cancel_scope)
                with anyio.move_on_after(_HEAD_START):
                    await done.wait()

    async def _try(self, address: Address, done: anyio.Event, scope: anyio.CancelScope) -> None:
        try:
            stream = await self._connect(address, self._port)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            self._failure = self._failure or error
        else:
            if self._won is None:
                self._won = stream
                scope.cancel()
            else:
                await stream.aclose()
        done.set()

    async def forget(self) -> None:
        """Close what was won, as nobody is there to take it."""
        if self._won is not None:
            with anyio.CancelScope(shield=True):
                await self._won.aclose()

    def result(self) -> httpcore2.AsyncNetworkStream:
        """The stream that won.

        Raises:
            httpcore2.ConnectError: No address answered; or `httpcore2.ConnectTimeout`.
        """
        if self._won is not None:
            return self._won
        raise self._failure or httpcore2.ConnectError("no address answered")


def _alternating(addresses: Sequence[Address]) -> list[Address]:
    # A network whose IPv6 (or IPv4) leads nowhere costs one head start that way, not one for each address.
    first = [address for address in addresses if address.version == addresses[0].version]
    other = [address for address in addresses if address.version != addresses[0].version]
    pairs = [pair for both in zip(first, other, strict=False) for pair in both]
    return pairs + first[len(other) :] + other[len(first) :]
