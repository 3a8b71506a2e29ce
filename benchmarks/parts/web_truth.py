"""Pages whose content is known, and how near an extraction comes to it: the F-measure of the words."""

import gzip
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    said: dict[str, str] = field(default_factory=dict[str, str])
    """Its title, author and publish_date, as far as they are known."""


def pages(home: Path = HOME) -> list[Known]:
    """All pages, or none if they are not there: a truth.jsonl beside gzipped HTML, or a checkout of the data set."""
    found: list[Known] = []
    for one, html in _rows(home):
        if html.is_file() and one.get("main_content"):
            said = {key: str(one.get(key) or "") for key in SAID}
            body = gzip.decompress(html.read_bytes())
            found.append(Known(one["id"], one["url"], one["page_type"], one["main_content"], body, said))
    return found


def _rows(home: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    truth = home / "truth.jsonl"
    if truth.is_file():
        for line in filter(None, truth.read_text("utf-8").split("\n")):
            one = json.loads(line)
            yield one, home / f"{one['id']}.html.gz"
    for file in sorted(home.rglob("ground-truth/*.json")):
        whole = json.loads(file.read_text("utf-8"))
        kind = whole.get("_internal", {}).get("page_type", {}).get("primary", "article")
        url = whole.get("url") or f"https://{file.stem}.invalid/"
        one = {**whole["ground_truth"], "id": file.stem, "url": url, "page_type": kind}
        yield one, file.parents[1] / "html" / f"{file.stem}.html.gz"


def site_of(url: str) -> str:
    host = (urlsplit(url).hostname or url).removeprefix("www.")
    return host if host.endswith(("co.uk", "com.au", "co.nz", "co.in")) else ".".join(host.split(".")[-2:])


def is_held_out(url: str) -> bool:
    """Whether a page is of the quarter of sites that nothing is tuned on."""
    return int(sha1(site_of(url).encode(), usedforsecurity=False).hexdigest(), 16) % 4 == 0


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def f1(extracted: str, content: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it stands there."""
    mine, theirs = Counter(words(extracted)), Counter(words(content))
    if not mine and not theirs:
        return 1.0
    shared = (mine & theirs).total()
    return 2 * shared / (mine.total() + theirs.total())


SAID = ("title", "author", "publish_date")


def agrees(key: str, found: str, known: str) -> bool:
    """Whether metadata is right: the words of a title, the names of authors in any order, the day of a date."""
    if key == "publish_date":
        return found[:10] == known[:10]
    if key == "author":
        return {*words(found)} - {"and"} == {*words(known)} - {"and"}
    return words(found) == words(known)


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
