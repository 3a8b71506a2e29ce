"""Which IP addresses may be connected to.

    refusal(address, allowed) -> why not, or None
    real(address)             -> the address that is meant: IPv6 forms that only wrap an IPv4 address are unwrapped

Only addresses of the public internet are. The tables are written out (after IANA's registries of special addresses)
instead of left to `ipaddress`, whose answers differ between versions of Python. What is allowed beside them is named as
networks; an address where clouds keep credentials has to be named alone (`/32`, `/128`), never as a part of more.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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
