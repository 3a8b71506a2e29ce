"""Pages: lines that are made when they are seen, so that eight megabytes open as quickly as eight lines."""

import re
from collections.abc import Iterable
from io import StringIO
from typing import Final

from rich.console import Console
from rich.markdown import Markdown
from rich.style import Style

from tidings.inspector.tui.drawing import Line, wrap
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.words import lines_of

_JSON: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
)
_JSON_INKS: Final = {"key": "updated", "text": "ink", "number": "tools", "word": "prompts"}


class Page:
    """Lines that are made when they are seen. This one has none."""

    def fit(self, width: int) -> None:
        """Lay it out for so many columns, if that makes a difference."""

    def __len__(self) -> int:
        return 0

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        """One line, and the ground it stands on."""
        raise IndexError(index)

    def plain(self) -> str:
        """All of it as text, to be copied."""
        return ""


class Sentence(Page):
    """A few words where there is nothing else to show."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._lines = ["", words]

    def fit(self, width: int) -> None:
        self._lines = ["", *wrap(self._words, max(10, width - 3))]

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        return [(self._lines[index], inks["soft"])], None

    def plain(self) -> str:
        return self._words


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
