"""Measures what the wheel with its extras downloads and puts on the disk, and how long that takes, beside the SDK.

    python -m benchmarks.install [--only EXTRA] [--quick] [--json FILE]

Each is installed by pip into an environment of its own, with nothing cached; what an environment has before does not
count. Prints a table; the exit code is 0 if every target is met, 1 if one is missed, 2 if something could not be
installed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.installing import NotInstalled
from benchmarks.installing import run as install
from benchmarks.process import ROOT
from benchmarks.report import TIMES, Row, Target, conclude, say

BASE: Final = "base"
EXTRAS: Final = (BASE, *tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
QUICK: Final = (BASE, "all")
LITTLE_MORE: Final = Target(1.25, "most", TIMES)
SMALL: Final = {"all": Target(40, "most", " MB")}


@dataclass(frozen=True)
class Weight:
    """What an installation came to."""

    packages: int
    downloaded: float
    """In MB."""
    disk: float
    """In MB, with what Python compiles."""
    seconds: float


def weigh(what: str, scratch: Path) -> Weight:
    """Install it where nothing is.

    Raises:
        NotInstalled: pip cannot.
    """
    home, downloads = scratch / "venv", scratch / "downloads"
    venv.create(home, with_pip=True, clear=True)
    python = str(home / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    install([python, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--dest", str(downloads), what])
    before, began = _size(home), time.monotonic()
    install([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", what])
    seconds = time.monotonic() - began
    return Weight(len(list(downloads.iterdir())), _size(downloads), _size(home) - before, seconds)


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measure(extras: Sequence[str]) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        try:
            say("the wheel")
            wheel = _wheel(scratch)
            say("the SDK alone")
            sdk = weigh("mcp", scratch / "sdk")
        except (NotInstalled, subprocess.CalledProcessError) as error:
            return [], [str(error)]
        rows.append(Row("wheel", "MB of the wheel", tidings=wheel.stat().st_size / 1e6))
        for extra in extras:
            say(extra)
            try:
                found = weigh(str(wheel) if extra == BASE else f"{wheel}[{extra}]", scratch / extra)
            except NotInstalled as error:
                failed.append(f"{extra}: {error}")
            else:
                rows += _rows(extra, found, sdk)
    return rows, failed


def _wheel(scratch: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(scratch), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = scratch.glob("*.whl")
    return wheel


def _rows(extra: str, found: Weight, sdk: Weight) -> list[Row]:
    beside = sdk if extra == BASE else None
    ratio = found.downloaded / sdk.downloaded
    return [
        Row(
            extra,
            f"MB downloaded, {extra}",
            sdk=beside and beside.downloaded,
            tidings=found.downloaded,
            value=ratio if extra == BASE else found.downloaded if extra in SMALL else None,
            target=LITTLE_MORE if extra == BASE else SMALL.get(extra),
            note="Tidings / SDK" if extra == BASE else "",
        ),
        Row(extra, f"MB on the disk, {extra}", sdk=beside and beside.disk, tidings=found.disk),
        Row(extra, f"packages, {extra}", sdk=beside and beside.packages, tidings=found.packages),
        Row(extra, f"s by the clock, {extra}", sdk=beside and beside.seconds, tidings=found.seconds),
    ]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.install", description="What each extra weighs, and how long it takes.")
    parser.add_argument("--only", choices=EXTRAS, action="append", help="one extra (again for more)")
    parser.add_argument("--quick", action="store_true", help=f"{' and '.join(QUICK)} alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    chosen = parser.parse_args(argv)
    rows, failed = measure(chosen.only or (QUICK if chosen.quick else EXTRAS))
    return conclude(rows, failed, chosen.json)


if __name__ == "__main__":
    sys.exit(main())
