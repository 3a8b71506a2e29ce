"""Changes that wait to be stored by a server: in order, each distinct one once, and not more than so many.

For the buses whose log is kept by a server that may go away. Equal changes are merged while they wait, so what waits
is bounded by what there is to change, and at most by the limit. A change stays in here until it is known to be stored:
one that is on its way when the connection breaks is given back, and goes out again. Twice does no harm.

May import: `changes`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain, repeat

from tidings.changes import Change, Cursor


class NotStored(Exception):
    """A change was not stored in time. `kept`: it still waits, and goes out when it can."""

    def __init__(self, *, kept: bool) -> None:
        super().__init__()
        self.kept = kept


class Held:
    """One distinct change that waits, and those who want to hear where it stands."""

    __slots__ = ("askers", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.askers: dict[asyncio.Future[Cursor], None] = {}

    def stored(self, cursors: Sequence[Cursor]) -> None:
        """It is in the log, at the last of `cursors`. Each asker is told one of its own where there are enough."""
        askers = [asker for asker in self.askers if not asker.done()]
        places = chain(cursors[-len(askers) :], repeat(cursors[-1]))
        for asker, cursor in zip(askers, places, strict=False):
            asker.set_result(cursor)

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Whoever asked gets an error of its own: one that several raise would collect all their tracebacks."""
        for asker in self.askers:
            if not asker.done():
                asker.set_exception(error())


class Waiting:
    """At most `limit` distinct changes. `added` is called whenever there is one more to send."""

    def __init__(self, limit: int, added: Callable[[], None]) -> None:
        if limit < 1:
            raise ValueError(f"There has to be room for at least 1 change, not {limit}")
        self._limit = limit
        self._added = added
        self._held: OrderedDict[Change, Held] = OrderedDict()
        self._under_way: set[Held] = set()
        # One permit for each change in here, under way or not. First come, first served.
        self._room = asyncio.Semaphore(limit)

    def __len__(self) -> int:
        """How many are not known to be stored."""
        return len(self._held) + len(self._under_way)

    @property
    def idle(self) -> bool:
        """Whether there is none to send."""
        return not self._held

    async def put(self, change: Change, seconds: float) -> Cursor:
        """Have `change` stored, and say where it stands.

        Raises:
            NotStored: It was not, within so many `seconds`; or there was no room for it all the time.
        """
        held: Held | None = None
        asker: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                held = self._held.get(change) or await self._admit(change)
                held.askers[asker] = None
                return await asker
        except TimeoutError:
            raise NotStored(kept=held is not None) from None
        finally:
            if held is not None:
                held.askers.pop(asker, None)

    async def _admit(self, change: Change) -> Held:
        room = self._room
        await room.acquire()
        if room is not self._room:
            # All was cleared: the next who waits for room here is to see that too.
            room.release()
            raise NotStored(kept=False)
        if held := self._held.get(change):
            # An equal one came while this waited for room.
            self._room.release()
            return held
        held = self._held[change] = Held(change)
        self._added()
        return held

    def take(self, most: int) -> list[Held]:
        """The first ones, to be sent now. Each is then either `done` or given back."""
        taken = [self._held.popitem(last=False)[1] for _ in range(min(most, len(self._held)))]
        self._under_way.update(taken)
        return taken

    def done(self, taken: Sequence[Held]) -> None:
        """These are stored."""
        self._under_way.difference_update(taken)
        for _ in taken:
            self._room.release()

    def give_back(self, taken: Sequence[Held]) -> None:
        """These may not be stored: they are the first to go out again."""
        self._under_way.difference_update(taken)
        for held in reversed(taken):
            if later := self._held.get(held.change):
                # Those who have given up take themselves off where they asked, which is not here from now on.
                held.askers = {asker: None for asker in (*held.askers, *later.askers) if not asker.done()}
                self._room.release()
            self._held[held.change] = held
            self._held.move_to_end(held.change, last=False)
        if taken:
            self._added()

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Whoever waits for an answer gets this one. The changes still wait."""
        for held in chain(self._held.values(), self._under_way):
            held.refuse(error)

    def clear(self) -> int:
        """Forget them all; how many there were."""
        lost = len(self)
        self._held.clear()
        self._under_way.clear()
        room, self._room = self._room, asyncio.Semaphore(self._limit)
        room.release()
        return lost
