"""Kept blocks as Markdown: headings, nested lists, quotes, code, tables, links, formulas, images and embedded media.

The containers of a block decide its form; the marks beside its text give the inline markup. Hidden text gets marks
around it, which are removed from what is written: so its places are right in an item, a cell or a link.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import groupby, islice

from tidings.web.extract.html.blocks import BREAK, Node, PageBlock
from tidings.web.extract.html.embeds import embedded, picture
from tidings.web.extract.html.page import web_address
from tidings.web.extract.html.posts import Posts, is_quote
from tidings.web.extract.html.tree import Element, drop, pieces_within
from tidings.web.extract.html.vocabulary import CODE, EMBEDS, HEADINGS, MARKUP
from tidings.web.extract.model import ExtractOptions, escaped, escaped_url, fenced, table

HiddenRange = tuple[int, int]  # Start and end in the Markdown.

# Unicode reserves these two for such purposes. Those of the page itself are removed.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_APART = 10_000  # Ranges from which adjacent ones are merged.
_LINK_END = re.compile(r"[*\s]{0,5}\]\([^()\s]*\)")
_MARKS = re.compile(f"([{_OPEN}{_CLOSE}])")


class WrittenParts:
    """A text that is put together, and its hidden ranges."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._hidden: list[HiddenRange] = []
        self._end = 0
        self._hider: Element | None = None  # The element that hides all of the last part.

    def add(self, gap: str, text: str, hidden: Sequence[HiddenRange] = (), hider: Element | None = None) -> None:
        """Adds a part after `gap`; `hider` is the element that hides all of it, if there is one."""
        start = self._end + len(gap)
        for first, last in hidden if hider is None else [(0, len(text))]:
            touching = first == 0 and bool(self._hidden) and self._hidden[-1][1] == self._end
            if touching and ((hider is not None and hider is self._hider) or len(self._hidden) >= _APART):
                self._hidden[-1] = (self._hidden[-1][0], start + last)
            else:
                self._hidden.append((start + first, start + last))
        self._parts += (gap, text)
        self._end, self._hider = start + len(text), hider

    def finished(self) -> tuple[str, list[HiddenRange]]:
        """Returns the text without space around it, and its hidden ranges."""
        whole = "".join(self._parts)
        kept, by = whole.strip(), len(whole) - len(whole.lstrip())
        found = [(max(0, start - by), min(end - by, len(kept))) for start, end in self._hidden]
        return kept, [(start, end) for start, end in found if start < end]


def hider_of(blocks: Sequence[PageBlock]) -> Element | None:
    """Returns the one element that hides all of these blocks, or None."""
    first = blocks[0].hidden_spans[0][2] if blocks[0].hidden_spans else None
    return first if all(list(one.hidden_spans) == [(0, len(one.pieces), first)] for one in blocks) else None


def _marked(block: PageBlock) -> PageBlock:
    """Returns the block with marks around its hidden parts."""
    if not block.hidden_spans:
        return block
    pieces = [_MARKS.sub("", piece) for piece in block.pieces]
    for start, end, _ in block.hidden_spans:
        # Spaces at the ends are not part of it.
        if filled := [place for place in range(start, end) if pieces[place].strip()]:
            first, last = filled[0], filled[-1]
            pieces[last] = pieces[last].rstrip() + _CLOSE + pieces[last][len(pieces[last].rstrip()) :]
            text = pieces[first].lstrip()
            pieces[first] = pieces[first][: len(pieces[first]) - len(text)] + _OPEN + text
    other = copy(block)
    other.pieces = pieces
    return other


def unmarked(with_marks: str) -> tuple[str, list[HiddenRange]]:
    """Returns a text without marks, and the ranges of the marked parts in it."""
    found: list[HiddenRange] = []
    parts: list[str] = []
    at = start = 0
    for part in _MARKS.split(with_marks):
        if part == _OPEN:
            start = at
        elif part == _CLOSE:
            found.append((start, at))
        else:
            parts.append(part)
            at += len(part)
    written = "".join(parts)
    return written, [_links_whole(written, *place) for place in found]


