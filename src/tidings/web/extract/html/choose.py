"""The learned model, and the blocks of a page that it keeps: from the likeliest down to the best expected F-measure.

The model is boosted decision trees in `learned.json`, fitted by `benchmarks/parts/web_fit.py` on WCXB, the Web Content
eXtraction Benchmark by Murrough Foley (CC-BY-4.0, https://creativecommons.org/licenses/by/4.0/). A tree is a leaf (a
number) or `[feature, threshold, low, high]`: `low` applies when the feature is at most the threshold. The sum over all
trees is the logarithm of the odds; it is compiled to one Python expression, which is faster than walking the trees.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import FunctionType
from typing import Any, cast

from tidings.web.extract.html.blocks import PageBlock
from tidings.web.extract.html.features import KINDS, NAMES, block_features, page_features
from tidings.web.extract.html.memory import Prior
from tidings.web.extract.html.page import HtmlPage
from tidings.web.extract.html.vocabulary import HEADINGS

ALIKE = 0.2  # The share that the blocks in containers of the same kind have in a block's odds.
# The extra price of a word that is kept from an article: readers miss its last words less than they mind the comments
# and teasers after it. Measured on pages of sites that are not held out.
STRICTNESS = 0.5

# The first trees decide about a block whose odds they find so far from even; the others would add about this factor.
# Measured in the same way: three of five blocks are decided so, and the score stays the same.
FIRST, SURE, CERTAIN = 40, 1.7, 1.3

Sum = Callable[[Sequence[float]], float]  # Returns the sum of the leaves for a row of features.


@dataclass(frozen=True)
class Model:
    """Trees for blocks, the first of which decide about most; trees for each kind of page; and the worths of words."""

    first: Sum
    rest: Sum
    kinds: tuple[Sum, ...]
    names: dict[str, float]
    texts: dict[str, float]

    def odds(self, row: Sequence[float]) -> float:
        """Returns the logarithm of the odds that a block with these features is content."""
        odds = self.first(row)
        return odds * CERTAIN if abs(odds) > SURE else odds + self.rest(row)


@cache
def model() -> Model:
    """Returns the model of this version."""
    text = resources.files(__package__ or "").joinpath("learned.json").read_text("utf-8")
    return loaded(json.loads(text))


def loaded(written: dict[str, Any]) -> Model:
    """Returns a model from the format of `web_fit`."""
    if written["features"] != [*NAMES, *KINDS]:
        raise ValueError("the model was fitted with other features: fit it again (benchmarks/parts/web_fit.py)")
    return Model(
        first=compiled(written["blocks"][:FIRST]),
        rest=compiled(written["blocks"][FIRST:]),
        kinds=tuple(map(compiled, written["kinds"])),
        names={word: value / 100 for word, value in written["names"].items()},
        texts={word: value / 100 for word, value in written["texts"].items()},
    )


def compiled(trees: Sequence[list[Any] | float]) -> Sum:
    """Compiles the sum of `trees` to a function."""
    written = "+".join(["0.0", *map(_written, trees)])
    last = max(map(int, re.findall(r"f(\d+)", written)), default=-1)
    features = "".join(f"f{number}, " for number in range(last + 1))
    names: dict[str, object] = {}
    # The code contains only names of features and the numbers that `_written` formatted.
    exec(f"def total(row):\n [{features}*_] = row\n return {written}", names)  # noqa: S102
    total = cast("FunctionType", names["total"])
    # The code names no lines: while it is traced, Python 3.12 searches the whole table of lines at each jump that has
    # one, and the sum would take six hundred times as long under a debugger or with coverage.
    units = len(total.__code__.co_code) // 2
    without_lines = b"\xff" * (units // 8) + (bytes([0xF7 + units % 8]) if units % 8 else b"")
    total.__code__ = total.__code__.replace(co_linetable=without_lines)
    return total


def _written(tree: list[Any] | float) -> str:
    if not isinstance(tree, list):
        return f"({float(tree)!r})"
    feature, threshold, low, high = tree
    return f"({_written(low)} if f{int(feature)} <= {float(threshold)!r} else {_written(high)})"


def shares(groups: Sequence[Sum], row: Sequence[float]) -> list[float]:
    """Returns the probabilities of the sums; they add up to 1."""
    powers = [math.exp(total(row)) for total in groups]
    whole = sum(powers)
    return [power / whole for power in powers]


def kind_of(page: HtmlPage) -> tuple[str, list[float]]:
    """Returns the likeliest kind, and the probability of each of `KINDS`."""
    found = shares(model().kinds, page_features(page))
    return KINDS[found.index(max(found))], found


def evened(blocks: Sequence[PageBlock], odds: Sequence[float]) -> list[float]:
    """Returns odds that are moved a little towards those of all blocks, by words, in containers of the same kind."""
    totals, words = defaultdict[str, float](float), defaultdict[str, int](int)
    for block, own in zip(blocks, odds, strict=True):
        totals[block.node.key] += own * block.words
        words[block.node.key] += block.words
    usual = {key: totals[key] / number for key, number in words.items()}
    return [(1 - ALIKE) * own + ALIKE * usual[block.node.key] for block, own in zip(blocks, odds, strict=True)]


def choose(page: HtmlPage, kinds: Sequence[float], prior: Prior | None = None) -> list[int]:
    """Returns the numbers of the blocks to keep, in the order of the page; `prior` is the choice of the last look."""
    blocks, learned = page.blocks.blocks, model()
    rows = block_features(page, learned.names, learned.texts)
    for row in rows:
        row.extend(kinds)
    odds, kept, left = (prior or Prior()).weighed(blocks, evened(blocks, list(map(learned.odds, rows))))
    likely = [1 / (1 + math.exp(-each)) for each in odds]
    strictness = 1 + STRICTNESS * kinds[0]
    keep = set(best_cut(likely, [block.words for block in blocks], strictness)) | kept
    keep |= _headings_of(blocks, keep) | tables_after(blocks, keep)
    # The first `h1` is kept, unless the title or a kept block has the same text.
    first = next((index for index, block in enumerate(blocks) if block.node.tag == "h1"), None)
    if first is not None and keep:
        text = blocks[first].text
        if text.lower() not in page.title.lower() and not any(text in blocks[index].text for index in keep):
            keep.add(first)
    return sorted(keep - left)


def _headings_of(blocks: Sequence[PageBlock], keep: Collection[int]) -> set[int]:
    """Returns the headings directly above kept blocks; they are short, so the model tends to reject them."""
    above: set[int] = set()
    for index in keep:
        place = index - 1
        while place >= 0 and place not in keep and blocks[place].node.tag in HEADINGS:
            above.add(place)
            place -= 1
    return above


def tables_after(blocks: Sequence[PageBlock], keep: Collection[int]) -> set[int]:
    """Returns the blocks of tables that directly follow a kept block, in the same container."""
    found: set[int] = set()
    for index in keep:
        around, place = blocks[index].node.parent, index + 1
        while place < len(blocks) and place not in keep and around is not None:
            if not any(node.tag == "table" and node.parent is around for node in blocks[place].node.upwards()):
                break
            found.add(place)
            place += 1
    return found


def best_cut(likely: Sequence[float], sizes: Sequence[int], strictness: float = 1.0) -> list[int]:
    """Returns the indexes to keep for the best expected F-measure, in which a kept word costs `strictness`."""
    expected = sum(chance * size for chance, size in zip(likely, sizes, strict=True))
    order = sorted(range(len(likely)), key=lambda index: -likely[index])
    right = taken = 0.0
    best, cut = 0.0, 0
    for number, index in enumerate(order, 1):
        right += likely[index] * sizes[index]
        taken += sizes[index]
        if (score := 2 * right / (strictness * taken + expected)) > best:
            best, cut = score, number
    return order[:cut]
