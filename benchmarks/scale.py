"""Many processes on one bus: how soon they hear, how much they carry, and what more of them cost.

    python -m benchmarks.scale [--bus NAME]... [--only PART] [--quick] [--json FILE]

Starts the brokers itself, on free ports. Prints a table; the exit code is 0 if every target that was measured is met, 1
if one is missed, 2 if a measurement could not be made. An engine that is not installed is left out, and named.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import engines
from benchmarks.engines import ENGINES, missing
from benchmarks.ground import QUICK, Ground, ScaleSize
from benchmarks.lab import DeliveryLost
from benchmarks.parts import latency, model, publishes, servers
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude, leave_out

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "latency": latency.measure,
    "publishes": publishes.measure,
    "servers": servers.measure,
    "model": model.measure,
}


def main(argv: list[str] | None = None, size: ScaleSize | None = None) -> int:
    chosen = _parser().parse_args(argv)
    size = size or (QUICK if chosen.quick else ScaleSize())
    rows, failed = _measure(chosen.bus or list(ENGINES), chosen.only or list(PARTS), size)
    return conclude(rows, failed, chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.scale", description="Many processes on one bus, for each bus.")
    parser.add_argument("--bus", choices=ENGINES, action="append", help="one bus (again for more)")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part (again for more)")
    parser.add_argument("--quick", action="store_true", help="smaller, about two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _measure(buses: Sequence[str], parts: Sequence[str], size: ScaleSize) -> tuple[list[Row], list[str]]:
    rows: dict[str, list[Row]] = {}
    failed: list[str] = []
    for name in buses:
        if why := missing(name):
            leave_out(name, why)
            continue
        for part in parts:
            # A broker of its own for each part: none must pay for what another left behind.
            try:
                with engines.running(name) as engine:
                    rows.setdefault(part, []).extend(PARTS[part](Ground(engine, size)))
            except (DeliveryLost, ProcessFailed) as error:
                failed.append(f"{part}, {name}: {error}")
    return [row for part in parts for row in rows.get(part, [])], failed


if __name__ == "__main__":
    sys.exit(main())
