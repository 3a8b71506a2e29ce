"""What can be known of a block without understanding it, as a list of numbers: the input of the learned model.

Three sorts: the block itself (length, links, punctuation, prices, dates, words that boilerplate is made of), where it
stands (tags and names above it, how much of the page its containers hold, how often its kind is repeated), and what
stands around it (the blocks before and after, the heading above). `NAMES` tells the order; a model is only good for
the list it was fitted with.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tidings.web.extract.blocks import SEMANTICS, Block, Blocks, Node
from tidings.web.extract.names import GROUPS

PRICE: Final = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:€|£|USD|EUR|kr|zł)(?!\w)")
DATE: Final = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[:/.]\d{2}\b|\bago\b")
WORD: Final = re.compile(r"\w+")
SHORT: Final = 15
"""Words up to which a block is judged by the words it is made of."""

_TAGS: Final = {
    tag: number
    for number, tag in enumerate(
        "p h1 h2 h3 h4 h5 h6 blockquote pre figcaption dd dt td th li main article section div summary button label "
        "form header footer nav aside".split()
    )
}
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_ENDS: Final = frozenset('.!?:;。！？"”)')
_NOTHING: Final = (0.0, 0.0, 0, 0.0)
_LEVELS: Final = 4

Worths = Mapping[str, float]
"""The learned worth of words: how much of what they stand for is content, as a rule."""
Worth = tuple[float, float, float, int]
"""The least, the greatest, the sum and the number of the worths of several words."""

NAMES: Final = (
    *("words", "link share", "ends a sentence", "word worth"),
    *("word worth least", "word worth greatest", "word worth count"),
    *("word length", "digits", "commas", "capital", "price", "date", "bold", "time", "code"),
    *("tag", "depth", "index", "words before", "long before", "from h1", "in title", "title in it"),
    *("alike", "alike words", "same text", "repeated", "repeated words", "dominance"),
    *("node long", "node words", "node links", "node blocks"),
    *(f"{what} {level}" for level in range(_LEVELS) for what in ("words share", "links", "long share", "size")),
    *(f"{what} {place}" for place in (-2, -1, 1, 2) for what in ("words", "link share", "sentence", "worth")),
    *("heading worth", "heading least", "since heading", "heading level"),
    *(f"near worth {what}" for what in ("least", "greatest", "mean", "count")),
    *(f"above worth {what}" for what in ("least", "greatest", "mean", "count")),
    *(f"group {name}" for name, _ in GROUPS),
    *(f"semantics {bit}" for bit in range(SEMANTICS)),
)


class Heritage:
    """What a node passes on to everything in it."""

    __slots__ = ("above", "chain", "dominance", "groups", "near", "repeated", "repeated_words", "semantics")

    def __init__(self, node: Node, chain: tuple[Node, ...]) -> None:
        self.groups = node.groups
        self.semantics = node.semantics
        self.dominance = 1.0
        self.chain = chain
        self.repeated = 1
        self.repeated_words = node.words
        self.near: tuple[Worth, ...] = ()
        self.above: Worth = (1.0, 0.0, 0.0, 0)


def worth(words: Sequence[str], worths: Worths) -> Worth:
    """The worths of the words that have one."""
    least, greatest, total, number = 1.0, 0.0, 0.0, 0
    for word in words:
        value = worths.get(word)
        if value is not None:
            if value < least:
                least = value
            if value > greatest:
                greatest = value
            total += value
            number += 1
    return least, greatest, total, number


def add(one: Worth, other: Worth) -> Worth:
    """Both together."""
    return (
        one[0] if one[0] < other[0] else other[0],
        one[1] if one[1] > other[1] else other[1],
        one[2] + other[2],
        one[3] + other[3],
    )


def heritages(page: Blocks, names: Worths) -> dict[Node, Heritage]:
    """What every node that holds words passes on, parents first."""
    alike = Counter((node.parent, node.key) for node in page.nodes if node.words)
    found: dict[Node, Heritage] = {page.root: Heritage(page.root, (page.root,))}
    for node in page.nodes[1:]:
        if not node.words or node.parent is None:
            continue
        above = found[node.parent]
        if node.words != node.parent.words:
            own = Heritage(node, (node, *above.chain[: _LEVELS - 1]))
            own.dominance = min(above.dominance, node.words / node.parent.widest)
        else:  # a wrapper around the same words is no level of its own
            own = Heritage(node, above.chain)
            own.dominance = above.dominance
        own.groups |= above.groups
        own.semantics |= above.semantics
        own.repeated, own.repeated_words = above.repeated, above.repeated_words
        times = alike[node.parent, node.key]
        if times > own.repeated:
            own.repeated, own.repeated_words = times, node.words
        named = worth(node.names, names)
        own.near = (named, *above.near[:2]) if named[3] else above.near
        own.above = add(above.above, named) if named[3] else above.above
        found[node] = own
    return found


class Reader:
    """Reads the features of all blocks of one page."""

    def __init__(self, page: Blocks, title: str, names: Worths, texts: Worths, usual: float) -> None:
        self._page = page
        self._usual = usual
        self._texts = texts
        self._title = frozenset(WORD.findall(title.lower()))
        self._words = page.root.words or 1
        self._long = page.root.long or 1
        self._heritages = heritages(page, names)
        self._times = Counter(block.text for block in page.blocks)
        self._alike = Counter(block.node.key for block in page.blocks)
        self._alike_words: Counter[str] = Counter()
        for block in page.blocks:
            self._alike_words[block.node.key] += block.words
        self._h1 = next((number for number, block in enumerate(page.blocks) if block.node.tag == "h1"), None)

    def read(self) -> list[list[float]]:
        """A list of numbers for each block."""
        found: list[list[float]] = []
        looks: list[tuple[float, float, int, float]] = [_NOTHING, _NOTHING]
        before = long = since = 0
        heading: tuple[float, float, int] = (self._usual, self._usual, 0)
        for index, block in enumerate(self._page.blocks):
            row, look, small = self._itself(block)
            looks.append(look)
            row += self._place(block, index, before, long, small)
            row += self._around(block)
            tag = block.node.tag
            row += (*heading[:2], since, heading[2])
            since += 1
            if tag in _HEADINGS:
                heading = (row[3], row[4], int(tag[1]))
                since = 0
            before += block.words
            if block.words >= 12 and block.links * 3 < block.words:
                long += block.words
            row += self._names(block.node)
            found.append(row)
        looks += (_NOTHING, _NOTHING)
        at = NAMES.index("words -2")
        for index, row in enumerate(found):
            row[at:at] = (*looks[index], *looks[index + 1], *looks[index + 3], *looks[index + 4])
        return found

    def _itself(self, block: Block) -> tuple[list[float], tuple[float, float, int, float], frozenset[str]]:
        text, words = block.text, block.words
        size = len(text)
        small: frozenset[str] = frozenset()
        least = greatest = mean = self._usual
        number = 0
        if words <= SHORT:
            small = frozenset(WORD.findall(text.lower()))
            low, high, total, number = worth(tuple(small), self._texts)
            if number:
                least, greatest, mean = low, high, total / number
        bold = time = code = 0
        for _, element, _ in block.marks:
            tag = element.tag
            bold |= tag in {"b", "strong"}
            time |= tag == "time"
            code |= tag == "code"
        look = (math.log1p(words), block.links / words, int(text[-1] in _ENDS), mean)
        head = text[:200]
        row: list[float] = [
            *look,
            least,
            greatest,
            number,
            size / words,
            sum(map(str.isdigit, head)) / len(head),
            text.count(",") / words,
            text[0].isupper(),
            PRICE.search(head) is not None,
            words < 20 and DATE.search(head) is not None,
            bold,
            time,
            code,
        ]
        return row, look, small

    def _place(self, block: Block, index: int, before: int, long: int, small: frozenset[str]) -> list[float]:
        node = block.node
        own = self._heritages[node]
        shared = len(small & self._title)
        return [
            _TAGS.get(node.tag, 40),
            node.depth,
            index / len(self._page.blocks),
            before / self._words,
            long / self._long,
            -999 if self._h1 is None else index - self._h1,
            shared / (len(small) or 1),
            shared / (len(self._title) or 1),
            math.log1p(self._alike[node.key]),
            self._alike_words[node.key] / self._words,
            self._times[block.text],
            math.log1p(own.repeated),
            own.repeated_words,
            own.dominance,
            node.long / self._long,
            math.log1p(node.words),
            node.links / node.words,
            node.blocks,
        ]

    def _around(self, block: Block) -> list[float]:
        chain = self._heritages[block.node].chain
        row: list[float] = []
        for level in range(_LEVELS):
            node = chain[level] if level < len(chain) else chain[-1]
            row += (node.words / self._words, node.links / node.words, node.long / self._long, math.log1p(node.words))
        return row

    def _names(self, node: Node) -> list[float]:
        own = self._heritages[node]
        near: Worth = (1.0, 0.0, 0.0, 0)
        for one in own.near:
            near = add(near, one)
        row: list[float] = []
        for least, greatest, total, number in (near, own.above):
            row += (least, greatest, total / number, number) if number else (self._usual,) * 3 + (0,)
        close = node.groups
        if node.parent is not None:
            close |= node.parent.groups
            if node.parent.parent is not None:
                close |= node.parent.parent.groups
        row += [2 if close >> bit & 1 else own.groups >> bit & 1 for bit in range(len(GROUPS))]
        row += [own.semantics >> bit & 1 for bit in range(SEMANTICS)]
        return row
