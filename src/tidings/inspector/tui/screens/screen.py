"""The base of every tab: a list on the left, the selected item on the right; and a tab for several sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tidings.inspector.server import InspectedServer
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.entries import ArrivingEntries
from tidings.inspector.tui.widgets.lists import Column, Draw, RowList
from tidings.inspector.tui.widgets.text import TextSource, TextView, Words
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


class Pane(Vertical):
    """One tab. The app calls `restart` for another server, and `take` when there is something new."""

    DEFAULT_CSS = """
    Pane { height: 1fr; }
    Pane .split { height: 1fr; }
    Pane .detail { width: 3fr; }
    .-wide Pane .detail { width: 4fr; }
    """

    @property
    def inspector(self) -> "InspectorApp":
        return inspector_of(self)

    @property
    def has_server(self) -> bool:
        return self.inspector.server is not None

    @property
    def server(self) -> InspectedServer:
        """The current server. Raises `LookupError` if there is none."""
        if self.inspector.server is None:
            raise LookupError("There is no server yet: n adds one.")
        return self.inspector.server

    @property
    def view(self) -> ServerView:
        return self.server.view

    def restart(self) -> None:
        """Starts again with another server."""

    def take(self) -> None:
        """Reads what is new."""

    def main_list(self) -> RowList:
        """Returns the list that gets the focus when the tab is opened."""
        return self.query(RowList).first()

    def go(self, key: str) -> None:
        self.main_list().choose(key)

    def show_item(self, item: Any, /) -> None:
        """Shows the item that is selected in the list; None: there is none."""

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.show_item(event.item)


@dataclass(frozen=True)
class EntrySource:
    """A ring of the view, and how its entries are shown."""

    noun: str
    empty: str
    text: Callable[[Any], str]  # Returns the text for a filter.
    draw: Draw
    page: Callable[[Any], TextSource]  # Shows a whole entry.
    # Returns the state of an entry: its page is made again when it changes.
    state: Callable[[Any], object] = lambda _: None


class SourcesPane(Pane):
    """A tab for several rings of a view, by their names; the first is shown first."""

    def __init__(self, id: str, sources: dict[str, EntrySource]) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.sources = sources
        self.source = next(iter(sources))
        self.feeds: dict[str, ArrivingEntries[Any]] = {
            name: ArrivingEntries(lambda entry: entry.seq, source.text) for name, source in sources.items()
        }
        first = self.sources[self.source]
        self.column = Column(self.feeds[self.source], first.draw, noun=first.noun, empty=first.empty)
        self._reader = TextView(classes="detail")
        self._shown: object = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield self._reader

    def restart(self) -> None:
        for feed in self.feeds.values():
            feed.reset()
        self.column.rows.restart()

    def take(self) -> None:
        if not self.has_server:
            return
        self.say()
        self.feeds[self.source].update(self.entries())
        self.column.take()
        self.show_item(self.column.rows.chosen)

    def say(self) -> None:
        """Updates the head."""

    def entries(self) -> Sequence[Any] | Ring[Any]:
        return getattr(self.view, self.source)

    def action_source(self, name: str | None = None) -> None:
        names = list(self.sources)
        self.source = name or names[(names.index(self.source) + 1) % len(names)]
        source = self.sources[self.source]
        self.column.noun = source.noun
        self.column.rows.show(self.feeds[self.source], source.draw, source.empty)
        self.take()

    def show_item(self, item: Any) -> None:
        source = self.sources[self.source]
        shown = (self.source, None, None) if item is None else (self.source, item.seq, source.state(item))
        if shown != self._shown:
            self._shown = shown
            self._reader.show(Words() if item is None else source.page(item), shown[:2])
