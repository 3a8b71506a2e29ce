"""Text of any length, for contents, results, differences and messages.

Only visible lines are made and drawn, so that eight megabytes open as quickly as eight lines. JSON and Markdown are
rendered; binary and truncated contents are described.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any, ClassVar, Final, cast

from rich.console import Console
from rich.markdown import Markdown
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tidings._kit.bounded_json import as_dict_or_none
from tidings.inspector.tui.theme import ColorScheme, colors_of, inspector_of
from tidings.inspector.tui.widgets.bars import Line, crop, row, width_of, wrap
from tidings.inspector.tui.words import lines_of, one_line, size

_JSON: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)
_JSON_INKS: Final = {"key": "updated", "text": "ink", "number": "tools", "word": "prompts"}


class TextSource:
    """Lines that are made when they are visible. This one has none."""

    def fit(self, width: int) -> None:
        """Lays it out for a width, if that makes a difference."""

    def __len__(self) -> int:
        return 0

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        """Returns one line, and its background."""
        raise IndexError(index)

    def plain(self) -> str:
        """Returns all of it as text, to copy."""
        return ""


class TextPage(TextSource):
    """Lines of plain text."""

    def __init__(self, text: str, ink: str = "ink") -> None:
        self._lines = lines_of(text)
        self._ink = ink

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        return [(self._lines[index], colors[self._ink])], None

    def plain(self) -> str:
        return "\n".join(self._lines)


class Prose(TextPage):
    """Sentences, wrapped at the width of the screen."""

    def __init__(self, text: str, ink: str = "ink") -> None:
        super().__init__(text[:20_000], ink)
        self._text = text

    def fit(self, width: int) -> None:
        self._lines = wrap("\n".join(lines_of(self._text[:20_000])), max(20, width - 1))

    def plain(self) -> str:
        return self._text


class SentenceText(Prose):
    """A sentence in an empty view."""

    def __init__(self, words: str) -> None:
        super().__init__(words, "soft")
        self._lines = ["", words]

    def fit(self, width: int) -> None:
        self._lines = ["", *wrap(self._text, max(10, width - 3))]


class JsonPage(TextPage):
    """JSON, indented and colored."""

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        return json_line(self._lines[index], colors), None


class MarkdownPage(TextSource):
    """Markdown, laid out for the current width."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._width = 0
        self._laid: list[Line] = []
        self.fit(80)

    def fit(self, width: int) -> None:
        if width == self._width:
            return
        console = Console(width=max(20, width), file=StringIO(), force_terminal=True, color_system="truecolor")
        harmless = "\n".join(lines_of(self._text))
        laid = console.render_lines(Markdown(harmless, hyperlinks=False), pad=False)
        self._laid = [[(each.text, each.style or Style.null()) for each in line] for line in laid]
        self._width = width

    def __len__(self) -> int:
        return len(self._laid)

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        if index >= len(self._laid):
            return [], None
        # Colored text of the layout is accented, and bold stays bold. Grounds of its own are left out.
        line: Line = []
        for text, style in self._laid[index]:
            ink = colors["ink" if style.color is None or style.color.is_default else "accent"]
            line.append((text, ink + Style(bold=style.bold, italic=style.italic, underline=style.underline)))
        return line, None

    def plain(self) -> str:
        return self._text


class JoinedText(TextSource):
    """Several pages, one below the other."""

    def __init__(self, pages: Iterable[TextSource]) -> None:
        self._pages: list[TextSource] = list(pages)

    def fit(self, width: int) -> None:
        for page in self._pages:
            page.fit(width)

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        for page in self._pages:
            if index < len(page):
                return page.line(index, colors)
            index -= len(page)
        return [], None

    def plain(self) -> str:
        return "\n".join(page.plain() for page in self._pages)


class Words(TextSource):
    """Lines of parts in colors of the scheme: `[("fresh in 14 ms", "accent")]`."""

    def __init__(self, *lines: list[tuple[str, str]]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, colors: ColorScheme) -> tuple[Line, Style | None]:
        return [(text, colors[ink]) for text, ink in self._lines[index]], None

    def plain(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in self._lines)


