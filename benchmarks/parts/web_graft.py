"""Articles with teasers and comments of other pages put into them.

The content of such a page is that of the original: an extraction that keeps a graft is wrong. The grafts are parts of
other articles that have no content and whose names say that they are teasers, comments or the like. They are put after
the article's last paragraph, some levels up, and smaller ones between two paragraphs.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lxml import etree

from benchmarks.parts.web_truth import Known
from tidings.web.extract.html.blocks import Node
from tidings.web.extract.html.page import HtmlPage, read_page
from tidings.web.extract.html.vocabulary import GROUPS
from tidings.web.extract.sniff import as_utf8

SEED = 5
_PARTS = frozenset(("related", "comment", "share", "advert", "subscribe", "byline", "side", "list"))
_BITS = sum(1 << number for number, (name, _) in enumerate(GROUPS) if name in _PARTS)
_COMMENT = 1 << [name for name, _ in GROUPS].index("comment")
_TAGS = frozenset(("div", "section", "aside", "ul", "ol"))
_FIXED = frozenset(("li", "td", "tr", "tbody", "th"))
_LONGEST = 60_000
"""Characters of a graft."""

Labelled = tuple[Known, HtmlPage, Sequence[float | None]]


@dataclass(frozen=True)
class Graft:
    page: str
    groups: int
    words: int
    html: str


def grafts_of(known: Known, page: HtmlPage, labels: Sequence[float | None]) -> Iterator[Graft]:
    """The largest parts without content whose names tell what they are."""
    content: dict[Node, float] = defaultdict(float)
    for block, label in zip(page.blocks.blocks, labels, strict=True):
        node: Node | None = block.node
        while node is not None:
            content[node] += label or 0
            node = node.parent
    taken: set[Node] = set()
    for node in page.blocks.nodes:
        if node.parent in taken:
            taken.add(node)
        elif 15 <= node.words <= 1500 and not content[node] and node.groups & _BITS and node.tag in _TAGS:
            taken.add(node)
            html = etree.tostring(node.element, encoding="unicode", method="html", with_tail=False)
            if len(html) <= _LONGEST:
                yield Graft(known.id, node.groups, node.words, html)


def grafted(pages: Sequence[Labelled], seed: int = SEED) -> Iterator[Known]:
    """A second version of each article."""
    articles = [one for one in pages if one[0].kind == "article"]
    grafts = [graft for one in articles for graft in grafts_of(*one)]
    comments = [graft for graft in grafts if graft.groups & _COMMENT]
    small = [graft for graft in grafts if graft.words < 150]
    draw = random.Random(seed)
    for known, _, labels in articles:
        page = read_page(as_utf8(known.body, None), known.url)  # Read again, because it is changed.
        blocks = page.blocks.blocks
        content = [n for n, label in enumerate(labels) if label and label > 0.7 and blocks[n].words >= 8]
        if len(content) < 4 or not comments or not small:
            continue
        _put(blocks[content[-1]].node, draw.choice(grafts), draw.randint(0, 3))
        if draw.random() < 0.6:
            _put(blocks[content[-1]].node, draw.choice(comments), draw.randint(0, 3))
        if draw.random() < 0.7:
            _put(blocks[draw.choice(content[1:-1])].node, draw.choice(small), draw.randint(0, 1))
        yield replace(known, body=etree.tostring(page.root, encoding="utf-8", method="html"))


def with_two_teasers(pages: Sequence[Labelled], seed: int = SEED) -> Iterator[tuple[Known, Known]]:
    """Each article twice, with another list of teasers in the same place: nothing else differs."""
    small = [graft for one in pages for graft in grafts_of(*one) if graft.words < 150]
    draw = random.Random(seed)
    for known, page, labels in pages:
        blocks = page.blocks.blocks
        content = [n for n, label in enumerate(labels) if label and label > 0.7 and blocks[n].words >= 8]
        if len(small) < 2 or not content:
            continue
        made: list[Known] = []
        for graft in draw.sample(small, 2):
            again = read_page(as_utf8(known.body, None), known.url)
            _put(again.blocks.blocks[content[-1]].node, graft, 2)
            made.append(replace(known, body=etree.tostring(again.root, encoding="utf-8", method="html")))
        yield made[0], made[1]


def _put(node: Node, graft: Graft, levels: int) -> None:
    """Put a graft after `node`, or after a container so many levels up."""
    for _ in range(levels):
        if node.parent is not None and node.parent.parent is not None:
            node = node.parent
    place = node.element
    around = place.getparent()
    made = etree.fromstring(graft.html, etree.HTMLParser()).find("body")
    if around is not None and place.tag not in _FIXED and made is not None and len(made):
        whole = made[0]
        whole.tail, place.tail = place.tail, None
        place.addnext(whole)
