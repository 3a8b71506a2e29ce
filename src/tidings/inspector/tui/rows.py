"""The list: one widget for every list there is. It draws the rows one sees, however many there are.

A row is one line (or `height` lines) that `draw` makes of an item. The chosen row stays the same item when others come
and go: in a feed because a list that is read does not follow, in a table because the chosen one is found again by its
key and the list scrolled along with it.
"""

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tidings.inspector.tui.desk import inks_of
from tidings.inspector.tui.drawing import Line, row, wrap
from tidings.inspector.tui.feeds import Feed, Rows
from tidings.inspector.tui.inks import Inks

Draw = Callable[[Any, Inks], "list[tuple[Line, Line]]"]
"""An item, as lines of a left and a right part."""


class RowList(ScrollView, can_focus=True):
    """A list of rows, of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("g,home", "first", "First", show=False),
        Binding("G,end", "last", "Last", show=False),
        Binding("enter", "open", "Open", show=False),
        Binding("space", "pause", "Pause", show=False),
    ]

    DEFAULT_CSS = """
    RowList {
        background: $t-ground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        height: 1fr;
    }
    """

    class Chosen(Message):
        """Another row is chosen, or none."""

        def __init__(self, rows: "RowList", item: Any) -> None:
            super().__init__()
            self.rows = rows
            self.item = item

        @property
        def control(self) -> "RowList":
            return self.rows

    class Opened(Chosen):
        """Enter was pressed on a row, or it was clicked twice."""

    class Moved(Message):
        """The list began or stopped following, or was scrolled."""

        def __init__(self, rows: "RowList") -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> "RowList":
            return self.rows

    def __init__(
        self,
        model: Rows[Any],
        draw: Draw,
        *,
        empty: str = "",
        height: int = 1,
        id: str | None = None,  # noqa: A002 - Textual's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.model = model
        self.draw = draw
        self.empty = empty
        self.row_height = height
        self.cursor = 0
        self.drawn = 0
        """How many lines it has drawn so far."""
        self._chosen: Hashable = None
        self._hovered: int | None = None

    # What it shows

    @property
    def width(self) -> int:
        """How wide a row is: the scroll bar has a column of its own."""
        return self.scrollable_content_region.width

    @property
    def feed(self) -> "Feed[Any] | None":
        """The model, if entries arrive in it."""
        return self.model if isinstance(self.model, Feed) else None

    @property
    def chosen(self) -> Any:
        """The item of the chosen row; None if there is none."""
        return self.model[self.cursor] if 0 <= self.cursor < len(self.model) else None

    def show(self, model: Rows[Any], draw: Draw, empty: str) -> None:
        """Another model from now on."""
        self.model, self.draw, self.empty = model, draw, empty
        self.restart()

    def restart(self) -> None:
        """Begin at the top: what the model holds is another's."""
        self.cursor, self._chosen = 0, None
        self.scroll_to(y=0, animate=False)
        self.take()

    def take(self) -> None:
        """Show what the model holds now."""
        count = len(self.model)
        self.virtual_size = Size(self.width, count * self.row_height)
        if self.feed is not None and self.feed.following:
            self.cursor = 0
            if self.scroll_y:
                self.scroll_to(y=0, animate=False)
        elif self._chosen is not None and (at := self.model.find(self._chosen)) is not None:
            if at != self.cursor and self.scroll_y:
                # What is read stays where it is on the screen.
                self.scroll_to(y=self.scroll_y + (at - self.cursor) * self.row_height, animate=False)
            self.cursor = at
        self.cursor = max(0, min(self.cursor, count - 1))
        self._announce()
        self.refresh()

    def choose(self, key: Hashable) -> bool:
        """Choose the item of this key, if it is there."""
        at = self.model.find(key)
        if at is None:
            return False
        self._go(at)
        return True

    def choose_newest(self) -> None:
        """Choose the first row as soon as there is another one: what was just asked for is what one looks at."""
        self.cursor, self._chosen = 0, None
        self.scroll_to(y=0, animate=False)

    def filter(self, words: str) -> None:
        """Show only what has these words in it."""
        self.model.filter(words)
        if self.feed is not None:
            self.feed.follow(True)
        self.scroll_to(y=0, animate=False)
        self.cursor = 0
        self.take()

    def _announce(self) -> None:
        item = self.chosen
        key = None if item is None else self.model.key(item)
        if key != self._chosen:
            self._chosen = key
            self.post_message(self.Chosen(self, item))

    # Keys and mouse

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self.cursor + by * max(1, self.size.height // self.row_height - 1))

    def action_first(self) -> None:
        """To the top; in a feed also to whatever comes."""
        if self.feed is not None:
            self.feed.follow(True)
            self.post_message(self.Moved(self))
            self.take()
        self._go(0)

    def action_last(self) -> None:
        self._go(len(self.model) - 1)

    def action_open(self) -> None:
        if (item := self.chosen) is not None:
            self.post_message(self.Opened(self, item))

    def action_pause(self) -> None:
        """Hold back what arrives, or go on following."""
        if self.feed is None:
            return
        if self.feed.following:
            self._stop_following()
        else:
            self.action_first()

    def _stop_following(self) -> None:
        if self.feed is not None and self.feed.following:
            self.feed.follow(False)
            self.post_message(self.Moved(self))

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self.model) - 1))
        if index != 0:
            self._stop_following()
        if index == self.cursor and self._chosen is not None:
            self._reveal()
            return
        self.cursor = index
        self._reveal()
        self._announce()
        self.refresh()

    def _reveal(self) -> None:
        top, height = self.cursor * self.row_height, self.size.height
        if top < self.scroll_y:
            self.scroll_to(y=top, animate=False)
        elif top + self.row_height > self.scroll_y + height:
            self.scroll_to(y=top + self.row_height - height, animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > 0:
            self._stop_following()

    def _index_at(self, y: int) -> int | None:
        index = (y + int(self.scroll_y)) // self.row_height
        return index if index < len(self.model) else None

    def on_click(self, event: events.Click) -> None:
        index = self._index_at(event.y)
        if index is not None:
            self._go(index)
            if event.chain > 1:
                self.action_open()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover(self._index_at(event.y))

    def on_leave(self) -> None:
        self._hover(None)

    def _hover(self, index: int | None) -> None:
        if index != self._hovered:
            self._hovered = index
            self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self.virtual_size = Size(self.width, len(self.model) * self.row_height)

    # Drawing

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        inks, width = inks_of(self), self.width
        index, part = divmod(y + int(self.scroll_y), self.row_height)
        if index >= len(self.model):
            return self._blank(y, inks, width)
        lines = self.draw(self.model[index], inks)
        left, right = lines[part] if part < len(lines) else ([], [])
        ground = inks.ground
        if index == self.cursor:
            ground = inks.chosen if self.has_focus else inks.chosen_blurred
        elif index == self._hovered:
            ground = inks.hover
        edge = "▌" if index == self.cursor and self.has_focus else " "
        style = Style(bgcolor=ground)
        return Strip.join(
            [row(1, [(edge, inks["accent"])], None, style), row(width - 2, left, right, style), row(1, [], None, style)]
        )

    def _blank(self, y: int, inks: Inks, width: int) -> Strip:
        words = ""
        if not len(self.model):
            text = (
                f"Nothing here has “{self.model.filtered}” in it. Esc shows everything." if self.model.filtered else ""
            )
            lines = wrap(text or self.empty, max(10, width - 4))
            words = lines[y - 1] if 1 <= y <= len(lines) else ""
        return row(width, [("  " + words, inks["soft"])], None, Style(bgcolor=inks.ground))
