"""What readers of plain material have in common: bounded text, tables in markdown, fences that hold."""

import re
from collections.abc import Iterable, Sequence

from tidings.web.extract.model import Warning_

_TICKS = re.compile("`{3,}+")


def bounded(text: str, most: int, what: str) -> tuple[str, tuple[Warning_, ...]]:
    """The first `most` characters, ending with a line where one ends near, and a warning if there were more."""
    if len(text) <= most:
        return text, ()
    end = text.rfind("\n", most - most // 10, most)
    kept = text[: end if end > 0 else most]
    return kept, (left_out(what, len(kept), len(text), "characters"),)


def left_out(what: str, kept: int, whole: int, unit: str) -> Warning_:
    """That only a part is given, and how much is not."""
    return Warning_(
        "truncated", f"{what} has {whole:,} {unit}: the first {kept:,} are given, {whole - kept:,} are left out"
    )


def fenced(text: str, language: str = "") -> str:
    """A block of code that its own text cannot end."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells, the first of them the header, all as wide as the widest."""
    lines = [[_cell(cell) for cell in row] for row in rows]
    width = max(map(len, lines), default=0)
    written = ["| " + " | ".join((*line, *[""] * (width - len(line)))) + " |" for line in lines]
    written.insert(1, "|" + " --- |" * width)
    return "\n".join(written)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
