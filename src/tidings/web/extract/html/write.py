"""The blocks that were kept, as markdown: headings, nested lists, quotes, code, tables, links and images.

What a block becomes is told by the containers above it; what is in it, by the marks kept beside its text. Containers
that were only partly kept show what was kept of them. Links are absolute; those that do not lead to the web lose
their address and keep their text.

Where in what is written the words stand that no reader sees.

A block that is partly hidden is written once more with two marks around each hidden part, and the marks are looked for
in the result: however it was written, as an item, a cell or a link, the places are right, and the text itself is not
touched by this.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from itertools import groupby

from tidings.web.extract.html.blocks import BREAK, Node, PageBlock
from tidings.web.extract.html.page import web_address
from tidings.web.extract.html.tree import Element, flagged
from tidings.web.extract.model import ExtractOptions, PageLink, fenced

Place = tuple[int, int]
"""From the first character on, to behind the last."""

# No character of any text: Unicode keeps these two for such purposes.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_APART = 10_000
"""Hidden places that are told of one by one; more of them are put together where they touch."""
_LINK_END = re.compile(r"[*\s]{0,5}\]\([^()\s]*\)")
_MARKS = re.compile(f"([{_OPEN}{_CLOSE}])")


class Places:
    """The hidden places of a text, collected while it is put together."""

    def __init__(self) -> None:
        self.found: list[Place] = []
        self._end = 0
        self._veil: Element | None = None
        """What hides all of the part that came last."""

    def add(self, gap: str, text: str, hidden: Sequence[Place], veil: Element | None) -> None:
        """Another part comes, `gap` behind the last; `veil` is what hides all of it, if one thing does."""
        start = self._end + len(gap)
        for first, last in hidden:
            touching = first == 0 and bool(self.found) and self.found[-1][1] == self._end
            if touching and ((veil is not None and veil is self._veil) or len(self.found) >= _APART):
                self.found[-1] = (self.found[-1][0], start + last)
            else:
                self.found.append((start + first, start + last))
        self._end, self._veil = start + len(text), veil

    def moved(self, by: int, most: int) -> list[Place]:
        """The places in a text that lost `by` characters at its beginning, and has `most`."""
        found = [(max(0, start - by), min(end - by, most)) for start, end in self.found]
        return [(start, end) for start, end in found if start < end]


def veil_of(blocks: Sequence[PageBlock]) -> Element | None:
    """The one element that hides all of these blocks, if one does."""
    first = blocks[0].veils[0][2] if blocks[0].veils else None
    whole = first is not None and all(
        len(one.veils) == 1 and one.veils[0] == (0, len(one.pieces), first) for one in blocks
    )
    return first if whole else None


def marked(block: PageBlock) -> PageBlock:
    """The block with marks around what is hidden in it."""
    pieces = list(block.pieces)
    for start, end, _ in block.veils:
        # Spaces at its ends belong to what is around.
        said = [place for place in range(start, end) if pieces[place].strip()]
        if said:
            first, last = said[0], said[-1]
            pieces[last] = pieces[last].rstrip() + _CLOSE + pieces[last][len(pieces[last].rstrip()) :]
            text = pieces[first].lstrip()
            pieces[first] = pieces[first][: len(pieces[first]) - len(text)] + _OPEN + text
    other = copy(block)
    other.pieces = pieces
    return other


def places(written: str, with_marks: str) -> list[Place]:
    """Where in `written` the marked parts are; all of it, where marks made a difference beside themselves."""
    found: list[Place] = []
    at = start = 0
    for part in _MARKS.split(with_marks):
        if part == _OPEN:
            start = at
        elif part == _CLOSE:
            found.append((start, at))
        else:
            at += len(part)
    same = _MARKS.sub("", with_marks) == written
    return [_links_whole(written, *place) for place in found] if same else [(0, len(written))]


def _links_whole(written: str, start: int, end: int) -> Place:
    """The place with the rest of a link that begins or ends in it."""
    inner = written[start:end]
    begun, ended = inner.count("[") - inner.count("\\["), inner.count("](")
    if begun > ended and (rest := _LINK_END.match(written, end)):
        return start, rest.end()
    return (max(0, written.rfind("[", 0, start)), end) if ended > begun else (start, end)


def places_of(pieces: Sequence[tuple[str, bool]], start: int, least: int, most: int) -> list[Place]:
    """Where the hidden ones of pieces stand that follow each other from `start` on; between `least` and `most`."""
    found: list[Place] = []
    for text, hidden in pieces:
        if hidden and text.strip():
            found.append((max(start, least), min(start + len(text), most)))
        start += len(text)
    return found


_BOLD = frozenset(("b", "strong"))
_SLANTED = frozenset(("i", "em"))
_CODE = frozenset(("code", "kbd", "samp"))
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|highlight|brush|sourceCode)[-: ]+([\w+#.-]+)")
_SPECIAL = re.compile(r"([\\`*_\[\]])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}\s|[-+]\s|>|[0-9]{1,9}[.)]\s)", re.MULTILINE)
_STARTS = frozenset(("#", "-", "+", ">", *"0123456789"))
"""What a line begins with that may be taken for a heading, an item or a quote. Other digits begin nothing."""
_SPACES = re.compile(rf"[^\S{BREAK}]+")
_BREAKS = re.compile(rf"\s*{BREAK}\s*")
_PERMALINKS = frozenset("¶#§🔗")


class MarkdownWriter:
    """Writes one page; collects the links on the way, and the places of what is written and `veiled`."""

    def __init__(self, base: str, options: ExtractOptions, veiled: Collection[Element] = frozenset()) -> None:
        self.links: list[PageLink] = []
        self.concealed: list[Place] = []
        self._veiled = veiled
        self._base = base
        self._options = options
        self._room = options.caps.characters
        """Characters that addresses may still have: a long base makes a long one of each short link."""
        self._items: set[Node] = set()
        """List items that have their bullet already."""

    def write(self, blocks: Sequence[PageBlock]) -> str:
        """All blocks, in their order."""
        parts: list[str] = []
        hidden = Places()
        before: Node | None = None
        wholes: dict[Node, Node | None] = {}
        for whole, grouped in groupby(blocks, key=lambda block: _whole(block.node, wholes)):
            group = list(grouped)
            if whole is not None:
                text, found = self._coded(whole) if whole.tag == "pre" else self._looked_at(group, self._table)
                if text:
                    parts += ("\n\n", text)
                    hidden.add("\n\n", text, *_all_of(group, text, found))
                before = None
                continue
            for block in group:
                text, found = self._looked_at([block], self._single)
                if text:
                    item = _nearest(block.node, "li")
                    together = item is not None and before is not None and _list(item) is _list(before)
                    gap = "\n" if together else "\n\n"
                    parts += (gap, text)
                    hidden.add(gap, text, *_all_of([block], text, found))
                    before = item
        written = "".join(parts)
        kept = written.strip()
        self.concealed = hidden.moved(len(written) - len(written.lstrip()), len(kept))
        return kept

    def _looked_at(self, blocks: list[PageBlock], write: Callable[[list[PageBlock]], str]) -> tuple[str, list[Place]]:
        """What `write` makes of blocks, and where in it something is hidden."""
        if not any(block.veils for block in blocks) or veil_of(blocks) is not None:
            return write(blocks), []
        links, room, items = len(self.links), self._room, len(self._items)
        with_marks = write([marked(block) for block in blocks])
        # All but the places is forgotten: it is written once.
        del self.links[links:]
        self._room = room
        item = _nearest(blocks[0].node, "li")
        if item is not None and len(self._items) > items:
            self._items.discard(item)
        text = write(blocks)
        return text, places(text, with_marks)

    def _single(self, blocks: list[PageBlock]) -> str:
        return self._block(blocks[0])

    def _block(self, block: PageBlock) -> str:
        text = self.inline(block)
        if not text:
            return ""
        level = _heading(block.node)
        if level:
            return f"{'#' * level} {text.replace(chr(10), ' ')}"
        first = rest = ""
        depth = 0
        node: Node | None = block.node
        marker: Node | None = None
        while node is not None:
            if node.tag == "li":
                depth += 1
                marker = marker or node
            elif node.tag == "blockquote" and not first.startswith("> "):
                first = rest = "> "
            node = node.parent
        if marker is not None:
            indent = "  " * (depth - 1)
            bullet = _bullet(marker) if marker not in self._items else "  "
            self._items.add(marker)
            first, rest = indent + bullet, indent + " " * len(bullet)
        elif block.node.tag == "dt":
            text = text if text.startswith("**") else f"**{text}**"
        return first + text.replace("\n", "\n" + rest)

    def inline(self, block: PageBlock) -> str:
        """The text of a block with its links, emphasis, code and images."""
        if not block.marks:
            return _tidy(_escaped("".join(block.pieces)))
        out: list[str] = []
        open_marks: list[tuple[Element, int]] = []
        at = 0
        for place, element, begins in block.marks:
            code = any(one.tag in _CODE for one, _ in open_marks)
            text = "".join(block.pieces[at:place])
            out.append(text if code else _escaped(text))
            at = place
            if element.tag == "img":
                out.append(self._image(element))
            elif begins:
                open_marks.append((element, len(out)))
            elif any(one is element for one, _ in open_marks):
                self._close(out, open_marks, element)
        out.append(_escaped("".join(block.pieces[at:])))
        while open_marks:
            self._close(out, open_marks, open_marks[-1][0])
        return _tidy("".join(out))

    def _close(self, out: list[str], open_marks: list[tuple[Element, int]], element: Element) -> None:
        """Wrap what was written since `element` began; what began within it ends with it."""
        while open_marks:
            last, since = open_marks.pop()
            text = "".join(out[since:])
            del out[since:]
            out.append(self._wrapped(last, text))
            if last is element:
                return

    def _wrapped(self, element: Element, text: str) -> str:
        """`text` as the link, the emphasis or the code that `element` makes of it; spaces stay outside."""
        inner = text.strip()
        if not inner:
            return text
        tag = element.tag
        if tag == "a":
            inner = self._linked(element, inner)
        elif tag in _BOLD:
            inner = inner if "**" in inner else f"**{inner}**"
        elif tag in _SLANTED:
            inner = inner if "*" in inner else f"*{inner}*"
        elif tag in _CODE:
            fence = "``" if "`" in inner else "`"
            inner = f"{fence}{' '.join(inner.split())}{fence}"
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return before + inner + after

    def _linked(self, element: Element, text: str) -> str:
        href = element.get("href") or "#"
        url = None if href.startswith("#") else self._address(href)
        if url is None:
            return "" if text in _PERMALINKS else text
        label = " ".join(text.split())
        self.links.append(PageLink(label, url))
        return f"[{label}]({_bracketed(url)})"

    def _image(self, element: Element) -> str:
        alt = _escaped(" ".join((element.get("alt") or "").split()))
        source = element.get("src") or element.get("data-src") or ""
        url = self._address(source) if source else None
        return f" ![{alt}]({_bracketed(url)}) " if alt and url else ""

    def _address(self, link: str) -> str | None:
        url = web_address(self._base, link) if self._room > 0 else None
        self._room -= len(url or "")
        return url

    def _coded(self, whole: Node) -> tuple[str, list[Place]]:
        text = self._code(whole)
        if not text or not self._veiled:
            return text, []
        pieces = list(flagged(whole.element, self._veiled))
        said = "".join(piece for piece, _ in pieces)
        first = text.index("\n") + 1
        return text, places_of(pieces, first - (len(said) - len(said.lstrip("\n"))), first, text.rindex("\n"))

    def _code(self, whole: Node) -> str:
        text = "".join(whole.element.itertext()).strip("\n").rstrip()
        if not text or not self._options.keep_code_blocks:
            return ""
        return fenced(text, _language(whole.element))

    def _table(self, blocks: list[PageBlock]) -> str:
        """A table of data, row by row; one that only lays things out is written as what it holds."""
        rows: list[list[str]] = []
        for _, row in groupby(blocks, key=lambda block: _nearest(block.node, "tr")):
            cells = groupby(row, key=lambda block: _nearest(block.node, "td", "th") or block.node)
            rows.append([" ".join(filter(None, map(self.inline, cell))).replace("\n", " ") for _, cell in cells])
        width = max(map(len, rows))
        if width == 1 or len(rows) == 1:
            return "\n\n".join(cell for row in rows for cell in row if cell)
        if not self._options.keep_tables:
            return "\n".join(", ".join(filter(None, row)) for row in rows)
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in _padded(row, width)) + " |" for row in rows]
        lines.insert(1, "|" + " --- |" * width)
        return "\n".join(lines)


def _all_of(blocks: Sequence[PageBlock], text: str, found: list[Place]) -> tuple[list[Place], Element | None]:
    """What is hidden in the text of blocks, and what hides all of it, if one thing does."""
    veil = veil_of(blocks)
    return (found, None) if veil is None else ([(0, len(text))], veil)


def _whole(node: Node, known: dict[Node, Node | None]) -> Node | None:
    """The container that is written in one piece: the code or the table of data that `node` is in."""
    if node in known:
        return known[node]
    above = _whole(node.parent, known) if node.parent is not None else None
    if above is not None and above.tag == "pre":
        found = above
    elif node.tag == "pre":
        found = node
    elif node.tag == "table":
        found = node if above is None else None  # a table of tables is layout
    else:
        found = above
    known[node] = found
    return found


def _nearest(node: Node | None, *tags: str) -> Node | None:
    while node is not None and node.tag not in tags:
        node = node.parent
    return node


def _list(item: Node) -> Node | None:
    """The outermost list that `item` is in."""
    found = node = _nearest(item, "ul", "ol")
    while node is not None:
        found = node
        node = _nearest(node.parent, "ul", "ol")
    return found


def _heading(node: Node) -> int:
    inner: Node | None = node
    while inner is not None and inner.depth > node.depth - 3:
        tag = inner.tag
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            return int(tag[1])
        inner = inner.parent
    return 0


def _bullet(item: Node) -> str:
    parent = item.parent
    if parent is None or parent.tag != "ol":
        return "- "
    before = sum(1 for _ in item.element.itersiblings("li", preceding=True))
    start = parent.element.get("start") or "1"
    return f"{(int(start) if start.isdigit() and len(start) < 9 else 1) + before}. "


def _language(element: Element) -> str:
    """The language of code, where a class of the `pre`, of the `code` in it or of what is around says so."""
    inner = element.find(".//code")
    for one in (inner, element, element.getparent()):
        if one is not None:
            found = _LANGUAGE.search(one.get("class") or "")
            if found:
                return found[1]
            if one.get("data-lang") or one.get("data-language"):
                return str(one.get("data-lang") or one.get("data-language")).split()[0]
    return ""


def _padded(row: list[str], width: int) -> Iterator[str]:
    yield from row
    yield from [""] * (width - len(row))


def _bracketed(url: str) -> str:
    """Brackets and spaces would end a link's address."""
    return url.replace(" ", "%20").replace("(", "%28").replace(")", "%29")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text) if _SPECIAL.search(text) else text


def _tidy(text: str) -> str:
    if BREAK not in text:
        text = " ".join(text.split())
        return _LINE_START.sub(r"\1\\\2", text) if text[:1] in _STARTS else text
    text = _BREAKS.sub("\n", _SPACES.sub(" ", text)).strip()
    return _LINE_START.sub(r"\1\\\2", text)
