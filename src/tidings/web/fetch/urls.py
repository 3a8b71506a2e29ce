"""URLs that can be fetched, normalised: equivalent URLs have one form; and which of them may be.

    parse("HTTP://Bücher.example:80/a/../b?c#d") -> Url, as text "http://xn--bcher-kva.example/b?c"

Every notation of an IP address that browsers accept (decimal, octal, hexadecimal, short, full-width) becomes the
address itself, so that the address that is checked is the one that is connected to. Anything that two parsers could
read as different hosts is refused, not repaired: user names, backslashes, control characters, NUL in any encoding.

In a `FetchPolicy`, `example.org` covers itself and its subdomains, `*.example.org` only the subdomains. `block_domains`
wins over `allow_domains`. Neither opens a private address: `tidings._kit.addresses` has those.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote_to_bytes, urljoin

import idna

from tidings._kit.addresses import Address, AddressPolicy, Network
from tidings.web.fetch.request import BadUrl

MAX_LENGTH = 16_384
DEFAULT_PORTS = {"http": 80, "https": 443}

_SPLIT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_UNRESERVED = r"A-Za-z0-9._~\-"
_ESCAPED_OR_UNSAFE_IN_PATH = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED}!$&'()*+,;=:@/%]")
_ESCAPED_OR_UNSAFE_IN_QUERY = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED}!$&'()*+,;=:@/%?]")
_IS_UNRESERVED = re.compile(rf"[{_UNRESERVED}]")


@dataclass(frozen=True)
class Url:
    """A normalised URL. `str()` returns it as text."""

    scheme: str
    host: str  # lower case ASCII; an IPv6 address has no brackets
    port: int
    target: str  # path and query, escaped

    @property
    def authority(self) -> str:
        """The host, with the port unless it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: the scope of a robots.txt."""
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.target

    def trusts(self, other: "Url") -> bool:
        """Returns whether headers for this URL may be sent to `other`: same origin, or upgraded to https."""
        upgraded = (self.scheme, self.port, other.scheme, other.port) == ("http", 80, "https", 443)
        return self.host == other.host and (self.origin == other.origin or upgraded)


def parse(url: str) -> Url:
    """Returns the URL in `url`. Raises `BadUrl`, which says why it cannot be fetched."""
    try:
        return _parse(url.strip(" \t\r\n"))
    except ValueError as error:
        raise BadUrl(f"{shown(url)} cannot be fetched: {error}", url=url) from None


def join(base: Url, location: str) -> Url:
    """Returns the URL that `location`, found at `base`, points to. Raises `BadUrl`."""
    location = location.strip(" \t\r\n")
    try:
        _check_text(location)
        return _parse(urljoin(str(base), location))
    except ValueError as error:
        message = f"{base} redirects to {shown(location)}, which cannot be fetched: {error}"
        raise BadUrl(message, url=str(base)) from None


def shown(text: str) -> str:
    """Returns text for an error message: short, on one line, with unprintable characters escaped."""
    cut = text if len(text) <= 200 else text[:199] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut) or "an empty URL"


def host_of(text: str) -> str:
    """Returns the normalised host: a lower-case ASCII domain without a final dot, or an address. Raises ValueError."""
    if text.startswith("["):
        inside = text[1:-1] if text.endswith("]") else ""
        if "%" in inside:
            raise ValueError("its address has a zone; remove the % and everything after it")
        try:
            return IPv6Address(inside).compressed
        except AddressValueError:
            raise ValueError(f"{shown(text)!r} is not an IPv6 address") from None
    if len(text) > 1_000:
        raise ValueError("its host name is too long")
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise ValueError("its host name is not UTF-8") from None
    host = _ascii(decoded).removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_ipv4(labels))
    if not host or len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{shown(host)!r} is not a host name")
    return host


def _parse(text: str) -> Url:
    _check_text(text)
    match = _SPLIT.fullmatch(text)
    if match is None or (match[2] is None and match[1].lower() in DEFAULT_PORTS):
        raise ValueError("it is not a complete URL; write it like https://example.org/page")
    scheme = match[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"only http and https are supported, not {scheme}")
    if "@" in match[3]:
        raise ValueError("it contains a user name; remove it, and send an Authorization header if one is needed")
    host, port = match[3], ""
    if ":" in host[host.rfind("]") + 1 :]:
        host, _, port = host.rpartition(":")
    if not host:
        raise ValueError("it names no host")
    if port and not (_PORT.fullmatch(port) and 0 < int(port) < 65_536):
        raise ValueError(f"{shown(port)!r} is not a port; use a number from 1 to 65535")
    path = _without_dots(_escaped(match[4], _ESCAPED_OR_UNSAFE_IN_PATH))
    query = _escaped(match[5] or "", _ESCAPED_OR_UNSAFE_IN_QUERY) if match[5] != "?" else ""
    return Url(scheme, host_of(host), int(port) if port else DEFAULT_PORTS[scheme], path + query)


def _check_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH:,} characters")
    if _CONTROL.search(text):
        raise ValueError("it contains control characters; remove them")
    before_fragment = text.partition("#")[0]
    if "\\" in before_fragment.partition("?")[0]:
        raise ValueError("it contains a backslash; write / or %5C instead")
    if "%00" in before_fragment:
        raise ValueError("it contains a NUL character (%00); remove it")


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        # Turns full-width digits and dots into ASCII ones, so that an address is recognised as one.
        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return plain if plain.isascii() else idna.encode(plain).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(f"{shown(host)!r} is not a host name ({error})") from None


def _ipv4(labels: list[str]) -> IPv4Address:
    # Each part may be decimal, octal or hexadecimal; the last one fills the remaining bytes.
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        raise ValueError(f"{shown('.'.join(labels))!r} is not an IPv4 address")
    *parts, last = map(_number, labels)
    if any(part > 255 for part in parts) or last >= 256 ** (4 - len(parts)):
        raise ValueError(f"{shown('.'.join(labels))!r} is not an IPv4 address")
    return IPv4Address(sum(part << 8 * (3 - place) for place, part in enumerate(parts)) + last)


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and text.strip("01234567") == "":
        return int(text, 8)
    if text.startswith("0"):
        raise ValueError(f"{text!r} is not an octal number")
    return int(text)


def _escaped(text: str, pattern: re.Pattern[str]) -> str:
    def escape(match: re.Match[str]) -> str:
        found = match[0]
        if len(found) == 1:
            return f"%{ord(found):02X}"
        char = chr(int(found[1:], 16))
        return char if _IS_UNRESERVED.fullmatch(char) else found.upper()

    return pattern.sub(escape, text.encode().decode("latin-1"))


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:] or [""]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


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
