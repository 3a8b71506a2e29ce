"""Boosted decision trees, read from a file of numbers and made into Python functions.

A tree is written as a leaf (a number) or as `[feature, threshold, low, high]`: go `low` when the feature is at most the
threshold. The sum over all trees is the logarithm of the odds. Each sum is compiled to one function: a single
expression over local variables, which is several times as quick as walking the trees, and trees are much of the work.
The numbers are fitted elsewhere (`benchmarks/parts/web_fit.py`); nothing here can learn.
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
    features = "".join(f"f{number}, " for number in range(1 + max(map(_last, trees), default=-1)))
    written = "+".join(["0.0", *map(_written, trees)])
    names: dict[str, object] = {}
    # The text holds nothing but names of features and the numbers that `_written` wrote.
    exec(f"def total(row):\n [{features}*_] = row\n return {written}", names)  # noqa: S102
    return cast("Sum", names["total"])


def _last(tree: list[Any] | float) -> int:
    """The greatest number of a feature that a tree asks for."""
    return max(int(tree[0]), _last(tree[2]), _last(tree[3])) if isinstance(tree, list) else -1


def _written(tree: list[Any] | float) -> str:
    if not isinstance(tree, list):
        return f"({float(tree)!r})"
    feature, threshold, low, high = tree
    return f"({_written(low)} if f{int(feature)} <= {float(threshold)!r} else {_written(high)})"


def shares(groups: Sequence[Sum], row: Sequence[float]) -> list[float]:
    """A probability for each of the sums, one together."""
    powers = [math.exp(total(row)) for total in groups]
    whole = sum(powers)
    return [power / whole for power in powers]
