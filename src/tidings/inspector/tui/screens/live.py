"""Live: the timeline of the last minutes, the changes as they arrive, and the difference of the selected one."""

from typing import Final

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tidings._kit.text import counted
from tidings.inspector.tui.frame import Timeline
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.screens.versions import Versions
from tidings.inspector.tui.theme import KINDS, ColorScheme
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, Parts
from tidings.inspector.tui.widgets.entries import ArrivingEntries
from tidings.inspector.tui.widgets.lists import Column
from tidings.inspector.tui.widgets.text import TextSource, Words
from tidings.inspector.tui.words import clock, one_line, took
from tidings.inspector.view.items import ChangeView
from tidings.inspector.view.view import difference_words

EMPTY: Final = (
    "No change yet. When the server says that something is different now, it appears here, and what changed beside it. "
    "To hear of a resource: 3 opens Resources, s subscribes to the chosen one."
)
HOPS: Final = {"source": "changed", "published": "published", "received": "received", "read": "read again"}


class LivePane(Pane):
    """The changes of one server."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.feed: ArrivingEntries[ChangeView] = ArrivingEntries(lambda change: change.seq, change_words)
        self.column = Column(self.feed, draw_change, noun="change", empty=EMPTY)
        self._versions = Versions()
        self._strip, self._name, self._hops = Timeline(), Bar("ground"), Bar("ground")

    def compose(self) -> ComposeResult:
        yield self._strip
        with Horizontal(classes="split"):
            yield self.column
            with Vertical(classes="detail"):
                yield self._name
                yield self._hops
                yield self._versions

    def restart(self) -> None:
        self.feed.reset()
        self.column.rows.restart()

    def take(self) -> None:
        if not self.has_server:
            return
        self._strip.show(self.inspector.pace(self.view.name), self.inspector.now())
        self.feed.update(self.view.changes)
        self.column.take()
        self.show_item(self.column.rows.chosen)

    def show_item(self, change: ChangeView | None) -> None:
        if change is None or not self.has_server:
            self._name.show([])
            self._hops.show([])
            self._versions.clear("Choose a change to see what is different.")
            return
        self._name.show([BarPart(one_line(change.uri or change_words(change)), "b-ink")])
        self._hops.show(*hop_parts(change))
        versions = self.view.contents.get(change.uri) if change.uri else None
        if change.uri is None:
            self._versions.show_page(list_page(change), change.seq)
        elif not versions:
            self._versions.clear(
                "Its content is not kept: it is read again when something subscribes to this resource."
            )
        else:
            self._versions.show(versions, change.content)


def change_words(change: ChangeView) -> str:
    """Returns the URI or the list of a change, in words."""
    if change.uri:
        return str(change.uri)
    words = str(change.change).replace("-list-changed", " list").replace("-", " ")
    return words if change.items is None else f"{words}: {difference_words(change.items)}"


def list_page(change: ChangeView) -> TextSource:
    """Shows the differences of a list, one name per line."""
    items = change.items
    if items is None:
        return Words([("The list is about to be loaded again.", "soft")])
    lines: list[list[tuple[str, str]]] = []
    kinds = ((items.added, "+", "added_ink"), (items.removed, "-", "removed_ink"), (items.changed, "~", "ink"))
    for names, sign, ink in kinds:
        lines += [[(f"{sign} ", ink), (one_line(name), ink)] for name in names]
    if items.more:
        lines.append([(f"and {items.more:,} more", "faint")])
    return Words(*lines or [[("The list was loaded again, and nothing in it is different.", "soft")]])


def draw_change(change: ChangeView, colors: ColorScheme) -> list[tuple[Line, Line]]:
    """Draws a row: time, kind, subject, and the time until it was fresh."""
    ink = KINDS.get(change.change, "soft")
    left: Line = [
        (clock(change.at), colors["faint"]),
        (" ■ ", colors[ink]),
        (one_line(change_words(change)), colors["ink"]),
    ]
    if change.away:
        right = "while offline"
    elif change.merged:
        right = f"{change.merged + 1} merged"
    else:
        right = took(change.fresh_in)
    return [(left, [(right, colors["faint"])] if right else [])]


def hop_parts(change: ChangeView) -> tuple[list[BarPart], list[BarPart], Parts, Parts, Parts]:
    """Returns the time of each hop and the total, in fewer words if there is less room."""
    merged = f"   {counted(change.merged, 'change')} before it merged into this"
    more = [BarPart(merged, "faint")] if change.merged else []
    fresh = took(change.fresh_in)
    total = [BarPart(f"fresh in {fresh}", "b-accent")] if fresh else []
    brief = [BarPart(fresh, "b-accent")] if fresh else []
    hops = _hops(change, HOPS)
    names = {name: words.partition(" ")[0] for name, words in HOPS.items()}
    times = [BarPart(" → ".join(took(max(0.0, hop.took)) for hop in change.hops if hop.took is not None), "soft")]
    return [*hops, *more], total, (hops, total), (_hops(change, names), brief), (times, total)


def _hops(change: ChangeView, names: dict[str, str]) -> list[BarPart]:
    parts: list[BarPart] = [BarPart("changed while the server was away; ", "ink")] if change.away else []
    for hop in change.hops:
        if hop.took is not None:
            parts.append(BarPart(f" {took(hop.took)} → " if hop.took >= 0 else " → ", "faint"))
        parts.append(BarPart(names[hop.name], "ink"))
    return parts
