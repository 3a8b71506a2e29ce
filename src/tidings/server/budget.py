"""`Budget`: how many streams, sessions and bytes of memory each client holds, and who may have more.

No client gets everything. It may hold `Limits.streams_per_client` streams, and the same part of the sessions and of the
memory. And it may hold no more than is still free, as network switches share their buffers: one greedy client gets at
most half, two get a third each, and there is always room for the next one.
"""

import sys
from collections.abc import Iterable
from typing import Final

from tidings.errors import LimitReached
from tidings.server.config import Limits

# What things take, measured with hundreds of them.
STREAM_BYTES: Final = 17_000  # A stream that is held without the SDK.
SDK_STREAM_BYTES: Final = 57_000  # A stream with the SDK's tasks behind it.
SESSION_BYTES: Final = 38_000  # A legacy session, beside its stream. A third less where its streams are lighter.
_SUBSCRIPTION_BYTES: Final = 400  # Beside its text: in the hub, the subscriber, its backlog, hooks and permissions.

_NAMES: Final = ("streams", "sessions", "memory")
_FEW: Final = (4, 4, 2**20)  # Granted however little is free, if it is not more than half of everything.


def subscription_bytes(subscriptions: Iterable[str]) -> int:
    """Returns the memory that `subscriptions` take."""
    return sum(sys.getsizeof(text) + _SUBSCRIPTION_BYTES for text in subscriptions)


class Budget:
    """The accounts of all clients of this process."""

    def __init__(self, limits: Limits) -> None:
        self._sizes = (limits.streams, limits.sessions, limits.memory)
        self._few = [max(min(few, size // 2), 1) for few, size in zip(_FEW, self._sizes, strict=True)]
        share = min(limits.streams_per_client / limits.streams, 1.0)
        shares = [max(few, int(size * share)) for few, size in zip(self._few, self._sizes, strict=True)]
        self._most = (limits.streams_per_client, *shares[1:])
        self._used = [0, 0, 0]
        self._held: dict[str, list[int]] = {}

    def take(self, client: str, *, streams: int = 0, sessions: int = 0, memory: int = 0) -> "Place":
        place = Place(self, client)
        place.grow(streams=streams, sessions=sessions, memory=memory)
        return place

    @property
    def used(self) -> dict[str, int]:
        return dict(zip(_NAMES, self._used, strict=True))

    def fill(self, client: str) -> float:
        return self._held.get(client, (0, 0, 0))[2] / self._most[2]

    def check(self, client: str, amounts: Iterable[int]) -> None:
        held = self._held.get(client, (0, 0, 0))
        for index, amount in enumerate(amounts):
            if amount <= 0:
                continue
            free = self._sizes[index] - self._used[index]
            most = min(self._most[index], max(self._few[index], free))
            if amount > free:
                raise self._full(index, amount)
            if held[index] + amount > most:
                raise self._too_much(index, held[index], amount, most)

    def add(self, client: str, amounts: Iterable[int]) -> None:
        """Adds `amounts`, which may be negative, to the account of `client`."""
        held = self._held.setdefault(client, [0, 0, 0])
        for index, amount in enumerate(amounts):
            held[index] += amount
            self._used[index] += amount
        if not any(held):
            del self._held[client]

    def _full(self, index: int, amount: int) -> LimitReached:
        name, size, used = _NAMES[index], self._sizes[index], self._used[index]
        text = (
            f"This server has {used} subscribers, and accepts no more at present.",
            f"This server has {used} sessions, and accepts no more at present.",
            f"This takes {amount} bytes of memory. Subscribers have {used} of the {size} that they may take.",
        )[index]
        return LimitReached(f"{text} Try again later.", data={"limit": name, "max": size, "scope": "server"})

    def _too_much(self, index: int, held: int, amount: int, most: int) -> LimitReached:
        name = "streams_per_client" if most == self._most[0] and index == 0 else _NAMES[index]
        noun, cure = (
            ("streams and sessions open", "Close one, or put more subscriptions into each."),
            ("sessions", "End those that are no longer needed, or use one for everything."),
            ("bytes of memory in use", "Subscribe to a prefix (ending in '*'), or to less."),
        )[index]
        text = f"This client has {held} {noun}, and this would be {amount} more. At present it can have {most}. {cure}"
        return LimitReached(text, data={"limit": name, "max": most, "scope": "client"})


class Place:
    """The part of the budget that one stream or session holds for its client, until it is released."""

    __slots__ = ("_amounts", "_budget", "_client", "_kept", "_over")

    def __init__(self, budget: Budget, client: str) -> None:
        self._budget = budget
        self._client = client
        self._amounts = (0, 0, 0)
        self._kept: dict[str, int] = {}
        self._over = False

    def keep(self, what: str, memory: int) -> None:
        """Holds `memory` for something that takes the place of what was held before under this name."""
        self.grow(memory=memory - self._kept.get(what, 0))
        self._kept[what] = memory

    def keep_message(self, memory: int, *, first: int) -> None:
        """Holds `memory` for a message: to the end for the `first` ones, and until the next for a later one."""
        number = sum(what.startswith("message") for what in self._kept)
        self.keep(f"message {min(number, first)}", memory)

    def grow(self, *, streams: int = 0, sessions: int = 0, memory: int = 0) -> None:
        """Holds this much more; less, if it is negative. Raises `LimitReached`, and then holds what it did before."""
        amounts = (streams, sessions, memory)
        if self._over:
            return  # Its stream has ended while something was still going on.
        self._budget.check(self._client, amounts)
        self._budget.add(self._client, amounts)
        self._amounts = tuple(map(sum, zip(self._amounts, amounts, strict=True)))

    def release(self, *_: object) -> None:
        """Gives everything back. A second call has no effect."""
        self._over = True
        amounts, self._amounts = self._amounts, (0, 0, 0)
        self._budget.add(self._client, [-amount for amount in amounts])
