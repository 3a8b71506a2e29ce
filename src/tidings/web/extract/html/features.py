"""Numbers about a page and its blocks: the input of the learned model, which only works with those it was fitted with.

Those of a page become a probability for each kind of page, and all of these are features of its blocks. Those of a
block are about itself, its containers, and its surroundings; `NAMES` has their order.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings.web.extract.html.blocks import Blocks, Node, PageBlock
from tidings.web.extract.html.page import HtmlPage, types_of
from tidings.web.extract.html.vocabulary import GROUPS, HEADINGS, SEMANTICS

PRICE: Final = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:€|£|USD|EUR|kr|zł)(?!\w)")
DATE: Final = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[:/.]\d{2}\b|\bago\b")
WORD: Final = re.compile(r"\w+")
USUAL: Final = 0.5  # The worth of unknown words.
SHORT: Final = 15  # The most words of a block that is judged by its words.

_TAG_NAMES = (
    "p h1 h2 h3 h4 h5 h6 blockquote pre figcaption dd dt td th li main article section div summary button label form "
    "header footer nav aside"
)
_TAGS: Final = {tag: float(number) for number, tag in enumerate(_TAG_NAMES.split())}
_ENDS: Final = frozenset('.!?:;"”)。\N{FULLWIDTH EXCLAMATION MARK}\N{FULLWIDTH QUESTION MARK}')
_NOTHING: Final = (0.0, 0.0, 0.0, 0.0)
_LEVELS: Final = 4
_SIZES: Final = 4  # The containers whose sizes are features, and the numbers for each.

# Short texts that begin a part of a page, such as "More from" and "Comments": the pattern of each sort.
_CUES: Final = {
    name: re.compile(pattern) for name, pattern in json.loads(Path(__file__).with_name("cues.json").read_text()).items()
}
_CUE_FLAGS: Final = [tuple(float(cues >> bit & 1) for bit in range(len(_CUES))) for cues in range(1 << len(_CUES))]
_ANY_CUE: Final = re.compile("|".join(pattern.pattern for pattern in _CUES.values()))
_CUE_WORDS: Final = 10  # The most words of such a text.
_FAR: Final = 99.0
_AROUND: Final = 6  # The blocks before and after one that are its surroundings.

Worths = Mapping[str, float]  # The learned worth of words: the usual share of content with them.
# The least, the greatest, the sum and the number of the worths of several words.
Worth = tuple[float, float, float, int]
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
    *(f"group {name}" for name, _ in GROUPS),
    *SEMANTICS,
    *(f"led by {name}" for name in _CUES),
    *(f"since {name}" for name in _CUES),
    *(f"{name} around" for name in _CUES),
    *("seen before", "in title", "in data", "main steps", "before main", "after main"),
    *("links before", "links after", "long before near", "long after near", "sentences before", "sentences after"),
)
_GROUP_BITS: Final = tuple(range(len(GROUPS)))
_SEMANTIC_BITS: Final = tuple(mark.bit_length() - 1 for mark in SEMANTICS.values())


@dataclass(slots=True, eq=False)
class Inherited:
    """The features that a node passes on to everything in it."""

    chain: tuple[float, ...]  # The sizes of the container and of those around it, joined.
    groups: int
    semantics: int
    dominance: float
    repeated: int
    repeated_words: int
    # The worths of the names of all containers together, then of the last three with known ones.
    names: tuple[Worth, ...]
    led: int = 0  # The cues that begin a container.
    steps: int = 0  # Levels from the main text up to the first container that has this node, too.


def worth(words: Sequence[str], worths: Worths) -> Worth:
    """Returns the worths of the words that have one."""
    least, greatest, total, number = 1.0, 0.0, 0.0, 0
    for word in words:
        value = worths.get(word)
        if value is not None:
            least = value if value < least else least  # noqa: FURB136 - min() takes three times as long
            greatest = value if value > greatest else greatest  # noqa: FURB136
            total += value
            number += 1
    return least, greatest, total, number


def add(one: Worth, other: Worth) -> Worth:
    """Returns both worths combined."""
    least, greatest, total, number = one
    low, high, whole, times = other
    return (
        low if low < least else least,  # noqa: FURB136 - as above
        high if high > greatest else greatest,  # noqa: FURB136
        total + whole,
        number + times,
    )


def _cues(block: PageBlock, text: str) -> int:
    """Returns a bit for each sort of cue that the text, which is in lower case, is."""
    if block.words > _CUE_WORDS or not _ANY_CUE.match(text):
        return 0
    return sum([1 << number for number, pattern in enumerate(_CUES.values()) if pattern.match(text)])


def _led(page: Blocks, cues: Sequence[int]) -> dict[Node, int]:
    """Returns the cues of the first text in each container; those of most of the page do not count."""
    found: dict[Node, int] = {}
    most = page.root.long / 2
    for block, cue in zip(page.blocks, cues, strict=True):
        for node in block.node.upwards():
            if node in found:
                break
            found[node] = cue if node.long <= most else 0
    return found


def _steps(page: Blocks) -> dict[Node, int]:
    """Returns the container with most of the main text, and those around it, with their distance from it."""
    sums: dict[Node, int] = {}
    for block in page.blocks:
        if block.is_long and block.node.parent is not None:
            sums[block.node.parent] = sums.get(block.node.parent, 0) + block.words
    main = max(sums, key=lambda node: sums[node], default=page.root)
    return {node: steps for steps, node in enumerate(main.upwards())}


def inherited_by_node(
    page: Blocks, names: Worths, led: Mapping[Node, int], around: Mapping[Node, int]
) -> dict[Node, Inherited]:
    """Returns what every node with words passes on."""
    holding = [node for node in page.nodes if node.words]
    alike = Counter([(node.parent, node.key) for node in holding])
    words, long = page.root.words or 1, page.root.long or 1
    root = page.root
    top = _size(root, words, long) * _LEVELS
    found = {root: Inherited(top, root.groups, root.semantics, 1.0, 1, root.words, (_UNKNOWN,), 0, around[root])}
    worths: dict[str, Worth] = {}
    for node in holding:
        parent = node.parent
        if parent is None:
            continue
        above = found[parent]
        chain, dominance, worthy = above.chain, above.dominance, above.names
        size = node.words
        if size != parent.words:  # A wrapper around the same words is not a level.
            chain = _size(node, words, long) + chain[:-_SIZES]
            dominance = min(dominance, size / parent.widest)
        if node.names:
            if (named := worths.get(node.key)) is None:
                named = worths[node.key] = worth(node.names, names)
            if named[3]:
                worthy = (add(worthy[0], named), named, *worthy[1:3])
        groups, semantics = above.groups | node.groups, above.semantics | node.semantics
        times, repeated = alike[parent, node.key], above.repeated
        again = (times, size) if times > repeated else (repeated, above.repeated_words)
        cues, steps = above.led | led[node], around.get(node, above.steps)
        found[node] = Inherited(chain, groups, semantics, dominance, *again, worthy, cues, steps)
    return found


def _size(node: Node, words: int, long: int) -> tuple[float, ...]:
    """Returns a container's share of the page's words, its links, its share of the long text, and its size."""
    own = node.words or 1
    return own / words, node.links / own, node.long / long, math.log1p(own)


def _mean(worth: Worth) -> tuple[float, float, float, float]:
    least, greatest, total, number = worth
    return (least, greatest, total / number, float(number)) if number else (USUAL, USUAL, USUAL, 0.0)


@lru_cache(50_000)
def _name_features(every: Worth, *near: Worth) -> tuple[float, ...]:
    """Returns least, greatest, mean and number of the worths of names, of the near ones and of all."""
    return (*_mean(reduce(add, near, _UNKNOWN)), *_mean(every))


@lru_cache(50_000)
def _group_features(close: int, above: int) -> tuple[float, ...]:
    """Returns 2 for each group that names a near container, and 1 for one that names a container further up."""
    return tuple([2.0 if close >> bit & 1 else float(above >> bit & 1) for bit in _GROUP_BITS])


@lru_cache(50_000)
def _semantic_features(semantics: int) -> tuple[float, ...]:
    return tuple([float(semantics >> bit & 1) for bit in _SEMANTIC_BITS])


def block_features(whole: HtmlPage, names: Worths, worths: Worths) -> list[list[float]]:
    """Returns the numbers of each block. All are floats, because comparing one type is faster."""
    found: list[list[float]] = []
    page = whole.blocks
    blocks, alike = page.blocks, _alike(page)
    texts = [block.text.lower() for block in blocks]
    shorts = [WORD.findall(text) if block.words <= SHORT else [] for block, text in zip(blocks, texts, strict=True)]
    cues, around = list(map(_cues, blocks, texts)), _steps(page)
    inherited = inherited_by_node(page, names, _led(page, cues), around)
    times = Counter([block.text for block in blocks])
    h1 = next((number for number, block in enumerate(blocks) if block.node.tag == "h1"), None)
    words, length, log1p = page.root.words or 1, page.root.long or 1, math.log1p
    themselves = [_itself(block, short, worths) for block, short in zip(blocks, shorts, strict=True)]
    looks = [_NOTHING, _NOTHING, *[one[:4] for one in themselves], _NOTHING, _NOTHING]
    cues_around, sides = _surroundings(blocks, themselves, cues)
    inside = [index for index, block in enumerate(blocks) if inherited[block.node].steps == 0]
    first, last = (inside[0], inside[-1]) if inside else (0, len(blocks))
    before = long = 0
    since = 0.0
    heading = (USUAL, USUAL, 0.0)
    sinces = [_FAR] * len(_CUES)
    for index, (block, itself, seen) in enumerate(zip(blocks, themselves, _seen(whole, texts, shorts), strict=True)):
        node = block.node
        own = inherited[node]
        close, outer = node.groups, node.parent  # The names of the container and of the two around it.
        if outer is not None:
            close |= outer.groups | (outer.parent.groups if outer.parent is not None else 0)
        found.append([  # In the order of `NAMES`.
            *itself, _TAGS.get(node.tag, 40.0), float(node.depth), index / len(blocks), before / words,
            long / length, -999.0 if h1 is None else float(index - h1), *alike[node.key], float(times[block.text]),
            log1p(own.repeated), float(own.repeated_words), own.dominance, node.long / length, log1p(node.words),
            node.links / node.words, *own.chain,
            *looks[index], *looks[index + 1], *looks[index + 3], *looks[index + 4],
            heading[0], heading[1], since, heading[2], *_name_features(*own.names),
            *_group_features(close, own.groups), *_semantic_features(own.semantics), *_CUE_FLAGS[own.led],
            *sinces, *cues_around[index], *seen, float(own.steps), float(max(first - index, 0)),
            float(max(index - last, 0)), *sides[index],
        ])  # fmt: skip
        since += 1.0
        sinces = [one + 1.0 if one < _FAR else _FAR for one in sinces]
        if cue := cues[index]:
            sinces = [0.0 if cue >> bit & 1 else one for bit, one in enumerate(sinces)]
        if node.tag in HEADINGS:
            heading, since = (itself[3], itself[4], float(node.tag[1])), 0.0
        before += block.words
        long += block.words if block.is_long else 0
    return found


def _seen(
    page: HtmlPage, small: Sequence[str], shorts: Sequence[Sequence[str]]
) -> Iterator[tuple[float, float, float]]:
    """Yields what each block repeats: an earlier block, the title, the text that the page has as data."""
    title = frozenset(WORD.findall(page.title.lower()))
    texts = [text for one in page.data if isinstance(text := one.get("articleBody"), str) and len(text) > 400]
    data = "".join(WORD.findall(" ".join(texts).lower()))
    known: set[str] = set()
    for block, text, short in zip(page.blocks.blocks, small, shorts, strict=True):
        titled = sum([word in title for word in short]) / len(short) if short and title else 0.0
        stated = 0.0
        if data and block.words > 3:
            stated = 1.0 if "".join(WORD.findall(text[:80])) in data else -1.0
        yield float(block.text in known), titled, stated
        known.add(block.text)


def _surroundings(
    blocks: Sequence[PageBlock], themselves: Sequence[Sequence[float]], cues: Sequence[int]
) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Returns for each block the cues around it; and the links, long text and sentences before and after it."""
    count = len(blocks)
    lows = [max(0, index - _AROUND) for index in range(count)]
    highs = [min(count, index + 1 + _AROUND) for index in range(count)]

    def sums(numbers: list[float]) -> list[float]:
        return list(accumulate(numbers, initial=0.0))

    def near(bit: int) -> list[float]:
        if not every >> bit & 1:
            return [0.0] * count
        so_far = sums([cue >> bit & 1 for cue in cues])
        return [so_far[high] - so_far[low] for low, high in zip(lows, highs, strict=True)]

    every = reduce(lambda one, other: one | other, cues, 0)
    around = [near(bit) for bit in range(len(_CUES))]
    words, links = sums([block.words for block in blocks]), sums([block.links for block in blocks])
    long = sums([block.words if block.is_long else 0 for block in blocks])
    ends = sums([itself[2] for itself in themselves])
    sides = [
        (
            (links[index] - links[low]) / (words[index] - words[low] or 1),
            (links[high] - links[index + 1]) / (words[high] - words[index + 1] or 1),
            long[index] - long[low],
            long[high] - long[index + 1],
            ends[index] - ends[low],
            ends[high] - ends[index + 1],
        )
        for index, (low, high) in enumerate(zip(lows, highs, strict=True))
    ]
    return list(zip(*around, strict=True)), sides


