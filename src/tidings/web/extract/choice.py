"""The method for nearly all pages: ask the model about each block, keep those that together serve the reader best.

How sure one must be to keep a block depends on the page: where everything is doubtful, a low bar loses less than a high
one. So there is no fixed bar: the blocks are taken from the likeliest down, and the cut is made where the expected
balance of what is kept wrongly and what is lost (the F-measure, in words) is best.
"""

import math
from collections.abc import Collection, Sequence

from tidings.web.extract.blocks import Block
from tidings.web.extract.features import Reader
from tidings.web.extract.kinds import KINDS, page_features
from tidings.web.extract.page import Page
from tidings.web.extract.trees import model, shares

USUAL = 0.5
"""The worth of words nobody knows."""
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
NEIGHBOURS = 0.2
"""How much of a block's odds is its neighbours'."""


def kind_of(page: Page) -> tuple[str, list[float]]:
    """The likeliest kind, and the probability of each of `KINDS`."""
    found = shares(model().kinds, page_features(page))
    return KINDS[found.index(max(found))], found


def likelihoods(page: Page, kinds: Sequence[float]) -> list[float]:
    """For each block of the page: how likely is it content?"""
    learned = model()
    rows = Reader(page.blocks, learned.names, learned.texts, USUAL).read()
    for row in rows:
        row.extend(kinds)
    odds = list(map(learned.blocks, rows))
    return [1 / (1 + math.exp(-one)) for one in smoothed(odds)]


def smoothed(odds: Sequence[float]) -> list[float]:
    """Content stands together: each block is drawn a little towards its neighbours."""
    before = [*odds[:1], *odds[:-1]]
    after = [*odds[1:], *odds[-1:]]
    side = NEIGHBOURS / 2
    return [
        (1 - NEIGHBOURS) * own + side * (left + right) for own, left, right in zip(odds, before, after, strict=True)
    ]


def choose(page: Page, kinds: Sequence[float]) -> list[Block]:
    """The blocks to keep, in the order of the page."""
    blocks = page.blocks.blocks
    likely = likelihoods(page, kinds)
    keep = set(best_cut(likely, [block.words for block in blocks]))
    keep |= _headings_of(blocks, keep)
    return [blocks[index] for index in sorted(keep | _headline(page, keep))]


def _headings_of(blocks: Sequence[Block], keep: Collection[int]) -> set[int]:
    """The headings right above what is kept: few words, taken for ornaments by the model, and the first to change."""
    above: set[int] = set()
    for index in keep:
        place = index - 1
        while place >= 0 and place not in keep and blocks[place].node.tag in _HEADINGS:
            above.add(place)
            place -= 1
    return above


def _headline(page: Page, keep: Collection[int]) -> set[int]:
    """The page's first `h1`, if neither its title nor what is kept says the same."""
    blocks = page.blocks.blocks
    first = next((index for index, block in enumerate(blocks) if block.node.tag == "h1"), None)
    if first is None or not keep:
        return set()
    text = blocks[first].text
    said = text.lower() in page.title.lower() or any(text in blocks[index].text for index in keep)
    return set() if said else {first}


def best_cut(likely: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """The indexes to keep so that the expected F-measure is greatest."""
    expected = sum(chance * size for chance, size in zip(likely, sizes, strict=True))
    order = sorted(range(len(likely)), key=lambda index: -likely[index])
    right = taken = 0.0
    best, cut = 0.0, 0
    for number, index in enumerate(order, 1):
        right += likely[index] * sizes[index]
        taken += sizes[index]
        if (score := 2 * right / (taken + expected)) > best:
            best, cut = score, number
    return order[:cut]
