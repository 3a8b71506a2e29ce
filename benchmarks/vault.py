"""The vault server on vaults of 10,000 and 50,000 notes: beside its peers, ripgrep, and what cannot be undercut.

    python -m benchmarks.vault [--notes N] [--only PART] [--alone] [--quick] [--json FILE]

Writes the vaults itself, the same ones each time, and removes them. Prints a table; the exit code is 0 if every target
that was measured is met, 1 if one is missed, 2 if a measurement could not be made. A peer that cannot be installed is
left out, and named.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.parts import vault_burst, vault_edits, vault_index, vault_meaning, vault_search, vault_start
from benchmarks.parts.vault_yard import BARE, QUICK, VaultSize, Yard
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude

PARTS: dict[str, Callable[[Yard], Iterable[Row]]] = {
    "start": vault_start.measure,
    "index": vault_index.measure,
    "search": vault_search.measure,
    "edits": vault_edits.measure,
    "burst": vault_burst.measure,
    "meaning": vault_meaning.measure,
}


def main(argv: list[str] | None = None, size: VaultSize | None = None) -> int:
    chosen = _parser().parse_args(argv)
    size = size or (QUICK if chosen.quick else VaultSize())
    if chosen.notes:
        size = replace(size, notes=chosen.notes, many=chosen.notes * 5, burst=min(size.burst, chosen.notes // 2))
    rows, failed = _measure(chosen.only or list(PARTS), size, alone=chosen.alone)
    return conclude(rows, failed, chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.vault", description="The vault server beside its peers.")
    parser.add_argument("--notes", type=int, help="of the smaller vault; the other has five times as many")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part (again for more)")
    parser.add_argument("--alone", action="store_true", help="without the peers; nothing is installed")
    parser.add_argument("--quick", action="store_true", help="smaller, about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _measure(parts: Sequence[str], size: VaultSize, *, alone: bool) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    with Yard(size, alone=alone) as yard:
        for part in parts:
            try:
                for row in PARTS[part](yard):
                    rows.append(row)  # noqa: PERF402 - what was measured before something failed is kept
            except ProcessFailed as error:
                failed.append(f"{part}: {error}")
        rows.append(_others(yard))
    return rows, failed


def _others(yard: Yard) -> Row:
    """How far what was measured by the clock is to be trusted."""
    what = f"cores that others used meanwhile, of {os.cpu_count()}"
    return Row(
        "machine", what, note="the more, the longer everything takes by the clock", others={BARE: yard.disturbance}
    )


if __name__ == "__main__":
    sys.exit(main())
