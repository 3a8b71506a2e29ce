"""Which elements of two sequences belong together: the longest run of equal ones, found within a bound on work.

Myers' method, on what is left between elements that occur once on both sides. When the bound is reached, the rest is
taken to be replaced as a whole, which is always true, if not always short.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

Block = tuple[int, int, int, int]
"""`a[i1:i2]` became `b[j1:j2]`: these are different. Between two blocks the sequences are equal."""

STEPS: Final = 400_000
"""About a tenth of a second of work."""


def differences(a: Sequence[Hashable], b: Sequence[Hashable], steps: int = STEPS) -> list[Block]:
    """Where two sequences differ, in order."""
    blocks: list[Block] = []
    left = [steps]
    at_a = at_b = 0
    for anchor_a, anchor_b in [*_anchors(a, b), (len(a), len(b))]:
        _between(a, b, (at_a, anchor_a, at_b, anchor_b), left, blocks)
        at_a, at_b = anchor_a, anchor_b
    return _joined(blocks)


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Elements that occur once in both, as many as come in the same order on both sides."""
    once_a = {each for each, number in Counter(a).items() if number == 1}
    once_b = {each for each, number in Counter(b).items() if number == 1}
    places = {each: at for at, each in enumerate(b) if each in once_b and each in once_a}
    pairs = [(at, places[each]) for at, each in enumerate(a) if each in places]
    # The longest rising run of the places in b.
    tails: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        rank = bisect_left(tails, place)
        if rank == len(tails):
            tails.append(place)
            tops.append(index)
        else:
            tails[rank], tops[rank] = place, index
        before.append(tops[rank - 1] if rank else -1)
    run: list[tuple[int, int]] = []
    index = tops[-1] if tops else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _between(a: Sequence[Hashable], b: Sequence[Hashable], block: Block, left: list[int], blocks: list[Block]) -> None:
    i1, i2, j1, j2 = block
    while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    if i1 == i2 or j1 == j2:
        if i1 != i2 or j1 != j2:
            blocks.append((i1, i2, j1, j2))
        return
    matches = _myers(a[i1:i2], b[j1:j2], left)
    at_a, at_b = i1, j1
    for x, y in [*matches, (i2 - i1, j2 - j1)]:
        if (at_a, at_b) != (i1 + x, j1 + y):
            blocks.append((at_a, i1 + x, at_b, j1 + y))
        at_a, at_b = i1 + x + 1, j1 + y + 1


def _myers(a: Sequence[Hashable], b: Sequence[Hashable], left: list[int]) -> list[tuple[int, int]]:
    """The pairs of places where they are equal; none if that takes more steps than are left."""
    n, m = len(a), len(b)
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for depth in range(n + m + 1):
        left[0] -= 2 * depth + 1
        if left[0] < 0:
            return []
        trace.append(dict(furthest))
        for k in range(-depth, depth + 1, 2):
            down = k == -depth or (k != depth and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            start = x
            while x < n and x - k < m and a[x] == b[x - k]:
                x += 1
            left[0] -= x - start
            furthest[k] = x
            if x >= n and x - k >= m:
                return _back(trace, n, m)
    return []  # Not reached: at the last depth both ends are.


def _back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches: list[tuple[int, int]] = []
    for depth in range(len(trace) - 1, -1, -1):
        furthest, k = trace[depth], x - y
        down = k == -depth or (k != depth and furthest[k - 1] < furthest[k + 1])
        old_k = k + 1 if down else k - 1
        old_x = furthest[old_k]
        old_y = old_x - old_k
        while x > old_x and y > old_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = old_x, old_y
    return matches[::-1]


def _joined(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1][1] == block[0] and joined[-1][3] == block[2]:
            joined[-1] = (joined[-1][0], block[1], joined[-1][2], block[3])
        else:
            joined.append(block)
    return joined
