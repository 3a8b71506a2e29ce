"""Parts of a note's Markdown that are not text (code, mathematics, comments, HTML, escapes), and blocks with an id.

`mask` returns the text, with the same length and line ends, with a filler in place of these parts. It takes time in
proportion to the text: a mark that was not found once is not searched again. A block that links can point at is a
paragraph, a list item, or a whole list, table, quote or code block; its id is at its end, or on a line after it.
"""

import re

from tidings._kit.text import applied
from tidings.vault.notes.model import NoteBlock

FILLER = "\0"

WIKI_LINK = r"\[\[(?!\[)([^\[\]\n]*+(?:(?:\[(?!\[)|\](?!\]))[^\[\]\n]*+)*+)\]\]"
"""One group: the text between the brackets."""

_MARKER = r"(?:[-*+]|\d{1,9}[.)])[ \t]++"
_GAP = r"[ \t]*+(?:\r?\n[ \t]*+)?+"
_PATH = (
    r"(?:<((?:[^<>\n\\]|\\[^\n])*+)>|((?:[^\s()<\\\0]|\\[^\n])(?:[^\s()\\\0]++|\\[^\n]"
    r"|\((?:[^\s()\\\0]++|\\[^\n]|\([^\s()\0]*+\))*+\))*+))"
)
_LINES = r"\\.|\n(?![ \t]*+\r?\n)"
_TITLE = rf"(?:\"(?:[^\"\\\n]|{_LINES})*+\"|'(?:[^'\\\n]|{_LINES})*+'|\((?:[^()\\\n]|{_LINES})*+\))"

DESTINATION = rf"\]\({_GAP}{_PATH}(?:(?=\s){_GAP}{_TITLE})?+{_GAP}\)"
"""The end of a link's text and its destination. Two groups: within angle brackets, and without."""

REFERENCE = rf"\]:{_GAP}{_PATH}(?:(?=\s){_GAP}{_TITLE}[ \t]*+(?=\r?$)|[ \t]*+(?=\r?$))"
"""The end of a label and its destination, as in `[label]: Note.md "title"`. The same groups."""

LABEL = rf"^[ \t>]*+((?:{_MARKER})*+)\[(?!\^)((?:[^\[\]\\]|\\.){{1,999}}+)(?=\]:)"
"""The beginning of a line with a label. Two groups: the marks of lists, and the label."""

# Begins with one set of characters, which the engine can search fast. It finds only those links that contain an
# opening mark of something else.
_OPENER = re.compile(
    r"[\\<`~$%\[\]](?:(?<=[\\<])|(?<=`)`*+|(?<=~)~~++|(?<=\$)\$?+|(?<=%)%"
    r"|(?<=\[)\[(?=[^\[\]\n`$%<\\]{0,500}+[`$%<\\])|(?<=\])\((?=[^()`$%<\\]{0,500}+[`$%<\\]))"
)
_OPENING = ("`", "\\", "$", "<", "%%", "~~~")
_CONTAINERS = re.compile(rf"[ \t>]*+(?:{_MARKER}(?:\[.\][ \t]++)?[ \t>]*+)*+")
_PARAGRAPH_END = re.compile(rf"\n(?=[ \t>]*+(?:\r?\n|\Z|{_MARKER}|#{{1,6}}[ \t]|```|~~~|\|))")
_FENCE_END = re.compile(r"\n[ \t>]*+(`{3,}+|~{3,}+)[ \t]*+(?=\r?(?:\n|\Z))")
_QUOTE_END = re.compile(r"\n(?![ \t]*+>)")
_BLANK_LINE = re.compile(r"\n[ \t>]*+\r?(?:\n|\Z)")
_MATH_END = re.compile(r"(?<![\s\\])\$(?!\d)")
_WIKI = re.compile(WIKI_LINK)
_DESTINATION = re.compile(DESTINATION)
_HTML = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9-]*+(?:\s++[a-zA-Z_:][\w.:-]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?+)*+\s*+/?>"
    r"|<[a-zA-Z][a-zA-Z0-9+.-]++:[^\s<>]*+>"
)
_HTML_BLOCK = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl"
    r"|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main"
    r"|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title"
    r"|tr|track|ul)(?=[\s/>]|\Z)",
    re.IGNORECASE,
)
_RAW_BLOCK = re.compile(r"<(pre|script|style|textarea)(?=[\s>]|\Z)", re.IGNORECASE)
_REST_BLANK = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_MAYBE_INDENTED = re.compile(r"\n[ \t]*+\r?\n(?: {4}| {0,3}\t)")
_INDENTED = re.compile(rf"(?: {{4}}| {{0,3}}\t)[ \t]*+(?!{_MARKER})\S")
_ITEM = re.compile(rf"[ \t>]*+{_MARKER}")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

