"""Fit the model that extraction chooses blocks with, and tell how good it is on pages it has not seen.

    python -m benchmarks.parts.web_fit --cross         # five folds by page: the figures that count
    python -m benchmarks.parts.web_fit --write         # fit on all pages and write learned.json

Needs `lightgbm` and `numpy`, which nothing else here does, and the pages of `web_truth`. All that is learned for a fold
(the worths of words, the kinds, the trees) is learned from the other folds' pages alone; and the worths and kinds that
the trees are fitted with are those that pages *other* than the one at hand give it, as it will be for new pages.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.parts.web_labels import labels
from benchmarks.parts.web_truth import HOME, SHARES, Known, pages, scores
from tidings.web.extract.dispatch import extract
from tidings.web.extract.html import choose
from tidings.web.extract.html.choose import Model, loaded
from tidings.web.extract.html.features import KINDS, NAMES, SHORT, WORD, block_features, page_features
from tidings.web.extract.html.page import HtmlPage, read_page
from tidings.web.extract.sniff import as_utf8

FOLDS = 5
SEED = 7
PRIOR = 3.0
"""How many pages of the usual worth each word is given beforehand."""
PAGES = 3
"""On how many pages a word must have been seen."""
BLOCKS = {
    "objective": "cross_entropy", "num_leaves": 15, "learning_rate": 0.06, "min_data_in_leaf": 100, "lambda_l2": 10,
    "feature_fraction": 0.3, "bagging_fraction": 0.7, "bagging_freq": 1, "num_threads": 1, "seed": 1, "verbose": -1,
}  # fmt: skip
TREES = 120
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

    def __init__(self, shares: Iterable[Share]) -> None:
        self._sums: dict[str, tuple[float, int]] = {}
        for share in shares:
            for word, value in share.items():
                total, number = self._sums.get(word, (0.0, 0))
                self._sums[word] = total + value, number + 1
        self._usual = sum(one[0] for one in self._sums.values()) / sum(one[1] for one in self._sums.values())
        self.all = {word: self._worth(*sums) for word, sums in self._sums.items() if sums[1] >= PAGES}

    def _worth(self, total: float, number: int) -> float:
        return round((total + PRIOR * self._usual) / (number + PRIOR), 2)

    def without(self, share: Share) -> Share:
        """As if the page with this share had not been there."""
        rest = dict(self.all)
        for word, value in share.items():
            total, number = self._sums[word]
            rest.pop(word, None)
            if number > PAGES:
                rest[word] = self._worth(total - value, number - 1)
        return rest


def folds(studied: Sequence[Studied], seed: int = SEED) -> list[list[Studied]]:
    """Parts of the pages with the kinds evenly spread."""
    dealt: list[list[Studied]] = [[] for _ in range(FOLDS)]
    draw = random.Random(seed)
    for kind in KINDS:
        of = [one for one in studied if one.known.kind == kind]
        draw.shuffle(of)
        for number, one in enumerate(of):
            dealt[number % FOLDS].append(one)
    return dealt


def fit(studied: Sequence[Studied]) -> dict[str, Any]:
    """The model as it is written to the file."""
    import numpy as np

    names, texts = Worths(one.names for one in studied), Worths(one.texts for one in studied)
    kinds = _kinds_from_others(studied)
    rows: list[list[float]] = []
    targets: list[float] = []
    weights: list[float] = []
    for one in studied:
        blocks = one.page.blocks
        read = block_features(blocks, names.without(one.names), texts.without(one.texts))
        size = sum(block.words for block in blocks.blocks)
        kept = max(50.0, sum(b.words * (y or 0) for b, y in zip(blocks.blocks, one.labels, strict=True)))
        # Each page counts about the same, a common kind somewhat more than a rare one.
        weight = (SHARES[one.known.kind] * len(SHARES)) ** 0.5 / (kept + 0.5 * (size - kept))
        for row, block, label in zip(read, blocks.blocks, one.labels, strict=True):
            if label is not None:
                rows.append([*row, *kinds[one.known.id]])
                targets.append(label)
                weights.append(block.words * weight)
    mean = sum(weights) / len(weights)
    trees = _boosted(BLOCKS, TREES, np.array(rows), targets, [weight / mean for weight in weights])
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
    """For each page the kinds it would be given by a model that has not seen it."""
    import numpy as np

    found: dict[str, list[float]] = {}
    dealt = folds(studied, SEED + 11)
    for fold in dealt:
        trees = _fit_kinds([one for other in dealt if other is not fold for one in other])
        for one, kinds in zip(fold, trees.predict(np.array([one.kind for one in fold])), strict=True):
            found[one.known.id] = list(kinds)
    return found


def _trees(booster: Any) -> list[Any]:
    return [_tree(one["tree_structure"]) for one in booster.dump_model()["tree_info"]]


def _tree(node: dict[str, Any]) -> Any:
    if "leaf_value" in node:
        return round(node["leaf_value"], 4)
    low, high = _tree(node["left_child"]), _tree(node["right_child"])
    return [node["split_feature"], float(f"{node['threshold']:.5g}"), low, high]


def cross(studied: Sequence[Studied], seed: int) -> dict[str, tuple[str, str]]:
    """For each page its text and its kind, found by a model fitted on the other folds."""
    found: dict[str, tuple[str, str]] = {}
    dealt = folds(studied, seed)
    for fold in dealt:
        model: Model = loaded(fit([one for other in dealt if other is not fold for one in other]))
        with mock.patch.object(choose, "model", lambda model=model: model):
            for one in fold:
                extracted = extract(one.known.body, "text/html", one.known.url)
                found[one.known.id] = extracted.text, extracted.kind
    return found


def crossed(home: Path, times: int) -> tuple[float, float]:
    """The mean score over the mix of kinds, and that over articles; printed in full on the way."""
    known = pages(home)
    studied = [study(one) for one in known]
    means: list[tuple[float, float]] = []
    for turn in range(times):
        found = cross(studied, SEED + turn)
        score = scores(known, lambda page, found=found: found[page.id][0])
        right = sum(found[page.id][1] == page.kind for page in known) / len(known)
        kinds = ", ".join(f"{kind} {value:.3f}" for kind, value in score.kinds.items())
        print(f"mean {score.flat:.4f}, mixed {score.mixed:.4f}, kinds right {right:.3f}; {kinds}", flush=True)
        means.append((score.mixed, score.kinds["article"]))
    return sum(one[0] for one in means) / times, sum(one[1] for one in means) / times


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.parts.web_fit", description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=Path, default=HOME, metavar="DIR")
    parser.add_argument("--cross", type=int, nargs="?", const=1, default=0, metavar="TIMES", help="cross-validate")
    parser.add_argument("--write", action="store_true", help="fit on all pages and write learned.json")
    chosen = parser.parse_args(argv)
    if not (chosen.pages / "truth.jsonl").is_file():
        print(f"there are no pages in {chosen.pages}", file=sys.stderr)
        return 2
    if chosen.cross:
        crossed(chosen.pages, chosen.cross)
    if chosen.write:
        target = Path(choose.__file__).parent / "learned.json"
        fitted = fit([study(one) for one in pages(chosen.pages)])
        lines = [f"{json.dumps(key)}:{_lines(value)}" for key, value in fitted.items()]
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    return 0


def _lines(value: Any) -> str:
    """Compact, but with a line for each tree, so that a new fit can be compared with the old one."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in value) + "\n]"
    return json.dumps(value, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    sys.exit(main())
