"""The base of every tab: a list on the left, the selected item on the right; and a tab for several sources."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tidings.inspector.server import InspectedServer
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Drawn, clock
from tidings.inspector.tui.widgets.lists import ArrivingEntries, Column, Draw, RowList, RowSource
from tidings.inspector.tui.widgets.text import TextPage, TextView
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


class Pane(Vertical):
    """One tab. The app calls `restart` for another server, and `take` when there is something new."""

    def __init__(self, tab: str, model: RowSource[Any], draw: Draw, *, noun: str, empty: str) -> None:
        super().__init__(id=tab)
        self.column = Column(model, draw, noun=noun, empty=empty)
        self.rows = self.column.rows

    @property
    def inspector(self) -> "InspectorApp":
        return inspector_of(self)

    @property
    def server(self) -> InspectedServer:
        """The current server. Raises `LookupError` if there is none."""
        if self.inspector.server is None:
            raise LookupError("There is no server yet: n adds one.")
        return self.inspector.server

    @property
    def view(self) -> ServerView:
        return self.server.view

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield from self.detail()

    def detail(self) -> ComposeResult:
        """Yields the widgets beside the list."""
        yield from ()

    def restart(self) -> None:
        self.rows.model.reset()
        self.rows.restart()

    def zoom(self, focused: object) -> None:
        """Gives the part that has the focus all the room, or shows both parts again."""
        part = "zoom-list" if focused is self.rows else "zoom-detail"
        zoomed = self.has_class("zoom-list") or self.has_class("zoom-detail")
        self.remove_class("zoom-list", "zoom-detail")
        self.set_class(not zoomed, part)

    def take(self) -> None:
        if self.inspector.server is not None:
            self.update_list()
            self.column.take()
            self.show_item(self.rows.chosen)

    def update_list(self) -> None:
        """Gives the list its items."""

    def show_item(self, item: Any, /) -> None:
        """Shows the item that is selected in the list; None: there is none."""

    def go(self, key: str) -> None:
        self.rows.choose(key)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.show_item(event.item)


class EntrySource:
    """A ring of the view, and how its entries are shown: in a row, as a page, and as a text for the filter."""

    noun: ClassVar[str]
    empty: ClassVar[str]
    precise: ClassVar[bool] = False  # Milliseconds matter.
    oldest_first: ClassVar[bool] = False  # Unless the user chooses the other order.
    narrow = False  # There is little room: times are shown without their hours.

    def clock(self, at: float | None) -> str:
        """Returns the time of an entry for its row."""
        return clock(at, millis=self.precise and not self.narrow)[3 * self.narrow :]

    def model(self) -> RowSource[Any]:
        return ArrivingEntries(lambda entry: entry.seq, self.text, oldest_first=self.oldest_first)

    def text(self, entry: Any) -> str:
        raise NotImplementedError

    def draw(self, entry: Any) -> Drawn:
        raise NotImplementedError

    def page(self, entry: Any) -> TextPage:
        raise NotImplementedError

    def state(self, entry: Any) -> object:
        """Returns the state of an entry: its page is made again when it changes."""
        return None


class SourcesPane(Pane):
    """A tab for one or several rings of a view, by their names; the first is shown first."""

    def __init__(self, tab: str, sources: dict[str, EntrySource]) -> None:
        self.sources = sources
        self.source, first = next(iter(sources.items()))
        self.models = {name: source.model() for name, source in sources.items()}
        self._reader = TextView(classes="detail")
        self._shown: object = None
        super().__init__(tab, self.models[self.source], first.draw, noun=first.noun, empty=first.empty)

    def detail(self) -> ComposeResult:
        yield self._reader

    def restart(self) -> None:
        for model in self.models.values():
            model.reset()
        self.rows.restart()

    def update_list(self) -> None:
        self.sources[self.source].narrow = self.inspector.size.width < 140
        self.say()
        self.models[self.source].update(self.entries())

    def say(self) -> None:
        """Updates the head."""

    def entries(self) -> Sequence[Any] | Ring[Any]:
        return getattr(self.view, self.source)

    def action_source(self, name: str | None = None) -> None:
        names = list(self.sources)
        self.source = name or names[(names.index(self.source) + 1) % len(names)]
        source = self.sources[self.source]
        self.column.noun = source.noun
        self.rows.show(self.models[self.source], source.draw, source.empty)
        self.take()

    def show_item(self, item: Any) -> None:
        source = self.sources[self.source]
        shown = (self.source, None, None) if item is None else (self.source, item.seq, source.state(item))
        if shown != self._shown:
            self._shown = shown
            self._reader.show(TextPage() if item is None else source.page(item), shown[:2])
