"""The live client beside the SDK's own: what a request costs more, and what it is good for.

    python -m benchmarks.client [--pairs N] [--resources N] [--only PART] [--quick] [--json FILE]

Prints a table; the exit code is 0 if every target that was measured is met, 1 if one is missed, 2 if a measurement
could not be made.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.pair import QUICK, Pair, PairSize
from benchmarks.parts import calls, comeback, herd, hits, watch
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude

PARTS: dict[str, Callable[[Pair], list[Row]]] = {
    "calls": calls.measure_calls,
    "reads": calls.measure_reads,
    "cache": hits.measure,
    "watch": watch.measure,
    "comeback": comeback.measure,
    "herd": herd.measure,
}


def main(argv: list[str] | None = None) -> int:
    chosen = _parser().parse_args(argv)
    size = QUICK if chosen.quick else PairSize()
    if chosen.pairs:
        size = replace(size, pairs=max(2, chosen.pairs))
    if chosen.resources:
        size = replace(size, watched=chosen.resources, updates=chosen.resources, kept=chosen.resources)
        size = replace(size, crowd=chosen.resources)
    rows, failed = _measure(chosen.only or list(PARTS), size)
    return conclude(rows, failed, chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.client", description="The live client beside the SDK's own.")
    parser.add_argument("--pairs", type=int, help="blocks of requests by each client")
    parser.add_argument("--resources", type=int, help="resources that are watched")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part (again for more)")
    parser.add_argument("--quick", action="store_true", help="smaller, within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _measure(parts: Sequence[str], size: PairSize) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    for part in parts:
        # Processes of its own for each part: none must pay for what another left behind.
        try:
            with Pair(size) as pair:
                rows += PARTS[part](pair)
        except ProcessFailed as error:
            failed.append(f"{part}: {error}")
    return rows, failed


if __name__ == "__main__":
    sys.exit(main())
