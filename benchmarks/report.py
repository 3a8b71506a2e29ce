"""What was measured: rows of a table, some of them with a target that is met or missed."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.table import NOTHING, aligned, figure, judged

TIMES = "\N{MULTIPLICATION SIGN}"

Cell = float | str | None

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Say what is being measured, and how long it has been so far."""
    print(f"[{time.monotonic() - _BEGAN:5.1f} s] {text}", file=sys.stderr, flush=True)


def leave_out(name: str, why: object) -> None:
    """Say what is not there to stand beside Tidings. `tidings bench --all` says it again at its end."""
    print(f"{name} is left out: {why}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Target:
    """A bound that a row's value is held against."""

    bound: float
    at: Literal["least", "most"]
    unit: str = ""

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.at == "least" else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at == 'least' else '≤'} {figure(self.bound)}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One figure, of the SDK, of Tidings and of bare sockets or `others`, and what is compared with the target."""

    part: str
    what: str
    sdk: Cell = None
    tidings: Cell = None
    floor: Cell = None
    value: float | None = None
    target: Target | None = None
    note: str = ""
    others: dict[str, Cell] = field(default_factory=dict[str, Cell])
    """What else stands beside it, by the names of their columns."""

    @property
    def met(self) -> bool | None:
        """None: this row has no target."""
        if self.target is None:
            return None
        return self.value is not None and self.target.met_by(self.value)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def _cells(row: Row, others: Sequence[str]) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[row.met]
    ratio = NOTHING if row.value is None else f"{judged(row.value)}{row.target.unit if row.target else ''}"
    target = "" if row.target is None else str(row.target)
    beside = [figure(row.others.get(name)) for name in others]
    return row.what, figure(row.sdk), figure(row.tidings), figure(row.floor), *beside, ratio, target, verdict, row.note


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, aligned so that it reads well in a terminal too. What no row has is left out."""
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    lines = [("", "SDK", "Tidings", "bare sockets", *others, "judged", "target", "", "note")]
    lines += [_cells(row, others) for row in rows]
    absent = {column for column, name in ((1, "sdk"), (3, "floor")) if all(getattr(row, name) is None for row in rows)}
    return aligned([tuple(cell for column, cell in enumerate(line) if column not in absent) for line in lines])


def all_met(rows: Sequence[Row]) -> bool:
    return all(row.met is not False for row in rows)


def conclude(rows: Sequence[Row], failed: Sequence[str], file: Path | None) -> int:
    """Print the table, write the rows to `file`, say what could not be measured; returns the exit code."""
    print(table(rows))
    if file is not None:
        file.write_text(json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False) + "\n")
    for failure in failed:
        print(f"not measured: {failure}", file=sys.stderr)
    if failed:
        return 2
    return 0 if all_met(rows) else 1
