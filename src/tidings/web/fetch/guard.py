"""`FetchPolicy`: which domains, ports and addresses may be fetched. `tidings._kit.addresses` has the addresses.

With `allow_domains` nothing else is fetched. `example.org` covers itself and its subdomains, `*.example.org` only the
subdomains. `block_domains` wins over `allow_domains`. Neither opens a private address.
"""

from collections.abc import Iterable

from tidings._kit.addresses import Address, AddressPolicy, Network
from tidings.web.fetch.urls import host_of


class FetchPolicy(AddressPolicy):
    """The domains, ports and private networks that are allowed. Raises ValueError for text that is not a domain."""

    def __init__(
        self,
        allow_private: Iterable[Network] = (),
        allow_domains: Iterable[str] = (),
        block_domains: Iterable[str] = (),
    ) -> None:
        super().__init__(allow_private)
        self.allow_domains = tuple(map(_domain, allow_domains))
        self.block_domains = tuple(map(_domain, block_domains))

    def refuses(self, host: str, port: int) -> str | None:
        """Returns why the host or the port is not allowed, and what to do; None if it is, before its addresses."""
        if reason := super().refuses(host, port):
            return reason
        if any(covers(domain, host) for domain in self.block_domains):
            return f"the domain {host} is blocked here; the operator can remove it from --block-domain"
        if self.allow_domains and not any(covers(domain, host) for domain in self.allow_domains):
            listed = ", ".join(self.allow_domains[:5]) + (", …" if len(self.allow_domains) > 5 else "")
            hint = "the operator can add it with --allow-domain"
            return f"the domain {host} is not among those allowed here ({listed}); {hint}"
        return None

    def refuses_address(self, host: str, address: Address) -> str | None:
        """Returns why this address of `host` is not allowed, and what to do; None if it is."""
        reason = super().refuses_address(host, address)
        return reason and f"{reason}; the operator can allow it with --allow-private"


def _domain(text: str) -> str:
    """Returns a domain as in URLs."""
    below = text.strip().startswith(("*.", "."))
    try:
        host = host_of(text.strip().removeprefix("*").removeprefix("."))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a valid domain name: {error}; write it like example.org or *.example.org"
        ) from None
    return f"*.{host}" if below else host


def covers(domain: str, host: str) -> bool:
    """Returns whether a host is one of a domain's."""
    if domain.startswith("*."):
        return host.endswith(domain[1:])
    return host == domain or host.endswith(f".{domain}")
