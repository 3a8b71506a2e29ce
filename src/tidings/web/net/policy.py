"""What may be fetched at all: domains, ports and addresses, as the operator has it.

With `allow_domains` nothing else is fetched. `example.org` stands for itself and all below it, `*.example.org` for what
is below it only. `block_domains` wins over `allow_domains`. Neither opens a private address: `allow_private` does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidings.web.net.addresses import Address, Network, refusal
from tidings.web.net.urls import host_of

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
class Policy:
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
) -> Policy:
    """The policy of these, the domains in the form that URLs have them.

    Raises:
        ValueError: One is no domain.
    """
    return Policy(tuple(allow_private), tuple(map(_domain, allow_domains)), tuple(map(_domain, block_domains)))


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
