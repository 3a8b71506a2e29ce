"""Boosted decision trees, read from a file of numbers and evaluated in plain Python.

A tree is a leaf (a number) or a tuple `(feature, threshold, low, high)`: go `low` when the feature is at most the
threshold. The sum over all trees is the logarithm of the odds. The numbers are fitted elsewhere
(`benchmarks/parts/web_fit.py`); nothing here can learn.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tidings.web.extract.features import NAMES
from tidings.web.extract.kinds import KINDS

Tree = Any
"""A leaf or `(feature, threshold, low, high)`, nested: too deep for a type checker, and too hot for objects."""


@dataclass(frozen=True)
class Model:
    """All that was learned: trees for blocks, trees for each kind of page, and the worths of words."""

    blocks: tuple[Tree, ...]
    kinds: tuple[tuple[Tree, ...], ...]
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
        blocks=tuple(map(_tree, written["blocks"])),
        kinds=tuple(tuple(map(_tree, trees)) for trees in written["kinds"]),
        names={word: value / 100 for word, value in written["names"].items()},
        texts={word: value / 100 for word, value in written["texts"].items()},
    )


def _tree(written: list[Any] | float) -> Tree:
    if isinstance(written, list):
        feature, threshold, low, high = written
        return (feature, threshold, _tree(low), _tree(high))
    return float(written)


def total(trees: Sequence[Tree], row: Sequence[float]) -> float:
    """The sum of the leaves that `row` leads to."""
    found = 0.0
    for tree in trees:
        node = tree
        while node.__class__ is tuple:
            node = node[2] if row[node[0]] <= node[1] else node[3]
        found += node
    return found


def shares(groups: Sequence[Sequence[Tree]], row: Sequence[float]) -> list[float]:
    """A probability for each group of trees, one in sum."""
    powers = [math.exp(total(trees, row)) for trees in groups]
    whole = sum(powers)
    return [power / whole for power in powers]
