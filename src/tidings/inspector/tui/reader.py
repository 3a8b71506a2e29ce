"""Text of any length: it draws the lines one sees. For contents, results, differences and messages."""

from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tidings.inspector.tui.desk import desk_of, inks_of
from tidings.inspector.tui.drawing import crop, row, width_of
from tidings.inspector.tui.pages import Page, Sentence


class Reader(ScrollView, can_focus=True):
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
    Reader {
        background: $t-ground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        height: 1fr;
        padding: 0 0 0 1;
    }
    Reader:focus { background: $t-pane; }
    """

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id, classes=classes)
        self.page = Page()
        self._key: object = None
        self._shift = 0
        self.drawn = 0

    @property
    def width(self) -> int:
        """How wide a line is: the scroll bar has a column of its own."""
        return self.scrollable_content_region.width

    def show(self, page: Page, key: object = None) -> None:
        """Show this. The place one reads at is kept if `key` is that of the page before."""
        page.fit(self.width)
        self.page = page
        if key is None or key != self._key:
            self.scroll_to(0, 0, animate=False)
            self._shift = 0
        self._key = key
        self.virtual_size = Size(self.width, len(page))
        self.refresh()

    def say(self, words: str) -> None:
        """Show a sentence where there is nothing else to show."""
        self.show(Sentence(words))

    def on_resize(self) -> None:
        self.page.fit(self.width)
        self.virtual_size = Size(self.width, len(self.page))

    def action_sideways(self, by: int) -> None:
        """Lines longer than the screen are read sideways."""
        self._shift = max(0, self._shift + by)
        self.refresh()

    def action_copy(self) -> None:
        """Put all of it on the clipboard, as far as the terminal permits."""
        desk_of(self).copy_to_clipboard(self.page.plain())
        desk_of(self).notify("Copied, if your terminal permits it.", timeout=2)

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        inks, width = inks_of(self), self.width
        base = Style(bgcolor=inks.pane if self.has_focus else inks.ground)
        index = y + int(self.scroll_y)
        if index >= len(self.page):
            return row(width, [], None, base)
        line, ground = self.page.line(index, inks)
        if self._shift:
            line = crop(line, self._shift, max(self._shift, width_of(line)))
        return row(width, line, None, ground or base)
