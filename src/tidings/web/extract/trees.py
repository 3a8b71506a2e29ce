"""Boosted decision trees, read from a file of numbers and made into Python functions.

A tree is written as a leaf (a number) or as `[feature, threshold, low, high]`: go `low` when the feature is at most the
threshold. The sum over all trees is the logarithm of the odds. Each sum is compiled to one function of nested
conditions, which is twice as quick as walking the trees, and trees are much of the work. The numbers are fitted
elsewhere (`benchmarks/parts/web_fit.py`); nothing here can learn.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast

from tidings.web.extract.features import NAMES
from tidings.web.extract.kinds import KINDS

Sum = Callable[[Sequence[float]], float]
"""The sum of the leaves that the features given lead to."""


@dataclass(frozen=True)
class Model:
    """All that was learned: trees for blocks, trees for each kind of page, and the worths of words."""

    blocks: Sum
    kinds: tuple[Sum, ...]
    names: dict[str, float]
    texts: dict[str, float]


@cache
def model() -> Model:
    """The model that belongs to this version."""
    text = resources.files(__package__ or "").joinpath("learned.json").read_text("utf-8")
    return loaded(json.loads(text))


def loaded(written: dict[str, Any]) -> Model:
    """A model as `web_fit` writes it."""
    if written["features"] != [*NAMES, *KINDS]:
        raise ValueError("the model was fitted with other features: fit it again (benchmarks/parts/web_fit.py)")
    return Model(
        blocks=compiled(written["blocks"]),
        kinds=tuple(map(compiled, written["kinds"])),
        names={word: value / 100 for word, value in written["names"].items()},
        texts={word: value / 100 for word, value in written["texts"].items()},
    )


def compiled(trees: Sequence[list[Any] | float]) -> Sum:
    """One function for the sum of `trees`."""
    lines = [
        "def total(row):",
        " found = 0.0",
        *(line for tree in trees for line in _lines(tree, " ")),
        " return found",
    ]
    names: dict[str, object] = {}
    exec("\n".join(lines), names)  # noqa: S102 - the lines hold nothing but the numbers that `_lines` wrote
    return cast("Sum", names["total"])


def _lines(tree: list[Any] | float, indent: str) -> list[str]:
    if not isinstance(tree, list):
        return [f"{indent}found += {float(tree)!r}"]
    feature, threshold, low, high = tree
    return [
        f"{indent}if row[{int(feature)}] <= {float(threshold)!r}:",
        *_lines(low, indent + " "),
        f"{indent}else:",
        *_lines(high, indent + " "),
    ]


def shares(groups: Sequence[Sum], row: Sequence[float]) -> list[float]:
    """A probability for each of the sums, one together."""
    powers = [math.exp(total(row)) for total in groups]
    whole = sum(powers)
    return [power / whole for power in powers]
