"""The web server's extraction beside its peers: quality, pages a CPU second, memory. And its watching.

    python -m benchmarks.web [--pages DIR] [--most N] [--quick] [--alone] [--held] [--json FILE]
    python -m benchmarks.web --watching [--pages DIR] [--mode MODE] [--most N] [--rounds N] [--tuned] [--json FILE]

The pages whose content is known are no part of the repository; without them there is nothing to measure, and that is
said. A peer that cannot be installed is left out, and named. `--held` fits the model anew on three quarters of the
sites (needs requirements/fit.txt), and measures everything on the pages of the others: those are the figures that hold
for pages nobody has seen.

`--watching` follows so many pages of that collection, and as many made ones, and counts the changes that are missed and
the alarms that are false: with one process, through restarts, and with two processes on one store, or in one of these
modes. The pages are of the half of the sites that nothing was tuned on; `--tuned` takes the other half.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.parts import web_quality, web_watching
from benchmarks.parts.web_truth import HOME, is_held_out, pages
from benchmarks.parts.web_worker import METHODS
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, conclude, say

QUICK = 60
"""Pages."""


def main(argv: list[str] | None = None) -> int:
    chosen = _parser().parse_args(argv)
    rows: list[Row] = []
    failed: list[str] = []
    try:
        if chosen.watching:
            most = chosen.most or (QUICK if chosen.quick else web_watching.PAGES)
            modes = [chosen.mode] if chosen.mode else web_watching.MODES
            rows = web_watching.measure(chosen.pages, modes, most=most, rounds=chosen.rounds, unseen=not chosen.tuned)
            return conclude(rows, failed, chosen.json)
        most = chosen.most or (QUICK if chosen.quick else None)
        with TemporaryDirectory() as folder:
            model = _fitted(chosen.pages, Path(folder)) if chosen.held else None
            rows += web_quality.measure(chosen.pages, alone=chosen.alone, most=most, model=model)
        if rows and not chosen.alone:
            rows.append(_stability(chosen.pages, most or QUICK))
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
    parser.add_argument("--watching", action="store_true", help="measure the watching of pages instead")
    parser.add_argument("--mode", choices=web_watching.MODES, help="with --watching: in this mode alone")
    parser.add_argument("--rounds", type=int, default=13, metavar="N", help="with --watching: alter pages so often")
    parser.add_argument("--tuned", action="store_true", help="with --watching: pages of the other half of the sites")
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


def _stability(home: Path, most: int) -> Row:
    """The share of articles whose text differs when only a list of teasers does."""
    from benchmarks.parts.web_graft import with_two_teasers
    from benchmarks.parts.web_labels import labels
    from tidings.web.extract.html.page import read_page
    from tidings.web.extract.sniff import as_utf8

    articles = [one for one in pages(home) if one.kind == "article" and is_held_out(one.url)][:most]
    read = [(one, read_page(as_utf8(one.body, None), one.url)) for one in articles]
    labelled = [(one, page, labels([block.text for block in page.blocks.blocks], one.content)) for one, page in read]
    pairs = list(with_two_teasers(labelled))

    def differing(method: str) -> float | None:
        texts = METHODS[method]
        return sum(texts(one) != texts(other) for one, other in pairs) / len(pairs) if pairs else None

    others: dict[str, Cell] = {"trafilatura": differing("trafilatura") if find_spec("trafilatura") else None}
    what = "share of articles whose text differs with a list of teasers"
    return Row("quality", what, tidings=differing("tidings"), others=others)


if __name__ == "__main__":
    raise SystemExit(main())
