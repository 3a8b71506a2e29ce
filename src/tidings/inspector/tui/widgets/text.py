"""Text of any length, for contents, results, differences and messages.

Only visible lines are made and drawn, so that eight megabytes open as quickly as eight lines. JSON and Markdown are
rendered; binary and truncated contents are described.
"""

import base64
import binascii
import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from itertools import accumulate
from typing import Any, ClassVar, Final, cast

from rich.cells import chop_cells
from rich.console import Console
from rich.markdown import Markdown
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tidings._kit.bounded_json import as_dict, as_dict_or_none, is_cut
from tidings.inspector.tui.theme import colors_of, inspector_of
from tidings.inspector.tui.widgets.bars import Line, lines_of, one_line, row, size, width_of

_JSON: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)
_INDENT: Final = re.compile(r"(?:[ \d]{12}[-+ ] )? *(?:(?:[-*+•]|\d+[.)]) +)*")  # Numbers of a difference, bullets.
_LONG: Final = 20_000
MOST_WRAPPED: Final = 50_000  # Lines of a page. More are only read sideways.
_JSON_INKS: Final = {"key": "updated", "text": "ink", "number": "tools", "word": "prompts"}


class TextPage:
    """Rows of words with the names of their styles: `[("fresh in ", "soft"), ("14 ms", "accent")]`."""

    def __init__(self, *rows: Line) -> None:
        self.rows: list[Any] = [*rows]  # Of a subclass: anything that its `line` draws.

    def fit(self, width: int) -> None:
        """Lays it out for a width, if that makes a difference."""

    def __len__(self) -> int:
        return len(self.rows)

    def line(self, index: int) -> tuple[Line, str]:
        """Returns one line, and the style of its background; empty: that of the view."""
        return self.rows[index], ""

    def text(self, index: int) -> str:
        """Returns the words of one line."""
        return "".join(text for text, _ in self.line(index)[0])

    def plain(self) -> str:
        """Returns the text to copy."""
        return "\n".join(map(self.text, range(len(self))))


Part = Line | TextPage  # Of a page that is joined.


class PlainPage(TextPage):
    """A text in one color, apart from differences that are fenced in it."""

    def __init__(self, text: str, ink: str = "ink") -> None:
        super().__init__()
        self.rows, self._ink = lines_of(text), ink
        self._marks: dict[int, str] = {}  # The colors of added and removed lines, by their index.
        is_diff = False
        for index, line in enumerate(self.rows if "```diff" in text else ()):
            if line.startswith("```"):
                is_diff = line.startswith("```diff")
            elif is_diff and line[:1] in ("+", "-"):
                self._marks[index] = "added" if line[0] == "+" else "removed"

    def line(self, index: int) -> tuple[Line, str]:
        mark = self._marks.get(index)
        return [(self.rows[index], f"{mark}_ink" if mark else self._ink)], f"on {mark}" if mark else ""

    def text(self, index: int) -> str:
        return self.rows[index]


def sentence_page(words: str) -> PlainPage:
    """Shows a sentence in an empty view."""
    return PlainPage(f"\n{words}", "soft")


class JsonPage(PlainPage):
    """JSON, indented and colored."""

    def line(self, index: int) -> tuple[Line, str]:
        text, at = self.rows[index], 0
        line: Line = []
        for found in _JSON.finditer(text[:4000]):
            line += [(text[at : found.start()], "faint"), (found.group(), _JSON_INKS[found.lastgroup or "text"])]
            at = found.end()
        return [*line, (text[at:], "faint")], ""