def _alike(page: Blocks) -> dict[str, tuple[float, float]]:
    """Returns the blocks in each kind of container, and their share of the words."""
    sizes: dict[str, list[int]] = {}
    for block in page.blocks:
        sizes.setdefault(block.node.key, []).append(block.words)
    return {key: (math.log1p(len(words)), sum(words) / (page.root.words or 1)) for key, words in sizes.items()}


def _itself(block: PageBlock, short: Sequence[str], worths: Worths) -> tuple[float, ...]:
    text, words = block.text, block.words
    least, greatest, mean, _ = _mean(worth(short, worths))
    look = math.log1p(words), block.links / words, 1.0 if text[-1] in _ENDS else 0.0, mean
    return (*look, least, greatest, len(text) / words, text.count(",") / words)


KINDS: Final = ("article", "service", "forum", "product", "collection", "listing", "documentation")

_DATA: Final[dict[str, list[str]]] = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))
_ADDRESSES, _MAKERS = (
    tuple(re.compile(pattern, re.IGNORECASE) for pattern in _DATA[name]) for name in ("addresses", "makers")
)


def page_features(page: HtmlPage) -> list[float]:
    """Returns the features of a page, always the same number of them."""
    parts = urlsplit(page.url)
    path = parts.path.strip("/")
    # Two line ends, because a pattern may match one space.
    small = "\n\n".join([block.text for block in page.blocks.blocks if block.words < 12])
    text = " ".join([block.text for block in page.blocks.blocks]).lower()
    return [
        *(float(pattern.search(page.url) is not None) for pattern in _ADDRESSES),
        path.count("/") + 1 if path else 0,
        math.log1p(len(path)),
        path.count("-"),
        sum(map(str.isdigit, path)) / (len(path) + 1),
        float(bool(parts.query)),
        *_of_metadata(page),
        *_of_shape(page),
        math.log1p(_lines_with(PRICE, small)),
        math.log1p(_lines_with(DATE, small)),
        *(math.log1p(text.count(phrase)) for phrase in _DATA["phrases"]),
    ]


