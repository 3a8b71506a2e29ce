"""Live: the timeline of the last minutes, the changes as they arrive, and the difference of the selected one."""

from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical

from tidings._kit.text import counted
from tidings.inspector.tui.frame import Timeline
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.screens.versions import Versions
from tidings.inspector.tui.theme import KINDS
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, Parts, clock, one_line, took
from tidings.inspector.tui.widgets.lists import ArrivingEntries
from tidings.inspector.tui.widgets.text import TextPage
from tidings.inspector.view.items import ChangeView

EMPTY: Final = (
    "No change yet. When the server says that something is different now, it appears here, and what changed beside it. "
    "To hear of a resource: 3 opens Resources, s subscribes to the chosen one."
)
HOPS: Final = {"source": "changed", "published": "published", "received": "received", "read": "read again"}


class LivePane(Pane):
    """The changes of one server."""

    def __init__(self, tab: str) -> None:
        feed: ArrivingEntries[ChangeView] = ArrivingEntries(lambda change: change.seq, change_words)
        super().__init__(tab, feed, self._draw, noun="change", empty=EMPTY)
        self._versions = Versions()
        self._timeline, self._name, self._hops = Timeline(), Bar("ground"), Bar("ground")

    def compose(self) -> ComposeResult:
        yield self._timeline
        yield from super().compose()

    def detail(self) -> ComposeResult:
        with Vertical(classes="detail"):
            yield self._name
            yield self._hops
            yield self._versions

    def _draw(self, change: ChangeView) -> Drawn:
        """Draws a row: time, kind, subject, and the time until it was fresh."""
        kind, words = (" ■ ", KINDS.get(change.change, "soft")), (one_line(change_words(change)), "ink")
        right = f"{change.merged + 1} merged" if change.merged else took(change.fresh_in)
        right = "while offline" if change.away else right
        at = clock(change.at)[3 if self.inspector.size.width < 140 else 0 :]
        return [([(at, "faint"), kind, words], [(right, "faint")] if right else [])]

    def update_list(self) -> None:
        self._timeline.show(self.view, self.inspector.now())
        self.rows.model.update(self.view.changes)

    def show_item(self, change: ChangeView | None) -> None:
        if change is None or self.inspector.server is None:
            self._name.show([])
            self._hops.show([])
            self._versions.clear("Choose a change to see what is different.")
            return
        self._name.show([BarPart(one_line(change.uri or change_words(change)), "b-ink")])
        self._hops.show(*hop_parts(change))
        if change.uri is None:
            self._versions.show_page(list_page(change), change.seq)
        elif versions := self.view.contents.get(change.uri):
            self._versions.show(versions, change.content)
        else:
            self._versions.clear(
                "Its content is not kept: it is read again when something subscribes to this resource."
            )


def change_words(change: ChangeView) -> str:
    """Returns the URI or the list of a change, in words."""
    if change.uri:
        return str(change.uri)
    words = str(change.change).replace("-list-changed", " list").replace("-", " ")
    return words if change.items is None else f"{words}: {change.different}"


def list_page(change: ChangeView) -> TextPage:
    """Shows the differences of a list, one name per line."""
    items = change.items
    if items is None:
        return TextPage([("The list is about to be loaded again.", "soft")])
    lines: list[Line] = []
    kinds = ((items.added, "+", "added_ink"), (items.removed, "-", "removed_ink"), (items.changed, "~", "ink"))
    for names, sign, ink in kinds:
        lines += [[(f"{sign} ", ink), (one_line(name), ink)] for name in names]
    if items.more:
        lines.append([(f"and {items.more:,} more", "faint")])
    return TextPage(*lines or [[("The list was loaded again, and nothing in it is different.", "soft")]])


def hop_parts(change: ChangeView) -> tuple[list[BarPart], list[BarPart], Parts, Parts, Parts]:
    """Returns the time of each hop and the total, in fewer words if there is less room."""
    merged = f"   {counted(change.merged, 'change')} before it merged into this"
    more = [BarPart(merged, "faint")] if change.merged else []
    fresh = took(change.fresh_in)
    total, brief = ([BarPart(words, "b-accent")] if fresh else [] for words in (f"fresh in {fresh}", fresh))
    long, short = ([BarPart("changed while the server was away; ", "ink")] if change.away else [] for _ in range(2))
    for hop in change.hops:
        arrow = [] if hop.took is None else [BarPart(f" {took(hop.took)} → " if hop.took >= 0 else " → ", "faint")]
        long += [*arrow, BarPart(HOPS[hop.name], "ink")]
        short += [*arrow, BarPart(HOPS[hop.name].partition(" ")[0], "ink")]
    times = [BarPart(" → ".join(took(max(0.0, hop.took)) for hop in change.hops if hop.took is not None), "soft")]
    return [*long, *more], total, (long, total), (short, brief), (times, total)
