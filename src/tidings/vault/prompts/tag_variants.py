"""Which tags may mean the same: found by their letters, for people to judge.

May import: nothing of Tidings.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Final, NamedTuple

_MOST: Final = 5000
"""How many tags are compared: the most used ones."""

_LONG_ENOUGH: Final = 5
"""Shorter words that differ in a letter are mostly different words."""


class Alike(NamedTuple):
    """Tags that may mean the same."""

    why: str
    tags: tuple[str, ...]
    """The most used first."""


def alike(counts: Mapping[str, int]) -> list[Alike]:
    """Groups of tags that may mean the same, the most used first.

    Args:
        counts: How many notes have each tag; the tags without `#`, in lower case.
    """
    tags = sorted(counts, key=lambda tag: (-counts[tag], tag))[:_MOST]
    found: list[Alike] = []
    told: set[frozenset[str]] = set()
    for why, groups in (
        ("written differently", _same(tags, _plain)),
        ("singular and plural", _same(tags, _singular)),
        ("one letter apart, perhaps misspelt", _near(tags)),
        ("same name, nested in different tags", _same(tags, _leaf)),
    ):
        for group in groups:
            pairs = {frozenset(pair) for pair in combinations(group, 2)}
            if not pairs <= told:
                told |= pairs
                found.append(Alike(why, tuple(group)))
    return sorted(found, key=lambda each: -sum(counts[tag] for tag in each.tags))


def _same(tags: Iterable[str], form: Callable[[str], str]) -> list[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for tag in tags:
        groups[form(tag)].append(tag)
    return [group for group in groups.values() if len(group) > 1]


def _plain(tag: str) -> str:
    """Without accents, hyphens and underscores."""
    letters = unicodedata.normalize("NFKD", tag)
    return "".join(each for each in letters if each not in "-_" and not unicodedata.combining(each))


def _singular(tag: str) -> str:
    plain = _plain(tag)
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if plain.endswith(ending) and len(plain) > len(ending) + 1:
            return plain.removesuffix(ending) + single
    return plain if plain.endswith("ss") or len(plain) < 4 else plain.removesuffix("s")


def _leaf(tag: str) -> str:
    return _plain(tag.rpartition("/")[2])


def _near(tags: Iterable[str]) -> list[list[str]]:
    """Pairs that are one letter apart. Who is, has a text in common once each has lost at most one letter."""
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for tag in tags:
        if len(tag) >= _LONG_ENOUGH:
            for shorter in {tag, *(tag[:at] + tag[at + 1 :] for at in range(len(tag)))}:
                buckets[shorter].append(tag)
    pairs = {pair for bucket in buckets.values() for pair in combinations(bucket, 2) if _one_apart(*pair)}
    return sorted(map(list, pairs))


def _one_apart(one: str, other: str) -> bool:
    """Whether one letter more, less or another, or two exchanged, make one the other. Numbers are no misspellings."""
    if re.findall(r"\d+", one) != re.findall(r"\d+", other) or one.count("/") != other.count("/"):
        return False
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    return (
        one[1:] == other[1:]
        or one[1:] == other
        or one == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )
