"""Figures as text, and the table of everything that benchmarks compared: as wide as the terminal allows."""

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tidings.cli.terminal import styled, width

NOTHING: Final = "–"  # noqa: RUF001 - the sign for nothing in a table
_NARROWEST: Final = 12


def figure(value: float | str | None) -> str:
    """Returns a figure as tables show it."""
    match value:
        case None:
            return NOTHING
        case str():
            return value
        case _:
            return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def judged(value: float) -> str:
    """Returns a figure with one more digit: a value that just misses its target must not look as if it met it."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with aligned columns; the first line names them."""
    widths = _widths(lines)
    text = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


@dataclass(frozen=True)
class Compared:
    """One figure of a benchmark beside the peers', and its target."""

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
        """Reads a row of a benchmark: see `report.Row.as_json`."""
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
        """One word, or none if there is no target."""
        return {None: "", True: "met", False: "MISSED"}[self.met]


def table(compared: Sequence[Compared]) -> str:
    """Returns the table for standard output: Markdown with all figures, or on a narrow terminal only the ratios."""
    room, text = width(sys.stdout), _markdown(compared)
    shown = text if room is None or len(text.partition("\n")[0]) <= room else _narrow(compared, room)
    return shown.replace("MISSED", styled("MISSED", "bad", sys.stdout))


def _markdown(compared: Sequence[Compared]) -> str:
    lines = [("", "what", "Tidings", "beside it", "ratio", "target", "")]
    before = ""
    for each in compared:
        name = "" if each.benchmark == before else each.benchmark
        lines.append((name, each.what, each.tidings, each.peer, each.ratio, each.target, each.verdict))
        before = each.benchmark
    return aligned(lines)


def _narrow(compared: Sequence[Compared], room: int) -> str:
    widths = _widths([(each.ratio, each.target, each.verdict) for each in compared])
    space = max(room - sum(widths) - 2 * len(widths) - 2, _NARROWEST)
    lines: list[str] = []
    for name, group in groupby(compared, lambda each: each.benchmark):
        lines.append(styled(name, "name", sys.stdout))
        for each in group:
            first, *others = textwrap.wrap(each.what, space, subsequent_indent="  ") or [""]
            cells = [f"{first:<{space}}", f"{each.ratio:>{widths[0]}}", f"{each.target:<{widths[1]}}", each.verdict]
            lines += [f"  {'  '.join(cells).rstrip()}", *(f"  {other}" for other in others)]
    return "\n".join(lines)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
