"""What changed between two versions of a content, as a page: lines with their numbers, the changed words marked."""

from typing import Any, Final

from rich.style import Style

from tidings.inspector.diffs import Diff, DiffLine, content_text, diff_texts
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.pages import Page
from tidings.inspector.tui.words import clock, lines_of

_GROUNDS: Final = {"+": ("added", "added_ink", "added_mark"), "-": ("removed", "removed_ink", "removed_mark")}


class DiffPage(Page):
    """The hunks of a difference, below a line that says how much changed."""

    def __init__(self, diff: Diff, since: float) -> None:
        self._diff = diff
        words = f"{diff.words} since {clock(since)}" + (f". {diff.note}" if diff.note else "")
        self._rows: list[DiffLine | str] = [words, ""]
        for number, hunk in enumerate(diff.hunks):
            if number:
                self._rows.append("⋯")
            self._rows += hunk.lines

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, inks: Inks) -> tuple[Line, Style | None]:
        row = self._rows[index]
        if isinstance(row, str):
            return [(row, inks["faint"])], None
        numbers = f"{row.old or '':>5} {row.new or '':>5} "
        if row.sign == " ":
            return [(numbers, inks["faint"]), (f"  {_shown(row.text)}", inks["ink"])], None
        ground, ink, mark = _GROUNDS[row.sign]
        marked = Style(bgcolor=getattr(inks, mark))
        spans: Line = [(numbers, inks["faint"]), (f"{row.sign} ", inks[ink])]
        spans += [(_shown(piece.text), inks[ink] + marked if piece.changed else inks[ink]) for piece in row.pieces]
        return spans, Style(bgcolor=getattr(inks, ground))

    def plain(self) -> str:
        return "\n".join(self._diff.unified())


def _shown(text: str) -> str:
    return " ".join(lines_of(text))


def diff_page(before: Any, after: Any) -> DiffPage:
    """The lines that differ, with those around them."""
    return DiffPage(diff_texts(content_text(before.contents), content_text(after.contents)), before.at)
