"""A parsed page as a list of blocks: runs of text that nothing but inline markup interrupts, with what stands around.

The walk is the one pass over the whole tree that extraction makes in Python, so it does as little as it can for each
element: it collects text, counts the words and those in links, and notes how each container is named. Where inline
elements begin and end is kept beside the text, so that a block can become markdown later without another walk.

What the attributes of an element say: what it is called, what it is, and how well it is seen.

They are read once an element, in the one walk over a page: what other steps look for is noted on the way.
"""

from collections.abc import Sequence
from typing import Final

from tidings.web.extract.html.hidden import TOLD, UNREAD, VEILED, Visibility
from tidings.web.extract.html.tree import Element, TreeWalk, flagged, passed, walked
from tidings.web.extract.html.vocabulary import (
    BY_ROLE,
    BY_TAG,
    MARK,
    MUTE,
    POINT,
    SILENT,
    SKIP,
    UNSEEN,
    WAYS,
    groups_of,
    words_of,
)

_NAME, _CLASS, _ID, _ROLE, _STYLE, _HIDDEN, _MUTE, _NOTED = range(8)
_SORTS: Final = {
    **dict.fromkeys(("itemprop", "aria-label", "data-testid"), _NAME),
    "class": _CLASS,
    "id": _ID,
    "role": _ROLE,
    "style": _STYLE,
    "hidden": _HIDDEN,
    "aria-hidden": _MUTE,
    **dict.fromkeys(("itemtype", "rel", "data-preloaded"), _NOTED),
}
"""The attributes that say something; names come first."""

Said = tuple[str, int, int]
"""All the names of an element one behind the other, what it is, and its degree of hiding."""


class Attributes:
    """Reads the attributes of one page's elements."""

    def __init__(self, sight: Visibility) -> None:
        self._sight = sight
        self._classes, self._ids = sight.classes, sight.ids
        self._named: dict[str, tuple[str, Sequence[str], int]] = {}
        self.noted: dict[str, list[tuple[Element, str]]] = {key: [] for key, sort in _SORTS.items() if sort == _NOTED}
        """The elements that have one of these attributes, and what it says."""

    def read(self, element: Element) -> Said:  # noqa: C901 - one pass, and many an attribute
        """Everything at once."""
        named = ""
        semantics = degree = 0
        for key, value in element.items():
            sort = _SORTS.get(key)
            if sort is None:
                continue
            found = 0
            if sort <= _ID:
                named = f"{named}{value} "
                if sort == _CLASS:
                    found = self._classes[value]
                elif sort == _ID and self._ids:
                    found = self._sight.of_id(value)
            elif sort == _NOTED:
                self.noted[key].append((element, value))
            elif sort == _ROLE:
                semantics |= BY_ROLE.get(value, 0)
            elif sort == _MUTE:
                if value == "true":
                    semantics |= MUTE
                    found = TOLD
            elif (found := UNREAD if sort == _HIDDEN else self._sight.styles[value]) == UNREAD:
                semantics |= UNSEEN
            if found > degree:  # noqa: PLR1730 - a call takes three times as long
                degree = found
        return named, semantics, degree

    def meaning(self, tag: str, named: str) -> tuple[str, Sequence[str], int]:
        """A key for all that have this tag and these names, the words of the names, and the groups they belong to."""
        key = tag + named
        known = self._named.get(key)
        if known is None:
            words = words_of(named)
            known = self._named[key] = (key, words, groups_of(words))  # pages repeat their names
        return known


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


class PageBlock:
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

    def __init__(self, root: Element, silent: frozenset[str] = SILENT, sight: Visibility | None = None) -> None:
        self.blocks: list[PageBlock] = []
        self.root = Node(root, "body", None)
        self.nodes = [self.root]
        self.veiled: set[Element] = set()
        self.told: list[Element] = []
        self._ways = {tag: way for tag, way in WAYS.items() if tag not in SILENT or tag in silent}
        self._attributes = Attributes(sight or Visibility())
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

    def _take_all(self, walk: TreeWalk, element: Element) -> None:
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
            block = PageBlock(node, text, pieces, self._marks)
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
