"""The widget of every list: it draws only the visible rows; and a list with its head and filter.

The selected item stays selected when others come and go: entries that arrive are held back while the user reads
(`ArrivingEntries`), and in a `Table` the selected item is found again by its key.
"""

import textwrap
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from tidings._kit.text import counted
from tidings.inspector.tui.theme import colors_of, inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, row
from tidings.inspector.view.rings import Ring

T = TypeVar("T")

CHUNK: Final = 4000  # The number of entries that one step of a filter checks.


class _Items(Generic[T]):
    """Items with a key, and a text for the filter."""

    def __init__(self, key: Callable[[T], Hashable], text: Callable[[T], str]) -> None:
        self.key, self._text = key, text
        self._all: Sequence[T] | Ring[T] = ()  # Everything the source has; for arriving entries, oldest first.
        self.filtered = ""

    @property
    def total(self) -> int:
        return len(self._all)

    def _matching(self, items: Iterable[T]) -> list[T]:
        """Returns the items whose text contains all words of the filter."""
        words, texts = self.filtered.split(), ((item, self._text(item).casefold()) for item in items)
        return [item for item, text in texts if all(word in text for word in words)]


class ArrivingEntries(_Items[T]):
    """Entries that arrive, newest first unless `oldest_first`. Their numbers, which are their keys, rise.

    While it does not follow, new entries are held back and counted, so that nothing moves under the user's eyes. It
    forgets what its source drops. A filter checks `CHUNK` entries per step, so that a long history blocks nothing.
    """

    def __init__(self, seq: Callable[[T], int], text: Callable[[T], str], *, oldest_first: bool = False) -> None:
        super().__init__(seq, text)
        self._seq, self.oldest_first = seq, oldest_first
        self.reset()

    def reset(self) -> None:
        self._all = ()
        self._found: list[T] = []  # What the filter lets through, oldest first; unused without one.
        self._unsearched = 0  # Entries before this number have not been checked by the filter.
        self._last = self._shown = -1  # The newest entry, and the newest that is shown.
        self.following = True

    @property
    def _rows(self) -> Sequence[T] | Ring[T]:
        return self._found if self.filtered else self._all

    @property
    def held(self) -> int:
        return len(self._rows) - len(self)

    @property
    def searching(self) -> bool:
        return bool(self.filtered) and self._before(self._all, self._unsearched) > 0

    def __len__(self) -> int:
        return self._before(self._rows, self._shown + 1)

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._rows[index if self.oldest_first else len(self) - 1 - index]

    def find(self, key: Hashable) -> int | None:
        if not isinstance(key, int) or key > self._shown:
            return None
        at = self._before(self._rows, key)
        row = at if self.oldest_first else len(self) - 1 - at
        return row if at < len(self) and self._seq(self._rows[at]) == key else None

    def _before(self, rows: Sequence[T] | Ring[T], seq: int) -> int:
        """Returns the number of entries before this one."""
        return bisect_left(rows, seq, key=self._seq)

    def update(self, items: Sequence[T] | Ring[T]) -> None:
        fresh = items[self._before(items, self._last + 1) :]
        self._all = items
        if fresh:
            self._last = self._seq(fresh[-1])
        if self.filtered:
            del self._found[: self._before(self._found, self._seq(items[0])) if items else None]
            self._found += self._matching(fresh)
            self._search()
        self.follow(self.following)

    def follow(self, following: bool) -> None:
        self.following = following
        if following:
            self._shown = self._last

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self._found = []
        self._unsearched, self._shown = self._last + 1, self._last
        self._search()

    def _search(self) -> None:
        if self.searching:
            end = self._before(self._all, self._unsearched)
            start = max(0, end - CHUNK)
            self._found[:0] = self._matching(self._all[start:end])
            self._unsearched = self._seq(self._all[start])


