"""Fan-out: one change, many subscribers. The stock SDK, Tidings and bare sockets, side by side.

    python -m benchmarks.fanout [--streams N]... [--events N] [--only PART] [--quick] [--json FILE]

Prints a table; the exit code is 0 if every target that was measured is met, 1 if one is missed, 2 if a measurement
could not be made.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.lab import QUICK, DeliveryLost, Lab, Size
from benchmarks.parts import burst, crowd, deliveries, interest, stall, stop, waking, workers
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude

PARTS: dict[str, Callable[[Lab], list[Row]]] = {
    "deliveries": deliveries.measure,
    "interest": interest.measure,
    "burst": burst.measure,
    "stall": stall.measure,
    "stop": stop.measure,
    "crowd": crowd.measure,
    "waking": waking.measure,
    "workers": workers.measure,
}


def main(argv: list[str] | None = None) -> int:
    chosen = _parser().parse_args(argv)
    size = QUICK if chosen.quick else Size()
    if chosen.streams:
        size = replace(size, streams=tuple(chosen.streams))
    if chosen.events:
        size = replace(size, events=chosen.events)
    rows, failed = _measure(chosen.only or list(PARTS), size)
    return conclude(rows, failed, chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.fanout", description="Fan-out of Tidings, the SDK and bare sockets.")
    parser.add_argument("--streams", type=int, action="append", help="open streams (again for more; default 500, 1000)")
    parser.add_argument("--events", type=int, help="changes in each repetition")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part (again for more)")
    parser.add_argument("--quick", action="store_true", help="smaller, within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _measure(parts: Sequence[str], size: Size) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    for part in parts:
        # A lab for each part: the client of one must not carry the streams of another.
        try:
            with Lab(size) as lab:
                rows += PARTS[part](lab)
        except (DeliveryLost, ProcessFailed) as error:
            failed.append(f"{part}: {error}")
    return rows, failed


if __name__ == "__main__":
    sys.exit(main())
