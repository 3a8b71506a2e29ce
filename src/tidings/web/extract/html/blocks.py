"""A parsed page as blocks: runs of text interrupted only by inline markup, and the containers around them.

`Blocks` makes the only pass over the whole tree in Python, so it does little for each element: it collects text, counts
words and words in links, and reads the attributes (names, semantics, visibility) once. The places where inline elements
begin and end are kept beside the text, so that a block can become Markdown without another walk.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from tidings.web.extract.html import vocabulary
from tidings.web.extract.html.hidden import HIDDEN_FROM_SOME, INVISIBLE, PLAINLY_HIDDEN, of_classes, of_style
from tidings.web.extract.html.tree import Element, TreeWalk, pieces_within, skip, walk_through
from tidings.web.extract.html.vocabulary import BY_ROLE, BY_TAG, CODE, MARK, MUTE, POINT, SILENT, SKIP, UNSEEN, WAYS

_NAME, _CLASS, _ID, _ROLE, _STYLE, _HIDDEN, _MUTE, _NOTED = range(8)
_SORTS: Final = {  # The attributes that are read; those with names come first.
    "itemprop": _NAME, "aria-label": _NAME, "data-testid": _NAME, "class": _CLASS, "id": _ID, "role": _ROLE,
    "style": _STYLE, "hidden": _HIDDEN, "aria-hidden": _MUTE, "itemtype": _NOTED, "rel": _NOTED,
}  # fmt: skip


# The character for a `br` in the text of a block: white space that pages do not use for formatting.
BREAK: Final = "\N{LINE SEPARATOR}"
# The first and the end of pieces that no reader sees, and the outermost element that hides them.
HiddenSpan = tuple[int, int, Element]
_MEDIA: Final = frozenset(tag for tag, way in WAYS.items() if way == POINT and tag != "br")
_SCRIPTS: Final = frozenset(("sup", "sub", "rt"))
_DEEPEST = 151  # Levels of the walk, including the body; deeper elements become one run of text.


_COLON: Final = re.compile(r"[^\W\d_]:$")
_LABEL: Final = re.compile(r"[^\W\d_]{4}$|" + _COLON.pattern)
_SHOUTED: Final = re.compile(r"\b[A-Z]{4,}$")  # A label such as HUMIDITY.
_DEGREES: Final = re.compile(r"[-+\N{MINUS SIGN}]\d[\d.,]*\s?[°%€]")


def _apart(before: str, after: str) -> bool:
    """Returns whether two inline elements that touch are a label and its value, which style sheets set apart."""
    end, start = before[-1], after[0]
    if end == ":":
        return start.isalnum() and before[-2:-1].isalpha()
    if (start.isdigit() and _SHOUTED.search(before)) or (end.isalpha() and _DEGREES.match(after)):
        return True
    begins = start.isupper() and (end.islower() or end.isdigit() or (end.isupper() and after[1:2].islower()))
    return begins or (start.isdigit() and end.islower())


@dataclass(slots=True, eq=False)
class Node:
    """A block-level element: its place, its names, and sums over all the text in it."""

    element: Element
    tag: str
    parent: "Node | None"
    depth: int
    semantics: int
    key: str
    names: Sequence[str] = ()
    groups: int = 0
    words: int = 0
    links: int = 0
    long: int = 0
    widest: int = 0

    def upwards(self) -> Iterator["Node"]:
        """Yields this node and those around it, from the inside out."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


@dataclass(slots=True, eq=False)
class PageBlock:
    """A run of text: its words, its words in links, the pieces it is made of and the marks between them."""

    node: Node
    text: str
    words: int
    links: int
    pieces: list[str]
    marks: list[tuple[int, Element, bool]]
    hidden_spans: Sequence[HiddenSpan] = ()

    @property
    def is_long(self) -> bool:
        """True for text of some length that is not a list of links."""
        return self.words >= 12 and self.links * 3 < self.words