def json_line(line: str, colors: ColorScheme) -> Line:
    """Returns one line of indented JSON, colored."""
    spans: Line = []
    at = 0
    for found in _JSON.finditer(line[:4000]):
        if found.start() > at:
            spans.append((line[at : found.start()], colors["faint"]))
        spans.append((found.group(), colors[_JSON_INKS[found.lastgroup or "text"]]))
        at = found.end()
    spans.append((line[at:], colors["faint"]))
    return spans


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
    ]

    DEFAULT_CSS = """
    TextView {
        height: 1fr; padding: 0 0 0 1;
        background: $t-ground; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    TextView:focus { background: $t-pane; }
    """

    def __init__(self, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.page = TextSource()
        self._key: object = None
        self._shift = 0
        self.drawn = 0

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    def show(self, page: TextSource, key: object = None) -> None:
        """Shows a page. The scroll position is kept if `key` is that of the previous page."""
        page.fit(self.width)
        self.page = page
        if key is None or key != self._key:
            self.scroll_to(0, 0, animate=False)
            self._shift = 0
        self._key = key
        self.virtual_size = Size(self.width, len(page))
        self.refresh()

    def say(self, words: str) -> None:
        self.show(SentenceText(words))

    def on_resize(self) -> None:
        self.page.fit(self.width)
        self.virtual_size = Size(self.width, len(self.page))

    def action_sideways(self, by: int) -> None:
        self._shift = max(0, self._shift + by)
        self.refresh()

    def action_copy(self) -> None:
        inspector_of(self).copy_to_clipboard(self.page.plain())
        inspector_of(self).notify("Copied, if your terminal permits it.", timeout=2)

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        colors, width = colors_of(self), self.width
        base = Style(bgcolor=colors.pane if self.has_focus else colors.ground)
        index = y + int(self.scroll_y)
        if index >= len(self.page):
            return row(width, [], None, base)
        line, ground = self.page.line(index, colors)
        if self._shift:
            line = crop(line, self._shift, max(self._shift, width_of(line)))
        return row(width, line, None, ground or base)


MARKDOWN_LIMIT: Final = 200_000  # A longer Markdown text is shown as source: its layout would take too long.


def json_page(value: Any) -> JsonPage:
    """Shows a JSON value, indented."""
    try:
        return JsonPage(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return JsonPage("nested too deeply to be shown")


def is_cut(value: Any) -> bool:
    """Returns whether a value stands for one that was too large to keep."""
    return isinstance(value, Mapping) and cast("Mapping[str, Any]", value).get("cut") is True


def cut_page(value: Mapping[str, Any]) -> JoinedText:
    """Describes a value that was too large to keep: its size, and its beginning."""
    words = f"{size(int(value.get('size') or 0))}: too large to be kept whole. It begins:"
    return JoinedText([Words([(words, "warn")], []), TextPage(str(value.get("head") or ""))])


def content_page(content: Mapping[str, Any], *, source: bool = False) -> TextSource:
    """Shows one content of a resource: `{"uri", "mimeType", "text" | "blob"}`. With `source`, as it was sent."""
    if is_cut(content):
        return cut_page(content)
    mime = str(content.get("mimeType") or "")
    if "blob" in content:
        return Words([(f"Binary, {mime or 'of an unknown type'}, {blob_size(content['blob'])}.", "soft")])
    text = str(content.get("text") or "")
    if not text:
        return Words([("Empty.", "soft")])
    return text_page(text, mime, source=source)


def text_page(text: str, mime: str = "", *, source: bool = False) -> TextSource:
    """Shows a text by its type."""
    if source:
        return TextPage(text)
    if "markdown" in mime and len(text) <= MARKDOWN_LIMIT:
        return MarkdownPage(text)
    if "json" in mime or text[:1] in "{[":
        try:
            return json_page(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return TextPage(text)


def contents_page(contents: Any, *, source: bool = False) -> TextSource:
    """Shows all contents of a resource, each under its URI if there are several."""
    if is_cut(contents):
        return cut_page(contents)
    if not isinstance(contents, list):
        return json_page(contents)
    items = cast("list[Any]", contents)
    if not items:
        return Words([("The server sent no content.", "soft")])
    pages: list[TextSource] = []
    for item in items:
        content = as_dict_or_none(item)
        if content is not None and len(items) > 1:
            pages.append(Words([(one_line(content.get("uri") or ""), "b-ink")]))
        pages.append(json_page(item) if content is None else content_page(content, source=source))
    return pages[0] if len(pages) == 1 else JoinedText(pages)


def block_page(block: Mapping[str, Any]) -> TextSource:
    """Shows one content block of a result or a message."""
    match block.get("type"):
        case "text":
            return text_page(str(block.get("text") or ""))
        case "image" | "audio" as kind:
            mime = one_line(block.get("mimeType") or "of an unknown type")
            return Words([(f"{kind.capitalize()}, {mime}, {blob_size(block.get('data') or '')}.", "soft")])
        case "resource" if isinstance(block.get("resource"), Mapping):
            resource = cast("Mapping[str, Any]", block["resource"])
            return JoinedText([Words([(one_line(resource.get("uri") or ""), "b-ink")]), content_page(resource)])
        case "resource_link":
            return Words([("→ ", "accent"), (one_line(block.get("uri") or ""), "ink")])
        case _:
            return json_page(block)


def blob_size(blob: Any) -> str:
    """Returns the size of base64 data."""
    try:
        return size(len(base64.b64decode(str(blob), validate=False)))
    except (binascii.Error, ValueError):
        return f"{size(len(str(blob)))} that are no base64"
