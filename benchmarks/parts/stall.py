"""What does a reader that stopped reading do to the others, and how does it end?

Besides what all hear, it alone hears of a URI so long that the system's buffers are soon full.
"""

import statistics
import time
from dataclasses import dataclass

from benchmarks.lab import Lab, Subject
from benchmarks.report import TIMES, Row, Target, say

SHARED = "bench://shared"
LONG = "bench://" + "x" * 4_000
FILL = 2_500
"""Times the length above: twice what Linux buffers for one connection."""

OTHERS = 100
WRITE_DEADLINE = 1.5
UNCHANGED = Target(1.25, "most", TIMES)
CUT = Target(1, "least")


@dataclass(frozen=True)
class Outcome:
    """What became of the stalled reader, and what the others paid."""

    cut: bool
    after: float
    told: bool
    ratio: float


def measure(lab: Lab) -> list[Row]:
    sdk = _stall(lab, "sdk-modern")
    tidings = _stall(lab, "tidings", "--write-deadline", str(WRITE_DEADLINE))
    return [
        Row(
            "stall",
            "stalled reader: the others' CPU a delivery",
            sdk=sdk.ratio,
            tidings=tidings.ratio,
            value=tidings.ratio,
            target=UNCHANGED,
            note="with / without it",
        ),
        Row(
            "stall",
            "stalled reader: cut off",
            sdk=_tell(sdk),
            tidings=_tell(tidings),
            value=float(tidings.cut and tidings.told),
            target=CUT,
            note=f"write deadline {WRITE_DEADLINE:g} s",
        ),
    ]


def _tell(outcome: Outcome) -> str:
    return f"after {outcome.after:.1f} s" if outcome.cut else "held open"


def _stall(lab: Lab, variant: str, *options: str) -> Outcome:
    say(f"stall: 1 stalled reader among {OTHERS} on {variant}")
    with lab.serve(variant, *options, name=f"stall-{variant}") as subject:
        subject.open("modern", [[SHARED]] * OTHERS)
        subject.cost(SHARED, streams=OTHERS, events=20)
        alone = _cost(lab, subject)
        subject.open("modern", [[SHARED, LONG]], group="-reader", receive_buffer=4096)
        lab.reader.ask("stall", group=subject.name + "-reader")
        subject.server.ask("publish", uris=[LONG], times=FILL)
        stalled = time.monotonic()
        beside = _cost(lab, subject)
        cut, after = _wait_for_cut(subject, stalled)
        subject.check()
        end = lab.reader.ask("resume", 20, group=subject.name + "-reader", within=1.5)
    # A graceful end would tell the reader that it has missed nothing.
    return Outcome(cut, after, told=bool(end["ended"]) and not end["results"], ratio=beside / alone)


def _cost(lab: Lab, subject: Subject) -> float:
    return statistics.median(
        subject.cost(SHARED, streams=OTHERS, events=2 * lab.size.events) for _ in range(lab.size.repetitions)
    )


def _wait_for_cut(subject: Subject, since: float) -> tuple[bool, float]:
    while (waited := time.monotonic() - since) < WRITE_DEADLINE + 1.5:
        if subject.server.ask("usage")["connections"] <= OTHERS:
            return True, waited
        time.sleep(0.1)
    return False, waited
