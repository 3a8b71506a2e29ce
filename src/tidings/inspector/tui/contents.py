"""Contents and results as pages: JSON, markdown, text; what is binary or was cut is said.

Pages make a line when it is seen, so that eight megabytes open as quickly as eight lines.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any, Final, cast

from rich.console import Console
from rich.markdown import Markdown
from rich.style import Style

from tidings.inspector.tui.drawing import Line, wrap
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.reader import Page
from tidings.inspector.tui.words import lines_of, one_line, size

MARKDOWN_LIMIT: Final = 200_000
"""A longer markdown text is shown as it is: laying it out would take longer than one waits."""

_JSON: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)
_JSON_INKS: Final = {"key": "updated", "text": "ink", "number": "tools", "word": "prompts"}


class TextPage(Page):
    """Lines of plain text, with numbers if asked for."""

    def __init__(self, text: str, *, ink: str = "ink") -> None:
        self._lines = lines_of(text)
        self._ink = ink

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        return [(self._lines[index], inks[self._ink])], None

    def plain(self) -> str:
        return "\n".join(self._lines)


class JsonPage(TextPage):
    """JSON, indented and coloured."""

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        return json_line(self._lines[index], inks), None


class MarkdownPage(Page):
    """Markdown, laid out for the width at which it is seen."""

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

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        if index >= len(self._laid):
            return [], None
        # What the layout left without a colour is written in the scheme's ink; grounds of its own are left out.
        return [(text, inks["ink"] + _plain(style, inks)) for text, style in self._laid[index]], None

    def plain(self) -> str:
        return self._text


def _plain(style: Style, inks: Inks) -> Style:
    """A style of the layout in the scheme's colours: what was coloured is accented, what was bold stays so."""
    accented = style.color is not None and not style.color.is_default
    return Style(
        color=inks.accent if accented else inks.ink, bold=style.bold, italic=style.italic, underline=style.underline
    )


class Prose(Page):
    """Sentences, broken where the screen ends."""

    def __init__(self, text: str, ink: str = "ink") -> None:
        self._text, self._ink = text, ink
        self._lines = lines_of(text[:20_000])

    def fit(self, width: int) -> None:
        self._lines = wrap("\n".join(lines_of(self._text[:20_000])), max(20, width - 1))

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        return [(self._lines[index], inks[self._ink])], None

    def plain(self) -> str:
        return self._text


class Joined(Page):
    """Several pages, one below the other."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages: list[Page] = list(pages)

    def fit(self, width: int) -> None:
        for page in self._pages:
            page.fit(width)

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        for page in self._pages:
            if index < len(page):
                return page.line(index, inks)
            index -= len(page)
        return [], None

    def plain(self) -> str:
        return "\n".join(page.plain() for page in self._pages)


class Words(Page):
    """Lines given as parts in colours of the scheme: `[("fresh in 14 ms", "accent")]`."""

    def __init__(self, *lines: list[tuple[str, str]]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        return [(text, inks[ink]) for text, ink in self._lines[index]], None

    def plain(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in self._lines)


def json_line(line: str, inks: Inks) -> Line:
    """One line of indented JSON, coloured."""
    spans: Line = []
    at = 0
    for found in _JSON.finditer(line[:4000]):
        if found.start() > at:
            spans.append((line[at : found.start()], inks["faint"]))
        spans.append((found.group(), inks[_JSON_INKS[found.lastgroup or "text"]]))
        at = found.end()
    spans.append((line[at:], inks["faint"]))
    return spans


def json_page(value: Any) -> JsonPage:
    """A JSON value, indented."""
    try:
        return JsonPage(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return JsonPage("nested too deeply to be shown")


def is_cut(value: Any) -> bool:
    """Whether this stands for something too large to be kept."""
    return isinstance(value, Mapping) and cast("Mapping[str, Any]", value).get("cut") is True


def cut_page(value: Mapping[str, Any]) -> Joined:
    """What was too large to be kept: how large it was, and its beginning."""
    words = f"{size(int(value.get('size') or 0))}: too large to be kept whole. It begins:"
    return Joined([Words([(words, "warn")], []), TextPage(str(value.get("head") or ""))])


def content_page(content: Mapping[str, Any], *, source: bool = False) -> Page:
    """One content of a resource: `{"uri", "mimeType", "text" | "blob"}`. With `source`, as it was sent."""
    if is_cut(content):
        return cut_page(content)
    mime = str(content.get("mimeType") or "")
    if "blob" in content:
        return Words([(f"Binary, {mime or 'of an unknown type'}, {blob_size(content['blob'])}.", "soft")])
    text = str(content.get("text") or "")
    if not text:
        return Words([("Empty.", "soft")])
    return text_page(text, mime, source=source)


def text_page(text: str, mime: str = "", *, source: bool = False) -> Page:
    """A text, shown as what it is."""
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


def contents_page(contents: Any, *, source: bool = False) -> Page:
    """All contents of a resource, each under its address if there are several."""
    if is_cut(contents):
        return cut_page(contents)
    if not isinstance(contents, list):
        return json_page(contents)
    items = cast("list[Any]", contents)
    if not items:
        return Words([("The server sent no content.", "soft")])
    pages: list[Page] = []
    for item in items:
        if not isinstance(item, Mapping):
            pages.append(json_page(item))
            continue
        content = cast("Mapping[str, Any]", item)
        if len(items) > 1:
            pages.append(Words([(one_line(content.get("uri") or ""), "b-ink")]))
        pages.append(content_page(content, source=source))
    return pages[0] if len(pages) == 1 else Joined(pages)


def block_page(block: Mapping[str, Any]) -> Page:
    """One content block of a result or a message."""
    match block.get("type"):
        case "text":
            return text_page(str(block.get("text") or ""))
        case "image" | "audio" as kind:
            mime = one_line(block.get("mimeType") or "of an unknown type")
            return Words([(f"{kind.capitalize()}, {mime}, {blob_size(block.get('data') or '')}.", "soft")])
        case "resource" if isinstance(block.get("resource"), Mapping):
            resource = cast("Mapping[str, Any]", block["resource"])
            return Joined([Words([(one_line(resource.get("uri") or ""), "b-ink")]), content_page(resource)])
        case "resource_link":
            return Words([("→ ", "accent"), (one_line(block.get("uri") or ""), "ink")])
        case _:
            return json_page(block)


def text_of(contents: Any) -> str:
    """Contents as one text, to be compared with another."""
    if is_cut(contents):
        return str(cast("Mapping[str, Any]", contents).get("head") or "")
    texts: list[str] = []
    for item in cast("list[Any]", contents) if isinstance(contents, list) else [contents]:
        content = cast("Mapping[str, Any]", item if isinstance(item, Mapping) else {})
        if "blob" in content:
            texts.append(f"binary, {blob_size(content['blob'])}")
        else:
            texts.append(str(content.get("text") or ""))
    return "\n".join(texts)


def blob_size(blob: Any) -> str:
    """How large what was sent in base64 is."""
    try:
        return size(len(base64.b64decode(str(blob), validate=False)))
    except (binascii.Error, ValueError):
        return f"{size(len(str(blob)))} that are no base64"
