"""Turns: how many requests a host gets in a minute, how many at once, and how many there are in all.

    async with rates.turn(host, patience) as waited: ...

Each host has at most `per_minute` requests in any sixty seconds. A turn that would come later than the caller has
patience for is refused at once. A host that asked to be left alone (`hold`) is left alone.
"""

from bisect import insort
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

MINUTE = 60.0
LONGEST_HOLD = 600.0
_MANY_HOSTS = 1_000


class NoTurn(Exception):
    """The turn would come too late. `held`: because the host asked for peace."""

    def __init__(self, seconds: float, *, held: bool) -> None:
        super().__init__(f"the next turn is in {seconds:.0f} s")
        self.seconds = seconds
        self.held = held


@dataclass
class _Host:
    slots: anyio.Semaphore
    turns: deque[float] = field(default_factory=deque[float])
    """When the requests of the last minute were made, and when those who wait will be."""
    held_until: float = 0.0
    users: int = 0


class Rates:
    """Hands out turns."""

    def __init__(
        self,
        *,
        per_minute: int,
        per_host: int,
        at_once: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._per_minute = per_minute
        self._per_host = per_host
        self._clock = clock
        self._sleep = sleep
        self._hosts: dict[str, _Host] = {}
        self._slots = anyio.Semaphore(at_once)

    @asynccontextmanager
    async def turn(self, host: str, patience: float) -> AsyncGenerator[float]:
        """A turn to ask `host`, for as long as the context lasts; gives the seconds that the rate limit took.

        Raises:
            NoTurn: It would come later than in `patience` seconds.
        """
        entry = self._entry(host)
        entry.users += 1
        try:
            waited = await self._wait(entry, patience)
            # The host's slot first: whoever waits for a slow host must not keep others from theirs.
            async with entry.slots, self._slots:
                yield waited
        finally:
            entry.users -= 1

    def hold(self, host: str, seconds: float) -> None:
        """Leave `host` alone for so long."""
        entry = self._entry(host)
        entry.held_until = max(entry.held_until, self._clock() + min(seconds, LONGEST_HOLD))

    async def _wait(self, entry: _Host, patience: float) -> float:
        now = self._clock()
        turn = self._next(entry, now)
        if turn - now > patience:
            raise NoTurn(turn - now, held=turn == entry.held_until)
        insort(entry.turns, turn)
        try:
            if turn > now:
                await self._sleep(turn - now)
        except BaseException:
            entry.turns.remove(turn)
            raise
        return turn - now

    def _next(self, entry: _Host, now: float) -> float:
        while entry.turns and entry.turns[0] <= now - MINUTE:
            entry.turns.popleft()
        turn = max(now, entry.held_until)
        if len(entry.turns) >= self._per_minute:
            turn = max(turn, entry.turns[-self._per_minute] + MINUTE)
        return turn

    def _entry(self, host: str) -> _Host:
        if host not in self._hosts:
            if len(self._hosts) >= _MANY_HOSTS:
                self._forget_idle()
            self._hosts[host] = _Host(anyio.Semaphore(self._per_host))
        return self._hosts[host]

    def _forget_idle(self) -> None:
        now = self._clock()
        idle = [name for name, entry in self._hosts.items() if self._is_idle(entry, now)]
        for name in idle:
            del self._hosts[name]

    def _is_idle(self, entry: _Host, now: float) -> bool:
        recent = bool(entry.turns) and entry.turns[-1] > now - MINUTE
        return not (entry.users or recent or entry.held_until > now)
