"""`RedisAddress`: the URL of a Redis, parsed without the redis package: `redis://[user:password@]host[:6379][/db]`.

`rediss://` is the same over TLS; `valkey://` and `valkeys://` are other names; `unix:///path/to/the.sock` is a socket.
Options follow a `?`, over TLS also those of the redis package. Errors never show the URL: it may hold a password.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from tidings._kit.suggest import did_you_mean, there_are

_TLS: Final = {"redis": False, "rediss": True, "valkey": False, "valkeys": True, "unix": False}
SCHEMES: Final = tuple(_TLS)

_OPTIONS: Final = frozenset({"db", "username", "password", "client_name"})
_TLS_OPTIONS: Final = frozenset(
    f"ssl_{name}" for name in ("keyfile", "certfile", "password", "ca_certs", "ca_path", "cert_reqs", "check_hostname")
)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The place of a Redis, and the options of a connection to it."""

    place: str  # The URL for people, without user and password.
    tls: bool
    options: dict[str, Any] = field(repr=False)  # The arguments of a connection of the redis package.


def options_of(scheme: str) -> frozenset[str]:
    """Returns the options that a URL with this scheme may have."""
    return _OPTIONS | _TLS_OPTIONS if _TLS.get(scheme) else _OPTIONS


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns the text about an unknown name: the closest known one, or all of them."""
    return f"no {kind} {name!r}.{did_you_mean(name, known, key=str) or there_are(sorted(known), most=None)}"


def read_url(url: str) -> RedisAddress:
    """Returns the address of a URL. Raises `ValueError` if it is not the URL of a Redis."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("The URL of a Redis has an invalid host.") from None
    scheme = parts.scheme
    if scheme not in SCHEMES:
        raise ValueError(f"The URL of a Redis has {unknown('scheme', scheme, SCHEMES)}")
    if "#" in url:
        raise ValueError("The URL of a Redis must not contain '#'. In a password, write it as %23.")
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    options = {"username": unquote(username) or None, "password": unquote(password) or None}
    options |= _options(parts.query, options_of(scheme))
    path = [unquote(part) for part in parts.path.split("/") if part]
    if scheme == "unix":
        if hosts or not path:
            raise ValueError("Write the URL of a Redis behind a socket as unix:///path/to/the.sock")
        return RedisAddress(f"unix://{parts.path}", tls=False, options=options | {"path": unquote(parts.path)})
    host, port = _host_and_port(hosts)
    options |= {"host": host, "port": port} | _database(path)
    return RedisAddress(f"{scheme}://{hosts or host}", tls=_TLS[scheme], options=options)


def _database(path: list[str]) -> dict[str, int]:
    if not path:
        return {}
    if len(path) > 1 or not (path[0].isascii() and path[0].isdecimal()):
        text = "The database of a Redis must be a number, as in redis://host/0. In a password, write '/' as %2F."
        raise ValueError(text)
    return {"db": int(path[0])}


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    port = port or "6379"
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        text = "The port of a Redis must be a number. In a password, write '@' as %40, ':' as %3A and '/' as %2F."
        raise ValueError(text)
    return unquote(host).strip("[]") or "localhost", int(port)


def _options(query: str, known: frozenset[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        value = values[-1]
        if name not in known:
            raise ValueError(f"The URL of a Redis has {unknown('option', name, known)}")
        if name == "db":
            options |= _database([value])
        elif name == "ssl_check_hostname":
            options[name] = value.lower() not in ("0", "false", "no", "off")
        else:
            options[name] = value
    return options
