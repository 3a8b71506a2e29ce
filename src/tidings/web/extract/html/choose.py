"""The blocks of a page that are kept: by the learned model, and by the memory of the last look.

The model is boosted decision trees in `learned.json`, fitted by `benchmarks/parts/web_fit.py` on WCXB, the Web Content
eXtraction Benchmark by Murrough Foley (CC-BY-4.0, https://creativecommons.org/licenses/by/4.0/). A tree is a leaf (a
number) or `[feature, threshold, low, high]`: `low` applies when the feature is at most the threshold. The sum over all
trees is the logarithm of the odds; it is compiled to one Python expression, which is faster than walking the trees.

Without a memory, an advertisement more could move doubtful blocks across the cut. A known block keeps what was decided
about it; a new one takes over what was decided about the one in its place. New prose is chosen, except in the frame of
a page; what stands beside the content by name, as advertisements do, is not. A block is known by its text, in which
numbers count as equal, and by its place, the names of the elements around it. Watches also compare what is left out.
"""

import base64
import json
import math
import re
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import islice, takewhile
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast

from tidings.web.extract.html.blocks import Blocks, Node, PageBlock
from tidings.web.extract.html.features import KINDS, NAMES, block_features, page_features
from tidings.web.extract.html.page import HtmlPage
from tidings.web.extract.html.posts import is_quote
from tidings.web.extract.html.vocabulary import ARTICLE, ASIDE, DIALOG, FOOTER, HEADER, HEADINGS, MAIN, NAV
from tidings.web.extract.model import LISTS

# The extra price of a word that is kept from an article: readers miss its last words less than they mind the comments
# and teasers after it. Measured on pages of sites that are not held out.
STRICTNESS = 0.5

# The odds of all blocks of a page may be wrong together, by about so much; about articles and products, the model is
# surer by this share. Measured in the same way, in folds of sites: the mean over pages rises by 0.002.
SPREAD, SURER = 1.5, 0.2

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


def choose(page: HtmlPage, kinds: Sequence[float], prior: "Prior | None" = None) -> list[int]:
    """Returns the numbers of the blocks to keep, in the order of the page; `prior` is the choice of the last look."""
    blocks, learned = page.blocks.blocks, model()
    rows = block_features(page, learned.names, learned.texts)
    for row in rows:
        row.extend(kinds)
    sure = 1 + SURER * (kinds[KINDS.index("article")] + kinds[KINDS.index("product")])
    odds, kept, left = (prior or Prior()).weighed(blocks, [sure * learned.odds(row) for row in rows])
    strictness = 1 + STRICTNESS * kinds[0]
    keep = set(best_cut(odds, [block.words for block in blocks], strictness)) | kept
    # The headings directly above kept blocks are short, so the model tends to reject them.
    above: set[int] = set()
    for index in keep:
        place = index - 1
        while place >= 0 and place not in keep and blocks[place].node.tag in HEADINGS:
            above.add(place)
            place -= 1
    keep |= above | _quoted(page.blocks, keep)
    # The first `h1` is kept, unless the title or a kept block has the same text.
    first = next((index for index, block in enumerate(blocks) if block.node.tag == "h1"), None)
    if first is not None and keep:
        text = blocks[first].text
        if text.lower() not in page.title.lower() and not any(text in blocks[index].text for index in keep):
            keep.add(first)
    return sorted(keep - left)


def _quoted(page: Blocks, keep: Collection[int]) -> set[int]:
    """Returns the blocks of quotes beside a kept block: of those that are mostly kept, or mostly said nowhere else."""
    quotes = {node for node in page.nodes if node.tag in {"blockquote", "td"} and is_quote(node)}
    inside: defaultdict[Node, list[int]] = defaultdict(list)
    for number, block in enumerate(page.blocks if quotes else ()):
        if around := [node for node in block.node.upwards() if node in quotes]:
            inside[around[-1]].append(number)
    found: set[int] = set()
    said = "|".join(page.blocks[n].text for n in sorted(keep)) if inside else ""
    for quote, numbers in inside.items():
        # Some have a title in a container of their own, or are tables.
        levels = 6 if quote.tag == "td" else 2 if quote.parent and is_quote(quote.parent) else 1
        above = set(islice(quote.upwards(), 1, levels + 1))
        sides = [each for each in (numbers[0] - 1, numbers[-1] + 1) if each in keep]
        beside = any(not above.isdisjoint(page.blocks[each].node.upwards()) for each in sides)
        half = sum(page.blocks[number].words for number in numbers) / 2
        kept = sum(page.blocks[number].words for number in numbers if number in keep)
        long = [page.blocks[number] for number in numbers if page.blocks[number].words > _SHORT]
        new = sum(block.words for block in long if block.text not in said)
        if beside and max(kept, new) >= half:
            found.update(numbers)
    return found


