"""URLs that can be fetched, in one form for all that mean the same.

    parse("HTTP://Bücher.example:80/a/../b?c#d") -> Url, as text "http://xn--bcher-kva.example/b?c"

Every way to write an address that browsers understand (decimal, octal, hexadecimal, short, full-width) becomes the
address itself, so that what is judged is what is connected to. What two readers could take for different hosts is
refused, not repaired: user names, backslashes, control characters, NUL in any disguise.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote_to_bytes, urljoin

import idna

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
    """A URL in its one form. `str()` gives it as text."""

    scheme: str
    host: str
    """In lower case and ASCII; an IPv6 address without its brackets."""
    port: int
    target: str
    """Path and query, as they are sent."""

    @property
    def authority(self) -> str:
        """Host, and the port if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a robots.txt speaks for."""
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.target

    def at(self, target: str) -> "Url":
        """Another page of the same origin."""
        return Url(self.scheme, self.host, self.port, target)

    def trusts(self, other: "Url") -> bool:
        """Whether what was meant for this URL may be sent to `other`: the same origin, or the same host made secure."""
        made_secure = (self.scheme, self.port, other.scheme, other.port) == ("http", 80, "https", 443)
        return self.host == other.host and (self.origin == other.origin or made_secure)


def parse(url: str) -> Url:
    """The URL that `url` writes.

    Raises:
        BadUrl: It is none that can be fetched; the text says why.
    """
    try:
        return _parse(url.strip(" \t\r\n"))
    except ValueError as error:
        raise BadUrl(f"{shown(url)} cannot be fetched: {error}", url=url) from None


def join(base: Url, location: str) -> Url:
    """The URL that `location`, found at `base`, leads to.

    Raises:
        BadUrl: As for `parse`.
    """
    location = location.strip(" \t\r\n")
    try:
        _check_text(location)
        return _parse(urljoin(str(base), location))
    except ValueError as error:
        message = f"{base} leads on to {shown(location)}, which cannot be fetched: {error}"
        raise BadUrl(message, url=str(base)) from None


def shown(text: str) -> str:
    """The text as an error may quote it: short, on one line, nothing in it that cannot be seen."""
    cut = text if len(text) <= 200 else text[:199] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut) or "an empty URL"


def host_of(text: str) -> str:
    """The one form of a host: a domain in lower case and ASCII without a dot at its end, or an address.

    Raises:
        ValueError: It is none; the text says why.
    """
    if text.startswith("["):
        return _ipv6(text)
    host = _ascii(_decoded(text)).removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_ipv4(labels))
    if not host or len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{shown(host)!r} is no host name")
    return host


def _parse(text: str) -> Url:
    _check_text(text)
    match = _SPLIT.fullmatch(text)
    if match is None or (match[2] is None and match[1].lower() in DEFAULT_PORTS):
        raise ValueError("it is no complete URL; write it like https://example.org/page")
    scheme = match[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"only http and https are, not {scheme}")
    if "@" in match[3]:
        raise ValueError("it has a user name in it; leave that out, and send an Authorization header if one is needed")
    host, port = _host_and_port(match[3])
    path = _without_dots(_escaped(match[4], _ESCAPED_OR_UNSAFE_IN_PATH))
    query = _escaped(match[5] or "", _ESCAPED_OR_UNSAFE_IN_QUERY) if match[5] != "?" else ""
    return Url(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, path + query)


def _check_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH:,} characters")
    if _CONTROL.search(text):
        raise ValueError("it has control characters in it; leave them out")
    before_fragment = text.partition("#")[0]
    if "\\" in before_fragment.partition("?")[0]:
        raise ValueError("it has a backslash in it; write / or %5C, whichever is meant")
    if "%00" in before_fragment:
        raise ValueError("it has a NUL character (%00) in it; leave it out")


def _host_and_port(authority: str) -> tuple[str, int | None]:
    bracket = authority.rfind("]")
    host, colon, port = authority, "", ""
    if ":" in authority[bracket + 1 :]:
        host, colon, port = authority.rpartition(":")
    if not host:
        raise ValueError("it names no host")
    return host_of(host), _port(port) if colon and port else None


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65_536:
        raise ValueError(f"{shown(text)!r} is no port; ports go from 1 to 65535")
    return int(text)


def _decoded(host: str) -> str:
    if len(host) > 1_000:
        raise ValueError("its host name is too long")
    try:
        return unquote_to_bytes(host).decode()
    except UnicodeDecodeError:
        raise ValueError("its host name is not UTF-8") from None


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        # Full-width digits and dots become plain ones here, so that what is an address is seen to be one.
        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return plain if plain.isascii() else idna.encode(plain).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(f"{shown(host)!r} is no host name ({error})") from None


def _ipv4(labels: list[str]) -> IPv4Address:
    # Each part may be decimal, octal or hexadecimal; the last one fills what the others leave.
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        raise ValueError(f"{shown('.'.join(labels))!r} is no IPv4 address")
    *parts, last = map(_number, labels)
    if any(part > 255 for part in parts) or last >= 256 ** (4 - len(parts)):
        raise ValueError(f"{shown('.'.join(labels))!r} is no IPv4 address")
    return IPv4Address(sum(part << 8 * (3 - place) for place, part in enumerate(parts)) + last)


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and text.strip("01234567") == "":
        return int(text, 8)
    if text.startswith("0"):
        raise ValueError(f"{text!r} is no octal number")
    return int(text)


def _ipv6(text: str) -> str:
    inside = text[1:-1] if text.endswith("]") else ""
    if "%" in inside:
        raise ValueError("its address has a zone; leave out the % and what follows")
    try:
        return IPv6Address(inside).compressed
    except AddressValueError:
        raise ValueError(f"{shown(text)!r} is no IPv6 address") from None


def _escaped(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(_escape, text.encode().decode("latin-1"))


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return f"%{ord(found):02X}"
    char = chr(int(found[1:], 16))
    return char if _IS_UNRESERVED.fullmatch(char) else found.upper()


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
