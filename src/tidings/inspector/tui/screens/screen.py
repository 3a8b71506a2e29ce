"""What every tab is: a list on the left, the chosen thing on the right, brought up to date when asked.

What arrives from one of several sources, and all of the chosen entry: what messages and logs share.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tidings.inspector.server import InspectedServer
from tidings.inspector.tui.theme import desk_of
from tidings.inspector.tui.widgets.entries import ArrivingEntries
from tidings.inspector.tui.widgets.lists import Column, Draw, RowList
from tidings.inspector.tui.widgets.text import TextSource, TextView, Words
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import ServerView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp


class Pane(Vertical):
    """One tab. It is told which server it shows, and when there is something new to read from its view."""

    DEFAULT_CSS = """
    Pane { height: 1fr; }
    Pane .split { height: 1fr; }
    Pane .detail { width: 3fr; }
    .-wide Pane .detail { width: 4fr; }
    """

    @property
    def desk(self) -> "InspectorApp":
        """The application."""
        return desk_of(self)

    @property
    def has_server(self) -> bool:
        """Whether there is a server to show."""
        return self.desk.server is not None

    @property
    def server(self) -> InspectedServer:
        """The server that is shown.

        Raises:
            LookupError: There is none.
        """
        if self.desk.server is None:
            raise LookupError("There is no server yet: n adds one.")
        return self.desk.server

    @property
    def view(self) -> ServerView:
        """What is known of it."""
        return self.server.view

    def restart(self) -> None:
        """Another server is shown from now on."""

    def take(self) -> None:
        """Read what is new."""

    def main_list(self) -> RowList:
        """The list that has the focus when the tab is opened."""
        return self.query(RowList).first()

    def go(self, key: str) -> None:
        """Choose the thing of this name."""
        self.main_list().choose(key)

    def attempt(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside everything else; what a server or a person did wrong is said, and nothing breaks."""
        self.desk.attempt(work)


@dataclass(frozen=True)
class EntrySource:
    """A ring of the view, and how its entries are shown."""

    noun: str
    empty: str
    text: Callable[[Any], str]
    """What a filter looks in."""
    draw: Draw
    page: Callable[[Any], TextSource]
    """All of an entry."""
    state: Callable[[Any], object] = lambda _: None
    """What an entry's page is made anew for."""


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
        self._show(self.column.rows.chosen)

    def say(self) -> None:
        """Bring what is said of the sources up to date."""

    def entries(self) -> Sequence[Any] | Ring[Any]:
        """The entries of the source that is shown."""
        return getattr(self.view, self.source)

    def action_source(self, name: str | None = None) -> None:
        """The next source, or this one."""
        names = list(self.sources)
        self.source = name or names[(names.index(self.source) + 1) % len(names)]
        source = self.sources[self.source]
        self.column.noun = source.noun
        self.column.rows.show(self.feeds[self.source], source.draw, source.empty)
        self.take()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def _show(self, item: Any) -> None:
        source = self.sources[self.source]
        shown = (self.source, None, None) if item is None else (self.source, item.seq, source.state(item))
        if shown != self._shown:
            self._shown = shown
            self._reader.show(Words() if item is None else source.page(item), shown[:2])
