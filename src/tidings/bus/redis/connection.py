"""A connection to a Redis: the only file that imports the redis package.

It uses one connection of that package, without its pool and its retries: the bus decides when to reconnect, and a
connection that was abandoned in the middle of an answer is closed and never used again.
"""

from typing import Any, Final

from tidings._kit.backoff import doubling
from tidings.bus.redis.address import read_url

try:
    from redis import exceptions
    from redis.asyncio import Connection, Sentinel, SSLConnection, UnixDomainSocketConnection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as error:
    raise ImportError(
        'A RedisBus needs the package redis: pip install "tidings[redis]" (in a clone: pip install ".[redis]")'
    ) from error

__all__ = ["PAUSES", "RedisConnection", "Server", "exceptions"]

PAUSES: Final = doubling(0.02, 1.0)
"""The pauses between attempts, in seconds. Half of each is random."""


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
