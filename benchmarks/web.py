"""The web server's extraction beside its peers: quality, pages a CPU second, memory.

    python -m benchmarks.web [--pages DIR] [--most N] [--quick] [--alone] [--held] [--json FILE]

The pages whose content is known are no part of the repository; without them there is nothing to measure, and that is
said. A peer that cannot be installed is left out, and named. `--held` fits the model anew on three quarters of the
sites (needs requirements/fit.txt), and measures everything on the pages of the others: those are the figures that hold
for pages nobody has seen.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.parts import web_quality
from benchmarks.parts.web_truth import HOME
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude, say

QUICK = 60
"""Pages."""


def main(argv: list[str] | None = None) -> int:
    chosen = _parser().parse_args(argv)
    rows: list[Row] = []
    failed: list[str] = []
    try:
        most = chosen.most or (QUICK if chosen.quick else None)
        with TemporaryDirectory() as folder:
            model = _fitted(chosen.pages, Path(folder)) if chosen.held else None
            rows += web_quality.measure(chosen.pages, alone=chosen.alone, most=most, model=model)
    except ProcessFailed as error:
        failed.append(str(error))
    if not rows and not failed:
        return 0
    return conclude(rows, failed, chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("benchmarks.web", description="Extraction beside its peers.")
    parser.add_argument("--pages", type=Path, default=HOME, metavar="DIR", help="pages with their truth.jsonl")
    parser.add_argument("--most", type=int, metavar="N", help="no more than so many pages")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} pages")
    parser.add_argument("--alone", action="store_true", help="without the peers; nothing is installed")
    parser.add_argument("--held", action="store_true", help="fit without a quarter of the sites, and measure those")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _fitted(home: Path, folder: Path) -> Path | None:
    """A model that has not seen the sites that are held out; None where it cannot be fitted."""
    missing = [name for name in ("lightgbm", "numpy") if find_spec(name) is None]
    if missing:
        print(f"not fitted anew: install {' and '.join(missing)} (requirements/fit.txt)", file=sys.stderr)
        return None
    from benchmarks.parts import web_fit

    say("quality: fitting without the sites that are held out")
    web_fit.fit_without_held_out(home, folder / "learned.json")
    return folder / "learned.json"


if __name__ == "__main__":
    raise SystemExit(main())
