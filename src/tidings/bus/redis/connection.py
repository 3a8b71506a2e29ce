"""A connection to a Redis: the only file that imports the redis package.

It uses one connection of that package, without its pool and its retries: the bus decides when to reconnect, and a
connection that was abandoned in the middle of an answer is closed and never used again.
"""

from typing import Any, Final

from tidings._kit.backoff import doubling
from tidings._kit.lazy import install_command
from tidings.bus.redis.address import read_url

try:
    from redis import exceptions
    from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
except ImportError as error:
    raise ImportError(f"A RedisBus needs the package redis: {install_command('redis')}") from error

__all__ = ["PAUSES", "RedisConnection", "Server", "exceptions"]

PAUSES: Final = doubling(0.02, 1.0)  # Seconds between attempts. Half of each is random.


class RedisConnection:
    """One connection to a server. Close it after every failure that is not an answer of the server."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def ask(self, *words: str | bytes | float) -> Any:
        await self._connection.send_command(*words)
        return await self._connection.read_response(disconnect_on_error=False)

    async def send(self, *words: str) -> None:
        """Sends a command whose answer `receive` returns."""
        await self._connection.send_command(*words)

    async def receive(self, seconds: float) -> Any:
        """Returns the next message of the server; None if none comes for `seconds`."""
        return await self._connection.read_response(timeout=seconds, disconnect_on_error=False)

    @property
    def ended(self) -> bool:
        """The server has closed it, as far as is known."""
        # Private in the redis package. Without it, the next command fails, and nothing else changes.
        reader = getattr(self._connection, "_reader", None)
        return reader is not None and (reader.at_eof() or reader.exception() is not None)

    async def close(self) -> None:
        """Closes it at once, also in the middle of an answer. A second call has no effect."""
        # Private in the redis package. Without it, closing is slower over TLS, and nothing else changes.
        writer = getattr(self._connection, "_writer", None)
        await self._connection.disconnect(nowait=True)
        if writer is not None:
            # TLS would wait half a minute for the goodbye of a server that hangs.
            writer.transport.abort()


class Server:
    """The server at `url`, which gets `timeout` seconds to answer. Raises `ValueError` if a URL is not a Redis's."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self._address = read_url(url)
        self.place = self._address.place  # The URL for people, without secrets.
        self.timeout = timeout
        self._moved: dict[str, Any] = {}
        if "path" in self._address.options:
            self._kind: type[Any] = UnixDomainSocketConnection
        else:
            self._kind = SSLConnection if self._address.tls else Connection
        try:
            self._kind(**self._options())
        except (TypeError, ValueError, exceptions.RedisError) as error:
            raise ValueError(f"An option in the URL of the Redis at {self.place} is not valid: {error}") from None

    def _options(self) -> dict[str, Any]:
        # No time limits for reading and writing: each call has one as a whole. Version 2 of the protocol is enough.
        own = {"socket_timeout": None, "socket_connect_timeout": self.timeout, "protocol": 2}
        return self._address.options | self._moved | own

    async def connect(self) -> RedisConnection:
        """Returns a new connection, signed in."""
        try:
            connection = self._kind(**self._options())
            opened = RedisConnection(connection)
            try:
                await connection.connect()
            except BaseException:
                await opened.close()
                raise
        except BaseException:
            # The next attempt begins at the URL again, not at the node that a cluster named.
            self._moved = {}
            raise
        return opened

    def moved(self, error: Any) -> None:
        """Lets the next connection go to the node that a `MovedError` of a cluster names."""
        self._moved = {"port": error.port} | ({"host": error.host} if error.host else {})
