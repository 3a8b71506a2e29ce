"""Fit the model that extraction chooses blocks with, and tell how good it is on sites it has not seen.

    python -m benchmarks.parts.web_fit --pages DIR --held   # fit on three quarters of the sites, score the others
    python -m benchmarks.parts.web_fit --pages DIR --write  # fit on all pages and write learned.json

DIR is a checkout of WCXB, the Web Content eXtraction Benchmark by Murrough Foley (CC-BY-4.0): `ground-truth/*.json`
beside `html/*.html.gz`; or a truth.jsonl beside the gzipped pages. The libraries are in the dependency group `fit`, and
pinned in requirements/fit.txt.

The worths of words and the kinds that the trees are fitted with are those that pages *other* than the one at hand give
it, as it will be for new pages. Each article is fitted a second time with other pages' teasers and comments put into
it (`web_graft`), which teaches that these are not content wherever they stand.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.parts.web_graft import grafted
from benchmarks.parts.web_labels import labels
from benchmarks.parts.web_truth import HOME, SHARES, Known, is_held_out, pages, scores, site_of
from tidings.web.extract.html import choose
from tidings.web.extract.html.choose import Model, loaded
from tidings.web.extract.html.features import KINDS, NAMES, SHORT, WORD, block_features, page_features
from tidings.web.extract.html.page import HtmlPage, read_page
from tidings.web.extract.pool import extract
from tidings.web.extract.sniff import as_utf8

FOLDS = 5
PRIOR = 3.0
"""How many pages of the usual worth each word is given beforehand."""
PAGES = 4
"""On how many pages a word of a name must have been seen; a word of a text on twice as many."""
BLOCKS = {
    "objective": "cross_entropy", "num_leaves": 15, "learning_rate": 0.06, "min_data_in_leaf": 100, "lambda_l2": 10,
    "feature_fraction": 0.3, "bagging_fraction": 0.7, "bagging_freq": 1, "num_threads": 1, "seed": 1, "verbose": -1,
}  # fmt: skip
TREES = 200
OF_KINDS = {
    "objective": "multiclass", "num_class": len(KINDS), "num_leaves": 7, "learning_rate": 0.1, "min_data_in_leaf": 8,
    "feature_fraction": 0.3, "bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "seed": 1, "verbose": -1,
}  # fmt: skip
KIND_TREES = 60

Share = dict[str, float]


@dataclass(frozen=True)
class Studied:
    """A page with all that does not depend on what was learned."""

    known: Known
    page: HtmlPage
    kind: list[float]
    labels: list[float | None]
    names: Share
    """For each word in the names of containers: the share of content in what stands under it."""
    texts: Share
    """For each word of short blocks: the share of content in the blocks that have it."""


def study(known: Known) -> Studied:
    page = read_page(as_utf8(known.body, None), known.url)
    found = labels([block.text for block in page.blocks.blocks], known.content)
    names: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    texts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for block, label in zip(page.blocks.blocks, found, strict=True):
        if label is None:
            continue
        above: set[str] = set()
        node = block.node
        while node is not None:
            above.update(node.names)
            node = node.parent
        _count(names, above, label, block.words)
        if block.words <= SHORT:
            _count(texts, WORD.findall(block.text.lower()), label, block.words)
    return Studied(known, page, page_features(page), found, _shares(names), _shares(texts))


def _count(sums: dict[str, list[float]], found: Iterable[str], label: float, size: int) -> None:
    for word in set(found):
        sums[word][0] += label * size
        sums[word][1] += size


def _shares(sums: dict[str, list[float]]) -> Share:
    return {word: kept / size for word, (kept, size) in sums.items()}


class Worths:
    """The worths of words over many pages, with or without one of them."""

    def __init__(self, shares: Iterable[Share], least: int = PAGES) -> None:
        self._least = least
        self._sums: dict[str, tuple[float, int]] = {}
        for share in shares:
            for word, value in share.items():
                total, number = self._sums.get(word, (0.0, 0))
                self._sums[word] = total + value, number + 1
        self._usual = sum(one[0] for one in self._sums.values()) / sum(one[1] for one in self._sums.values())
        self.all = {word: self._worth(*sums) for word, sums in self._sums.items() if sums[1] >= least}

    def _worth(self, total: float, number: int) -> float:
        return round((total + PRIOR * self._usual) / (number + PRIOR), 2)

    def without(self, share: Share) -> Share:
        """As if the page with this share had not been there."""
        rest = dict(self.all)
        for word, value in share.items():
            total, number = self._sums[word]
            rest.pop(word, None)
            if number > self._least:
                rest[word] = self._worth(total - value, number - 1)
        return rest


def fit(studied: Sequence[Studied]) -> dict[str, Any]:
    """The model as it is written to the file."""
    import numpy as np

    names, texts = Worths(one.names for one in studied), Worths((one.texts for one in studied), 2 * PAGES)
    kinds = _kinds_from_others(studied)
    rows: list[list[float]] = []
    targets: list[float] = []
    weights: list[float] = []
    of = {one.known.id: one for one in studied}
    again = [study(known) for known in grafted([(one.known, one.page, one.labels) for one in studied])]
    for one in [*studied, *again]:
        blocks, own = one.page.blocks, of[one.known.id]
        read = block_features(one.page, names.without(own.names), texts.without(own.texts))
        size = sum(block.words for block in blocks.blocks)
        kept = max(50.0, sum(b.words * (y or 0) for b, y in zip(blocks.blocks, one.labels, strict=True)))
        # Each page counts about the same, a common kind somewhat more than a rare one.
        weight = (SHARES[one.known.kind] * len(SHARES)) ** 0.5 / (kept + 0.25 * (size - kept))
        if one.known.kind == "article":
            weight /= 2  # It is there twice.
        for row, block, label in zip(read, blocks.blocks, one.labels, strict=True):
            if label is not None:
                rows.append([*row, *kinds[one.known.id]])
                targets.append(label)
                weights.append(block.words * weight)
    mean = sum(weights) / len(weights)
    trees = _boosted(BLOCKS, TREES, np.array(rows, np.float32), targets, [weight / mean for weight in weights])
    of_kinds = _trees(_fit_kinds(studied))
    return {
        "features": [*NAMES, *KINDS],
        "blocks": _trees(trees),
        "kinds": [of_kinds[number :: len(KINDS)] for number in range(len(KINDS))],
        "names": {word: round(value * 100) for word, value in sorted(names.all.items())},
        "texts": {word: round(value * 100) for word, value in sorted(texts.all.items())},
    }


def _boosted(settings: dict[str, Any], number: int, rows: Any, targets: Any, weights: Any = None) -> Any:
    import lightgbm

    return lightgbm.train(settings, lightgbm.Dataset(rows, targets, weight=weights), number)


def _fit_kinds(studied: Sequence[Studied]) -> Any:
    import numpy as np

    rows = np.array([one.kind for one in studied])
    return _boosted(OF_KINDS, KIND_TREES, rows, [KINDS.index(one.known.kind) for one in studied])


def _kinds_from_others(studied: Sequence[Studied]) -> dict[str, list[float]]:
    """For each page the kinds it would be given by a model that has not seen its site."""
    import numpy as np

    found: dict[str, list[float]] = {}
    sites = sorted({site_of(one.known.url) for one in studied})
    for fold in range(FOLDS):
        inside = set(sites[fold::FOLDS])
        part = [one for one in studied if site_of(one.known.url) in inside]
        trees = _fit_kinds([one for one in studied if site_of(one.known.url) not in inside])
        for one, kinds in zip(part, trees.predict(np.array([one.kind for one in part])), strict=True):
            found[one.known.id] = list(kinds)
    return found


def _trees(booster: Any) -> list[Any]:
    return [_tree(one["tree_structure"]) for one in booster.dump_model()["tree_info"]]


def _tree(node: dict[str, Any]) -> Any:
    if "leaf_value" in node:
        return round(node["leaf_value"], 3)
    low, high = _tree(node["left_child"]), _tree(node["right_child"])
    return [node["split_feature"], float(f"{node['threshold']:.4g}"), low, high]


def write(fitted: dict[str, Any], target: Path) -> None:
    lines = [f"{json.dumps(key)}:{_lines(value)}" for key, value in fitted.items()]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def fit_without_held_out(home: Path, target: Path) -> list[Known]:
    """Fit on the sites that are not held out; returns the pages of those that are."""
    known = pages(home)
    write(fit([study(one) for one in known if not is_held_out(one.url)]), target)
    return [one for one in known if is_held_out(one.url)]


def report(known: Sequence[Known], model: Model) -> None:
    """Print the scores of a model on these pages."""
    with mock.patch.object(choose, "model", return_value=model):
        found = {one.id: extract(one.body, "text/html", one.url) for one in known}
    score = scores(known, lambda page: found[page.id].text)
    right = sum(found[page.id].kind == page.kind for page in known) / len(known)
    kinds = ", ".join(f"{kind} {value:.3f}" for kind, value in score.kinds.items())
    print(f"{len(known)} pages: F1 {score.flat:.4f}, kinds right {right:.3f}; {kinds}", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.parts.web_fit", description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=Path, default=HOME, metavar="DIR")
    parser.add_argument("--held", action="store_true", help="fit without a quarter of the sites, and score those")
    parser.add_argument("--write", action="store_true", help="fit on all pages and write learned.json")
    chosen = parser.parse_args(argv)
    if not (known := pages(chosen.pages)):
        print(f"there are no pages in {chosen.pages}", file=sys.stderr)
        return 2
    if chosen.held:
        with TemporaryDirectory() as folder:
            target = Path(folder) / "learned.json"
            held = fit_without_held_out(chosen.pages, target)
            report(held, loaded(json.loads(target.read_text("utf-8"))))
    if chosen.write:
        write(fit([study(one) for one in known]), Path(choose.__file__).parent / "learned.json")
    return 0


def _lines(value: Any) -> str:
    """Compact, but with a line for each tree, so that a new fit can be compared with the old one."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in value) + "\n]"
    return json.dumps(value, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    sys.exit(main())
