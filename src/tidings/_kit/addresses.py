"""The SSRF rules: the ports and addresses that may be connected to. `tidings._kit.address_guard` applies them.

Only addresses of the public internet are allowed. The tables are written out after IANA's registries of special
addresses, because the answers of `ipaddress` differ between versions of Python. `allow_private` adds networks; an
address that serves cloud credentials must be listed alone (`/32`, `/128`), never as a part of a larger network.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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
