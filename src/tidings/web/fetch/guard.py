"""The one way to a socket.

    connect(host, port) -> a stream to an address of the host that was vetted

A name is resolved once; every address of the answer is judged, and one that is refused refuses the host, since an
answer that mixes public and private addresses has no honest reason. The connection goes to an address that was judged,
never to the name again, so that a second answer (rebinding) is never asked for. TLS is spoken with the name by whoever
asked for the stream.

`Guard` is a network backend for httpcore, which has no other way out.

Which IP addresses may be connected to.

    refusal(address, allowed) -> why not, or None
    real(address)             -> the address that is meant: IPv6 forms that only wrap an IPv4 address are unwrapped

Only addresses of the public internet are. The tables are written out (after IANA's registries of special addresses)
instead of left to `ipaddress`, whose answers differ between versions of Python. What is allowed beside them is named as
networks; an address where clouds keep credentials has to be named alone (`/32`, `/128`), never as a part of more.

What may be fetched at all: domains, ports and addresses, as the operator has it.

With `allow_domains` nothing else is fetched. `example.org` stands for itself and all below it, `*.example.org` for what
is below it only. `block_domains` wins over `allow_domains`. Neither opens a private address: `allow_private` does.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, cast

import anyio
import anyio.to_thread
import httpcore2

from tidings.web.fetch.urls import host_of

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
"""Where machines in clouds get their credentials from."""

_SPECIAL_V4: Sequence[tuple[IPv4Network, str]] = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's private network"),
        ("127.0.0.0/8", "this machine itself"),
        ("169.254.0.0/16", "the local link"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "a reserved network"),
        ("192.0.2.0/24", "a network for examples"),
        ("192.31.196.0/24", "a reserved network"),
        ("192.52.193.0/24", "a reserved network"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "a reserved network"),
        ("198.18.0.0/15", "a network for measurements"),
        ("198.51.100.0/24", "a network for examples"),
        ("203.0.113.0/24", "a network for examples"),
        ("224.0.0.0/4", "a multicast group"),
        ("240.0.0.0/4", "a reserved network"),
    )
)

_SPECIAL_V6: Sequence[tuple[IPv6Network, str]] = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "no address at all"),
        ("::1/128", "this machine itself"),
        ("::/96", "an IPv4 address in an obsolete form"),
        ("64:ff9b:1::/48", "a private NAT64 network"),
        ("100::/64", "a network that discards"),
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "a reserved network"),
        ("2001:db8::/32", "a network for examples"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "a network for examples"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "the local link"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "a multicast group"),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def real(address: Address) -> Address:
    """The IPv4 address inside of `::ffff:1.2.3.4` and of `64:ff9b::1.2.3.4`; else the address, without a zone."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv6Address(int(address))


def refusal(address: Address, allowed: Sequence[Network] = ()) -> str | None:
    """What kind of address it is that it may not be connected to; None for one that may."""
    meant = real(address)
    if meant in _METADATA:
        named = any(network.num_addresses == 1 and meant in network for network in allowed)
        return None if named else "an address where a cloud keeps credentials"
    if any(meant in network for network in allowed):
        return None
    return _special(meant)


def _special(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((what for network, what in _SPECIAL_V4 if address in network), None)
    found = next((what for network, what in _SPECIAL_V6 if address in network), None)
    return found or (None if address in _PUBLIC_V6 else "a reserved network")


def network(text: str) -> Network:
    """The network that `text` names: `10.0.0.0/8`, or one address.

    Raises:
        ValueError: It names none; the text says how one is written.
    """
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is no network ({error}); write it like 10.0.0.0/8 or fd00::/8") from None


# One number a line would be unreadable.
# fmt: off
_NOT_WEB_PORTS = frozenset([
    # What browsers refuse, since an HTTP request can be made to say something in those protocols, ...
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    # ... and databases and desktops, which answer to whoever knocks.
    445, 1433, 1521, 3306, 3389, 5432, 5900, 6379, 11211, 27017,
])
# fmt: on


@dataclass(frozen=True)
class FetchPolicy:
    """What is allowed and what is not. Make one with `policy`."""

    allow_private: Sequence[Network] = ()
    allow_domains: Sequence[str] = ()
    block_domains: Sequence[str] = ()

    def refuses(self, host: str, port: int) -> str | None:
        """Why nothing may be fetched from there, and the cure; None if it may, should its addresses be good."""
        if port in _NOT_WEB_PORTS:
            return f"port {port} is not one of the web; fetch from a port that serves HTTP"
        if any(_covers(domain, host) for domain in self.block_domains):
            return f"the domain {host} is blocked here; the operator can take it out of --block-domain"
        if self.allow_domains and not any(_covers(domain, host) for domain in self.allow_domains):
            listed = ", ".join(self.allow_domains[:5]) + (", …" if len(self.allow_domains) > 5 else "")
            cure = "the operator can add it with --allow-domain"
            return f"the domain {host} is not among those allowed here ({listed}); {cure}"
        return None

    def refuses_address(self, host: str, address: Address) -> str | None:
        """Why this address of `host` may not be connected to, and the cure; None if it may."""
        what = refusal(address, self.allow_private)
        if what is None:
            return None
        where = f"{address} is" if host == str(address) else f"{host} leads to {address}, which is"
        return f"{where} {what}; to fetch from there, the operator has to allow it with --allow-private"


def policy(
    allow_private: Iterable[Network] = (), allow_domains: Iterable[str] = (), block_domains: Iterable[str] = ()
) -> FetchPolicy:
    """The policy of these, the domains in the form that URLs have them.

    Raises:
        ValueError: One is no domain.
    """
    return FetchPolicy(tuple(allow_private), tuple(map(_domain, allow_domains)), tuple(map(_domain, block_domains)))


def _domain(text: str) -> str:
    below = text.strip().startswith(("*.", "."))
    try:
        host = host_of(text.strip().removeprefix("*").removeprefix("."))
    except ValueError as error:
        raise ValueError(f"{text!r} is no domain: {error}; write it like example.org or *.example.org") from None
    return f"*.{host}" if below else host


def _covers(domain: str, host: str) -> bool:
    if domain.startswith("*."):
        return host.endswith(domain[1:])
    return host == domain or host.endswith(f".{domain}")


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


class AddressRefused(Exception):
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

    def __init__(self, policy: FetchPolicy, resolver: Resolver | None = None) -> None:
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
            raise AddressRefused(reason)
        addresses = await self._addresses(host)
        for address in addresses:
            if reason := self._policy.refuses_address(host, address):
                raise AddressRefused(reason)
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
        raise AddressRefused("local sockets are not of the web")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _connect(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return _GuardedStream(await self._plain.connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT), address)

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


class _GuardedStream(httpcore2.AsyncNetworkStream):
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
        return _GuardedStream(secure, self._address)

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
