"""One line of words, some of which can be clicked: the facts on top, the tabs, the head of a list, the numbers."""

from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from tidings.inspector.tui.desk import inks_of
from tidings.inspector.tui.drawing import row, width_of


class Part(NamedTuple):
    """Words in a colour of the scheme; with an action they can be clicked."""

    text: str
    ink: str = "soft"
    action: str = ""


class Bar(Widget):
    """A line of parts, some on the left and some on the right."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; background: $t-pane; }
    """

    def __init__(self, ground: str = "pane", id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._ground = ground
        self._left: list[Part] = []
        self._right: list[Part] = []

    def show(self, left: list[Part], right: list[Part] | None = None) -> None:
        """Show these parts. Nothing is drawn if they are the same as before."""
        right = right or []
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    @property
    def text(self) -> str:
        """All its words."""
        return "".join(part.text for part in [*self._left, *self._right])

    def render_line(self, y: int) -> Strip:
        inks = inks_of(self)
        left, right = ([(part.text, inks[part.ink]) for part in parts] for parts in (self._left, self._right))
        ground = Style(bgcolor=getattr(inks, self._ground))
        if y:
            return row(self.size.width, [], None, ground)
        return row(self.size.width, [(" ", inks["soft"]), *left], [*right, (" ", inks["soft"])], ground)

    async def on_click(self, event: events.Click) -> None:
        part = self._part_at(event.x)
        if part is not None and part.action:
            await (self.parent or self).run_action(part.action)  # type: ignore[union-attr]

    def _part_at(self, x: int) -> Part | None:
        styled = [(part.text, Style.null()) for part in self._right]
        begin = self.size.width - width_of(styled) - 1
        for parts, start in ((self._right, begin), (self._left, 1)):
            at = start
            for part in parts:
                end = at + cell_len(part.text)
                if at <= x < end:
                    return part
                at = end
        return None