def _links_whole(written: str, start: int, end: int) -> HiddenRange:
    """Extends a range to the whole of a link that begins or ends in it."""
    inner = written[start:end]
    begun, ended = inner.count("[") - inner.count("\\["), inner.count("](")
    if begun > ended and (rest := _LINK_END.match(written, end)):
        return start, rest.end()
    return (max(0, written.rfind("[", 0, start)), end) if ended > begun else (start, end)


_LANGUAGE = re.compile(MARKUP["code_language"])
_LINE_NUMBERS = frozenset(MARKUP["line_numbers"].split())
_DECLARED = ("data-lang", "data-language", "data-enlighter-language")
# Names that highlighters give to text of no language, or that are no languages.
_NO_LANGUAGE = frozenset(MARKUP["no_language"].split())
_AROUND = {  # What is written before and after the text of an element, unless it is there already.
    **dict.fromkeys(("b", "strong"), ("**", "**")),
    **dict.fromkeys(("i", "em"), ("*", "*")),
    **dict.fromkeys(("del", "s", "strike"), ("~~", "~~")),
    "q": ("“", "”"),
    "rt": ("(", ")"),
}
_PLAIN_RAISED = re.compile(r"\W*(?:st|nd|rd|th|e|er|re|ème|o|a|º|ª|tm|™|®|©|sm|me|lle|no|\*+|†|‡)\W*", re.IGNORECASE)
_SIMPLE = re.compile(r"[+\-\N{MINUS SIGN}]?\w+")
_LINE_START = re.compile(rf"^([\s{_OPEN}]*)(#{{1,6}}\s|[-+]\s|>|[0-9]{{1,9}}[.)]\s)", re.MULTILINE)
# The first characters of lines that could be read as a heading, an item or a quote.
_STARTS = frozenset(f"#-+>0123456789{_OPEN}")
_SPACES = re.compile(rf"[^\S{BREAK}]+")
_BREAKS = re.compile(rf"\s*{BREAK}\s*")
_PERMALINKS = frozenset("¶#§🔗")
_VERBATIM = CODE | {"math"}
_WIDEST = 200  # Columns that a cell may span.


