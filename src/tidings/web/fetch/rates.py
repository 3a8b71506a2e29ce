"""Turns: how many requests a host gets in any sixty seconds, how many at once, and how many there are in all.

A turn that would come later than the caller can wait is refused at once. A host that asked for a pause gets none.
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
    """The turn would come too late. `held`: because the host asked for a pause."""

    def __init__(self, seconds: float, *, held: bool) -> None:
        super().__init__(f"the next turn is in {seconds:.0f} s")
        self.seconds = seconds
        self.held = held


@dataclass
class _Host:
    slots: anyio.Semaphore
    turns: deque[float] = field(default_factory=deque[float])  # of the last minute and of those that wait
    held_until: float = 0.0
    users: int = 0


@dataclass
class Rates:
    """Hands out turns."""

    per_minute: int
    per_host: int
    at_once: int
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    _hosts: dict[str, _Host] = field(default_factory=dict[str, _Host], init=False)

    def __post_init__(self) -> None:
        self._slots = anyio.Semaphore(self.at_once)

    @asynccontextmanager
    async def turn(self, host: str, patience: float, *, part: bool = False) -> AsyncGenerator[float]:
        """Holds a turn at `host`, and yields the seconds that the rate limit took. Raises `NoTurn` after `patience`."""
        entry = self._entry(host)
        entry.users += 1
        try:
            waited = await self._wait(entry, patience, part=part)
            # The host's slot first: requests that wait for a slow host must not take slots from others.
            async with entry.slots, self._slots:
                yield waited
        finally:
            entry.users -= 1

    def hold(self, host: str, seconds: float) -> None:
        """Sends `host` no requests for so many seconds."""
        entry = self._entry(host)
        entry.held_until = max(entry.held_until, self.clock() + min(seconds, LONGEST_HOLD))

    async def _wait(self, entry: _Host, patience: float, *, part: bool) -> float:
        now = self.clock()
        while entry.turns and entry.turns[0] <= now - MINUTE:
            entry.turns.popleft()
        turn = max(now, entry.held_until)
        if len(entry.turns) >= self.per_minute and not part:
            turn = max(turn, entry.turns[-self.per_minute] + MINUTE)
        if turn - now > patience:
            raise NoTurn(turn - now, held=turn == entry.held_until)
        if not part:  # A part of a page takes no turn of the minute.
            insort(entry.turns, turn)
        try:
            if turn > now:
                await self.sleep(turn - now)
        except BaseException:
            if not part:
                entry.turns.remove(turn)
            raise
        return turn - now

    def _entry(self, host: str) -> _Host:
        if host not in self._hosts and len(self._hosts) >= _MANY_HOSTS:
            now = self.clock()
            for name, entry in tuple(self._hosts.items()):
                recent = bool(entry.turns) and entry.turns[-1] > now - MINUTE
                if not (entry.users or recent or entry.held_until > now):
                    del self._hosts[name]
        return self._hosts.setdefault(host, _Host(anyio.Semaphore(self.per_host)))
