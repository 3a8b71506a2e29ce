"""Pages whose content is known, and how near an extraction comes to it: the F-measure of the words."""

import gzip
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

HOME = Path(os.environ.get("TIDINGS_WEB_PAGES") or Path(__file__).parents[3] / "shared" / "data" / "wcxb-dev")
"""Where the pages are by default; they are no part of this repository."""

SHARES = {
    "article": 0.530,
    "service": 0.110,
    "product": 0.079,
    "collection": 0.078,
    "forum": 0.076,
    "listing": 0.066,
    "documentation": 0.061,
}
"""How the kinds are mixed in the whole benchmark; the pages here are about as many of each."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    """A page and what a reader would call its content."""

    id: str
    url: str
    kind: str
    content: str
    body: bytes


def pages(home: Path = HOME) -> list[Known]:
    """All pages, or none if they are not there."""
    truth = home / "truth.jsonl"
    if not truth.is_file():
        return []
    found: list[Known] = []
    for line in filter(None, truth.read_text("utf-8").split("\n")):
        one = json.loads(line)
        body = gzip.decompress((home / f"{one['id']}.html.gz").read_bytes())
        found.append(Known(one["id"], one["url"], one["page_type"], one["main_content"], body))
    return found


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def f1(extracted: str, content: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it stands there."""
    mine, theirs = Counter(words(extracted)), Counter(words(content))
    if not mine and not theirs:
        return 1.0
    shared = (mine & theirs).total()
    return 2 * shared / (mine.total() + theirs.total())


@dataclass(frozen=True)
class Scores:
    """The mean over all pages, over each kind, and over the mix of the whole benchmark."""

    flat: float
    mixed: float
    kinds: dict[str, float]


def scores(known: Iterable[Known], extracted: Callable[[Known], str]) -> Scores:
    return mean_scores((page.kind, f1(extracted(page), page.content)) for page in known)


def mean_scores(of: Iterable[tuple[str, float]]) -> Scores:
    """The means of scores that are given with the kinds of their pages."""
    found: dict[str, list[float]] = defaultdict(list)
    for kind, value in of:
        found[kind].append(value)
    kinds = {kind: sum(values) / len(values) for kind, values in found.items()}
    everything = [value for values in found.values() for value in values]
    share = sum(SHARES[kind] for kind in kinds)
    return Scores(
        sum(everything) / len(everything), sum(SHARES[kind] * value for kind, value in kinds.items()) / share, kinds
    )
