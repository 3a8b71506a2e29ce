"""How many changes of each kind came when: counted in slots of `SLOT` seconds, for the strip and the servers' pace."""

from collections import Counter
from typing import Final

SLOT: Final = 5.0
SPAN: Final = 300.0
"""What the strip shows, in seconds."""

_SLOTS: Final = int(SPAN / SLOT)
_BARS: Final = " ▁▂▃▄▅▆▇█"


class Pace:
    """The changes of one server, by time and kind."""

    def __init__(self) -> None:
        self._slots: dict[int, Counter[str]] = {}

    def add(self, at: float, kind: str) -> None:
        """Count a change."""
        slot = int(at // SLOT)
        counts = self._slots.get(slot)
        if counts is None:
            counts = self._slots[slot] = Counter()
            for old in [each for each in self._slots if each <= slot - 2 * _SLOTS]:
                del self._slots[old]
        counts[kind] += 1

    def slots(self, now: float) -> list[Counter[str]]:
        """The slots of the span, the oldest first; the last one is not over yet."""
        last = int(now // SLOT)
        none = Counter[str]()
        return [self._slots.get(slot, none) for slot in range(last - _SLOTS + 1, last + 1)]

    def kinds(self, now: float) -> Counter[str]:
        """How many of each kind there were in the span."""
        return sum(self.slots(now), Counter[str]())

    def a_minute(self, now: float) -> int:
        """How many came in the last minute."""
        return sum(counts.total() for counts in self.slots(now)[-int(60 / SLOT) :])

    def spark(self, now: float, width: int) -> str:
        """The span as a line of small bars."""
        return bars([counts.total() for counts in self.slots(now)], width)


def bars(counts: list[int], width: int) -> str:
    """Numbers as bars, `width` of them, the highest of them a full block."""
    merged = spread(counts, width)
    top = max(merged, default=0)
    return "".join(_BARS[0 if not each else max(1, round(each * 8 / top))] for each in merged)


def spread(counts: list[int], width: int) -> list[int]:
    """`counts` summed or repeated so that there are `width` of them."""
    if not counts or width <= 0:
        return []
    if width >= len(counts):
        return [counts[at * len(counts) // width] for at in range(width)]
    merged = [0] * width
    for at, each in enumerate(counts):
        merged[at * width // len(counts)] += each
    return merged