class MarkdownWriter:
    """Writes one page, and collects the ranges of invisible text."""

    def __init__(self, base: str, options: ExtractOptions, invisible: Collection[Element] = frozenset()) -> None:
        self.concealed: list[HiddenRange] = []
        self._invisible = invisible
        self._base = base
        self._options = options
        self._room = options.caps.characters  # Characters left for URLs: a long base URL makes every short link long.
        self._items: set[Node] = set()  # List items that already have their bullet.
        self._around: dict[Node, tuple[int, int]] = {}
        self._links: dict[str, int] = {}  # The URLs of links that are written as footnotes.

    def write(self, blocks: Sequence[PageBlock], posts: Posts | None = None) -> str:
        """Returns all blocks as Markdown, in order; `posts` knows the authors of a discussion."""
        parts = WrittenParts()
        before: Node | None = None
        wholes: dict[Node, Node | None] = {}
        for whole, grouped in groupby(blocks, key=lambda block: _whole(block.node, wholes)):
            group = list(grouped)
            for part in [[block] for block in group] if whole is None else [group]:
                if posts is not None and (author := posts.author_before(part[0])):
                    parts.add("\n\n", f"**{escaped(author)}:**")
                    before = None
                item = _nearest(part[0].node, "li") if whole is None else None
                hider = hider_of(part)
                if whole is not None and whole.tag == "pre":
                    text, found = self._code(whole)
                else:
                    marked = list(map(_marked, part)) if hider is None else part
                    text, found = unmarked(self._block(marked[0]) if whole is None else self._table(marked))
                if text:
                    together = item is not None and before is not None and _list(item) is _list(before)
                    parts.add("\n" if together else "\n\n", text, found, hider)
                if text or whole is not None:
                    before = item
        if self._links:
            parts.add("\n\n", "\n".join(f"[{number}]: {url}" for url, number in self._links.items()))
        written, self.concealed = parts.finished()
        return written

    def _block(self, block: PageBlock) -> str:
        text = self.inline(block)
        if not text:
            return ""
        if heading := next((node.tag for node in islice(block.node.upwards(), 3) if node.tag in HEADINGS), ""):
            return f"{'#' * int(heading[1])} {text.replace(chr(10), ' ')}"
        depth, quotes = self._levels(block.node)
        first = rest = "> " * min(quotes, 5)
        if (marker := _nearest(block.node, "li")) is not None:
            indent = "  " * (depth - 1)
            bullet, around = "  " if marker in self._items else "- ", marker.parent
            if marker not in self._items and around is not None and around.tag == "ol":
                start = around.element.get("start") or "1"
                number = int(start) if start.isdigit() and len(start) < 9 else 1
                bullet = f"{number + sum(1 for _ in marker.element.itersiblings('li', preceding=True))}. "
            self._items.add(marker)
            first, rest = first + indent + bullet, rest + indent + " " * len(bullet)
        elif block.node.tag == "dt":
            text = text if text.startswith("**") else f"**{text}**"
        return first + text.replace("\n", "\n" + rest)

    def _levels(self, node: Node) -> tuple[int, int]:
        """Returns how many list items and quotes are around a block."""
        if node not in self._around:
            items, quotes = self._levels(node.parent) if node.parent is not None else (0, 0)
            self._around[node] = (items + (node.tag == "li"), quotes + is_quote(node))
        return self._around[node]

    def inline(self, block: PageBlock) -> str:
        """Returns the text of a block with its links, emphasis, code and images."""
        if not block.marks:
            return _tidy(escaped("".join(block.pieces)))
        out: list[str] = []
        open_marks: list[tuple[Element, int]] = []
        at = 0
        for place, element, begins in block.marks:
            code = any(one.tag in _VERBATIM for one, _ in open_marks)
            text = "".join(block.pieces[at:place])
            out.append(text if code else escaped(text))
            at = place
            if element.tag == "img":
                out.append(self._image(element))
            elif element.tag in EMBEDS:
                label, link = (embedded(element) if self._options.links != "off" else None) or ("", "")
                url = self._address(link) if link else None
                out.append(f" [{escaped(label)}]({escaped_url(url)}) " if url else "")
            elif begins:
                open_marks.append((element, len(out)))
            elif any(one is element for one, _ in open_marks):
                self._close(out, open_marks, element)
        out.append(escaped("".join(block.pieces[at:])))
        while open_marks:
            self._close(out, open_marks, open_marks[-1][0])
        return _tidy("".join(out))

    def _close(self, out: list[str], open_marks: list[tuple[Element, int]], element: Element) -> None:
        """Wraps the text since `element` began; elements that began inside it end with it."""
        while open_marks:
            last, since = open_marks.pop()
            text = "".join(out[since:])
            del out[since:]
            out.append(self._wrapped(last, text))
            if last is element:
                return

    def _wrapped(self, element: Element, text: str) -> str:
        """Returns `text` as the link, the emphasis or the code of `element`; outer spaces stay outside."""
        inner = text.strip()
        if not inner:
            return text
        tag = element.tag
        if tag in {"sup", "sub"}:
            return _script(element, text)
        if tag == "a":
            inner = self._linked(element, inner)
        elif tag in CODE:
            fence = "``" if "`" in inner else "`"
            inner = f"{fence}{' '.join(inner.split())}{fence}"
        elif tag == "math":
            fence = "$$" if element.get("display") == "block" else "$"
            inner = f"{fence}{inner}{fence}"
        elif (around := _AROUND.get(tag)) is not None and around[0] not in inner:
            inner = f"{around[0]}{inner}{around[1]}"
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return before + inner + after

    def _linked(self, element: Element, text: str) -> str:
        href = element.get("href") or "#"
        url = None if href.startswith("#") or self._options.links == "off" else self._address(href)
        if url is None:
            return "" if text in _PERMALINKS else text
        label = " ".join(text.split())
        if self._options.links == "footnotes":
            return f"[{label}][{self._links.setdefault(escaped_url(url), len(self._links) + 1)}]"
        return f"[{label}]({escaped_url(url)})"

    def _image(self, element: Element) -> str:
        alt, source = picture(element)
        if alt and not source and not element.get("src"):
            return ""
        if alt and (not source or alt.startswith("$")):
            return alt
        url = self._address(source) if source and self._options.images else None
        return f" ![{escaped(alt)}]({escaped_url(url)}) " if alt and url else ""

    def _address(self, link: str) -> str | None:
        url = web_address(self._base, link) if self._room > 0 else None
        self._room -= len(url or "")
        return url

    def _code(self, whole: Node) -> tuple[str, list[HiddenRange]]:
        inner = _verbatim(whole)
        code = inner.strip("\n").rstrip()
        if not code or not self._options.keep_code_blocks:
            return "", []
        text = fenced(code, _language(whole.element))
        if not self._invisible:
            return text, []
        least, most = text.index("\n") + 1, text.rindex("\n")
        at = least - (len(inner) - len(inner.lstrip("\n")))
        found: list[HiddenRange] = []
        for piece, hidden in pieces_within(whole.element, self._invisible):
            if hidden and piece.strip():
                found.append((max(at, least), min(at + len(piece), most)))
            at += len(piece)
        return text, found

    def _table(self, blocks: list[PageBlock]) -> str:
        """Writes a table row by row; a table with one row or column is layout, and written as its content."""
        rows: list[list[tuple[Node, list[PageBlock]]]] = []
        for _, row in groupby(blocks, key=lambda block: _nearest(block.node, "tr")):
            cells = groupby(row, key=lambda block: _nearest(block.node, "td", "th") or block.node)
            rows.append([(cell, list(held)) for cell, held in cells])
        if max(map(len, rows)) == 1 or len(rows) == 1:
            parts: list[str] = []
            for code, part in ((code, part) for row in rows for _, held in row for code, part in _by_code(held)):
                if code is None:
                    parts.append(" ".join(filter(None, map(self.inline, part))))
                elif not all(map(str.isdigit, _verbatim(code).split())):  # Numbers of lines are a column of their own.
                    parts.append(self._code(code)[0])
            return "\n\n".join(filter(None, parts))
        written = [(row[0][0], [(cell, self._cell(held)) for cell, held in row]) for row in rows]
        if not self._options.keep_tables:
            return "\n".join(", ".join(filter(None, (text for _, text in row))) for _, row in written)
        return table(_grid(written))

    def _cell(self, blocks: list[PageBlock]) -> str:
        """Writes the blocks of a cell in one line; code becomes inline code, line by line."""
        parts: list[str] = []
        for code, part in _by_code(blocks):
            if code is None:
                parts += filter(None, map(self.inline, part))
            elif self._options.keep_code_blocks:
                lines = filter(str.strip, _verbatim(code).split("\n"))
                parts.append("<br>".join(f"``{line}``" if "`" in line else f"`{line}`" for line in lines))
        return " ".join(parts).replace("\n", " ").replace("|", "\\|")


