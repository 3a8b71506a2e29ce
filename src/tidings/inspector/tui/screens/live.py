"""Live: the timeline, the changes as they arrive, and the difference of the selected one; versions of a content."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tidings._kit.text import counted
from tidings.inspector.tui.frame import Timeline
from tidings.inspector.tui.screens.messages import output_page
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.screens.tasks import error_page
from tidings.inspector.tui.theme import KINDS
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, Parts, choice, clock, lines_of, one_line, took
from tidings.inspector.tui.widgets.lists import ArrivingEntries
from tidings.inspector.tui.widgets.text import JoinedPage, Part, TextPage, TextView, contents_page, sentence_page
from tidings.inspector.view.diffs import Diff, content_text, diff_texts
from tidings.inspector.view.items import ChangeView, ErrorView
from tidings.inspector.view.view import ServerView


class DiffPage(TextPage):
    """The hunks of a difference, below a line that says how much changed."""

    def __init__(self, diff: Diff, since: float) -> None:
        super().__init__()
        self._diff = diff
        words = f"{diff.words} since {clock(since)}" + (f". {diff.note}" if diff.note else "")
        self.rows = [words, ""]
        for number, hunk in enumerate(diff.hunks):
            self.rows += [*["⋯"] * (number > 0), *hunk.lines]

    def line(self, index: int) -> tuple[Line, str]:
        row = self.rows[index]
        if isinstance(row, str):
            return [(row, "faint")], ""
        numbers = (f"{row.old or '':>5} {row.new or '':>5} ", "faint")
        if row.sign == " ":
            return [numbers, (f"  {' '.join(lines_of(row.text))}", "ink")], ""
        name = "added" if row.sign == "+" else "removed"
        ink, marked = f"{name}_ink", f"{name}_ink on {name}_mark"
        pieces = [(" ".join(lines_of(piece.text)), marked if piece.changed else ink) for piece in row.pieces]
        return [numbers, (f"{row.sign} ", ink), *pieces], f"on {name}"

    def plain(self) -> str:
        return "\n".join(self._diff.unified())


MODES: Final = ("changes", "rendered", "source")


class Versions(Vertical):
    """Shows one of several versions, compared with the previous one or by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mode", "Changes, rendered, source", show=False),
        Binding("comma", "version(-1)", "Earlier version", show=False),
        Binding("full_stop", "version(1)", "Later version", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.at = "changes", -1
        self.versions: Sequence[Any] = ()
        self._drawn: object = None
        self._bar, self.reader = Bar("ground"), TextView()

    def compose(self) -> ComposeResult:
        yield from (self._bar, self.reader)

    def show(self, versions: Iterable[Any], seq: int | None = None) -> None:
        shown, at, self.versions = self.versions, self.at, list(versions)
        if seq is None and 0 <= at < len(shown) - 1 and self.versions and self.versions[0].uri == shown[0].uri:
            seq = shown[at].seq  # An older one that the user looks at stays.
        self.at = next((at for at, each in enumerate(self.versions) if each.seq == seq), len(self.versions) - 1)
        self._draw()

    def clear(self, words: str = "") -> None:
        self.show_page(sentence_page(words))

    def show_page(self, page: TextPage, key: object = None) -> None:
        self.versions, self.at, self._drawn = [], -1, None
        self._bar.show([])
        self.reader.show(page, key)

    def action_mode(self, mode: str | None = None) -> None:
        self.mode = mode or MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self._draw()

    def action_version(self, by: int) -> None:
        self.at = max(0, min(self.at + by, len(self.versions) - 1))
        self._draw()

    def _draw(self) -> None:
        if not self.versions:
            self.clear("Not read yet.")
            return
        version = self.versions[self.at]
        before = self.versions[self.at - 1] if self.at > 0 else None
        modes = [choice(f" {mode.capitalize()} ", f"mode('{mode}')", on=mode == self.mode) for mode in MODES]
        self._bar.show(self._times(before, 5), modes, *((self._times(before, most), modes) for most in (3, 1)))
        drawn, self._drawn = self._drawn, (version.seq, before.seq if before is not None else None, self.mode)
        if drawn == self._drawn:
            return
        if self.mode == "changes" and before is not None:
            diff = diff_texts(content_text(before.contents), content_text(version.contents))
            page: TextPage = DiffPage(diff, before.at)
        else:
            page = contents_page(version.contents, source=self.mode == "source")
        self.reader.show(page, (version.uri, version.seq, self.mode))

    def _times(self, before: Any, most: int) -> list[BarPart]:
        """Offers at most so many versions by their time; the others are reached with the keys."""
        earlier = "earlier  " if most > 1 else "< "
        first = max(0, min(self.at - most // 2, len(self.versions) - most))
        parts: list[BarPart] = [BarPart(f"{first} {earlier}", "faint", "version(-1)")] if first else []
        for at in range(first, min(first + most, len(self.versions))):
            parts += [choice(clock(self.versions[at].at), f"version({at - self.at})", on=at == self.at), BarPart("  ")]
        if before is None:
            parts.append(BarPart("the first version seen" if most > 3 else "first", "faint"))
        return parts


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
            yield from (self._name, self._hops, self._versions)

    def _draw(self, change: ChangeView) -> Drawn:
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
            if self.inspector.server is not None and self.view.error is not None and self.view.state != "connected":
                self._versions.show_page(fault_page(self.view, self.view.error), self.view.error.message)
            else:
                self._versions.clear("Choose a change to see what is different.")
            return
        self._name.show([BarPart(one_line(change.uri or change_words(change)), "b-ink")])
        self._hops.show(*hop_parts(change))
        if change.uri is None:
            self._versions.show_page(list_page(change), change.seq)
        elif versions := self.view.contents.get(change.uri):
            self._versions.show(versions, change.content)
        else:
            unknown = "Its content is not kept: it is read again when something subscribes to this resource."
            self._versions.clear(unknown)


def fault_page(view: ServerView, error: ErrorView) -> TextPage:
    """Shows the reason for which a server is not connected, what to do, and its last error output."""
    keys = f"{'S signs in, ' * (error.code == 'sign-in-needed')}R tries again, X removes the server."
    said: list[Part] = [[], [("Error output", "b-ink")], output_page(view.stderr)]
    is_new = view.stderr.last is not None and view.stderr.last.text not in error.message
    return JoinedPage([], [(keys, "accent")], [], error_page(error), *(said if is_new else []))


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
