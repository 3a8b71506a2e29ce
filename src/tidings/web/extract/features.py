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
    tag: float(number)
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
_NOTHING: Final = (0.0, 0.0, 0.0, 0.0)
_LEVELS: Final = 4
_SIZES: Final = 4
"""How many containers' sizes are told of, and how many numbers each is."""

_TELLING: Final = (
    *("navigation", "footer", "header", "side", "popup", "tags", "content", "post", "description", "review", "list"),
    *("headline", "slides", "hidden"),
)
"""The groups of names that tell something beyond their learned worth, in the order of `GROUPS`."""

Worths = Mapping[str, float]
"""The learned worth of words: how much of what they stand for is content, as a rule."""
Worth = tuple[float, float, float, int]
"""The least, the greatest, the sum and the number of the worths of several words."""
_UNKNOWN: Final[Worth] = (1.0, 0.0, 0.0, 0)

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

    __slots__ = ("above", "chain", "dominance", "groups", "named", "near", "repeated", "repeated_words", "semantics")

    def __init__(self, node: Node, chain: tuple[float, ...], above: "Heritage | None") -> None:
        self.chain = chain
        """The sizes of the container and of those around it, one behind the other."""
        self.groups = node.groups
        self.semantics = node.semantics
        if above is None:
            self.dominance = 1.0
            self.repeated = 1
            self.repeated_words = node.words
            self.near: tuple[Worth, ...] = ()
            self.above: Worth = _UNKNOWN
            self.named: tuple[float, ...] = ()
            return
        self.groups |= above.groups
        self.semantics |= above.semantics
        self.dominance = above.dominance
        self.repeated = above.repeated
        self.repeated_words = above.repeated_words
        self.near = above.near
        self.above = above.above
        self.named = above.named


def worth(words: Sequence[str], worths: Worths) -> Worth:
    """The worths of the words that have one."""
    least, greatest, total, number = 1.0, 0.0, 0.0, 0
    for word in words:
        value = worths.get(word)
        if value is not None:
            least = value if value < least else least  # noqa: FURB136 - a call takes three times as long
            greatest = value if value > greatest else greatest  # noqa: FURB136
            total += value
            number += 1
    return least, greatest, total, number


def add(one: Worth, other: Worth) -> Worth:
    """Both together."""
    return (
        min(one[0], other[0]),
        max(one[1], other[1]),
        one[2] + other[2],
        one[3] + other[3],
    )


def heritages(page: Blocks, names: Worths, usual: float) -> dict[Node, Heritage]:
    """What every node that holds words passes on, parents first."""
    alike = Counter([(node.parent, node.key) for node in page.nodes if node.words])
    words, long = page.root.words or 1, page.root.long or 1
    top = Heritage(page.root, _size(page.root, words, long) * _LEVELS, None)
    top.named = _named((), _UNKNOWN, usual)
    found: dict[Node, Heritage] = {page.root: top}
    worths: dict[str, Worth] = {}
    for node in page.nodes[1:]:
        parent = node.parent
        if not node.words or parent is None:
            continue
        above = found[parent]
        if node.words != parent.words:
            own = Heritage(node, _size(node, words, long) + above.chain[:-_SIZES], above)
            own.dominance = min(own.dominance, node.words / parent.widest)
        else:  # a wrapper around the same words is no level of its own
            own = Heritage(node, above.chain, above)
        times = alike[parent, node.key]
        if times > own.repeated:
            own.repeated, own.repeated_words = times, node.words
        if node.names:
            named = worths.get(node.key)
            if named is None:
                named = worths[node.key] = worth(node.names, names)
            if named[3]:
                own.near = (named, *above.near[:2])
                own.above = add(above.above, named)
                own.named = _named(own.near, own.above, usual)
        found[node] = own
    return found


def _size(node: Node, words: int, long: int) -> tuple[float, ...]:
    """A container's share of the page's words, its links, its share of the long text, and its size."""
    own = node.words or 1
    return own / words, node.links / own, node.long / long, math.log1p(own)