def _by_code(blocks: Sequence[PageBlock]) -> Iterator[tuple[Node | None, Iterator[PageBlock]]]:
    return groupby(blocks, key=lambda block: _nearest(block.node, "pre"))


def _verbatim(node: Node) -> str:
    """Returns the text of code without the numbers of its lines."""
    for one in list(node.element.iter("span", "td")):
        if one is not node.element and not _LINE_NUMBERS.isdisjoint((one.get("class") or "").split()):
            drop(one)
    return "".join(text for text, _ in pieces_within(node.element, ()))


def _grid(rows: Sequence[tuple[Node, Sequence[tuple[Node, str]]]]) -> list[list[str]]:
    """Returns the cells of a table in their columns: a cell that spans several is repeated in each row, not column."""
    grid: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}  # By column: the rows that a cell above still covers, and its text.
    group: Element | None = None
    for first, cells in rows:
        row: list[str] = []
        texts = {cell.element: text for cell, text in cells}
        line = first.element.getparent()
        if line is not None and line.getparent() is not group:  # A cell ends with its `tbody`.
            group, spanning = line.getparent(), {}
        # All cells count, also those without text, which have no block.
        every = [one for one in line if one.tag in {"td", "th"}] if line is not None and line.tag == "tr" else []
        for cell in every or [one.element for one, _ in cells]:
            _fill(row, spanning)
            text, wide, tall = texts.get(cell, ""), _span(cell, "colspan"), _span(cell, "rowspan")
            for number in range(wide):
                if tall > 1:
                    spanning[len(row)] = (tall - 1, text if number == 0 else "")
                row.append(text if number == 0 else "")
            if len(row) >= _WIDEST:
                break
        _fill(row, spanning)
        grid.append(row)
    used = [number for number in range(max(map(len, grid))) if any(row[number : number + 1] > [""] for row in grid)]
    return [[row[number] if number < len(row) else "" for number in used] for row in grid]


