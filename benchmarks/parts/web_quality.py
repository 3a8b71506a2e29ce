"""How good is extraction, what does a page cost, and how much memory does it take: beside the libraries people use.

Each runs in a process of its own, the peers with nothing installed but what they need. All are up at the same time and
take each page in turn, so that whoever else is busy on the machine is so for all of them. What counts is CPU time,
parsing included, after a first page that is not counted; and the most memory the process held, above what it held
before.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.installing import NotInstalled, from_pypi
from benchmarks.parts.web_truth import Known, Scores, is_held_out, mean_scores, pages
from benchmarks.process import Process, ProcessFailed
from benchmarks.report import Cell, Row, Target, leave_out, say

OVERALL = Target(0.88, "least")
ARTICLES = Target(0.95, "least")
SPEED = Target(50, "least", "/s")
RATIO = Target(2, "least", "\N{MULTIPLICATION SIGN}")
PEERS = {
    "trafilatura": "2.3.1",
    "resiliparse": "1.1.0",
    "readability-lxml": "0.9",
    "mcp-server-fetch": "2026.10.24",
}
"""By their names at PyPI, with the versions that are measured."""
REFERENCE = {"trafilatura": 30.0, "resiliparse": 510.0, "readability-lxml": 35.0}
"""Pages a CPU second that these made, on pages of the same kinds, on the machine that the target was set on. What they
make here says what a CPU second is worth here.
"""
EVERY = {"mcp-server-fetch": 8}
"""It starts node for each page, which takes seconds: it is given one page of so many."""
_PATIENCE = 120.0
"""Seconds for a page; and for a start, which reads all pages."""


@dataclass
class Measured:
    """What one method did with all pages."""

    took: float = 0.0
    memory: float = 0.0
    scores: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    said: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    def figures(self) -> dict[str, float]:
        score: Scores = mean_scores(self.scores)
        speed = len(self.scores) / self.took if self.took else 0.0
        said = {key: [right for name, right in self.said if name == key] for key, _ in self.said}
        shares = {key: sum(rights) / len(rights) for key, rights in said.items()}
        return {
            "flat": score.flat,
            "mixed": score.mixed,
            **score.kinds,
            **shares,
            "speed": speed,
            "memory": self.memory,
        }


def measure(home: Path, *, alone: bool = False, most: int | None = None, model: Path | None = None) -> list[Row]:
    """The rows of everything that is there; none, with a word, where there are no pages. With a model that was fitted
    without some sites, only their pages are read.
    """
    known = [(n, page) for n, page in enumerate(pages(home)) if model is None or is_held_out(page.url)][:most]
    if not known:
        print(
            f"quality is not measured: there are no pages in {home}. Give a folder with --pages or in "
            "TIDINGS_WEB_PAGES: WCXB's development set has them, a truth.jsonl beside gzipped HTML.",
            file=sys.stderr,
        )
        return []
    with ExitStack() as stack:
        tidings = stack.enter_context(_started("tidings", home, model=model))
        processes = {"tidings": tidings}
        for name in () if alone else PEERS:
            if (peer := _peer(name, home)) is not None:
                processes[name] = stack.enter_context(peer)
        found = _in_turn(processes, known)
    return rows({name: measured.figures() for name, measured in found.items()}, judged=model is not None)


def _started(name: str, home: Path, python: str | Path = sys.executable, model: Path | None = None) -> Process:
    process = Process("benchmarks.parts.web_worker", name, str(home), *([str(model)] if model else []), python=python)
    try:
        process.answer(_PATIENCE)
    except ProcessFailed:
        process.stop()
        raise
    return process


def _peer(name: str, home: Path) -> Process | None:
    try:
        return _started(name, home, from_pypi(name, PEERS[name]))
    except (NotInstalled, ProcessFailed) as why:
        leave_out(name, why)
        return None


def _in_turn(processes: dict[str, Process], known: Sequence[tuple[int, Known]]) -> dict[str, Measured]:
    found: dict[str, Measured] = defaultdict(Measured)
    for number, (place, page) in enumerate(known):
        if number % 20 == 0:
            say(f"quality: page {number + 1:,} of {len(known):,}")
        for name, process in processes.items():
            if number % EVERY.get(name, 1):
                continue
            answer = process.ask("read", _PATIENCE, page=place)
            measured = found[name]
            measured.took += answer["took"]
            measured.memory = answer["memory"]
            measured.scores.append((page.kind, answer["score"]))
            measured.said += answer["said"].items()
    return found


_METADATA = {"title": "titles", "author": "authors", "publish_date": "dates of publication"}
_OTHERS = {"flat", "mixed", "speed", "memory", *_METADATA}


def rows(found: dict[str, dict[str, float]], *, judged: bool = False) -> list[Row]:
    """One row for each figure; the scores of a model that was fitted on these pages flatter, and are not judged."""
    said = {
        "flat": "word F1, mean over pages",
        "mixed": "word F1, kinds mixed as on the web",
        **{kind: f"word F1, {kind} pages" for kind in sorted(set(found["tidings"]) - _OTHERS)},
        **{
            key: f"{what} that are right, where they are known"
            for key, what in _METADATA.items()
            if key in found["tidings"]
        },
        "speed": "pages a CPU second",
        "memory": "MB at most",
    }
    pace = _pace(found)
    made: list[Row] = []
    for key, what in said.items():
        others: dict[str, Cell] = {name: of.get(key) for name, of in found.items() if name != "tidings"}
        value = found["tidings"][key]
        target = SPEED if key == "speed" and pace is None else None
        target = {"flat": OVERALL, "article": ARTICLES}.get(key, target) if judged else target
        note = "" if judged or key in {"speed", "memory", *_METADATA} else "fitted on these pages: not judged"
        made.append(
            Row(
                "quality", what, tidings=value, value=value if target else None, target=target, note=note, others=others
            )
        )
    if pace is not None:
        speed, what = found["tidings"]["speed"], "pages a CPU second, on the machine the target is of"
        note = f"a CPU second here is worth {pace:.2f} of one there, by {', '.join(REFERENCE)}"
        made.append(Row("quality", what, value=speed / pace, target=SPEED, note=note))
    if "trafilatura" in found and found["trafilatura"]["speed"]:
        ratio = found["tidings"]["speed"] / found["trafilatura"]["speed"]
        made.append(Row("quality", "pages a CPU second, against trafilatura's", value=ratio, target=RATIO))
    return made


def _pace(found: dict[str, dict[str, float]]) -> float | None:
    """How much a CPU second does here of what it did where the target was set; None unless all are there to say."""
    shares = [found[name]["speed"] / there for name, there in REFERENCE.items() if found.get(name, {}).get("speed")]
    return median(shares) if len(shares) == len(REFERENCE) else None
