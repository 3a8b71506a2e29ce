"""The log of a `RedisBus`: the script that is the log, its calls, its errors with cause and cure; and its records.

One task uses a `RedisLog`, one call after the other. A call that failed without an answer, or was cancelled, closes its
connection. Redis runs the script as one step. The keys of the log have one hash tag, so that a cluster keeps them
together:
- `{prefix}:log`, a hash: the epoch, the newest version, the floor (the highest version that was trimmed), the number of
  entries, the run of the server under which it was last used, its terms (`Terms`) and the name of the last one;
- `{prefix}:changes`, a sorted set: each distinct change by its key, with its newest version;
- `{prefix}:times`, a hash: the time at which each of them was published, by the server's clock;
- `{prefix}:record:` and a key, a hash: the value of a record and its revision; `{prefix}:records`: the newest revision.

A cursor can be trusted if nothing that was acknowledged since is missing, and no version was given twice. So a new
epoch begins, before anything is answered, if
1. keys disappeared: there is no hash, or the number of entries differs from the stored one;
2. the server restarted, perhaps without its last writes, or another one became the master: nothing in the data shows
   that, but `run_id` is new at each start, and `master_replid` at each start and promotion. Both are stored with the
   log, and compared within each call. (An hour without a replica changes the latter, too, at the cost of one look.)
   With `durable`, the server loses nothing, and a new run keeps the epoch, unless it began with a promotion;
3. the version is below one that the caller was told: older keys were restored. If that happens while no process runs,
   the terms show it.
"""

import asyncio
import hashlib
import json
import logging
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tidings._kit.backoff import doubling
from tidings._kit.lazy import install_command
from tidings.bus import Entry, History, StoredRecord
from tidings.bus.redis.address import read_url
from tidings.bus.shared import MOST_TERMS, NOWHERE, NewEntries, Terms, new_term
from tidings.changes import Change, Cursor, change_from_key, change_key
from tidings.errors import BusMismatch, BusUnavailable

try:
    from redis import exceptions
    from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
except ImportError as error:
    raise ImportError(f"A RedisBus needs the package redis: {install_command('redis')}") from error

SCHEMA: Final = "1"
PAUSES: Final = doubling(0.02, 1.0)  # Seconds between attempts. Half of each is random.


_START_AFRESH: Final = (
    "It only holds recent changes: delete its keys while no server runs, or give this bus another prefix."
)
_IN_USE: Final = "has something else under the keys of this bus, which was left as it is. Give this bus another prefix."
_PERMISSIONS: Final = (
    "does not permit this user what a bus needs ({error}). With 'tidings' for the prefix, that is: "
    "~{{tidings}}:* &{{tidings}}:* +@hash +@sortedset +@scripting +@pubsub +unlink +pexpire +exists +info +time +ping."
)

_UNAVAILABLE: Final = {
    "OOM": "has no memory left for this bus (maxmemory is used up). Give it more, or free some.",
    "READONLY": "is a read-only replica. Give this bus the URL of the master.",
    "MISCONF": "does not write at present, because it cannot save ({error}). Look at its disk.",
    "NOPERM": _PERMISSIONS,
    "The user executing the script": _PERMISSIONS,
    "ACL failure in script": _PERMISSIONS,
}
_MISMATCH: Final = {
    "WRONGTYPE": _IN_USE,
    "TIDINGS-FOREIGN": _IN_USE,
    "TIDINGS-SCHEMA": "has a log that was written by another version of Tidings ({error}; this one has schema "
    f"{SCHEMA}). Let all processes use the same version. {_START_AFRESH}",
    "TIDINGS-NO-RUN": "does not say in INFO which run of it this is (run_id, master_replid), so a bus could not tell "
    "when changes were lost. Use a Redis or Valkey that is reached without a proxy.",
}

# A code begins most answers, but may stand in the middle of one about a script that failed, or be missing there.
_CODE: Final = re.compile("|".join(rf"\b{code}\b" for code in (*_UNAVAILABLE, *_MISMATCH)))

_KINDS: Final[list[tuple[tuple[type[Exception], ...], str]]] = [
    ((exceptions.OutOfMemoryError,), _UNAVAILABLE["OOM"]),
    ((exceptions.ReadOnlyError,), _UNAVAILABLE["READONLY"]),
    ((exceptions.NoPermissionError,), _PERMISSIONS),
    (
        (TimeoutError, exceptions.TimeoutError),
        "did not answer within {seconds:g} s. Look whether it hangs, or the network does.",
    ),
    (
        (exceptions.AuthenticationError, exceptions.AuthorizationError),
        "refuses the user or the password of the URL ({error}). Correct them.",
    ),
    ((exceptions.BusyLoadingError,), "is starting, and still reads its data. Wait a moment."),
    (
        (exceptions.InvalidResponse, UnicodeError),
        "does not speak as a Redis does ({error}). Look at host and port; for TLS, write rediss://.",
    ),
    ((exceptions.ConnectionError, OSError), "cannot be reached ({error}). Look whether it runs, and at host and port."),
]