def best_cut(odds: Sequence[float], sizes: Sequence[int], strictness: float = 1.0, spread: float = SPREAD) -> list[int]:
    """Returns the indexes to keep for the best expected F-measure, in which a kept word costs `strictness`."""
    order = sorted(range(len(odds)), key=lambda index: -odds[index])
    scores = [0.0] * (len(order) + 1)
    for moved, weight in ((-math.sqrt(3) * spread, 1 / 6), (0.0, 2 / 3), (math.sqrt(3) * spread, 1 / 6)):
        likely = [1 / (1 + math.exp(-each - moved)) for each in odds]
        expected = sum(chance * size for chance, size in zip(likely, sizes, strict=True))
        right = taken = 0.0
        for number, index in enumerate(order, 1):
            right += likely[index] * sizes[index]
            taken += sizes[index]
            scores[number] += weight * 2 * right / (strictness * taken + expected)
    return order[: scores.index(max(scores))]


_BESIDE: Final[dict[str, str]] = json.loads(Path(__file__).with_name("beside.json").read_text("utf-8"))
_KNOWN: Final = 8.0  # the odds of a block that is known
_LIKE_ITS_PLACE: Final = 2.0  # added to the odds of a new block, or taken from them
_FRAMES: Final = NAV | ASIDE | DIALOG
_CELLS: Final = frozenset(("td", "th", "dd"))
_TELLING: Final = re.compile(_BESIDE["telling"], re.IGNORECASE)  # prices, versions, stocks
_MOST: Final = 20_000  # blocks that are remembered
_DIGITS: Final = b"0123456789.,'"
_NUMBER: Final = re.compile(r"[\d.,'\u00a0\u202f]+")
_MARK, _TEXT, _EVEN = 8, 40, 0xFFFFFE  # the bytes of a mark; the bits of its text; those of its place, after these
_AROUND: Final = 4  # elements
_SMALL: Final = 5  # the part of a page that its advertisements take at most, each
_SHORT: Final = 8  # words of a title
_PROSE: Final = 8  # words of a block that is more than a label
_TEASERS: Final = 3  # links in a list of other pages
_LABELLED: Final = 80  # words of an advertisement with its label
_CAMEL: Final = re.compile(r"([a-z])([A-Z])")
# Names and titles of what differs with each look on many pages: advertisements, and lists of other pages.
_SURELY_BESIDE_NAME: Final = re.compile(_BESIDE["surely_named"])
_BESIDE_NAME: Final = re.compile("|".join((_BESIDE["surely_named"], _BESIDE["named"])))
_LABEL: Final = re.compile(_BESIDE["label"], re.IGNORECASE)
_BESIDE_TITLE: Final = re.compile(_BESIDE["title"], re.IGNORECASE)


def remembered(blocks: Sequence[PageBlock], chosen: Collection[int], unwanted: Collection[int], kind: str) -> str:
    """Returns the memory of a look that chose these blocks: a line of marks, the page's kind, and what is left out.

    Left out is a line for each block that was not chosen, is not `unwanted`, and may be content all the same. The links
    of some kinds of pages are their content.
    """
    fingerprints = enumerate(_fingerprints(blocks[:_MOST]))
    marks = [text | (place | (number in chosen)) << _TEXT for number, (text, place) in fingerprints]
    written = base64.b64encode(b"".join(mark.to_bytes(_MARK, "little") for mark in marks)).decode("ascii")
    known = {*chosen, *unwanted, *(number for number, block in enumerate(blocks) if block.hidden_spans)}
    tells = {number for number, block in enumerate(blocks[:_MOST])
             if number not in known and _tells(block, links=kind in LISTS)}  # fmt: skip
    # Short ones too that stand beside prose.
    near = {each for number in tells for each in (max(number - 1, 0), min(number + 1, len(blocks) - 1))
            if blocks[number].words >= _PROSE and blocks[each].node.parent is blocks[number].node.parent}  # fmt: skip
    left = sorted(tells | {each for each in near - known if not blocks[each].links})
    beside = _beside(blocks, left, certain=False)
    return "\n".join([written, kind, *(blocks[number].text for number in left if number not in beside)])


