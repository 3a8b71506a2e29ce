"""A list of what can be called by its name, and the chosen one's form and results: what tools and prompts share."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal

from tidings.inspector.record_data import ListName
from tidings.inspector.tui.bars import Part
from tidings.inspector.tui.caller import Callee, CallerPane
from tidings.inspector.tui.column import Column
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.words import one_line
from tidings.inspector.views import ServerView


class ListedPane(CallerPane):
    """A tab for one of a server's lists. A subclass says which, and how an item is called."""

    LIST: ClassVar[ListName]
    EMPTY: ClassVar[str]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[dict[str, Any]] = Table(lambda item: item.get("name"), item_text)
        self.column = Column(self.table, draw_item, noun=self.LIST.removesuffix("s"), empty=self.EMPTY)
        self._loaded: object = None
        self._item: dict[str, Any] | None = None

    def callee(self, item: dict[str, Any]) -> Callee:
        """How this item is called."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Horizontal(classes="split"):
            yield self.column
            yield self.caller

    def restart(self) -> None:
        self._loaded = self._item = None
        self.table.reset()
        self.column.rows.restart()
        self.caller.show(None)

    def take(self) -> None:
        if not self.has_server:
            return
        items: dict[str, dict[str, Any]] = getattr(self.view, self.LIST)
        loaded = (self.view.name, self.view.loaded_at.get(self.LIST), len(items))
        if loaded != self._loaded:
            self._loaded = loaded
            self.table.update(list(items.values()))
        self.column.extra = fault_parts(self.view, self.LIST)
        self.column.take()
        self._show(self.column.rows.chosen)
        self.caller.take()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.caller.form.enter()

    def _show(self, item: dict[str, Any] | None) -> None:
        if item != self._item:
            self._item = item
            self.caller.show(self.callee(item) if item is not None else None)


def item_text(item: dict[str, Any]) -> str:
    """What a filter looks in."""
    return f"{item.get('name')} {item.get('title') or ''} {item.get('description') or ''}"


def draw_item(item: dict[str, Any], inks: Inks) -> list[tuple[Line, Line]]:
    """A row: the name, and what it is for."""
    description = item.get("title") or item.get("description") or ""
    return [([(one_line(item.get("name")), inks["ink"]), ("  " + one_line(description), inks["faint"])], [])]


def fault_parts(view: ServerView, name: str) -> list[Part]:
    """What is wrong with a list: that it could not be loaded, or that items of it are not as the protocol says."""
    if (error := view.list_errors.get(name)) is not None:
        return [Part(f"not loaded: {one_line(error.message, 80)}", "bad")]
    bad, twice = len(view.malformed.get(name) or ()), len(view.duplicates.get(name) or ())
    words = [f"{bad} malformed"] * bool(bad) + [f"{twice} twice"] * bool(twice)
    return [Part(", ".join(words), "bad")] if words else []