def explain(error: Exception, server: "Server") -> BusUnavailable | BusMismatch:
    """Returns the named error for `error`, which a call of the server raised."""
    if isinstance(error, BusUnavailable | BusMismatch):
        return error
    found = _CODE.search(str(error)) if isinstance(error, exceptions.ResponseError) else None
    code = found.group() if found else ""
    kind = BusMismatch if code in _MISMATCH else BusUnavailable
    # The package strips the code from refusals that have a class of their own.
    known = (cause for kinds, cause in _KINDS if isinstance(error, kinds))
    cause = (_MISMATCH | _UNAVAILABLE).get(code) or next(known, "does not do what a bus needs ({error}).")
    return kind(f"The Redis at {server.place} {cause.format(error=str(error).rstrip('.'), seconds=server.timeout)}")


logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE: Final = 1000  # Entries that are read at once: Redis does nothing else meanwhile.
_NODES: Final = 5  # Nodes of a cluster that are asked one after the other.
_LOADING_PAUSE: Final = 0.05


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
        connection = self._kind(**self._options())
        opened = RedisConnection(connection)
        try:
            await connection.connect()
        except BaseException:
            # The next attempt begins at the URL again, not at the node that a cluster named.
            self._moved = {}
            await opened.close()
            raise
        return opened

    def moved(self, error: Any) -> None:
        """Lets the next connection go to the node that a `MovedError` of a cluster names."""
        self._moved = {"port": error.port} | ({"host": error.host} if error.host else {})