class Prior:
    """The choice of the last look. Nothing is known of a page that has no memory."""

    def __init__(self, memory: str = "") -> None:
        # By text and place, and by text alone: the choice for each block in the order of the page.
        self._known: defaultdict[tuple[int, int | None], list[bool]] = defaultdict(list)
        self._places: defaultdict[int, set[bool]] = defaultdict(set)
        self._order: list[tuple[int, int, bool]] = []  # the text of each block, its place and its choice
        try:
            marks = base64.b64decode(memory.partition("\n")[0], validate=True)
        except ValueError:
            return
        for start in range(0, len(marks) - _MARK + 1, _MARK):
            mark = int.from_bytes(marks[start : start + _MARK], "little")
            text, place, chosen = mark % (1 << _TEXT), mark >> _TEXT & _EVEN, bool(mark >> _TEXT & 1)
            self._known[text, place].append(chosen)
            self._known[text, None].append(chosen)
            self._places[place].add(chosen)
            self._order.append((text, place, chosen))

    def weighed(self, blocks: Sequence[PageBlock], odds: Sequence[float]) -> tuple[list[float], set[int], set[int]]:
        """Returns the odds of the blocks with what is known of them; the blocks to keep, and those to leave out."""
        moved, keep, leave = list(odds), set[int](), set[int]()
        if not self._known:
            likely = sum(block.words for block, one in zip(blocks, odds, strict=True) if one > 0)
            beside = _beside(blocks, range(len(blocks)), certain=True)
            # If most of what is likely has such a name, as the entries of a listing may have, the name says nothing.
            lost = sum(blocks[number].words for number in beside if odds[number] > 0)
            return moved, keep, set() if 2 * lost > likely else beside
        marks = list(_fingerprints(blocks))
        beside = _beside(blocks, range(len(blocks)), certain=False)
        # Chosen prose shows that the name of a container says little; so do not judge what stands beside it by that.
        homes = {blocks[number].node.parent for number in beside if True in self._known.get(marks[number], ())}
        found = self._found(marks)
        instead = self._replaced([text for text, _ in marks])
        for number, (text, place) in enumerate(marks):
            block, there = blocks[number], self._places.get(place, set())
            chosen = found.get(number)
            if chosen is None and there != {True} and number in beside and block.node.parent not in homes:
                leave.add(number)
                continue
            if chosen is None and (known := self._known.get((text, place)) or self._known.get((text, None))):
                chosen = known[-1]  # One more of them.
            if chosen is not None:
                (keep if chosen else leave).add(number)
                moved[number] = _KNOWN if chosen else -_KNOWN
                continue
            around = [each for each in (number - 1, number + 1) if found.get(each)]
            joins = any(blocks[each].node.parent is block.node.parent for each in around)
            if instead.get(number) or there == {True} or joins or _tells(block, links=False):
                keep.add(number)
                moved[number] = _KNOWN
            elif there == {False} or instead.get(number) is False:
                moved[number] -= _LIKE_ITS_PLACE
        return moved, keep, leave

    def _found(self, marks: Sequence[tuple[int, int]]) -> dict[int, bool]:
        """Returns what was decided about each block that is still there, in its place or, as its names may change, not.

        Of equal blocks, the first is the first of the last look, and so on.
        """
        found: dict[int, bool] = {}
        seen: Counter[tuple[int, int]] = Counter()
        for number, mark in enumerate(marks):
            if seen[mark] < len(known := self._known.get(mark, ())):
                found[number] = known[seen[mark]]
                seen[mark] += 1
        elsewhere: defaultdict[int, deque[bool]] = defaultdict(deque)
        for text, place, chosen in self._order:
            seen[text, place] -= 1
            if seen[text, place] < 0:
                elsewhere[text].append(chosen)
        for number, (text, _) in enumerate(marks):
            if number not in found and elsewhere[text]:
                found[number] = elsewhere[text].popleft()
        return found

    def _replaced(self, texts: Sequence[int]) -> dict[int, bool]:
        """Returns what was decided about the block that stood in the place of each one between the same neighbours."""
        counts = Counter(text for text, _, _ in self._order)
        places = {text: number for number, (text, _, _) in enumerate(self._order) if counts[text] == 1}
        found: dict[int, bool] = {}
        for number in range(1, len(texts) - 1):
            before, after = places.get(texts[number - 1]), places.get(texts[number + 1])
            if before is not None and after == before + 2:
                found[number] = self._order[before + 1][2]
        return found


