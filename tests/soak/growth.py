"""The growth of a process: samples of what it holds, and the verdict on their slopes."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

MOST_SAMPLES = 200
"""More are thinned out: every pair of them is compared."""


@dataclass(frozen=True)
class Bound:
    """How much a measure may rise: beyond both, it grows."""

    per_hour: float
    at_least: float
    """Within the time that is judged. Less is noise, in a short run."""


BOUNDS: Mapping[str, Bound] = {
    "MB": Bound(20, 4),  # Memory that is the process's own, and that of its children.
    "files": Bound(20, 4),
    "tasks": Bound(20, 6),
    "threads": Bound(10, 3),
    "disk MB": Bound(60, 8),
}


@dataclass(frozen=True)
class Trend:
    """The course of one measure, after the warm-up."""

    measure: str
    last: float
    per_hour: float
    """The median of the slopes of all pairs of samples (Theil-Sen): outliers do not count."""
    grows: bool


def trend(measure: str, samples: Sequence[tuple[float, float]], bound: Bound) -> Trend:
    """Judges the second half of some samples, each a time in seconds and a value: the first is the warm-up.

    A measure grows if its slope is beyond the bound, and three of four pairs of samples agree that it rises.
    """
    judged = samples[len(samples) // 2 :]
    judged = judged[:: -(-len(judged) // MOST_SAMPLES)]
    slopes = [(later[1] - first[1]) / (later[0] - first[0]) for first, later in combinations(judged, 2)]
    if len(slopes) < 3:
        raise ValueError(f"{len(samples)} samples of {measure} are too few to judge them")
    quartile, slope, _ = statistics.quantiles(slopes, n=4)
    rise = slope * (judged[-1][0] - judged[0][0])
    grows = quartile > 0 and slope * 3600 > bound.per_hour and rise > bound.at_least
    return Trend(measure, judged[-1][1], slope * 3600, grows)


def trends(samples: Sequence[Mapping[str, float]], bounds: Mapping[str, Bound] = BOUNDS) -> list[Trend]:
    """Judges everything that was sampled of a process, by the time `at`."""
    return [trend(name, [(each["at"], each[name]) for each in samples], bound) for name, bound in bounds.items()]


def table(found: Mapping[str, Sequence[Trend]]) -> str:
    """Returns a line for each process: the last value of each measure, and its rise per hour; what grows is marked."""
    lines = [["process", *BOUNDS]]
    for process, measures in found.items():
        cells = [f"{each.last:.1f} ({each.per_hour:+.1f}/h){' GROWS' if each.grows else ''}" for each in measures]
        lines.append([process, *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(row.rstrip() for row in rows)