class Table(_Items[T]):
    """Items in their owner's order."""

    _rows: Sequence[T] = ()
    _places: dict[Hashable, int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> T:
        if index < 0:
            raise IndexError(index)
        return self._rows[index]

    def find(self, key: Hashable) -> int | None:
        if self._places is None:
            self._places = {self.key(item): at for at, item in enumerate(self._rows)}
        return self._places.get(key)

    def reset(self) -> None:
        self.update([])

    def update(self, items: Sequence[T] | Ring[T]) -> None:
        self._all = items
        self._places = None
        self._rows = self._matching(items) if self.filtered else list(items)

    def filter(self, words: str) -> None:
        self.filtered = words.strip().casefold()
        self.update(self._all)


RowSource = ArrivingEntries[T] | Table[T]  # The data of the list widget.
Draw = Callable[[Any], Drawn]  # Draws an item.


class RowList(ScrollView, can_focus=True):
    """A list of rows, of which one is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("g,home", "far(0)", "First", show=False),
        Binding("G,end", "far(-1)", "Last", show=False),
        Binding("enter", "open", "Open", show=False),
        Binding("space", "pause", "Pause", show=False),
        Binding("o", "order", "Oldest or newest first", show=False),
    ]

    class Moved(Message):
        """The list began or stopped following, or was scrolled."""

        def __init__(self, rows: "RowList", item: Any = None) -> None:
            super().__init__()
            self.rows, self.item = rows, item

    class Chosen(Moved):
        """Another row is selected, or none."""

    class Opened(Moved):
        """Enter was pressed on a row, or it was double-clicked."""

    def __init__(
        self, model: RowSource[Any], draw: Draw, *, empty: str = "", height: int = 1, name: str | None = None
    ) -> None:
        super().__init__(id=name)
        self.model, self.draw, self.empty, self.row_height = model, draw, empty, height
        self.cursor = self.drawn = 0  # The selected row, and the number of lines drawn so far.
        self._chosen: Hashable = None
        self._hovered: int | None = None

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def feed(self) -> "ArrivingEntries[Any] | None":
        return self.model if isinstance(self.model, ArrivingEntries) else None

    @property
    def newest(self) -> int:
        """The row of the newest entry; of a table, the first row."""
        return max(0, len(self.model) - 1) if self.feed is not None and self.feed.oldest_first else 0

    @property
    def chosen(self) -> Any:
        return self.model[self.cursor] if 0 <= self.cursor < len(self.model) else None

    def show(self, model: RowSource[Any], draw: Draw, empty: str) -> None:
        self.model, self.draw, self.empty = model, draw, empty
        self.restart()

    def restart(self) -> None:
        self.choose_newest()
        self.take()

    def take(self) -> None:
        count = len(self.model)
        self.virtual_size = Size(self.width, count * self.row_height)
        if self.feed is not None and self.feed.following:
            self.cursor = self.newest
            self.scroll_to(y=self.newest * self.row_height, animate=False)
        elif self._chosen is not None and (at := self.model.find(self._chosen)) is not None:
            if at != self.cursor and self.scroll_y:
                # What is read stays where it is on the screen.
                self.scroll_to(y=self.scroll_y + (at - self.cursor) * self.row_height, animate=False)
            self.cursor = at
        self.cursor = max(0, min(self.cursor, count - 1))
        self._announce()
        self.refresh()

    on_resize = take

    def choose(self, key: Hashable) -> bool:
        at = self.model.find(key)
        if at is None:
            return False
        self._go(at)
        return True

    def choose_newest(self) -> None:
        """Selects the newest row as soon as there is another one, which is the request that the user just sent."""
        self.cursor, self._chosen = self.newest, None
        self.scroll_to(y=self.newest * self.row_height, animate=False, immediate=True)

    def filter(self, words: str) -> None:
        self.model.filter(words)
        if self.feed is not None:
            self.feed.follow(True)
        self.restart()

    def _announce(self) -> None:
        item = self.chosen
        key = None if item is None else self.model.key(item)
        if key != self._chosen:
            self._chosen = key
            self.post_message(self.Chosen(self, item))

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self.cursor + by * max(1, self.size.height // self.row_height - 1))

    def action_far(self, end: int) -> None:
        """Goes to the first row (0) or the last (-1), and follows again if new entries come there."""
        if self.feed is not None and bool(end) == self.feed.oldest_first:
            self.feed.follow(True)
            self.post_message(self.Moved(self))
            self.take()
        self._go(len(self.model) - 1 if end else 0)

    def action_open(self) -> None:
        if (item := self.chosen) is not None:
            self.post_message(self.Opened(self, item))

    def action_pause(self) -> None:
        if self.feed is not None and not self._stop_following():
            self.action_far(-1 if self.feed.oldest_first else 0)

    def action_order(self) -> None:
        if self.feed is not None:
            self.feed.oldest_first = not self.feed.oldest_first
            self.action_far(-1 if self.feed.oldest_first else 0)

    def _stop_following(self) -> bool:
        """Stops following. Returns False if it did not follow."""
        if self.feed is None or not self.feed.following:
            return False
        self.feed.follow(False)
        self.post_message(self.Moved(self))
        return True

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self.model) - 1))
        if index != self.newest:
            self._stop_following()
        self.cursor = index
        bottom = (index + 1) * self.row_height - self.size.height
        if not bottom <= self.scroll_y <= index * self.row_height:
            self.scroll_to(y=bottom if self.scroll_y < bottom else index * self.row_height, animate=False)
        self._announce()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < min(old_value, self.max_scroll_y) if self.newest else new_value > 0:
            self._stop_following()

    def _index_at(self, y: int) -> int | None:
        index = (y + int(self.scroll_y)) // self.row_height
        return index if index < len(self.model) else None

    def on_click(self, event: events.Click) -> None:
        if (index := self._index_at(event.y)) is not None:
            self._go(index)
            if event.chain > 1:
                self.action_open()

    def on_mouse_move(self, event: events.MouseMove | None = None) -> None:
        index = None if event is None else self._index_at(event.y)
        if index != self._hovered:
            self._hovered = index
            self.refresh()

    def on_leave(self) -> None:
        self.on_mouse_move()

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        colors, width = colors_of(self), self.width
        index, part = divmod(y + int(self.scroll_y), self.row_height)
        if index >= len(self.model):
            return row(colors, "on ground", width, [(f"  {self._blank(y)}", "soft")])
        left, right = self.draw(self.model[index])[part]
        ground, edge = "on hover" if index == self._hovered else "on ground", " "
        if index == self.cursor:
            ground, edge = ("on chosen", "▌") if self.has_focus else ("on chosen_blurred", " ")
        first = row(colors, ground, 1, [(edge, "accent")])
        return Strip.join([first, row(colors, ground, width - 2, left, right), row(colors, ground, 1, [])])

    def _blank(self, y: int) -> str:
        """Returns the words of a line below the rows: of a list without rows, why there are none."""
        if len(self.model):
            return ""
        filtered = f"Nothing here has “{self.model.filtered}” in it. Esc shows everything."
        lines = textwrap.wrap(filtered if self.model.filtered else self.empty, max(10, self.width - 4))
        return lines[y - 1] if 1 <= y <= len(lines) else ""


class Column(Vertical):
    """A list with its head and filter. `noun` names a row in the head. `/` opens the filter, Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "unfilter", "All", show=False)]

    def __init__(self, model: RowSource[Any], draw: Draw, *, noun: str, empty: str) -> None:
        super().__init__()
        self.rows, self.noun = RowList(model, draw, empty=empty), noun
        self.extra: list[BarPart] = []  # More words of the head, on its right.
        self.said = ""  # The words of the head instead of the count.
        self._head = Bar("hover")

    def compose(self) -> ComposeResult:
        words = Input(placeholder="words to find; Enter to the list, Esc for all", compact=True)
        yield from (self._head, words, self.rows)

    def take(self) -> None:
        self.rows.take()
        self.say()

    def say(self) -> None:
        model, feed = self.rows.model, self.rows.feed
        found = f"{len(model):,} of {counted(model.total, self.noun)}" if model.filtered else ""
        words = found or self.said or counted(model.total, self.noun)
        if feed is None:
            self._head.show([BarPart(words)], self.extra, ([BarPart(words.partition(", ")[0])], self.extra))
            return
        brief = words.partition(" ")[0]
        if feed.searching:
            words += ", still looking"
        if feed.following:
            state, short = [BarPart(f"Following · {words}")], [BarPart(f"Following · {brief}")]
            pause = BarPart("space pauses", "faint", "rows_pause")
        else:
            if feed.held:
                words, brief = f"{feed.held:,} newer held back", f"{feed.held:,} newer"
            paused, ink = BarPart("Paused · ", "warn"), "b-accent" if feed.held else "soft"
            state, short = ([paused, BarPart(told, ink)] for told in (words, brief))
            pause = BarPart(f"{'G' if feed.oldest_first else 'g'} follows", "accent", "rows_pause")
        right = [*self.extra, BarPart("  "), pause] if self.extra else [pause]
        self._head.show(state, right, (short, right), (short, [pause]), ([BarPart(brief)], [pause]))

    def on_row_list_moved(self) -> None:
        self.say()

    def action_rows_pause(self) -> None:
        self.rows.action_pause()

    def action_filter(self) -> None:
        self.add_class("filtering")
        self.query_one(Input).focus()

    def action_unfilter(self) -> None:
        if not self.has_class("filtering"):
            inspector_of(self).action_focus_servers()
            return
        self.remove_class("filtering")
        self.query_one(Input).value = ""
        self.rows.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.rows.filter(event.value)
        self.say()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
