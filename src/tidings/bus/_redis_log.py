"""The log of a `RedisBus` as one process sees it: calls of the script, and what they answer.

One task uses it, one call after the other. Each call takes at most `timeout` seconds, connecting included. A call that
failed without an answer, or was cancelled, leaves no line behind, and the next one opens another.

May import: `changes`, `errors`.
"""

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidings.bus import Entry, History
from tidings.bus import _redis_errors as errors
from tidings.bus._redis_script import SCRIPT
from tidings.bus._redis_server import Line, Server, exceptions
from tidings.bus._shared import NOWHERE
from tidings.bus._waiting import Held
from tidings.changes import Cursor, change_from_key, change_key
from tidings.errors import BusMismatch, BusUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE: Final = 1000
"""How many entries are read at once: Redis does nothing else meanwhile."""

_NODES: Final = 5
"""How many nodes of a cluster are asked one after the other."""

_LOADING_PAUSE: Final = 0.05

_SHA: Final = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class News:
    """What is new after a cursor, up to `head`; `entries` is None if that cannot be said."""

    head: Cursor
    entries: Sequence[Entry] | None
    more: bool
    """Whether there is more before `head` than fits on a page."""


class RedisLog:
    """The log under `prefix` on `server`. Each method raises `BusUnavailable` or `BusMismatch` if it cannot."""

    def __init__(self, server: Server, *, prefix: str, history: History, timeout: float, durable: bool) -> None:
        self._server = server
        self._timeout = timeout
        self._durable = durable
        self._keys = [f"{{{prefix}}}:{name}" for name in ("log", "changes", "times")]
        self._limits = (PAGE, history.entries, repr(float(history.age)))
        self.channel = f"{{{prefix}}}:news"
        self._line: Line | None = None

    @property
    def connected(self) -> bool:
        """Whether the server answered the last time, be it with a refusal."""
        return self._line is not None

    async def open(self) -> Cursor:
        """See that everything is there and permitted that a bus needs; the newest place in the log."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._timeout - _LOADING_PAUSE
        while True:
            try:
                return (await self._do(self._open)).head
            except BusUnavailable as error:
                # Whoever is started together with its Redis need not be started again.
                if not isinstance(error.__cause__, exceptions.BusyLoadingError) or clock() > deadline:
                    raise
            await asyncio.sleep(_LOADING_PAUSE)

    async def append(self, held: Sequence[Held], told: Cursor) -> tuple[list[list[Cursor]], News]:
        """Store changes, all or none; where each of them stands, and what is new after `told`."""
        numbers = [max(len(each.askers), 1) for each in held]
        words = [word for each, number in zip(held, numbers, strict=True) for word in (change_key(each.change), number)]
        news, lasts = await self._do(lambda line: self._run(line, told, *words))
        places = [
            [Cursor(news.head.epoch, last - number + n) for n in range(1, number + 1)]
            for last, number in zip(lasts, numbers, strict=True)
        ]
        return places, news

    async def look(self, told: Cursor) -> News:
        """What is new after `told`, which this log was heard to say."""
        return (await self._do(lambda line: self._run(line, told)))[0]

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """The newest entry for each distinct change after `cursor`, which anyone may have made up; None: unknown."""
        found: dict[Any, Entry] = {}
        while True:
            place = cursor
            news, _ = await self._do(lambda line, place=place: self._run(line, place, told_by_us=False))
            if news.entries is None:
                return None
            for entry in news.entries:
                # What comes again on a later page was published anew meanwhile.
                found.pop(entry[1], None)
                found[entry[1]] = entry
            if not news.more:
                return list(found.values())
            cursor = news.entries[-1][0]

    async def close(self) -> None:
        """Let go of the line."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _open(self, line: Line) -> News:
        if self._durable:
            await self._check_durable(line)
        memory = _fields(await line.ask("INFO", "memory"))
        policy = memory.get("maxmemory_policy", "")
        if policy.startswith("allkeys") and memory.get("maxmemory") != "0":
            logger.warning(
                "the Redis at %s may evict the keys of the bus (maxmemory-policy %s): each time, everyone is told to "
                "read everything again. Set it to noeviction or a volatile one, or use another Redis.",
                self._server.place,
                policy,
            )
        return (await self._run(line, NOWHERE, probe=True))[0]

    async def _check_durable(self, line: Line) -> None:
        settings: dict[str, str] = {}
        for name in ("appendonly", "appendfsync"):
            try:
                settings |= _pairs(await line.ask("CONFIG", "GET", name))
            except exceptions.ResponseError:
                logger.warning(
                    "it cannot be checked whether the Redis at %s is durable: it does not permit CONFIG GET",
                    self._server.place,
                )
                return
        found = ", ".join(f"{name} {value}" for name, value in settings.items())
        if found != "appendonly yes, appendfsync always":
            raise errors.not_durable(self._server.place, found)

    async def _run(
        self, line: Line, told: Cursor, *changes: str | int, told_by_us: bool = True, probe: bool = False
    ) -> tuple[News, list[int]]:
        words: list[str | bytes | int] = [
            *(len(self._keys), *self._keys),
            # Whoever made a cursor up may have used what is no text.
            *(told.epoch.encode(errors="surrogatepass"), told.version, int(told_by_us)),
            *(secrets.token_hex(6), int(self._durable), int(probe), self.channel),
            *self._limits,
            *changes,
        ]
        try:
            answer = await line.ask("EVALSHA", _SHA, *words)
        except exceptions.NoScriptError:
            answer = await line.ask("EVAL", SCRIPT, *words)
        return self._read(answer)

    def _read(self, answer: bytes) -> tuple[News, list[int]]:
        epoch, version, found, lasts = json.loads(answer)
        head = Cursor(epoch, int(version))
        entries: list[Entry] | None = None
        if found is not False:
            flat = list(found)
            try:
                entries = [
                    (Cursor(epoch, int(version)), change_from_key(key))
                    for key, version in zip(flat[::2], flat[1::2], strict=True)
                ]
            except ValueError as error:
                raise errors.unknown_change(self._server.place, error) from error
        more = bool(entries) and len(entries) == PAGE and entries[-1][0] < head
        return News(head, entries, more), [int(last) for last in lasts]

    async def _do(self, work: Callable[[Line], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._follow(work)
        except Exception as error:
            # After an answer the line is in order, but it may lead to the wrong server.
            if not isinstance(error, exceptions.ResponseError | BusMismatch) or _leads_astray(error):
                await self.close()
            raise errors.explain(error, self._server.place, self._timeout) from error
        except BaseException:
            await self.close()
            raise

    async def _follow(self, work: Callable[[Line], Awaitable[T]]) -> T:
        """The result of `work`, on the node of a cluster that has the log; any node knows which one that is."""
        for _ in range(_NODES):
            if self._line is None:
                self._line = await self._server.connect()
            try:
                return await work(self._line)
            except exceptions.MovedError as error:
                self._server.moved(error)
                await self.close()
        raise exceptions.ConnectionError("its nodes do not agree on where the log is")


def _leads_astray(error: Exception) -> bool:
    return isinstance(error, exceptions.AskError | exceptions.ReadOnlyError) or "READONLY" in str(error)


def _fields(info: bytes) -> dict[str, str]:
    """The lines of INFO."""
    return dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)


def _pairs(answer: list[bytes]) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in answer]
    with suppress(ValueError):
        return dict(zip(words[::2], words[1::2], strict=True))
    return {}
