"""The table of all that benchmarks compared: as wide as it is where there is room, else no wider than the terminal."""

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tidings.cli.terminal import styled, width

NOTHING: Final = "–"  # noqa: RUF001 - the sign for nothing in a table
_LEAST: Final = 12


@dataclass(frozen=True)
class Compared:
    """One figure of a benchmark, beside the peer's, and what is held against the target."""

    benchmark: str
    what: str
    tidings: str
    peer: str
    ratio: str
    target: str
    met: bool | None
    """None: it has no target."""

    @classmethod
    def of(cls, benchmark: str, row: dict[str, Any]) -> "Compared":
        """From a row as the benchmark wrote it."""
        peers = {"SDK": row["sdk"], **row["others"], "bare sockets": row["floor"]}
        known = {name: figure(value) for name, value in peers.items() if value is not None}
        target: dict[str, Any] = row["target"] or {}
        unit: str = target.get("unit", "")
        return cls(
            benchmark,
            row["what"],
            figure(row["tidings"]),
            ", ".join(f"{name} {figure}" for name, figure in known.items()) or NOTHING,
            f"{judged(row['value'])}{unit}",
            f"{'≥' if target['at'] == 'least' else '≤'} {figure(target['bound'])}{unit}" if target else "",
            row["met"],
        )

    @property
    def verdict(self) -> str:
        """In a word; none if it has no target."""
        return {None: "", True: "met", False: "MISSED"}[self.met]


def table(compared: Sequence[Compared]) -> str:
    """For standard output: Markdown, if there is room for it."""
    room, text = width(sys.stdout), _markdown(compared)
    return text if room is None or len(text.partition("\n")[0]) <= room else _narrow(compared, room)


def _markdown(compared: Sequence[Compared]) -> str:
    """With all figures, and aligned, so that it reads well in a terminal, too."""
    lines = [("", "what", "Tidings", "beside it", "ratio", "target", "")]
    before = ""
    for each in compared:
        name = "" if each.benchmark == before else each.benchmark
        lines.append((name, each.what, each.tidings, each.peer, each.ratio, each.target, each.verdict))
        before = each.benchmark
    return _marked(aligned(lines))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns stand below each other; the first line names them."""
    widths = _widths(lines)
    text = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def _narrow(compared: Sequence[Compared], room: int) -> str:
    """With the ratios alone; what was compared goes on in the next line where it is too long for one."""
    widths = _widths([(each.ratio, each.target, each.verdict) for each in compared])
    space = max(room - sum(widths) - 2 * len(widths) - 2, _LEAST)
    lines: list[str] = []
    for name, group in groupby(compared, lambda each: each.benchmark):
        lines.append(styled(name, "name", sys.stdout))
        for each in group:
            first, *others = textwrap.wrap(each.what, space, subsequent_indent="  ") or [""]
            cells = [f"{first:<{space}}", f"{each.ratio:>{widths[0]}}", f"{each.target:<{widths[1]}}", each.verdict]
            lines += [f"  {'  '.join(cells).rstrip()}", *(f"  {other}" for other in others)]
    return _marked("\n".join(lines))


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]


def _marked(text: str) -> str:
    return text.replace("MISSED", styled("MISSED", "bad", sys.stdout))


def figure(value: float | str | None) -> str:
    """A figure as tables have it."""
    match value:
        case None:
            return NOTHING
        case str():
            return value
        case _:
            return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def judged(value: float) -> str:
    """With a digit more: what is just beside its target must not look as if it met it."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
