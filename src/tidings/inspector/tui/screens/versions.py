"""The versions of a content: the differences, the rendered content, and its source."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, choice, clock, lines_of
from tidings.inspector.tui.widgets.text import TextPage, TextView, contents_page, sentence_page
from tidings.inspector.view.diffs import Diff, content_text, diff_texts


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
SHOWN: Final = 5  # The number of versions that are offered by their time; the others are reached with the keys.


class Versions(Vertical):
    """Shows one of several versions, compared with the previous one or by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mode", "Changes, rendered, source", show=False),
        Binding("comma", "version(-1)", "Earlier version", show=False),
        Binding("full_stop", "version(1)", "Later version", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.mode = "changes"
        self.versions: Sequence[Any] = ()
        self.at = -1
        self._drawn: object = None
        self._bar = Bar("ground")
        self.reader = TextView()

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self.reader

    def show(self, versions: Iterable[Any], seq: int | None = None) -> None:
        """Shows the version of this number, or the newest."""
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

    def action_pick(self, at: int) -> None:
        self.action_version(at - self.at)

    def _draw(self) -> None:
        if not self.versions:
            self.clear("Not read yet.")
            return
        version = self.versions[self.at]
        before = self.versions[self.at - 1] if self.at > 0 else None
        self._say(before)
        drawn, self._drawn = self._drawn, (version.seq, before.seq if before is not None else None, self.mode)
        if drawn == self._drawn:
            return
        if self.mode == "changes" and before is not None:
            diff = diff_texts(content_text(before.contents), content_text(version.contents))
            page: TextPage = DiffPage(diff, before.at)
        else:
            page = contents_page(version.contents, source=self.mode == "source")
        self.reader.show(page, (version.uri, version.seq, self.mode))

    def _say(self, before: Any) -> None:
        first = max(0, min(self.at - SHOWN // 2, len(self.versions) - SHOWN))
        parts: list[BarPart] = [BarPart(f"{first} earlier  ", "faint", "version(-1)")] if first else []
        for at in range(first, min(first + SHOWN, len(self.versions))):
            parts += [choice(clock(self.versions[at].at), f"pick({at})", on=at == self.at), BarPart("  ")]
        if before is None:
            parts.append(BarPart("the first version seen", "faint"))
        modes = [choice(f" {mode.capitalize()} ", f"mode('{mode}')", on=mode == self.mode) for mode in MODES]
        self._bar.show(parts, modes)
