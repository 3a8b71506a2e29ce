"""A line to a Redis. The only file that imports the package `redis`.

A line is one connection of that package, without its pool and its retries: the bus decides itself when to come back,
and a line that was given up in the middle of an answer is closed and never used again.

The URL of a Redis, taken apart. What is wrong with it is said without showing it: it may hold a password.

    redis://[user:password@]host[:6379][/db]         or valkey://
    rediss://…                                       or valkeys://: the same over TLS
    unix:///path/to/the.sock
    redis+sentinel://[user:password@]sentinel[:26379][,sentinel…]/service[/db]     also with the other three

Options follow a `?`: `db`, `username`, `password`, `client_name`; over TLS those of the package redis that begin with
`ssl_`; with sentinels their own `sentinel_username` and `sentinel_password`.

May import: nothing.
"""

import asyncio
import difflib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

_TLS: Final = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
_SENTINEL: Final = "+sentinel"
SCHEMES: Final = (*_TLS, "unix", *(scheme + _SENTINEL for scheme in _TLS))

_OPTIONS: Final = frozenset({"db", "username", "password", "client_name"})
_TLS_OPTIONS: Final = frozenset(
    f"ssl_{name}" for name in ("keyfile", "certfile", "password", "ca_certs", "ca_path", "cert_reqs", "check_hostname")
)
_SENTINEL_OPTIONS: Final = frozenset({"sentinel_username", "sentinel_password"})


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """How to reach a Redis."""

    place: str
    """Where it is, for people: without user and password."""
    tls: bool
    options: dict[str, Any] = field(repr=False)
    """For a connection of the package redis."""
    service: str = ""
    """What the sentinels call it; '' without sentinels."""
    sentinels: tuple[tuple[str, int], ...] = ()
    sentinel_options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


def options_of(scheme: str) -> frozenset[str]:
    """The options that a URL with this scheme may have."""
    tls = _TLS_OPTIONS if _TLS.get(scheme.removesuffix(_SENTINEL)) else frozenset[str]()
    return _OPTIONS | tls | (_SENTINEL_OPTIONS if scheme.endswith(_SENTINEL) else frozenset[str]())


def read_url(url: str) -> RedisAddress:
    """The address that `url` stands for.

    Raises:
        ValueError: It is no URL of a Redis.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("The URL of a Redis has a host that is none") from None
    scheme = parts.scheme
    if scheme not in SCHEMES:
        raise ValueError(f"The URL of a Redis has {unknown('scheme', scheme, SCHEMES)}")
    if "#" in url:
        raise ValueError("The URL of a Redis has no '#'. In a password, write it as %23.")
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    options = {"username": unquote(username) or None, "password": unquote(password) or None}
    options |= _options(parts.query, options_of(scheme))
    path = [unquote(part) for part in parts.path.split("/") if part]
    if scheme == "unix":
        if hosts or not path:
            raise ValueError("The URL of a Redis behind a socket is as in unix:///path/to/the.sock")
        return RedisAddress(f"unix://{parts.path}", tls=False, options=options | {"path": unquote(parts.path)})
    if scheme.endswith(_SENTINEL):
        return _with_sentinels(scheme, hosts, path, options)
    host, port = _host_and_port(hosts, 6379)
    options |= {"host": host, "port": port} | _database(path)
    return RedisAddress(f"{scheme}://{hosts or host}", tls=_TLS[scheme], options=options)


def _with_sentinels(scheme: str, hosts: str, path: list[str], options: dict[str, Any]) -> RedisAddress:
    if not path:
        raise ValueError(f"The URL of a Redis behind sentinels names its service, as in {scheme}://host:26379/service")
    service, *rest = path
    own = {name.removeprefix("sentinel_"): options.pop(name) for name in _SENTINEL_OPTIONS & options.keys()}
    return RedisAddress(
        f"{scheme}://{hosts}/{service}",
        tls=_TLS[scheme.removesuffix(_SENTINEL)],
        options=options | _database(rest),
        service=service,
        sentinels=tuple(_host_and_port(host, 26379) for host in hosts.split(",")),
        sentinel_options=own,
    )


def _database(path: list[str]) -> dict[str, int]:
    if not path:
        return {}
    if len(path) > 1 or not (path[0].isascii() and path[0].isdecimal()):
        raise ValueError("A database of Redis is a number, as in redis://host/0. In a password, write '/' as %2F.")
    return {"db": int(path[0])}


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    port = port or str(default)
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError("The port of a Redis is a number. In a password, write '@' as %40, ':' as %3A and '/' as %2F.")
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


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none: which it may have been meant to be, or which there are."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(known))}."
    return f"no {kind} {name!r}. {hint}"


try:
    from redis import exceptions
    from redis.asyncio import Connection, Sentinel, SSLConnection, UnixDomainSocketConnection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise ImportError(
        'A RedisBus needs the package redis: pip install "tidings[redis]" (in a clone: pip install ".[redis]")'
    ) from error

__all__ = ["Pause", "RedisConnection", "Server", "exceptions"]

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0


class RedisConnection:
    """One connection to a server. Whatever fails on it, close it, unless that was an answer of the server."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def ask(self, *words: str | bytes | float) -> Any:
        """Send a command, and the answer to it."""
        await self._connection.send_command(*words)
        return await self._connection.read_response(disconnect_on_error=False)

    async def say(self, *words: str) -> None:
        """Send a command whose answer is heard later."""
        await self._connection.send_command(*words)

    async def hear(self, seconds: float) -> Any:
        """The next thing that the server says; None if it says nothing for so many `seconds`."""
        return await self._connection.read_response(timeout=seconds, disconnect_on_error=False)

    async def close(self) -> None:
        """Let go of it at once, whatever it was in the middle of. Twice is once."""
        writer = getattr(self._connection, "_writer", None)
        await self._connection.disconnect(nowait=True)
        if writer is not None:
            # TLS would wait half a minute for a server that hangs to say goodbye.
            writer.transport.abort()