def _named(near: Sequence[Worth], above: Worth, usual: float) -> tuple[float, ...]:
    """What the names close by, and all names above, are worth."""
    close = _UNKNOWN
    for one in near:
        close = add(close, one)
    least, greatest, total, number = close
    low, high, whole, times = above
    return (
        *((least, greatest, total / number, float(number)) if number else (usual, usual, usual, 0.0)),
        *((low, high, whole / times, float(times)) if times else (usual, usual, usual, 0.0)),
    )


@lru_cache(50_000)
def _flags(semantics: int) -> tuple[float, ...]:
    return tuple(float(semantics >> bit & 1) for bit in _SEMANTIC_BITS)


@lru_cache(50_000)
def _grades(close: int, above: int) -> tuple[float, ...]:
    """For each telling group: 2 if a container close by is named so, 1 if one further up is."""
    return tuple(2.0 if close >> bit & 1 else float(above >> bit & 1) for bit in _GROUP_BITS)


class Reader:
    """Reads the features of all blocks of one page."""

    def __init__(self, page: Blocks, names: Worths, texts: Worths, usual: float) -> None:
        self._page = page
        self._usual = usual
        self._texts = texts
        self._words = page.root.words or 1
        self._long = page.root.long or 1
        self._heritages = heritages(page, names, usual)
        self._times = Counter([block.text for block in page.blocks])
        self._alike = Counter([block.node.key for block in page.blocks])
        self._alike_words: dict[str, int] = dict.fromkeys(self._alike, 0)
        for block in page.blocks:
            self._alike_words[block.node.key] += block.words
        self._h1 = next((number for number, block in enumerate(page.blocks) if block.node.tag == "h1"), None)

    def read(self) -> list[list[float]]:
        """A list of numbers for each block. All are floats, which are compared quicker among themselves."""
        found: list[list[float]] = []
        themselves = list(map(self._itself, self._page.blocks))
        looks = [_NOTHING, _NOTHING, *(one[:4] for one in themselves), _NOTHING, _NOTHING]
        before = long = 0
        since = 0.0
        heading = (self._usual, self._usual, 0.0)
        for index, (block, itself) in enumerate(zip(self._page.blocks, themselves, strict=True)):
            node = block.node
            own = self._heritages[node]
            found.append(
                [
                    *itself,
                    *self._place(block, own, index, before, long),
                    *own.chain,
                    *looks[index],
                    *looks[index + 1],
                    *looks[index + 3],
                    *looks[index + 4],
                    heading[0],
                    heading[1],
                    since,
                    heading[2],
                    *own.named,
                    *_grades(_close(node), own.groups),
                    *_flags(own.semantics),
                ]
            )
            since += 1.0
            if node.tag in _HEADINGS:
                heading = (itself[3], itself[4], float(node.tag[1]))
                since = 0.0
            before += block.words
            if block.words >= 12 and block.links * 3 < block.words:
                long += block.words
        return found

    def _itself(self, block: Block) -> tuple[float, ...]:
        text, words = block.text, block.words
        least = greatest = mean = self._usual
        if words <= SHORT:
            low, high, total, number = worth(WORD.findall(text.lower()), self._texts)
            if number:
                least, greatest, mean = low, high, total / number
        return (
            math.log1p(words),
            block.links / words,
            1.0 if text[-1] in _ENDS else 0.0,
            mean,
            least,
            greatest,
            len(text) / words,
            text.count(",") / words,
        )

    def _place(self, block: Block, own: Heritage, index: int, before: int, long: int) -> tuple[float, ...]:
        node = block.node
        return (
            _TAGS.get(node.tag, 40.0),
            float(node.depth),
            index / len(self._page.blocks),
            before / self._words,
            long / self._long,
            -999.0 if self._h1 is None else float(index - self._h1),
            math.log1p(self._alike[node.key]),
            self._alike_words[node.key] / self._words,
            float(self._times[block.text]),
            math.log1p(own.repeated),
            float(own.repeated_words),
            own.dominance,
            node.long / self._long,
            math.log1p(node.words),
            node.links / node.words,
        )


def _close(node: Node) -> int:
    """The groups of names of a container and of the two around it."""
    close = node.groups
    if node.parent is not None:
        close |= node.parent.groups
        if node.parent.parent is not None:
            close |= node.parent.parent.groups
    return close