def _of_metadata(page: HtmlPage) -> list[float]:
    metas = page.metas
    graph = metas.get("og:type", "").lower()
    types = Counter(name for one in page.data for name in types_of(one))
    items = Counter(item.rstrip("/").rpartition("/")[2] for _, item in page.blocks.noted["itemtype"])
    names = (one.get(key) or "" for one in (page.root, page.body) for key in ("class", "id"))
    maker = " ".join((*names, metas.get("generator", "")))
    return [
        *(float(graph.startswith(kind)) for kind in _DATA["open_graph"]),
        float(not graph),
        float("article:published_time" in metas),
        float("product:price:amount" in metas or "og:price:amount" in metas),
        *(min(types[name], 5) for name in _DATA["types"]),
        *(min(items[name], 5) for name in _DATA["microdata"]),
        *(float(pattern.search(maker) is not None) for pattern in _MAKERS),
    ]


def _of_shape(page: HtmlPage) -> list[float]:
    blocks, nodes, top = page.blocks.blocks, page.blocks.nodes, page.blocks.root
    words = top.words or 1
    sizes = sorted(block.words for block in blocks) or [0]
    tags = Counter([node.tag for node in nodes])
    masks = Counter([node.groups for node in nodes])
    named = (sum(times for mask, times in masks.items() if mask >> bit & 1) for bit in range(len(GROUPS)))
    alike: dict[tuple[int, str], list[int]] = {}
    for node in nodes:
        if node.words >= 5 and node.parent is not None:
            sums = alike.setdefault((id(node.parent), node.key), [0, 0, 0])
            sums[0] += node.words
            sums[1] += 1
            sums[2] += node.links
    held, times, links = max((sums for sums in alike.values() if sums[1] >= 4), default=(0, 0, 0))
    return [
        math.log1p(words),
        math.log1p(len(blocks)),
        words / (len(blocks) or 1),
        top.links / words,
        top.long / words,
        math.log1p(top.long),
        *(sizes[len(sizes) * tenth // 10] for tenth in (5, 8, 9)),
        *(math.log1p(tags[tag]) for tag in _DATA["tags"]),
        *map(math.log1p, named),
        held / words,
        math.log1p(times),
        links / (held or 1),
        math.log1p(held / (times or 1)),
    ]


def _lines_with(pattern: re.Pattern[str], text: str) -> int:
    found = at = 0
    while at >= 0 and (match := pattern.search(text, at)):
        found += 1
        at = text.find("\n", match.end())
    return found