class Blocks:
    """All blocks and nodes of a page in document order; `root` is the body.

    `media` has the pictures and embedded pages that stand alone, as blocks without words, each with the number of the
    block that follows it.

    `invisible` has the elements that no reader sees. Those inside a sentence are left out of the text. `hidden` has
    these and the elements that some readers do not see, in document order.
    """

    def __init__(self, root: Element, silent: frozenset[str] = SILENT, rules: frozenset[str] = frozenset()) -> None:
        self.blocks: list[PageBlock] = []
        self.media: list[tuple[int, PageBlock]] = []
        self.root = Node(root, "body", None, 0, 0, "body")
        self.nodes = [self.root]
        self.invisible: set[Element] = set()
        self.hidden: list[Element] = []
        self._ways = {tag: way for tag, way in WAYS.items() if tag not in SILENT or tag in silent}
        self._ids = frozenset(one for one in rules if one[0] == "#")
        # Pages repeat their classes and styles.
        self._of_classes, self._of_style = cache(partial(of_classes, rules)), cache(of_style)
        self._known: dict[str, tuple[str, Sequence[str], int]] = {}
        # The elements with one of these attributes, and its value.
        self.noted: dict[str, list[tuple[Element, str]]] = {key: [] for key, sort in _SORTS.items() if sort == _NOTED}
        self._hider: Element | None = None
        self._hidden_from = 0
        self._hidden_spans: list[HiddenSpan] = []
        self._pieces: list[str] = []
        self._marks: list[tuple[int, Element, bool]] = []
        self._links = self._code = 0
        self._link: Element | None = None
        # The links around the current link. HTML forbids nesting, but pages have it.
        self._around: list[Element | None] = []
        self._walk(root)
        for block in self.blocks:
            node, words, links = block.node, block.words, block.links
            node.words += words
            node.links += links
            node.long += words if block.is_long else 0
        # Children come after their parents.
        for node in reversed(self.nodes):
            parent, words = node.parent, node.words
            if parent is not None and words:
                parent.words += words
                parent.links += node.links
                parent.long += node.long
                parent.widest = max(parent.widest, words)

    def _walk(self, root: Element) -> None:  # noqa: C901, PLR0912, PLR0915 - see below
        # One long function, because a call for each step would double the time.
        ways, read = self._ways, self._read
        for one in (root.getparent(), root):
            if one is not None and read(one)[2]:
                self.hidden.append(one)
        node, level = self.root, 0
        ended: str | None = None  # The inline element that has just ended.
        edge = touching = -1  # The pieces when it ended, and when another one began right after it.
        always = False  # Whether both are links.
        walk = walk_through(root)
        for event, element in walk:
            tag = element.tag
            way = ways.get(tag)
            if event == "end":
                if way is None:
                    if self._pieces or self._marks:
                        self._end(node)
                        edge = touching = -1
                    if node.parent is None:
                        break
                    node = node.parent
                elif way == MARK:
                    self._mark(element, tag, begins=False)
                if element is self._hider:
                    self._end_hidden_span()
                    self._hider = None
                level -= 1
                text = element.tail
                if way is not None and not text:
                    ended, edge = tag, len(self._pieces)
                elif way is not None and text and text[0].isalnum() and self._pieces and not self._code:
                    label = _LABEL if text[0].isdigit() and tag not in _SCRIPTS else _COLON
                    text = f" {text}" if label.search(self._pieces[-1]) else text
            elif way == SKIP:
                text = skip(walk, element)
            elif way == POINT:
                if tag == "br":
                    self._pieces.append(BREAK)
                else:
                    self._marks.append((len(self._pieces), element, True))
                text = skip(walk, element)
            elif not level:
                level = 1
                text = element.text
            else:
                named, semantics, degree = read(element)
                if degree and self._note_hidden(element, degree, way):
                    text = skip(walk, element)
                else:
                    if way is None:
                        if self._pieces or self._marks:
                            self._end(node)
                            edge = touching = -1
                        node = Node(element, tag, node, node.depth + 1, BY_TAG.get(tag, 0) | semantics, tag)
                        self.nodes.append(node)
                        if named:
                            node.key, node.names, node.groups = self._meaning(tag, named)
                    if degree >= INVISIBLE and self._hider is None:
                        self._hider, self._hidden_from = element, len(self._pieces)
                    if way is not None and edge == len(self._pieces) > 0 and not self._code:
                        touching, always = edge, tag == "a" == ended
                        if tag in _SCRIPTS or ended in _SCRIPTS:
                            touching = -1
                    if way == MARK:
                        self._mark(element, tag, begins=True)
                    level += 1
                    text = element.text if level <= _DEEPEST else self._take_all(walk, element)
            # A run does not begin with space, which is all that most containers have between each other.
            if text and (self._pieces or self._marks or not text.isspace()):
                if touching == len(self._pieces) > 0 and (always or _apart(self._pieces[-1], text)):
                    self._pieces[-1] += " "
                self._pieces.append(text)
                if self._link is not None:
                    self._links += len(text.split())

    def _read(self, element: Element) -> tuple[str, int, int]:  # noqa: C901 - one pass over all attributes
        """Returns the names of an element, joined; its semantics; its degree of hiding."""
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
                    found = self._of_classes(value)
                elif sort == _ID and self._ids and f"#{value}".lower() in self._ids:
                    found = INVISIBLE
            elif sort == _NOTED:
                self.noted[key].append((element, value))
            elif sort == _ROLE:
                semantics |= BY_ROLE.get(value, 0)
            elif sort == _MUTE:
                if value == "true":
                    semantics |= MUTE
                    found = HIDDEN_FROM_SOME
            elif (found := PLAINLY_HIDDEN if sort == _HIDDEN else self._of_style(value)) == PLAINLY_HIDDEN:
                semantics |= UNSEEN
            if found > degree:  # noqa: PLR1730 - max() takes three times as long
                degree = found
        return named, semantics, degree

    def _meaning(self, tag: str, named: str) -> tuple[str, Sequence[str], int]:
        """Returns a key for this tag with these names, the words of the names, and their groups."""
        key = tag + named
        if (known := self._known.get(key)) is None:  # Pages repeat their names.
            words = vocabulary.words_of(named)
            known = self._known[key] = (key, words, vocabulary.groups_of(words))
        return known

    def _note_hidden(self, element: Element, degree: int, way: int | None) -> bool:
        """Records an element that not every reader sees, and returns whether it is left out."""
        self.hidden.append(element)
        if degree >= INVISIBLE:
            self.invisible.add(element)
        # A hidden tab is usually content; hidden words inside a sentence never are.
        return degree == PLAINLY_HIDDEN and way is not None

    def _end_hidden_span(self) -> None:
        if self._hider is not None and len(self._pieces) > self._hidden_from:
            self._hidden_spans.append((self._hidden_from, len(self._pieces), self._hider))

    def _mark(self, element: Element, tag: str, *, begins: bool) -> None:
        self._marks.append((len(self._pieces), element, begins))
        if tag in CODE:
            self._code += 1 if begins else -1
        elif tag == "a" and begins:
            self._around.append(self._link)
            self._link = element
        elif tag == "a":
            self._link = self._around.pop()

    def _take_all(self, walk: TreeWalk, element: Element) -> None:
        walk.skip_subtree()
        for one in element.iter("*"):
            if one is not element and (degree := self._read(one)[2]):
                self._note_hidden(one, degree, None)
        between = ""
        for text, hidden in pieces_within(element, self.invisible):
            if hidden and self._hider is None:
                self._hidden_spans.append((len(self._pieces), len(self._pieces) + 1, element))
            self._pieces.append(between + text)
            if self._link is not None:
                self._links += len(text.split())
            between = " "

    def _end(self, node: Node) -> None:
        """Ends the current run of text."""
        pieces = self._pieces
        text = " ".join("".join(pieces).split())
        if text:
            words = text.count(" ") + 1
            block = PageBlock(node, text, words, min(self._links, words), pieces, self._marks)
            if self._hider is not None or self._hidden_spans:
                self._end_hidden_span()
                block.hidden_spans = self._hidden_spans
            self.blocks.append(block)
        elif any(element.tag in _MEDIA for _, element, _ in self._marks):
            self.media.append((len(self.blocks), PageBlock(node, "", 0, 0, pieces, self._marks)))
        self._pieces = []
        self._hidden_from = 0
        self._hidden_spans = []
        # A link around several blocks is a link in each of them.
        self._marks = [(0, self._link, True)] if self._link is not None else []
        self._links = 0
