"""A parsed page as a list of blocks: runs of text that nothing but inline markup interrupts, with what stands around.

The walk is the one pass over the whole tree that extraction makes in Python, so it does as little as it can for each
element: it collects text, counts the words and those in links, and notes how each container is named. Where inline
elements begin and end is kept beside the text, so that a block can become markdown later without another walk.
"""

from collections.abc import Collection, Sequence
from typing import Final

from tidings.web.extract.names import groups, words_of
from tidings.web.extract.tree import Element, concealing, flagged

_INLINE_WRITTEN = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp small span "
    "strike strong sub sup time tt u var wbr"
)
INLINE: Final = frozenset(_INLINE_WRITTEN.split())
_SILENT_WRITTEN = (
    "script style noscript template svg math iframe object embed applet head select option datalist textarea "
    "canvas audio video map link meta title"
)
SILENT: Final = frozenset(_SILENT_WRITTEN.split())
BREAK: Final = "\N{LINE SEPARATOR}"
"""What a `br` leaves in the text of a block: white space, but not of the sort that pages are formatted with."""
MARKED: Final = frozenset(["a", "b", "strong", "i", "em", "code", "kbd", "samp", "time"])
"""Inline elements whose beginning and end are kept."""

_PLAIN, _MARKED, _POINT, _SKIPPED = range(4)
_WAYS: Final = {
    **dict.fromkeys(("input", "source", "hr", "col", "track", "param"), _SKIPPED),
    **dict.fromkeys(("br", "img"), _POINT),
    **dict.fromkeys(SILENT, _SKIPPED),
    **dict.fromkeys(INLINE, _PLAIN),
    **dict.fromkeys(MARKED, _MARKED),
}
"""What is done with an element; those that are not here are containers."""

NAV, HEADER, FOOTER, ASIDE, MAIN, ARTICLE, FORM, TABLE, LIST, TERMS, SECTION, FIGURE = (1 << bit for bit in range(12))
QUOTE, DETAILS, VERBATIM, BUTTON, ITEM, DIALOG, LABEL, HEADING, UNSEEN, MUTE = (1 << bit for bit in range(12, 22))
SEMANTICS: Final = 22

_BY_TAG: Final = {
    "nav": NAV,
    "header": HEADER,
    "footer": FOOTER,
    "aside": ASIDE,
    "main": MAIN,
    "article": ARTICLE,
    "form": FORM,
    "table": TABLE,
    "ul": LIST,
    "ol": LIST,
    "dl": TERMS,
    "section": SECTION,
    "figure": FIGURE,
    "blockquote": QUOTE,
    "details": DETAILS,
    "pre": VERBATIM,
    "button": BUTTON,
    "li": ITEM,
    "dialog": DIALOG,
    "fieldset": LABEL,
    **{f"h{level}": HEADING for level in range(1, 7)},
}
_BY_ROLE: Final = {
    "navigation": NAV,
    "menu": NAV,
    "menubar": NAV,
    "menuitem": NAV,
    "tablist": NAV,
    "banner": HEADER,
    "contentinfo": FOOTER,
    "complementary": ASIDE,
    "main": MAIN,
    "article": ARTICLE,
    "form": FORM,
    "search": FORM,
    "list": LIST,
    "listitem": ITEM,
    "button": BUTTON,
    "dialog": DIALOG,
    "alertdialog": DIALOG,
    "heading": HEADING,
}
_DEEPEST = 150
"""Levels of elements the walk goes down; what is deeper counts as one run of text."""


class Node:
    """A block-level element: its place, its names, and the sums over all the text in it."""

    __slots__ = (
        *("depth", "element", "groups", "key", "links", "long", "names", "parent", "semantics", "tag", "widest"),
        "words",
    )

    def __init__(self, element: Element, tag: str, parent: "Node | None") -> None:
        self.element = element
        self.tag = tag
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.words = self.links = self.long = self.widest = 0
        self.groups = 0
        self.semantics = _BY_TAG.get(tag, 0)
        self.names: Sequence[str] = ()
        self.key = tag


class Block:
    """A run of text: its words, how many of them are links, the pieces it was made of and the marks between them."""

    __slots__ = ("links", "marks", "node", "pieces", "text", "veils", "words")

    def __init__(self, node: Node, text: str, pieces: list[str], marks: list[tuple[int, Element, bool]]) -> None:
        self.node = node
        self.text = text
        self.words = text.count(" ") + 1
        self.links = 0
        self.pieces = pieces
        self.marks = marks
        self.veils: Sequence[Veil] = ()


Veil = tuple[int, int, Element]
"""Pieces that no reader sees, from the first to behind the last, and the outermost element that hides them."""


