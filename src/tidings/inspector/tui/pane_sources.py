"""What arrives from one of several sources, and all of the chosen entry: what messages and logs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal

from tidings.inspector.rings import Ring
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.feeds import Feed
from tidings.inspector.tui.pages import Page, Words
from tidings.inspector.tui.pane import Pane
from tidings.inspector.tui.reader import Reader
from tidings.inspector.tui.rows import Draw, RowList


@dataclass(frozen=True)
class Source:
    """A ring of the view, and how its entries are shown."""

    noun: str
    empty: str
    text: Callable[[Any], str]
    """What a filter looks in."""
    draw: Draw
    page: Callable[[Any], Page]
    """All of an entry."""
    state: Callable[[Any], object] = lambda _: None
    """What an entry's page is made anew for."""


class SourcesPane(Pane):
    """A tab for several rings of a view, by their names; the first is shown first."""

    def __init__(self, id: str, sources: dict[str, Source]) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.sources = sources
        self.source = next(iter(sources))
        self.feeds: dict[str, Feed[Any]] = {
            name: Feed(lambda entry: entry.seq, source.text) for name, source in sources.items()
        }
        first = self.sources[self.source]
        self.column = Column(self.feeds[self.source], first.draw, noun=first.noun, empty=first.empty)
        self._reader = Reader(classes="detail")
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