class Script:
    """A script that a server runs as one step."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, connection: RedisConnection, keys: Sequence[str], *words: str | bytes | int) -> Any:
        try:
            return await connection.ask("EVALSHA", self._sha, len(keys), *keys, *words)
        except exceptions.NoScriptError:
            return await connection.ask("EVAL", self._text, len(keys), *keys, *words)


_LUA: Final = Path(__file__).with_name("log.lua").read_text(encoding="utf-8")
SCRIPT: Final = Script(_LUA.replace("@SCHEMA@", SCHEMA).replace("@MOST@", str(MOST_TERMS)))


class RedisCalls:
    """Calls of `server`, one at a time, over one connection that is opened when it is needed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: RedisConnection | None = None

    @property
    def connected(self) -> bool:
        """The server answered the last call, perhaps with a refusal."""
        return self._connection is not None

    async def do(self, work: Callable[[RedisConnection], Awaitable[T]]) -> T:
        """Returns the result of `work`. Raises `BusUnavailable` or `BusMismatch`."""
        try:
            async with asyncio.timeout(self._server.timeout):
                return await self._follow(work)
        except Exception as error:
            # After an answer the connection is in order, but it may lead to the wrong server.
            wrong = isinstance(error, exceptions.AskError | exceptions.ReadOnlyError) or "READONLY" in str(error)
            if wrong or not isinstance(error, exceptions.ResponseError | BusMismatch):
                await self.close()
            raise explain(error, self._server) from error
        except BaseException:
            await self.close()
            raise

    async def _follow(self, work: Callable[[RedisConnection], Awaitable[T]]) -> T:
        """Returns the result of `work` on the node of a cluster that has the log; every node knows which one."""
        for _ in range(_NODES):
            if self._connection is not None and self._connection.ended:
                await self.close()
            if self._connection is None:
                self._connection = await self._server.connect()
            try:
                return await work(self._connection)
            except exceptions.MovedError as error:
                self._server.moved(error)
                await self.close()
        raise exceptions.ConnectionError("its nodes do not agree on where the log is")

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class RedisLog:
    """The log under `prefix` on `server`. Its methods raise `BusUnavailable` and `BusMismatch`."""

    def __init__(self, server: Server, *, prefix: str, history: History, durable: bool) -> None:
        self._server = server
        self.calls = RedisCalls(server)
        self._durable = durable
        self._keys = [f"{{{prefix}}}:{name}" for name in ("log", "changes", "times")]
        self._limits = (PAGE, history.entries, repr(float(history.age)))
        self.channel = f"{{{prefix}}}:news"
        self._terms: tuple[str, Terms] = ("", Terms())  # The name of the last one, and all.
        self._has_term = False  # This process has begun one.

    async def open(self) -> Cursor:
        """Checks that everything that a bus needs exists and is permitted. Returns the newest cursor."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._server.timeout - _LOADING_PAUSE
        while True:
            try:
                return (await self.calls.do(self._open)).head
            except BusUnavailable as error:
                # A process that starts together with its Redis waits until that has read its data.
                if not isinstance(error.__cause__, exceptions.BusyLoadingError) or clock() > deadline:
                    raise
            await asyncio.sleep(_LOADING_PAUSE)

    async def append(self, changes: Sequence[Change], told: Cursor) -> tuple[list[Cursor], NewEntries]:
        """Stores distinct changes, all or none. Returns their cursors, and what is new after `told`."""
        news = await self.calls.do(lambda connection: self._run(connection, told, *map(change_key, changes)))
        self._has_term = True
        before = news.head.version - len(changes)
        return [self._cursor(news.head.epoch, before + n) for n in range(1, len(changes) + 1)], news

    async def look(self, told: Cursor) -> NewEntries:
        """Returns what is new after `told`, a cursor of this log."""
        return await self.calls.do(partial(self._run, told=told))

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """Returns the newest entry of each distinct change after `cursor`, a cursor from outside; None if unknown."""
        found: dict[Any, Entry] = {}
        while True:
            news = await self.calls.do(partial(self._run, told=cursor, told_by_us=False))
            if news.entries is None:
                return None
            for entry in news.entries:
                # A change on a later page was published again meanwhile.
                found.pop(entry[1], None)
                found[entry[1]] = entry
            if not news.more:
                return list(found.values())
            cursor = news.entries[-1][0]

    async def _open(self, connection: RedisConnection) -> NewEntries:
        place = self._server.place
        try:
            names = ("appendonly", "appendfsync") if self._durable else ()
            answers = [await connection.ask("CONFIG", "GET", name) for name in names]
        except exceptions.ResponseError:
            logger.warning("Cannot check whether the Redis at %s is durable: it does not permit CONFIG GET", place)
            answers = []
        found = ", ".join(b" ".join(answer).decode(errors="replace") for answer in answers)
        if answers and found != "appendonly yes, appendfsync always":
            raise BusMismatch(
                f"The Redis at {place} does not sync each write ({found}), so it is not durable. Set appendonly yes "
                "and appendfsync always, or leave out durable: then a restart of it begins a new epoch."
            )
        info: bytes = await connection.ask("INFO", "memory")
        memory = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
        policy = memory.get("maxmemory_policy", "")
        if policy.startswith("allkeys") and memory.get("maxmemory") != "0":
            logger.warning(
                "The Redis at %s may evict the keys of the bus (maxmemory-policy %s). Each time, all clients have to "
                "read everything again. Set the policy to noeviction, or use another Redis.",
                place,
                policy,
            )
        return await self._run(connection, NOWHERE, probe=True)

    async def _run(
        self, connection: RedisConnection, told: Cursor, *changes: str, told_by_us: bool = True, probe: bool = False
    ) -> NewEntries:
        words: list[str | bytes | int] = [
            # A cursor from outside may contain what cannot be encoded.
            *(told.epoch.encode(errors="surrogatepass"), told.version, int(told_by_us)),
            *(secrets.token_hex(6), int(self._durable), int(probe), self.channel),
            *self._limits,
            *(new_term(), self._terms[0], int(self._has_term)),
            *changes,
        ]
        answer = await SCRIPT.run(connection, self._keys, *words)
        epoch, version, found, term, terms = json.loads(answer)
        if terms is not False:
            self._terms = (term, Terms.parse(terms))
        head = self._cursor(epoch, int(version))
        entries: list[Entry] | None = None
        if found is not False and self._terms[1].know(told):
            flat = list(found)
            try:
                entries = [
                    (self._cursor(epoch, int(version)), change_from_key(key))
                    for key, version in zip(flat[::2], flat[1::2], strict=True)
                ]
            except ValueError as error:
                raise BusMismatch(
                    f"The Redis at {self._server.place} has a change that this version of Tidings does not know: "
                    f"{error}. {_START_AFRESH}"
                ) from error
        more = bool(entries) and len(entries) == PAGE and entries[-1][0] < head
        return NewEntries(head, entries, more)

    def _cursor(self, epoch: str, version: int) -> Cursor:
        return Cursor(epoch, version, self._terms[1].at(version))


_SCRIPT: Final = Script(Path(__file__).with_name("records.lua").read_text(encoding="utf-8"))


class RedisRecords:
    """The records under `prefix` on `server`. The first use connects; each takes at most the server's `timeout`."""

    def __init__(self, server: Server, prefix: str) -> None:
        self._server = server
        self._prefix = prefix
        self._calls = RedisCalls(server)
        self._turn = asyncio.Lock()
        self._closed = False

    async def get(self, key: str) -> StoredRecord | None:
        value, revision = await self._run(key, "get")
        return None if revision is None else StoredRecord(value, int(revision))

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        expected = "" if revision is None else revision
        stored = await self._run(key, "put", expected, value, math.ceil(seconds * 1000))
        return None if stored is None else StoredRecord(value, int(stored))

    async def delete(self, key: str) -> None:
        await self._run(key, "delete")

    async def close(self) -> None:
        self._closed = True
        await self._calls.close()

    async def _run(self, key: str, *words: str | bytes | int) -> Any:
        keys = (f"{{{self._prefix}}}:record:{key}", f"{{{self._prefix}}}:records")
        try:
            async with asyncio.timeout(self._server.timeout), self._turn:
                if self._closed:
                    raise BusUnavailable(f"The bus at {self._server.place} was closed before it answered.")
                try:
                    return await self._calls.do(lambda connection: _SCRIPT.run(connection, keys, *words))
                finally:
                    if self._closed:  # Meanwhile: what this call has opened is closed, too.
                        await self._calls.close()
        except TimeoutError as error:
            raise explain(error, self._server) from None
