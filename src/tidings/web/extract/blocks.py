"""A parsed page as a list of blocks: runs of text that nothing but inline markup interrupts, with what stands around.

The walk is the one pass over the whole tree that extraction makes in Python, so it does as little as it can for each
element: it collects text, counts the words and those in links, and notes how each container is named. Where inline
elements begin and end is kept beside the text, so that a block can become markdown later without another walk.
"""

from collections.abc import Sequence
from typing import Final

from tidings.web.extract.attributes import Attributes
from tidings.web.extract.hiding import UNREAD, VEILED, Sight
from tidings.web.extract.tags import BY_TAG, MARK, POINT, SILENT, SKIP, WAYS
from tidings.web.extract.tree import Element, Walk, flagged, passed, walked

BREAK: Final = "\N{LINE SEPARATOR}"
"""What a `br` leaves in the text of a block: white space, but not of the sort that pages are formatted with."""
_DEEPEST = 151
"""Levels of elements the walk goes down, the body included; what is deeper counts as one run of text."""


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
        self.semantics = BY_TAG.get(tag, 0)
        self.names: Sequence[str] = ()
        self.key = tag


class Block:
    """A run of text: its words, how many of them are links, the pieces it was made of and the marks between them."""

    __slots__ = ("links", "marks", "node", "pieces", "text", "veils", "words")

    def __init__(self, node: Node, text: str, pieces: list[str], marks: list[tuple[int, Element, bool]]) -> None:
        self.node = node
        self.text = text
        self.words: int = text.count(" ") + 1
        self.links = 0
        self.pieces = pieces
        self.marks = marks
        self.veils: Sequence[Veil] = ()


Veil = tuple[int, int, Element]
"""Pieces that no reader sees, from the first to behind the last, and the outermost element that hides them."""


class Blocks:
    """All blocks and nodes of a page in document order; `root` is the body.

    What `sight` says that no reader sees is `veiled`, and left out where it stands in a sentence; `told` has these and
    what is kept from some readers, in the order of the page.
    """

    def __init__(self, root: Element, silent: frozenset[str] = SILENT, sight: Sight | None = None) -> None:
        self.blocks: list[Block] = []
        self.root = Node(root, "body", None)
        self.nodes = [self.root]
        self.veiled: set[Element] = set()
        self.told: list[Element] = []
        self._ways = {tag: way for tag, way in WAYS.items() if tag not in SILENT or tag in silent}
        self._attributes = Attributes(sight or Sight())
        self.noted = self._attributes.noted
        self._veil: Element | None = None
        self._veiled_from = 0
        self._veils: list[Veil] = []
        self._pieces: list[str] = []
        self._marks: list[tuple[int, Element, bool]] = []
        self._links = 0
        self._link: Element | None = None
        self._around: list[Element | None] = []
        """The links that stand around the link at hand; HTML has none, and pages do."""
        self._walk(root)
        self._sum_up()

    def _walk(self, root: Element) -> None:  # noqa: C901, PLR0912, PLR0915 - see below
        # It does itself what could be calls: with a call for each step it would take twice the time.
        ways, read = self._ways, self._attributes.read
        node, level = self._started(root), 0
        walk = walked(root)
        for event, element in walk:
            tag = element.tag
            way = ways.get(tag)
            if event == "end":
                if way is None:
                    if self._pieces:
                        self._end(node)
                    if node.parent is None:
                        break
                    node = node.parent
                elif way == MARK:
                    self._marked(element, tag)
                if element is self._veil:
                    self._lift()
                    self._veil = None
                level -= 1
                text = element.tail
            elif way == SKIP:
                text = passed(walk, element)
            elif way == POINT:
                self._point(element, tag)
                text = passed(walk, element)
            elif not level:
                level = 1
                text = element.text
            else:
                named, semantics, degree = read(element)
                if degree and self._hidden(element, degree, way):
                    text = passed(walk, element)
                else:
                    if way is None:
                        if self._pieces:
                            self._end(node)
                        node = Node(element, tag, node)
                        self.nodes.append(node)
                        if semantics:
                            node.semantics |= semantics
                        if named:
                            node.key, node.names, node.groups = self._attributes.meaning(tag, named)
                    if degree >= VEILED and self._veil is None:
                        self._veil, self._veiled_from = element, len(self._pieces)
                    if way == MARK:
                        self._mark(element, tag)
                    level += 1
                    text = element.text if level <= _DEEPEST else self._take_all(walk, element)
            if text:
                self._pieces.append(text)
                if self._link is not None:
                    self._links += len(text.split())

    def _started(self, root: Element) -> Node:
        """The first node; what is said of it and of what is around it says something of the whole page."""
        for one in (root.getparent(), root):
            if one is not None and self._attributes.read(one)[2]:
                self.told.append(one)
        return self.root

    def _hidden(self, element: Element, degree: int, way: int | None) -> bool:
        """Note what not every reader sees, and say whether it is left out."""
        self.told.append(element)
        if degree >= VEILED:
            self.veiled.add(element)
        # A hidden tab is content as a rule; hidden words within a sentence never are.
        return degree == UNREAD and way is not None

    def _lift(self) -> None:
        if self._veil is not None and len(self._pieces) > self._veiled_from:
            self._veils.append((self._veiled_from, len(self._pieces), self._veil))

    def _mark(self, element: Element, tag: str) -> None:
        self._marks.append((len(self._pieces), element, True))
        if tag == "a":
            self._around.append(self._link)
            self._link = element

    def _marked(self, element: Element, tag: str) -> None:
        self._marks.append((len(self._pieces), element, False))
        if tag == "a":
            self._link = self._around.pop()

    def _point(self, element: Element, tag: str) -> None:
        if tag == "br":
            self._pieces.append(BREAK)
        else:
            self._marks.append((len(self._pieces), element, True))

    def _take_all(self, walk: Walk, element: Element) -> None:
        walk.skip_subtree()
        for one in element.iter("*"):
            if one is not element and (degree := self._attributes.read(one)[2]):
                self._hidden(one, degree, None)
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
        if len(pieces) == 1 and not self._marks and pieces[0].isspace():
            pieces.clear()  # the space between containers, which is most of what ends here
            self._veiled_from = 0
            return
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