class Server:
    """The server at `url`; `timeout` is for how many seconds a connection is waited for.

    Raises:
        ValueError: That is no URL of a Redis.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        self._address = read_url(url)
        self._timeout = timeout
        self._moved: dict[str, Any] = {}
        if "path" in self._address.options:
            self._kind: type[Any] = UnixDomainSocketConnection
        else:
            self._kind = SSLConnection if self._address.tls else Connection
        try:
            self._kind(**self._options())
        except (TypeError, ValueError, exceptions.RedisError) as error:
            raise ValueError(f"An option in the URL of the Redis at {self.place} means nothing: {error}") from None

    @property
    def place(self) -> str:
        """Where it is, for people: without secrets."""
        return self._address.place

    def _options(self) -> dict[str, Any]:
        # No time limit for reading and writing: a call has one for all of it. Version 2 of the protocol is enough.
        own = {"socket_timeout": None, "socket_connect_timeout": self._timeout, "protocol": 2}
        return self._address.options | self._moved | own

    async def connect(self) -> RedisConnection:
        """A new line, signed in."""
        try:
            connection = self._kind(**(self._options() | await self._master()))
            line = RedisConnection(connection)
            try:
                await connection.connect()
            except BaseException:
                await line.close()
                raise
        except BaseException:
            # The next time begins where the user said, not where a cluster once led to.
            self._moved = {}
            raise
        return line

    async def _master(self) -> dict[str, Any]:
        """Where the sentinels say that the server is."""
        address = self._address
        if not address.service:
            return {}
        # Each once and for its share of the time: one that is gone or hangs must not keep the others from being asked.
        share = self._timeout / (len(address.sentinels) + 1)
        once = {"retry": Retry(NoBackoff(), 0), "socket_timeout": share, "socket_connect_timeout": share, "protocol": 2}
        sentinel: Any = Sentinel(address.sentinels, sentinel_kwargs=address.sentinel_options | once)
        try:
            host, port = await sentinel.discover_master(address.service)
        except exceptions.ConnectionError:
            # What the package says here shows all its options.
            raise exceptions.ConnectionError(f"its sentinels name no server for {address.service!r}") from None
        finally:
            for client in sentinel.sentinels:
                await client.aclose()
        return {"host": host, "port": port}

    def moved(self, error: Any) -> None:
        """A node of a cluster says where the log is, in a `MovedError`: the next line goes there."""
        self._moved = {"port": error.port} | ({"host": error.host} if error.host else {})


class Pause:
    """The time between two attempts: longer each time, and never quite the same for any two processes."""

    def __init__(self) -> None:
        self._seconds = _FIRST_PAUSE

    def reset(self) -> None:
        """It works again."""
        self._seconds = _FIRST_PAUSE

    async def sleep(self) -> None:
        seconds, self._seconds = self._seconds, min(2 * self._seconds, _LONGEST_PAUSE)
        await asyncio.sleep(seconds * random.uniform(0.5, 1))  # noqa: S311 - nobody gains by guessing it
