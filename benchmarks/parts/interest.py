"""Does an event cost more because others, who do not want it, are there?

Each stream has a URI of its own. The same few URIs are published with few and with many streams open: what differs is
only the number of those who are not interested.
"""

from contextlib import ExitStack

from benchmarks.lab import MICRO, Lab, Subject
from benchmarks.report import TIMES, Row, Target, say

FEW, MANY, PUBLISHED = 100, 1000, 50
INDEPENDENT = Target(1.2, "most", TIMES)


def measure(lab: Lab) -> list[Row]:
    with ExitStack() as stack:
        subjects: dict[str, dict[int, Subject]] = {}
        for variant in ("sdk-modern", "tidings"):
            for streams in (FEW, MANY):
                say(f"interest: {streams} streams with a URI each on {variant}")
                subject = stack.enter_context(lab.serve(variant, name=f"interest-{variant}-{streams}"))
                subject.open("modern", [[f"bench://own/{number}"] for number in range(streams)])
                subjects.setdefault(variant, {})[streams] = subject
        everyone = [subject for sizes in subjects.values() for subject in sizes.values()]
        for number in range(lab.size.repetitions + 1):
            say(f"interest: repetition {number} of {lab.size.repetitions}")
            for subject in everyone:
                cost = _cost(subject, lab.size.interest)
                if number:  # the first round warms up
                    subject.samples.append(cost)
        for subject in everyone:
            subject.check()
    return _rows(subjects)


def _cost(subject: Subject, events: int) -> float:
    before = subject.cpu()
    # No pause in between: its cost would be the same with few and many streams, and hide a difference.
    subject.publish_many([f"bench://own/{number}" for number in range(PUBLISHED)], events, events, pause=False)
    return (subject.cpu() - before) / events * MICRO


def _rows(subjects: dict[str, dict[int, Subject]]) -> list[Row]:
    sdk, tidings = subjects["sdk-modern"], subjects["tidings"]
    rows = [
        Row("interest", f"CPU µs an event for 1 of {n:,} streams", sdk=sdk[n].median, tidings=tidings[n].median)
        for n in (FEW, MANY)
    ]
    rows[-1] = Row(
        "interest",
        rows[-1].what,
        sdk=rows[-1].sdk,
        tidings=rows[-1].tidings,
        value=tidings[MANY].times(tidings[FEW]),
        target=INDEPENDENT,
        note=f"Tidings, {MANY:,} / {FEW} streams (SDK: {sdk[MANY].times(sdk[FEW]):.1f}{TIMES})",
    )
    return rows
