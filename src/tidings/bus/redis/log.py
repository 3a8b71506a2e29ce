"""The log of a `RedisBus`: the script that is the log, its calls, its errors with cause and cure; and its records.

One task uses a `RedisLog`, one call after the other. Each call takes at most `timeout` seconds, connecting included. A
call that failed without an answer, or was cancelled, closes its connection, and the next one opens another.

Redis runs the script as one step. Three keys hold the log; they have one hash tag, so that a cluster keeps them
together:
- `{prefix}:log`, a hash: the epoch, the newest version, the floor (the highest version that was trimmed), the number of
  entries, the run of the server under which it was last used, its terms (`Terms`) and the name of the last one;
- `{prefix}:changes`, a sorted set: each distinct change by its key, with its newest version;
- `{prefix}:times`, a hash: the time at which each of them was published, by the server's clock.

Why a cursor can be trusted
---------------------------
A cursor is (epoch, version). It can be trusted if the log was unbroken from the moment it was returned to the moment it
is used: nothing that was acknowledged is missing, and no version was given twice. Redis breaks the log in three ways:

1. Keys disappear: FLUSHALL, a lost file, an eviction. Without the hash, or if the number of entries differs from the
   stored one, a new epoch begins.
2. The server restarts from its disk, which may lack the last second (`appendfsync everysec`) or more.
3. A replica that lags becomes the master. Or the master is demoted, copies the other's data, and is master again.

After 2 and 3 the hash exists, with an older version under the same epoch. A process which knows a higher version may
notice too late: another one may have raised the version again, with other changes under the same numbers. Nothing in
the data shows this, so the server has to: `run_id` is new at each start, `master_replid` at each start and each
promotion. Both are stored with the log, and compared within each call, in the same step that reads or writes. If they
differ, a new epoch begins before anything is answered. So an epoch lies within one time in which one process was master
and had the keys, and in that time Redis is one thread with one memory: the log is unbroken. (The first replica of a
master, and an hour without any, change `master_replid`, too. That ends an epoch without need, at the cost of one look.)

With `durable` the user states that the server loses nothing that it acknowledged (`appendfsync always`). Then a new run
keeps the epoch, unless it began with a promotion (`master_replid2` is set): replicas may lag however often is synced.

A version below one that the caller was told begins a new epoch, too: older keys were restored. If that happens while no
process runs, or with `durable` while no server does, the terms show it. A process begins one with the first change that
it stores, and so does a new run of the server.

Records
-------
They have a connection of their own, so that large ones do not hold up changes. Redis drops a record when its time is
over. The keys have the hash tag of the log:
- `{prefix}:record:` and the key of a record, a hash: its value and its revision;
- `{prefix}:records`, a hash: the newest revision of any record.
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

from tidings.bus import Entry, History, StoredRecord
from tidings.bus.redis.connection import RedisConnection, Server, exceptions
from tidings.bus.shared import MOST_TERMS, NOWHERE, NewEntries, Terms, new_term
from tidings.changes import Change, Cursor, change_from_key, change_key
from tidings.errors import BusMismatch, BusUnavailable

SCHEMA: Final = "1"


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


def explain(error: Exception, server: Server) -> BusUnavailable | BusMismatch:
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
        if self._durable:
            await self._check_durable(connection)
        info: bytes = await connection.ask("INFO", "memory")
        memory = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
        policy = memory.get("maxmemory_policy", "")
        if policy.startswith("allkeys") and memory.get("maxmemory") != "0":
            logger.warning(
                "The Redis at %s may evict the keys of the bus (maxmemory-policy %s). Each time, all clients have to "
                "read everything again. Set the policy to noeviction, or use another Redis.",
                self._server.place,
                policy,
            )
        return await self._run(connection, NOWHERE, probe=True)

    async def _check_durable(self, connection: RedisConnection) -> None:
        place = self._server.place
        try:
            answers = [await connection.ask("CONFIG", "GET", name) for name in ("appendonly", "appendfsync")]
        except exceptions.ResponseError:
            logger.warning("Cannot check whether the Redis at %s is durable: it does not permit CONFIG GET", place)
            return
        found = ", ".join(b" ".join(answer).decode(errors="replace") for answer in answers)
        if found != "appendonly yes, appendfsync always":
            raise BusMismatch(
                f"The Redis at {place} does not sync each write ({found}), so it is not durable. Set appendonly yes "
                "and appendfsync always, or leave out durable: then a restart of it begins a new epoch."
            )

    async def _run(
        self,
        connection: RedisConnection,
        told: Cursor,
        *changes: str,
        told_by_us: bool = True,
        probe: bool = False,
    ) -> NewEntries:
        words: list[str | bytes | int] = [
            # A cursor from outside may contain what cannot be encoded.
            *(told.epoch.encode(errors="surrogatepass"), told.version, int(told_by_us)),
            *(secrets.token_hex(6), int(self._durable), int(probe), self.channel),
            *self._limits,
            *(new_term(), self._terms[0], int(self._has_term)),
            *changes,
        ]
        return self._read(await SCRIPT.run(connection, self._keys, *words), told)

    def _cursor(self, epoch: str, version: int) -> Cursor:
        return Cursor(epoch, version, self._terms[1].at(version))

    def _read(self, answer: bytes, told: Cursor) -> NewEntries:
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
