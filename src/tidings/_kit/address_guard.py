"""The only way to a socket for pages and webhooks: each connection goes to a checked address. A seam to httpcore.

A name is resolved once, and every address of the answer is checked: one refused address refuses the host, because an
honest answer does not mix public and private ones. The name is not resolved again, so a second, different answer (DNS
rebinding) has no effect.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any, cast

import anyio
import anyio.to_thread
import httpcore2

from tidings._kit.addresses import Address, AddressPolicy, real

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

    def __init__(
        self, policy: AddressPolicy, resolver: Resolver | None = None, proxy: tuple[str, int] | None = None
    ) -> None:
        self._policy = policy
        self._proxy = proxy
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

    async def _places(self, host: str, port: int) -> tuple[Sequence[Address], int]:
        if self._proxy is None:
            return await self.vetted(host, port), port
        # The operator chose the proxy: it may well be in a private network.
        host, port = self._proxy
        return await self._addresses(host), port

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Returns a stream to the first checked address that answers."""
        found, port = await self._places(host, port)
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