class Blocks:
    """All blocks and nodes of a page in document order; `root` is the body.

    What no reader sees is `veiled`; those of it that are `unseen` are left out where they stand in a sentence.
    """

    def __init__(
        self,
        root: Element,
        silent: frozenset[str] = SILENT,
        unseen: Collection[Element] = frozenset(),
        veiled: Collection[Element] = frozenset(),
    ) -> None:
        self.blocks: list[Block] = []
        self.root = Node(root, "body", None)
        self.nodes = [self.root]
        self._ways = {tag: way for tag, way in _WAYS.items() if tag not in SILENT or tag in silent}
        self._unseen = unseen
        self.veiled = veiled
        self._veil: Element | None = None
        self._veiled_from = 0
        self._veils: list[Veil] = []
        self._named: dict[str, tuple[str, list[str], int]] = {}
        self._pieces: list[str] = []
        self._marks: list[tuple[int, Element, bool]] = []
        self._links = 0
        self._link: Element | None = None
        self._walk(root, self.root, 0)
        if self._pieces:
            self._end(self.root)
        self._sum_up()

    def _walk(self, element: Element, node: Node, level: int) -> None:  # noqa: C901, PLR0912 - see below
        # It does itself what could be calls, twice the text: with a call for each step it would take twice the time.
        if level > _DEEPEST:
            self._take_all(element)
            return
        text = element.text
        if text:
            self._pieces.append(text)
            if self._link is not None:
                self._links += len(text.split())
        ways, veiled = self._ways, self.veiled
        for child in element:
            tag = child.tag
            way = ways.get(tag)
            if veiled and child in veiled and way != _POINT:
                self._hidden(child, way, node, level)
            elif way is None:
                if self._pieces:
                    self._end(node)
                inner = Node(child, tag, node)
                _describe(inner, child, self._named)
                self.nodes.append(inner)
                self._walk(child, inner, level + 1)
                if self._pieces:
                    self._end(inner)
            elif way == _POINT:
                self._point(child, tag)
            elif way == _PLAIN:
                self._walk(child, node, level + 1)
            elif way == _MARKED:
                self._marked(child, tag, node, level)
            text = child.tail
            if text:
                self._pieces.append(text)
                if self._link is not None:
                    self._links += len(text.split())

    def _hidden(self, child: Element, way: int | None, node: Node, level: int) -> None:
        """Walk what no reader sees, and note where it stands."""
        # A hidden tab is content as a rule; hidden words within a sentence never are.
        if way == _SKIPPED or (way is not None and child in self._unseen):
            return
        outermost = self._veil is None
        if way is None and self._pieces:
            self._end(node)
        if outermost:
            self._veil, self._veiled_from = child, len(self._pieces)
        if way == _PLAIN:
            self._walk(child, node, level + 1)
        elif way == _MARKED:
            self._marked(child, child.tag, node, level)
        else:
            inner = Node(child, child.tag, node)
            _describe(inner, child, self._named)
            self.nodes.append(inner)
            self._walk(child, inner, level + 1)
            if self._pieces:
                self._end(inner)
        if outermost:
            self._lift()
            self._veil = None

    def _lift(self) -> None:
        if self._veil is not None and len(self._pieces) > self._veiled_from:
            self._veils.append((self._veiled_from, len(self._pieces), self._veil))

    def _marked(self, child: Element, tag: str, node: Node, level: int) -> None:
        before = self._link
        self._marks.append((len(self._pieces), child, True))
        if tag == "a":
            self._link = child
        self._walk(child, node, level + 1)
        self._marks.append((len(self._pieces), child, False))
        self._link = before

    def _point(self, child: Element, tag: str) -> None:
        if tag == "br":
            self._pieces.append(BREAK)
        else:
            self._marks.append((len(self._pieces), child, True))

    def _take_all(self, element: Element) -> None:
        between = ""
        for text, hidden in flagged(element, self.veiled):
            if hidden and self._veil is None:
                self._veils.append((len(self._pieces), len(self._pieces) + 1, element))
            self._take(between + text)
            between = " "

    def _take(self, text: str) -> None:
        self._pieces.append(text)
        if self._link is not None:
            self._links += len(text.split())

    def _end(self, node: Node) -> None:
        """Close the run of text that is open."""
        pieces = self._pieces
        text = " ".join("".join(pieces).split())
        if text:
            block = Block(node, text, pieces, self._marks)
            block.links = min(self._links, block.words)
            if self._veil is not None or self._veils:
                self._lift()
                block.veils = self._veils
            self.blocks.append(block)
        self._pieces = []
        self._veiled_from = 0
        self._veils = []
        # A link around several blocks is a link in each of them.
        self._marks = [(0, self._link, True)] if self._link is not None else []
        self._links = 0

    def _sum_up(self) -> None:
        for block in self.blocks:
            node, words, links = block.node, block.words, block.links
            node.words += words
            node.links += links
            if words >= 12 and links * 3 < words:
                node.long += words
        # What is within a node comes behind it.
        for node in reversed(self.nodes):
            parent, words = node.parent, node.words
            if parent is not None and words:
                parent.words += words
                parent.links += node.links
                parent.long += node.long
                parent.widest = max(parent.widest, words)


_NAMING = frozenset(("class", "id", "itemprop", "aria-label", "data-testid"))
_STATING = frozenset(("role", "style", "hidden", "aria-hidden"))


def _describe(node: Node, element: Element, known: dict[str, tuple[str, list[str], int]]) -> None:
    """Read the attributes that say what a container is. Pages repeat their names, so what they mean is `known` soon."""
    named = node.tag
    for key, value in element.items():
        if key in _NAMING:
            named += value + " "
        elif key in _STATING:
            node.semantics |= _stated(key, value)
    if named != node.tag:
        meaning = known.get(named)
        if meaning is None:
            names = words_of(named[len(node.tag) :])
            bits = 0
            for word in names:
                bits |= groups(word)
            meaning = known[named] = (named, names, bits)
        node.key, node.names, node.groups = meaning


def _stated(key: str, value: str) -> int:
    """What a role, a style or a switch says of the container that has it."""
    if key == "role":
        return _BY_ROLE.get(value, 0)
    if key == "hidden":
        return UNSEEN
    if key == "aria-hidden":
        return MUTE if value == "true" else 0
    return UNSEEN if concealing(value) else 0