def _tells(block: PageBlock, *, links: bool) -> bool:
    """Returns whether a block could be content: prose, a cell, a price, a version or a stock; or links, if they may be.

    Rather an alarm than a change that nobody hears of.
    """
    if 2 * block.links >= block.words and not links:
        return False
    told = (
        block.words >= _PROSE
        or block.node.tag in _CELLS
        or block.node.tag in HEADINGS
        or _TELLING.search(block.text) is not None
    )
    return told and not _is_in_frame(block)


def _is_in_frame(block: PageBlock) -> bool:
    """Returns whether a block is in the frame of the page. An article has a header and a footer of its own."""
    *within, root = block.node.upwards()
    around = above = 0
    for node in within:
        above |= node.semantics
        if 2 * node.words <= root.words:  # What is most of the page is no frame, whatever it says.
            around |= node.semantics
    return bool(around & _FRAMES or (around & (HEADER | FOOTER) and not above & (MAIN | ARTICLE)))


def _beside(blocks: Sequence[PageBlock], asked: Iterable[int], *, certain: bool) -> set[int]:
    """Returns the blocks, of those `asked`, that a name or a title puts beside the content; `certain`: beyond doubt."""
    name = _SURELY_BESIDE_NAME if certain else _BESIDE_NAME
    most = sum(block.words for block in blocks) // (_SMALL if certain else 2)  # words of a part that is not the page
    nodes: set[Node] = set()
    for number, block in enumerate(blocks):
        around = block.node if block.node.words > block.words else block.node.parent
        if block.words > _SHORT or around is None or around.words > most:
            continue
        titled = _BESIDE_TITLE.match(block.text) is not None
        if titled and certain and 2 * around.links <= around.words:  # Teasers have a description.
            inside = list(takewhile(lambda each, top=around: top in each.node.upwards(), blocks[number + 1 :]))
            titled = len(inside) <= 3 * sum(2 * each.links >= each.words for each in inside) >= 3 * _TEASERS
        # What comes last is no title, but for example the button "More news".
        titled = titled and (number == 0 or around not in blocks[number - 1].node.upwards())
        if titled or (around.words <= _LABELLED and _LABEL.fullmatch(block.text)):
            nodes.add(around)

    @cache
    def is_beside(node: Node | None) -> bool:
        if node is None or node.tag == "body" or node.words > most:
            return False
        # Most nodes have no name.
        named = node.key is not node.tag and _is_named(name, node.key[len(node.tag) :])
        return named or node in nodes or is_beside(node.parent)

    return {number for number in asked if is_beside(blocks[number].node)}


@lru_cache(50_000)
def _is_named(pattern: re.Pattern[str], names: str) -> bool:
    return pattern.search(names if names.islower() else _CAMEL.sub(r"\1-\2", names).lower()) is not None


def _fingerprints(blocks: Iterable[PageBlock]) -> Iterator[tuple[int, int]]:
    """Yields the text and the place of each block; the last bit of a place is free."""
    places: dict[Node, int] = {}
    for block in blocks:
        if (place := places.get(block.node)) is None:
            keys = "/".join(node.key for node in islice(block.node.upwards(), _AROUND))
            place = places[block.node] = _digest(keys) & _EVEN
        yield _digest(block.text), place


def _digest(text: str) -> int:
    # A regular expression would take a tenth of the time of a whole page.
    plain = text.encode().translate(None, _DIGITS) if text.isascii() else _NUMBER.sub("", text).encode(errors="replace")
    return zlib.crc32(plain) | (len(plain) & 0xFF) << 32
