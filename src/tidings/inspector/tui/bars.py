"""One line of words, some of which can be clicked: the facts on top, the tabs, the head of a list, the numbers."""

from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from tidings.inspector.tui.desk import inks_of
from tidings.inspector.tui.drawing import row


class Part(NamedTuple):
    """Words in a colour of the scheme; with an action they can be clicked."""

    text: str
    ink: str = "soft"
    action: str = ""


Parts = tuple[list[Part], list[Part]]
"""What stands on the left, and on the right."""


class Bar(Widget):
    """A line of parts, some on the left and some on the right."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; background: $t-pane; }
    """

    def __init__(self, ground: str = "pane", id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._ground = ground
        self._ways: list[Parts] = [([], [])]

    def show(self, left: list[Part], right: list[Part] | None = None, *shorter: Parts) -> None:
        """Show these parts; where they do not fit, the first of the `shorter` ones that do. Nothing is drawn if they
        are the same as before.
        """
        ways = [(left, right or []), *shorter]
        if ways != self._ways:
            self._ways = ways
            self.refresh()

    @property
    def text(self) -> str:
        """All its words."""
        return "".join(part.text for parts in self._ways[0] for part in parts)

    def fits(self, way: Parts) -> bool:
        """Whether there is room for all of it."""
        return room_for(way) <= self.size.width

    @property
    def _shown(self) -> Parts:
        return next((way for way in self._ways if self.fits(way)), self._ways[-1])

    def render_line(self, y: int) -> Strip:
        inks = inks_of(self)
        left, right = ([(part.text, inks[part.ink]) for part in parts] for parts in self._shown)
        ground = Style(bgcolor=getattr(inks, self._ground))
        if y:
            return row(self.size.width, [], None, ground)
        return row(self.size.width, [(" ", inks["soft"]), *left], [*right, (" ", inks["soft"])], ground)

    async def on_click(self, event: events.Click) -> None:
        part = self._part_at(event.x)
        if part is not None and part.action:
            await (self.parent or self).run_action(part.action)  # type: ignore[union-attr]

    def _part_at(self, x: int) -> Part | None:
        left, right = self._shown
        begin = self.size.width - cells(right) - 1
        for parts, start in ((right, begin), (left, 1)):
            at = start
            for part in parts:
                end = at + cell_len(part.text)
                if at <= x < end:
                    return part
                at = end
        return None


def cells(parts: list[Part]) -> int:
    """How many columns they take."""
    return sum(cell_len(part.text) for part in parts)


def room_for(way: Parts) -> int:
    """How many columns a line of them takes, with its margins."""
    left, right = way
    return cells(left) + 1 + (cells(right) + 2 if right else 0)
