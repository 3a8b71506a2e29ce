"""The SSRF rules, and the only way to a socket: which ports and addresses may be connected to. A seam to httpcore.

Only addresses of the public internet are allowed. The tables are written out after IANA's registries of special
addresses, because the answers of `ipaddress` differ between versions of Python. `allow_private` adds networks; an
address that serves cloud credentials must be listed alone (`/32`, `/128`), never as a part of a larger network.

`Guard` is the network backend of httpcore. A name is resolved once, and every address of the answer is checked; one
refused address refuses the host, because an honest answer does not mix public and private addresses. The connection
goes to a checked address and the name is not resolved again, so a second, different answer (DNS rebinding) has no
effect.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import zip_longest
from typing import Any, cast

import anyio
import anyio.to_thread
import httpcore2

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_METADATA = frozenset(map(ip_address, (
    "169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192",
    "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
)))  # fmt: skip
"""The addresses from which cloud machines get credentials."""

_SPECIAL: Sequence[tuple[Network, str]] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this network"), ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's private network"), ("127.0.0.0/8", "this machine itself"),
        ("169.254.0.0/16", "the local link"), ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "a reserved network"), ("192.0.2.0/24", "a network for examples"),
        ("192.31.196.0/24", "a reserved network"), ("192.52.193.0/24", "a reserved network"),
        ("192.88.99.0/24", "a 6to4 relay"), ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "a reserved network"), ("198.18.0.0/15", "a network for measurements"),
        ("198.51.100.0/24", "a network for examples"), ("203.0.113.0/24", "a network for examples"),
        ("224.0.0.0/4", "a multicast group"), ("240.0.0.0/4", "a reserved network"),
        ("::/128", "no address at all"), ("::1/128", "this machine itself"),
        ("::/96", "an IPv4 address in an obsolete form"), ("64:ff9b:1::/48", "a private NAT64 network"),
        ("100::/64", "a network that discards"), ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "a reserved network"), ("2001:db8::/32", "a network for examples"),
        ("2002::/16", "a 6to4 tunnel"), ("3fff::/20", "a network for examples"), ("fc00::/7", "a private network"),
        ("fe80::/10", "the local link"), ("fec0::/10", "a private network"), ("ff00::/8", "a multicast group"),
    )
)  # fmt: skip
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def real(address: Address) -> Address:
    """Returns the IPv4 address in `::ffff:1.2.3.4` or `64:ff9b::1.2.3.4`, else the address without its zone."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv6Address(int(address))


def refusal(address: Address, allowed: Sequence[Network] = ()) -> str | None:
    """Returns the kind of a forbidden address, for example "a private network"; None for one that is allowed."""
    address = real(address)
    if address in _METADATA:
        listed = any(network.num_addresses == 1 and address in network for network in allowed)
        return None if listed else "an address that serves cloud credentials"
    if any(address in network for network in allowed):
        return None
    public = isinstance(address, IPv4Address) or address in _PUBLIC_V6
    return next((what for network, what in _SPECIAL if address in network), None if public else "a reserved network")


# One number a line would be unreadable.
# fmt: off
_NOT_WEB_PORTS = frozenset([
    # Browsers refuse these, because an HTTP request can be crafted to be valid in their protocols ...
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    # ... and these are databases and remote desktops.
    445, 1433, 1521, 3306, 3389, 5432, 5900, 6379, 11211, 27017,
])
# fmt: on


class AddressPolicy:
    """The ports and private networks that are allowed."""

    def __init__(self, allow_private: Iterable[Network] = ()) -> None:
        self.allow_private = tuple(allow_private)

    def refuses(self, host: str, port: int) -> str | None:
        """Returns why the host or the port is not allowed, and what to do; None if it is, before its addresses."""
        if port in _NOT_WEB_PORTS:
            return f"port {port} is not allowed, as it belongs to another protocol; use a port that serves HTTP"
        return None

    def refuses_address(self, host: str, address: Address) -> str | None:
        """Returns why this address of `host` is not allowed, and what to do; None if it is."""
        what = refusal(address, self.allow_private)
        if what is None:
            return None
        where = f"{address} is" if host == str(address) else f"{host} resolves to {address}, which is"
        return f"{where} {what}"


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