Span = tuple[int, int]
_ID = re.compile(r"\^([A-Za-z0-9-]+)[ \t]*\r?(?=\n|\Z)")
_STARTS_BLOCK = re.compile(r"[ \t>]*+(?:\r?(?:\n|\Z)|(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t]|\0|\|)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_BLANK = re.compile(r"[ \t>]*+\r?(?:\n|\Z)")


def mask(text: str) -> tuple[str, list[Span]]:
    """Returns the masked text, and the positions of its code blocks."""
    indented = _indented(text) if text.startswith((" ", "\t")) or _MAYBE_INDENTED.search(text) else []
    if indented:
        text = _filled(text, indented)
    if not any(map(text.__contains__, _OPENING)):
        return text, []
    scan = _Scan(text)
    scan.run()
    return _filled(text, scan.spans), scan.blocks


def _filled(text: str, spans: list[Span]) -> str:
    lines = ([FILLER * len(line) for line in text[start:end].split("\n")] for start, end in spans)
    return applied(text, [(*span, "\n".join(some)) for span, some in zip(spans, lines, strict=True)])


def _indented(text: str) -> list[Span]:
    """Returns the lines that are code by indentation: after an empty line, and not within a list."""
    spans: list[Span] = []
    position = 0
    after_blank, in_list, in_code = True, False, False
    for line in text.split("\n"):
        if not line or line.isspace():
            after_blank = True
        else:
            in_code = not in_list and (after_blank or in_code) and _INDENTED.match(line) is not None
            if in_code:
                spans.append((position, position + len(line)))
            elif _ITEM.match(line):
                in_list = True
            elif after_blank and not line[0].isspace():
                in_list = False
            after_blank = False
        position += len(line) + 1
    return spans


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: list[Span] = []
        self.blocks: list[Span] = []
        self._paragraph_end = -1
        self._runs: dict[int, list[int]] = {}
        self._runs_until = -1
        self._line = 0
        self._line_seen = 0
        self._content = -1
        self._content_line = -1
        self._lacking: dict[str, int] = {}
        self._open = {"`": self._code, "~": self._code, "$": self._pair, "%": self._pair, "<": self._html}

    def run(self) -> None:
        text, position = self.text, 0
        while (found := _OPENER.search(text, position)) is not None:
            start, opener = found.start(), found[0]
            if opener == "\\":
                position = start + 2
                if text[start + 1 : position] in _PUNCTUATION:
                    self.spans.append((start, position))
            elif opener in ("[[", "]("):
                whole = (_WIKI if opener == "[[" else _DESTINATION).match(text, start)
                position = found.end() - 1 if whole is None else whole.end()
            else:
                end = self._open[opener[0]](start, opener)
                if end:
                    self.spans.append((start, end))
                position = end or found.end()

    def _code(self, start: int, opener: str) -> int:
        mark = opener[0]
        fenced = len(opener) >= 3 and self._begins_line(start)
        if fenced and (mark == "~" or mark not in self.text[start + len(opener) : self._end_of_line(start)]):
            return self._fence(start, opener)
        return self._inline_code(start, len(opener)) if mark == "`" else 0

    def _fence(self, start: int, opener: str) -> int:
        """Returns the end of a code block: a fence as long as its own, the end of its quote, or of the text."""
        text = self.text
        end = len(text)
        if ">" in text[self._line : start] and (quote := _QUOTE_END.search(text, start)) is not None:
            end = quote.start()
        for fence in _FENCE_END.finditer(text, start, end):
            if fence[1].startswith(opener):
                end = fence.end()
                break
        self.blocks.append((self._line, end))
        return end

    def _inline_code(self, start: int, length: int) -> int:
        end = self._end_of_paragraph(start)
        if self._runs_until != end:
            self._runs_until, self._runs = end, {}
            for run in re.finditer("`+", self.text[start:end]):
                self._runs.setdefault(len(run[0]), []).append(start + run.start())
            for positions in self._runs.values():
                positions.reverse()
        positions = self._runs.get(length, [])
        while positions and positions[-1] <= start:
            positions.pop()
        return positions[-1] + length if positions else 0

    def _pair(self, start: int, opener: str) -> int:
        """Returns the end of mathematics or of a comment: anywhere for a block, else in the same paragraph."""
        if opener == "$" and self.text[start + 1 : start + 2].isspace():
            return 0
        block = opener != "$" and self._begins_line(start)
        end = self._closed(opener, start + len(opener), len(self.text) if block else self._end_of_paragraph(start))
        return len(self.text) if block and not end and opener == "%%" else end

    def _closed(self, mark: str, start: int, end: int) -> int:
        """Returns the end of the first such mark; 0 if there is none, which is remembered."""
        if self._lacking.get(mark, -1) >= end:
            return 0
        found = _MATH_END.search(self.text, start, end) if mark == "$" else None
        closing = self.text.find(mark, start, end) if mark != "$" else found.start() if found else -1
        if closing < 0:
            self._lacking[mark] = end
        return closing + len(mark) if closing >= 0 else 0

    def _html(self, start: int, opener: str) -> int:  # noqa: PLR0911 - one for each kind of block
        text = self.text
        begins_line = self._begins_line(start)
        if text.startswith("<!--", start):
            if not begins_line:
                return self._closed("-->", start + 4, self._end_of_paragraph(start))
            closing = text.find("-->", start + 4)  # A block: the rest of its last line is still HTML.
            return len(text) if closing < 0 else self._end_of_line(closing)
        if begins_line:
            if (raw := _RAW_BLOCK.match(text, start)) is not None:
                closing = re.compile(f"</{raw[1]}>", re.IGNORECASE).search(text, start)
                return len(text) if closing is None else self._end_of_line(closing.end())
            if _HTML_BLOCK.match(text, start):
                return self._before_blank_line(start)
        tag = _HTML.match(text, start)
        if tag is None:
            return 0
        if begins_line and _REST_BLANK.match(text, tag.end()):
            above = text.rfind("\n", 0, self._line - 1) if self._line else -1
            if not text[above + 1 : self._line].strip():
                return self._before_blank_line(start)
        return tag.end()

    def _begins_line(self, position: int) -> bool:
        """Returns whether only marks of quotes and lists precede `position` on its line."""
        self._line = self.text.rfind("\n", self._line_seen, position) + 1 or self._line
        self._line_seen = position
        if self._content_line != self._line:
            found = _CONTAINERS.match(self.text, self._line)
            self._content, self._content_line = (found.end() if found else self._line), self._line
        return self._content == position

    def _end_of_paragraph(self, position: int) -> int:
        if position >= self._paragraph_end:
            found = _PARAGRAPH_END.search(self.text, position)
            self._paragraph_end = len(self.text) if found is None else found.start()
        return self._paragraph_end

    def _end_of_line(self, position: int) -> int:
        return self.text.find("\n", position) % (len(self.text) + 1)  # -1 is the end of the text.

    def _before_blank_line(self, position: int) -> int:
        return found.start() if (found := _BLANK_LINE.search(self.text, position)) else len(self.text)


def find_blocks(page: str, code: list[tuple[int, int]], shift: int, line: int) -> list[NoteBlock]:
    """Returns the blocks with an id, in the order of the ids."""
    blocks: list[NoteBlock] = []
    ends = {end + 1: start + 1 for start, end in code}
    seen = 1
    for found in _ID.finditer(page):
        position = found.start()
        if not page[position - 1].isspace() or not _STARTS_BLOCK.match(page, found.end() + 1):
            continue
        line += page.count("\n", seen, position)
        seen = position
        line_start = page.rfind("\n", 0, position) + 1
        own = page[line_start:position].strip(" \t>")
        start, end = (_paragraph(page, line_start), position) if own else _above(page, line_start, ends)
        end = start + len(page[start:end].rstrip())
        blocks.append(NoteBlock(found[1], line, start + shift, end + shift))
    return blocks


def _paragraph(page: str, line_start: int) -> int:
    while line_start > 1 and not _ITEM.match(page, line_start) and not _HEADING.match(page, line_start):
        above = page.rfind("\n", 0, line_start - 1) + 1
        if _BLANK.match(page, above) or _HEADING.match(page, above):
            break
        line_start = above
    return line_start


def _above(page: str, line_start: int, code: dict[int, int]) -> tuple[int, int]:
    """Returns the whole block that ends before the line."""
    end = line_start - 1
    while end > 0 and _BLANK.match(page, page.rfind("\n", 0, end) + 1):
        end = page.rfind("\n", 0, end)
    if end <= 0:
        return line_start, line_start
    if end in code:
        return code[end], end
    start = page.rfind("\n", 0, end) + 1
    while start > 1 and not _BLANK.match(page, above := page.rfind("\n", 0, start - 1) + 1):
        start = above
    return start, end