def _fill(row: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    """Adds the cells of earlier rows that reach into this one, at its end."""
    while (above := spanning.pop(len(row), None)) is not None:
        left, text = above
        if left > 1:
            spanning[len(row)] = (left - 1, text)
        row.append(text)


def _span(cell: Element, name: str) -> int:
    said = (cell.get(name) or "").strip()
    if name == "rowspan" and said == "0":
        return 65_534  # to the end of the group
    return min(max(int(said), 1), _WIDEST) if said.isascii() and said.isdigit() and len(said) < 6 else 1


def _script(element: Element, text: str) -> str:
    """Returns a superscript or a subscript: `10^23`, `x^(n+1)`, `H_2O`; ordinals and marks stay as they are."""
    inner = text.strip()
    link = element.find(".//a")
    if link is None and (above := element.getparent()) is not None and above.tag == "a":
        link = above
    if element.tag == "sup" and link is not None and (link.get("href") or "").find("#") >= 0:
        bare = inner.strip("[]\\()")
        return f"[^{bare}]" if bare.isalnum() else text
    if element.tag == "sup" and (_PLAIN_RAISED.fullmatch(inner) or "[" in inner or len(inner) > 40):
        return text
    mark = "^" if element.tag == "sup" else "_"
    return f"{mark}{inner}" if _SIMPLE.fullmatch(inner) else f"{mark}({inner})"


def _whole(node: Node, known: dict[Node, Node | None]) -> Node | None:
    """Returns the code block or the table around `node`, which is written as a whole, or None."""
    if node not in known:
        above = _whole(node.parent, known) if node.parent is not None else None
        if above is None and node.tag in {"pre", "table"}:
            known[node] = node
        elif above is not None and above.tag == "table" and node.tag == "table":
            known[node] = None  # A table in a table is layout.
        else:
            known[node] = above
    return known[node]


def _nearest(start: Node, *tags: str) -> Node | None:
    node: Node | None = start
    while node is not None and node.tag not in tags:
        node = node.parent
    return node


def _list(item: Node) -> Node | None:
    """Returns the outermost list around `item`."""
    lists = [node for node in item.upwards() if node.tag in {"ul", "ol"}]
    return lists[-1] if lists else None


def _language(element: Element) -> str:
    """Returns the language of code from the class of its `code`, of the `pre` or of the two containers around it."""
    parent = element.getparent()
    for one in (element.find(".//code"), element, parent, None if parent is None else parent.getparent()):
        if one is not None:
            for found in _LANGUAGE.finditer(one.get("class") or ""):
                if (said := (found[1] or found[2]).lower()) not in _NO_LANGUAGE:
                    return said.removesuffix("-basic")
            if declared := next(filter(None, map(one.get, _DECLARED)), "").split():
                return declared[0]
    return ""


def _tidy(text: str) -> str:
    if BREAK not in text:
        text = " ".join(text.split())
        return _LINE_START.sub(r"\1\\\2", text) if text[:1] in _STARTS else text
    text = _BREAKS.sub("\n", _SPACES.sub(" ", text)).strip()
    return _LINE_START.sub(r"\1\\\2", text)
