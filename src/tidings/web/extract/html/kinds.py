"""The features that tell the kind of a page: its URL, its metadata, its words and the shape of its tree.

They are cheap sums over the parsed page. A small model turns them into a probability for each kind. All probabilities,
not only the best kind, are features of the blocks: a page that may be a listing or a service is treated as both.
"""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings.web.extract.html.features import DATE, PRICE
from tidings.web.extract.html.page import HtmlPage, types_of
from tidings.web.extract.html.vocabulary import GROUPS

KINDS: Final = ("article", "service", "forum", "product", "collection", "listing", "documentation")

_DATA: Final[dict[str, list[str]]] = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))
_ADDRESSES, _MAKERS = (
    tuple(re.compile(pattern, re.IGNORECASE) for pattern in _DATA[name]) for name in ("addresses", "makers")
)


def page_features(page: HtmlPage) -> list[float]:
    """Returns the features of a page, always the same number of them."""
    return [*_of_url(page.url), *_of_metadata(page), *_of_shape(page), *_of_words(page)]


def _of_url(url: str) -> list[float]:
    parts = urlsplit(url)
    path = parts.path.strip("/")
    return [
        *(float(pattern.search(url) is not None) for pattern in _ADDRESSES),
        path.count("/") + 1 if path else 0,
        math.log1p(len(path)),
        path.count("-"),
        sum(map(str.isdigit, path)) / (len(path) + 1),
        float(bool(parts.query)),
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
    named: Counter[int] = Counter()
    for mask, times in Counter([node.groups for node in nodes]).items():
        for bit in range(len(GROUPS)):
            if mask >> bit & 1:
                named[bit] += times
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
        *(math.log1p(named[bit]) for bit in range(len(GROUPS))),
        held / words,
        math.log1p(times),
        links / (held or 1),
        math.log1p(held / (times or 1)),
    ]


def _of_words(page: HtmlPage) -> list[float]:
    # Two line ends, because a pattern may match one space.
    small = "\n\n".join([block.text for block in page.blocks.blocks if block.words < 12])
    text = " ".join([block.text for block in page.blocks.blocks]).lower()
    return [
        math.log1p(_lines_with(PRICE, small)),
        math.log1p(_lines_with(DATE, small)),
        *(math.log1p(text.count(phrase)) for phrase in _DATA["phrases"]),
    ]


def _lines_with(pattern: re.Pattern[str], text: str) -> int:
    found = at = 0
    while at >= 0 and (match := pattern.search(text, at)):
        found += 1
        at = text.find("\n", match.end())
    return found
