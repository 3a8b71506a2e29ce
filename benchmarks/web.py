"""The web server's extraction beside its peers: quality, pages a CPU second, memory.

    python -m benchmarks.web [--pages DIR] [--most N] [--quick] [--alone] [--cross TIMES] [--json FILE]

The pages whose content is known are no part of the repository; without them there is nothing to measure, and that is
said. A peer that cannot be installed is left out, and named. `--cross` also fits the model anew on parts of the pages
and scores it on the others (needs `lightgbm` and `numpy`): those are the figures that hold for pages nobody has seen.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.parts import web_quality
from benchmarks.parts.web_truth import HOME
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, conclude

QUICK = 60
"""Pages."""


def main(argv: list[str] | None = None) -> int:
    chosen = _parser().parse_args(argv)
    rows: list[Row] = []
    failed: list[str] = []
    try:
        most = chosen.most or (QUICK if chosen.quick else None)
        rows += web_quality.measure(chosen.pages, alone=chosen.alone, most=most)
        if rows and chosen.cross:
            rows += _crossed(chosen.pages, chosen.cross)
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
    parser.add_argument("--cross", type=int, default=0, metavar="TIMES", help="cross-validate, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser


def _crossed(home: Path, times: int) -> list[Row]:
    missing = [name for name in ("lightgbm", "numpy") if find_spec(name) is None]
    if missing:
        print(f"not cross-validated: install {' and '.join(missing)} with `pip install`", file=sys.stderr)
        return []
    from benchmarks.parts import web_fit

    overall, articles = web_fit.crossed(home, times)
    return [
        Row("quality", "word F1, cross-validated, kinds mixed as on the web", tidings=overall, value=overall,
            target=web_quality.OVERALL),
        Row("quality", "word F1, cross-validated, article pages", tidings=articles, value=articles,
            target=web_quality.ARTICLES),
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
