"""What can be known of a block without understanding it, as a list of numbers: the input of the learned model.

Three sorts: the block itself (length, links, punctuation, the words that boilerplate is made of), where it
stands (tags and names above it, how much of the page its containers hold, how often its kind is repeated), and what
stands around it (the blocks before and after, the heading above). `NAMES` tells the order; a model is only good for
the list it was fitted with.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tidings.web.extract.blocks import (
    ASIDE,
    DIALOG,
    FOOTER,
    FORM,
    HEADER,
    HEADING,
    ITEM,
    LIST,
    MAIN,
    NAV,
    UNSEEN,
    Block,
    Blocks,
    Node,
)
from tidings.web.extract.names import GROUPS

PRICE: Final = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:€|£|USD|EUR|kr|zł)(?!\w)")
DATE: Final = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[:/.]\d{2}\b|\bago\b")
WORD: Final = re.compile(r"\w+")
SHORT: Final = 15
"""Words up to which a block is judged by the words it is made of."""

_TAGS: Final = {
    tag: number
    for number, tag in enumerate(
        [
            "p",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "blockquote",
            "pre",
            "figcaption",
            "dd",
            "dt",
            "td",
            "th",
            "li",
            "main",
            "article",
            "section",
            "div",
            "summary",
            "button",
            "label",
            "form",
            "header",
            "footer",
            "nav",
            "aside",
        ]
    )
}
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_ENDS: Final = frozenset('.!?:;"”)。\N{FULLWIDTH EXCLAMATION MARK}\N{FULLWIDTH QUESTION MARK}')
_NOTHING: Final = (0.0, 0.0, 0, 0.0)
_LEVELS: Final = 4

_TELLING: Final = (
    *("navigation", "footer", "header", "side", "popup", "tags", "content", "post", "description", "review", "list"),
    *("headline", "slides", "hidden"),
)
"""The groups of names that tell something beyond their learned worth, in the order of `GROUPS`."""

Worths = Mapping[str, float]
"""The learned worth of words: how much of what they stand for is content, as a rule."""
Worth = tuple[float, float, float, int]
"""The least, the greatest, the sum and the number of the worths of several words."""
Size = tuple[float, float, float, float]
"""A container's share of the page's words, its links, its share of the long text, and its size."""

NAMES: Final = (
    *("words", "link share", "ends a sentence", "word worth"),
    *("word worth least", "word worth greatest", "word length", "commas"),
    *("tag", "depth", "index", "words before", "long before", "from h1"),
    *("alike", "alike words", "same text", "repeated", "repeated words", "dominance"),
    *("node long", "node words", "node links"),
    *(f"{what} {level}" for level in range(_LEVELS) for what in ("words share", "links", "long share", "size")),
    *(f"{what} {place}" for place in (-2, -1, 1, 2) for what in ("words", "link share", "sentence", "worth")),
    *("heading worth", "heading least", "since heading", "heading level"),
    *(f"near worth {what}" for what in ("least", "greatest", "mean", "count")),
    *(f"above worth {what}" for what in ("least", "greatest", "mean", "count")),
    *(f"group {name}" for name in _TELLING),
    *("nav", "header", "footer", "aside", "main", "form", "list", "item", "dialog", "heading", "unseen"),
)
_GROUP_BITS: Final = tuple(number for number, (name, _) in enumerate(GROUPS) if name in _TELLING)
_SEMANTIC_BITS: Final = tuple(
    mark.bit_length() - 1 for mark in (NAV, HEADER, FOOTER, ASIDE, MAIN, FORM, LIST, ITEM, DIALOG, HEADING, UNSEEN)
)


class Heritage:
    """What a node passes on to everything in it."""

    __slots__ = ("above", "chain", "dominance", "groups", "near", "repeated", "repeated_words", "semantics")

    def __init__(self, node: Node, chain: tuple[Size, ...]) -> None:
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
            least = min(least, value)
            greatest = max(greatest, value)
            total += value
            number += 1
    return least, greatest, total, number


def add(one: Worth, other: Worth) -> Worth:
    """Both together."""
    return (
        min(other[0], one[0]),
        max(other[1], one[1]),
        one[2] + other[2],
        one[3] + other[3],
    )


def heritages(page: Blocks, names: Worths) -> dict[Node, Heritage]:
    """What every node that holds words passes on, parents first."""
    alike = Counter((node.parent, node.key) for node in page.nodes if node.words)
    words, long = page.root.words or 1, page.root.long or 1
    found: dict[Node, Heritage] = {page.root: Heritage(page.root, (_size(page.root, words, long),) * _LEVELS)}
    for node in page.nodes[1:]:
        if not node.words or node.parent is None:
            continue
        above = found[node.parent]
        if node.words != node.parent.words:
            own = Heritage(node, (_size(node, words, long), *above.chain[:-1]))
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


def _size(node: Node, words: int, long: int) -> Size:
    own = node.words or 1
    return own / words, node.links / own, node.long / long, math.log1p(own)


@lru_cache(50_000)
def _flags(mask: int, bits: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(mask >> bit & 1 for bit in bits)


@lru_cache(50_000)
def _grades(close: int, above: int) -> tuple[int, ...]:
    """For each telling group: 2 if a container close by is named so, 1 if one further up is."""
    return tuple(2 if close >> bit & 1 else above >> bit & 1 for bit in _GROUP_BITS)


class Reader:
    """Reads the features of all blocks of one page."""

    def __init__(self, page: Blocks, names: Worths, texts: Worths, usual: float) -> None:
        self._page = page
        self._usual = usual
        self._texts = texts
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
            row, look = self._itself(block)
            looks.append(look)
            row += self._place(block, index, before, long)
            for size in self._heritages[block.node].chain:
                row += size
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

    def _itself(self, block: Block) -> tuple[list[float], tuple[float, float, int, float]]:
        text, words = block.text, block.words
        least = greatest = mean = self._usual
        if words <= SHORT:
            low, high, total, number = worth(WORD.findall(text.lower()), self._texts)
            if number:
                least, greatest, mean = low, high, total / number
        look = (math.log1p(words), block.links / words, int(text[-1] in _ENDS), mean)
        return [*look, least, greatest, len(text) / words, text.count(",") / words], look

    def _place(self, block: Block, index: int, before: int, long: int) -> list[float]:
        node = block.node
        own = self._heritages[node]
        return [
            _TAGS.get(node.tag, 40),
            node.depth,
            index / len(self._page.blocks),
            before / self._words,
            long / self._long,
            -999 if self._h1 is None else index - self._h1,
            math.log1p(self._alike[node.key]),
            self._alike_words[node.key] / self._words,
            self._times[block.text],
            math.log1p(own.repeated),
            own.repeated_words,
            own.dominance,
            node.long / self._long,
            math.log1p(node.words),
            node.links / node.words,
        ]

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
        above, semantics = own.groups, own.semantics
        row += _grades(close, above)
        row += _flags(semantics, _SEMANTIC_BITS)
        return row
