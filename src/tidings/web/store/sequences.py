"""Where two sequences differ, in bounded time.

Common ends are set aside. What is in between is cut at items that are unmistakably the same on both sides (they occur
once on each; failing that, equally often), and so on in each piece. What has no such items is compared by the shortest
way from one to the other, as long as that is short. Each step costs `work`; when that is used up, or a way is long,
a piece counts as replaced as a whole. So the result is always right, but may say more than it had to.

May import: nothing of Tidings.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

_LONGEST_WAY: Final = 1000
"""In items removed and added: a way of n takes n² steps and n² bytes or so."""


class Change(NamedTuple):
    """`before[start:end]` was replaced by `after[new_start:new_end]`; one of them may be empty."""

    start: int
    end: int
    new_start: int
    new_end: int


class Changes(NamedTuple):
    """All differences, in order, and whether they were found as exactly as could be."""

    changes: list[Change]
    exact: bool


def compare(before: Sequence[Hashable], after: Sequence[Hashable], work: int = 3_000_000) -> Changes:
    """What to replace in `before` to get `after`."""
    numbers: dict[Hashable, int] = {}
    old = [numbers.setdefault(item, len(numbers)) for item in before]
    new = [numbers.setdefault(item, len(numbers)) for item in after]
    return _Comparison(old, new, work).run()


class _Comparison:
    def __init__(self, old: list[int], new: list[int], work: int) -> None:
        self._old = old
        self._new = new
        self._work = work
        self._exact = True

    def run(self) -> Changes:
        pieces = [Change(0, len(self._old), 0, len(self._new))]
        found: list[Change] = []
        while pieces:
            piece = self._trimmed(pieces.pop())
            if piece.start == piece.end or piece.new_start == piece.new_end:
                if piece.start != piece.end or piece.new_start != piece.new_end:
                    found.append(piece)
                continue
            smaller = self._cut(piece)
            if smaller is None:
                found.append(piece)
            else:
                pieces += smaller
        return Changes(_joined(sorted(found)), self._exact)

    def _trimmed(self, piece: Change) -> Change:
        start, end, new_start, new_end = piece
        while start < end and new_start < new_end and self._old[start] == self._new[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and self._old[end - 1] == self._new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        return Change(start, end, new_start, new_end)

    def _cut(self, piece: Change) -> list[Change] | None:
        """The pieces between what is the same within `piece`; None if it is replaced as a whole."""
        size = piece.end - piece.start + piece.new_end - piece.new_start
        if self._work < size:
            self._exact = False
            return None
        self._work -= size
        old, new = self._old[piece.start : piece.end], self._new[piece.new_start : piece.new_end]
        counts, new_counts = Counter(old), Counter(new)
        if counts.keys().isdisjoint(new_counts):
            return None
        same = _anchors(old, new, counts, new_counts)
        if not same:
            longest = min(_LONGEST_WAY, int(max(self._work, 0) ** 0.5))
            way = _shortest(old, new, longest)
            steps = longest if way is None else size - 2 * len(way)
            self._work -= steps**2
            if way is None:
                self._exact = False
                return None
            same = way
        return _between(piece, same)


def _between(piece: Change, same: list[tuple[int, int]]) -> list[Change]:
    pieces: list[Change] = []
    start, new_start = piece.start, piece.new_start
    for place, new_place in same:
        pieces.append(Change(start, piece.start + place, new_start, piece.new_start + new_place))
        start, new_start = piece.start + place + 1, piece.new_start + new_place + 1
    pieces.append(Change(start, piece.end, new_start, piece.new_end))
    return [one for one in pieces if one.start < one.end or one.new_start < one.new_end]


def _joined(changes: list[Change]) -> list[Change]:
    """Neighbours made one."""
    joined: list[Change] = []
    for change in changes:
        last = joined[-1] if joined else None
        if last and last.end == change.start and last.new_end == change.new_start:
            joined[-1] = Change(last.start, change.end, last.new_start, change.new_end)
        else:
            joined.append(change)
    return joined


def _anchors(old: list[int], new: list[int], counts: Counter[int], new_counts: Counter[int]) -> list[tuple[int, int]]:
    """Places of the same on both sides, ascending on both."""
    for most in (1, len(old)):
        wanted = {item for item, count in counts.items() if count <= most and new_counts[item] == count}
        if wanted:
            places: dict[int, list[int]] = {}
            for new_place, item in enumerate(new):
                if item in wanted:
                    places.setdefault(item, []).append(new_place)
            turns = {item: iter(found) for item, found in places.items()}
            return _ascending([(place, next(turns[item])) for place, item in enumerate(old) if item in wanted])
    return []


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, which ascend in the first, that ascend in the second too."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(second)
            at.append(index)
        else:
            ends[length], at[length] = second, index
    run: list[tuple[int, int]] = []
    index = at[-1] if at else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _shortest(old: list[int], new: list[int], longest: int) -> list[tuple[int, int]] | None:
    """What stays on the shortest way from `old` to `new`; None if that removes and adds more than `longest`.

    Myers' algorithm: for each number of steps the furthest that can be got on each diagonal (`place - new_place`).
    """
    furthest = array("l", [0]) * (2 * longest + 3)
    middle = longest + 1
    trace: list[array[int]] = []
    for steps in range(longest + 1):
        trace.append(furthest[middle - steps - 1 : middle + steps + 2])
        for diagonal in range(-steps, steps + 1, 2):
            here = middle + diagonal
            down = diagonal == -steps or (diagonal != steps and furthest[here - 1] < furthest[here + 1])
            place = furthest[here + 1] if down else furthest[here - 1] + 1
            while place < len(old) and place - diagonal < len(new) and old[place] == new[place - diagonal]:
                place += 1
            furthest[here] = place
            if place >= len(old) and place - diagonal >= len(new):
                return _walked_back(trace, len(old), len(new))
    return None


def _walked_back(trace: list["array[int]"], place: int, new_place: int) -> list[tuple[int, int]]:
    same: list[tuple[int, int]] = []
    for steps in range(len(trace) - 1, -1, -1):
        furthest, middle = trace[steps], steps + 1
        diagonal = place - new_place
        here = middle + diagonal
        down = diagonal == -steps or (diagonal != steps and furthest[here - 1] < furthest[here + 1])
        origin = furthest[here + 1] if down else furthest[here - 1]
        while place > (origin if down else origin + 1):
            place, new_place = place - 1, new_place - 1
            same.append((place, new_place))
        place, new_place = origin, origin - (diagonal + 1 if down else diagonal - 1)
    return same[::-1]
