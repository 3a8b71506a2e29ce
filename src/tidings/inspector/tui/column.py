"""A list with its head and its filter: what stands on the left of every screen."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.desk import desk_of
from tidings.inspector.tui.feeds import Rows
from tidings.inspector.tui.rows import Draw, RowList
from tidings.inspector.tui.words import counted


class Column(Vertical):
    """The head says how many there are and whether the list follows; `/` opens the filter, Esc closes it.

    Args:
        noun: What a row is, for the head.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False),
        Binding("escape", "unfilter", "All", show=False),
    ]

    DEFAULT_CSS = """
    Column { width: 2fr; min-width: 24; border-right: vkey $t-line; }
    Column Input { display: none; height: 1; border: none; padding: 0 1; background: $t-hover; }
    Column.filtering Input { display: block; }
    """

    def __init__(
        self,
        model: Rows[Any],
        draw: Draw,
        *,
        noun: str,
        empty: str,
        id: str | None = None,  # noqa: A002 - Textual's name for it
        height: int = 1,
    ) -> None:
        super().__init__(id=id)
        self.rows = RowList(model, draw, empty=empty, height=height)
        self.noun = noun
        self.extra: list[Part] = []
        """What else the head says, on its right."""
        self.said = ""
        """What the head says instead of how many there are."""
        self._head = Bar("hover")

    def compose(self) -> ComposeResult:
        yield self._head
        yield Input(placeholder="words to find; Enter to the list, Esc for all", compact=True)
        yield self.rows

    @property
    def head(self) -> str:
        """The words of the head."""
        return self._head.text

    def take(self) -> None:
        """Show what the model holds now."""
        self.rows.take()
        self.say()

    def say(self) -> None:
        """Bring the head up to date."""
        model, feed = self.rows.model, self.rows.feed
        found = f"{len(model):,} of {counted(model.total, self.noun)}" if model.filtered else ""
        words = found or self.said or counted(model.total, self.noun)
        if feed is None:
            self._head.show([Part(words)], self.extra, ([Part(words.partition(", ")[0])], self.extra))
            return
        brief = words.partition(" ")[0]
        if feed.searching:
            words += ", still looking"
        if feed.following:
            state, short = [Part(f"Following · {words}")], [Part(f"Following · {brief}")]
            pause = Part("space pauses", "faint", "rows_pause")
        else:
            held = f"{feed.held:,} newer held back"
            ink = "b-accent" if feed.held else "soft"
            state = [Part("Paused · ", "warn"), Part(held if feed.held else words, ink)]
            short = [Part("Paused · ", "warn"), Part(f"{feed.held:,} newer" if feed.held else brief, ink)]
            pause = Part("g follows", "accent", "rows_pause")
        right = [*self.extra, Part("  "), pause] if self.extra else [pause]
        self._head.show(state, right, (short, right), (short, [pause]))

    def on_row_list_moved(self) -> None:
        self.say()

    def action_rows_pause(self) -> None:
        """A click on the head: hold back, or follow."""
        self.rows.action_pause()

    def action_filter(self) -> None:
        """Open the filter."""
        self.add_class("filtering")
        self.query_one(Input).focus()

    def action_unfilter(self) -> None:
        """Show everything again."""
        if not self.has_class("filtering"):
            desk_of(self).action_focus_servers()
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