class MarkdownPage(TextPage):
    """Markdown, laid out for the current width."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text, self._width = text, 0
        self.fit(80)

    def fit(self, width: int) -> None:
        if width == self._width:
            return
        self._width = width
        console = Console(width=max(20, width), file=StringIO(), force_terminal=True, color_system="truecolor")
        laid = console.render_lines(Markdown("\n".join(lines_of(self._text)), hyperlinks=False), pad=False)
        self.rows = [[(each.text, _markdown_ink(each.style or Style.null())) for each in line] for line in laid]

    def plain(self) -> str:
        return self._text


def _markdown_ink(style: Style) -> str:
    # Colored text of the layout is accented, and bold stays bold. Grounds of its own are left out.
    ways = {"b": style.bold, "i": style.italic, "u": style.underline}
    ink = "ink" if style.color is None or style.color.is_default else "accent"
    return f"{''.join(way for way, on in ways.items() if on)}-{ink}"


class JoinedPage(TextPage):
    """Lines and pages, one below the other."""

    def __init__(self, *parts: Part) -> None:
        super().__init__()
        self._pages = [part if isinstance(part, TextPage) else TextPage(part) for part in parts]

    def fit(self, width: int) -> None:
        for page in self._pages:
            page.fit(width)

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    def line(self, index: int) -> tuple[Line, str]:
        for page in self._pages:
            if index < len(page):
                return page.line(index)
            index -= len(page)
        return [], ""

    def plain(self) -> str:
        return "\n".join(page.plain() for page in self._pages)


class TextView(ScrollView, can_focus=True):
    """Shows a page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False),
        Binding("k,up", "scroll_up", "Up", show=False),
        Binding("h,left", "sideways(-8)", "Left", show=False),
        Binding("l,right", "sideways(8)", "Right", show=False),
        Binding("pagedown,ctrl+d,space", "page_down", "Page down", show=False),
        Binding("pageup,ctrl+u", "page_up", "Page up", show=False),
        Binding("g,home", "scroll_home", "Top", show=False),
        Binding("G,end", "scroll_end", "End", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("w", "wrap", "Wrap long lines, or not", show=False),
    ]

    def __init__(self, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.page = TextPage()
        self._key: object = None
        self._shift, self._wraps = 0, True
        self._starts: list[int] | None = None  # The row on which each line begins, if lines are wrapped
        self._wrapped_at = 1  # … at this width.

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    def show(self, page: TextPage, key: object = None) -> None:
        """Shows a page. The scroll position is kept if `key` is that of the previous page."""
        self.page = page
        if key is None or key != self._key:
            self.scroll_to(0, 0, animate=False)
            self._shift = 0
        self._key = key
        self._lay_out()

    def _lay_out(self) -> None:
        self._wrapped_at = width = max(1, self.width)
        self.page.fit(self.width)
        self._starts, rows = None, len(self.page)
        if self._wraps and self.width and rows <= MOST_WRAPPED:
            heights = (len(_wrapped(self.page.text(index), width)[1]) for index in range(rows))
            *self._starts, rows = accumulate(heights, initial=0)
        self.virtual_size = Size(self.width, rows)
        self.refresh()

    def on_resize(self) -> None:
        self._lay_out()

    def action_wrap(self) -> None:
        """Wraps lines that are wider than the view, or lets them be read sideways."""
        self._wraps, self._shift = not self._wraps, 0
        self._lay_out()

    def action_sideways(self, by: int) -> None:
        self._shift = max(0, self._shift + by)
        self.refresh()

    def action_copy(self) -> None:
        inspector_of(self).copy_to_clipboard(self.page.plain())
        inspector_of(self).notify("Copied, if your terminal permits it.", timeout=2)

    def render_line(self, y: int) -> Strip:
        if self._wrapped_at != max(1, self.width):  # A scrollbar has come or gone.
            self.call_later(self._lay_out)
        index, start, hang, width = y + int(self.scroll_y), self._shift, 0, max(1, self.width)
        end, own = start + width, "on pane" if self.has_focus else "on ground"
        if index >= self.virtual_size.height:
            return row(colors_of(self), own, width, [])
        if self._starts is not None:
            place = bisect_right(self._starts, index) - 1
            (hang, ends), part = _wrapped(self.page.text(place), self._wrapped_at), index - self._starts[place]
            index, start, end, hang = place, ends[part - 1] if part else 0, ends[part], hang if part else 0
        line, ground = self.page.line(index)
        parts = [(" " * hang, "ink"), *_between(line, start, end)]
        return row(colors_of(self), ground or own, max(width, width_of(parts)), parts).crop(0, width)


@lru_cache(maxsize=64)
def _wrapped(text: str, width: int) -> tuple[int, Sequence[int]]:
    """Returns how far the rows of a wrapped line are indented after the first, and where each row ends.

    A row ends after a space, or after a sign of a word that is longer than a row, such as an address.
    """
    if len(text) > _LONG:
        step = width if text.isascii() else max(1, width // 2)  # A character has two columns at most.
        return 0, range(step, len(text) + step, step)
    indent = len(text) - len(_INDENT.sub("", text, count=1))
    hang = indent if indent <= width // 2 else 0
    ends, start, room = list[int](), 0, width
    while True:
        part = text[start : start + 4 * room]
        end = start + (room if part.isascii() else max(1, len("".join(chop_cells(part, room)[:1]))))
        if end >= len(text):
            return hang, [*ends, len(text)]
        room, space = width - hang, text.rfind(" ", max(indent, start) + 1, end + 1)
        least = start + (end - start) // 3
        if space < least and (text.find(" ", end) if " " in text[end:] else len(text)) - space > room + 1:
            space = max(text.rfind(sign, least, end) for sign in "/?&=,;:._-")
        start = end if space < 0 else space + 1
        ends.append(start)


def _between(line: Line, start: int, end: int) -> Line:
    """Returns the parts of a line between two of its characters."""
    parts: Line = []
    for text, ink in line:
        if start < len(text) and end > 0:
            parts.append((text[max(0, start) : end], ink))
        start, end = start - len(text), end - len(text)
    return parts


MARKDOWN_LIMIT: Final = 200_000  # A longer Markdown text is shown as source: its layout would take too long.


def json_page(value: Any) -> JsonPage:
    """Shows a JSON value, indented."""
    try:
        return JsonPage(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return JsonPage("nested too deeply to be shown")


def cut_page(value: Mapping[str, Any]) -> JoinedPage:
    """Describes a value that was too large to keep: its size, and its beginning."""
    words = f"{size(int(value.get('size') or 0))}: too large to be kept whole. It begins:"
    return JoinedPage([(words, "warn")], [], PlainPage(str(value.get("head") or "")))


def content_page(content: Mapping[str, Any], *, source: bool = False) -> TextPage:
    """Shows one content of a resource: `{"uri", "mimeType", "text" | "blob"}`. With `source`, as it was sent."""
    if is_cut(content):
        return cut_page(content)
    mime, text = str(content.get("mimeType") or ""), str(content.get("text") or "")
    if "blob" in content:
        return TextPage([(f"Binary, {mime or 'of an unknown type'}, {blob_size(content['blob'])}.", "soft")])
    return text_page(text, mime, source=source) if text else TextPage([("Empty.", "soft")])


def text_page(text: str, mime: str = "", *, source: bool = False) -> TextPage:
    """Shows a text by its type."""
    if source:
        return PlainPage(text)
    if "markdown" in mime and len(text) <= MARKDOWN_LIMIT:
        return MarkdownPage(text)
    if "json" in mime or text[:1] in "{[":
        try:
            return json_page(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return PlainPage(text)


def contents_page(contents: Any, *, source: bool = False) -> TextPage:
    """Shows all contents of a resource, each under its URI if there are several."""
    if is_cut(contents):
        return cut_page(contents)
    if not isinstance(contents, list):
        return json_page(contents)
    items = cast("list[Any]", contents)
    parts: list[Part] = []
    for item in items:
        content = as_dict_or_none(item)
        if content is not None and len(items) > 1:
            parts.append([(one_line(content.get("uri") or ""), "b-ink")])
        parts.append(json_page(item) if content is None else content_page(content, source=source))
    return JoinedPage(*parts or [[("The server sent no content.", "soft")]])


def block_page(block: Any) -> TextPage:
    """Shows one content block of a result or a message."""
    facts = as_dict(block)
    match facts.get("type"):
        case "text":
            return text_page(str(facts.get("text") or ""))
        case "image" | "audio" as kind:
            mime = one_line(facts.get("mimeType") or "of an unknown type")
            return TextPage([(f"{kind.capitalize()}, {mime}, {blob_size(facts.get('data') or '')}.", "soft")])
        case "resource" if (resource := as_dict_or_none(facts.get("resource"))) is not None:
            return JoinedPage([(one_line(resource.get("uri") or ""), "b-ink")], content_page(resource))
        case "resource_link":
            return TextPage([("→ ", "accent"), (one_line(facts.get("uri") or ""), "ink")])
        case _:
            return json_page(block)


def blob_size(blob: Any) -> str:
    """Returns the size of base64 data."""
    try:
        return size(len(base64.b64decode(str(blob), validate=False)))
    except (binascii.Error, ValueError):
        return f"{size(len(str(blob)))} that are no base64"
