"""What does one delivery cost, and what does an open stream weigh?

All servers of one size run at the same time and are measured in turn, so that the machine's other work hits them all.
"""

from contextlib import ExitStack

from benchmarks.lab import Lab, Subject
from benchmarks.report import TIMES, Row, Target, say

URI = "bench://shared"
FASTER = {"modern": Target(7, "least", TIMES), "legacy": Target(12, "least", TIMES)}
LIGHT = {"modern": Target(20, "most", " KB"), "legacy": Target(40, "most", " KB")}
ERAS = {"modern": "modern era", "legacy": "legacy era"}
WARM_UP = 50


def measure(lab: Lab) -> list[Row]:
    return [row for streams in lab.size.streams for row in _measure(lab, streams)]


def _measure(lab: Lab, streams: int) -> list[Row]:
    with ExitStack() as stack:
        subjects: dict[str, dict[str, Subject]] = {}
        memory: dict[str, dict[str, float]] = {}
        for era, era_name in ERAS.items():
            for side, variant in (("sdk", f"sdk-{era}"), ("tidings", "tidings"), ("floor", "floor")):
                say(f"deliveries: {streams} streams of the {era_name} on {side}")
                subject = stack.enter_context(lab.serve(variant, name=f"{side}-{era}"))
                memory.setdefault(era, {})[side] = _open(subject, era, streams)
                subjects.setdefault(era, {})[side] = subject
        everyone = [subject for sides in subjects.values() for subject in sides.values()]
        for number in range(lab.size.repetitions):
            say(f"deliveries: {streams} streams, repetition {number + 1} of {lab.size.repetitions}")
            for subject in everyone:
                subject.samples.append(subject.cost(URI, streams=streams, events=lab.size.events))
        for subject in everyone:
            subject.check()
        return [row for era in ERAS for row in _rows(era, streams, subjects[era], memory[era])]


def _open(subject: Subject, era: str, streams: int) -> float:
    """Open the streams; returns kilobytes of the server for each."""
    # What is made once, with the first streams, is not the weight of a stream.
    subject.open(era, [[URI]] * WARM_UP)
    subject.publish_one(URI, WARM_UP)
    subject.close()
    before = subject.server.ask("memory")
    subject.open(era, [[URI]] * streams)
    subject.publish_one(URI, streams)
    after = subject.server.ask("memory")
    return (after["resident"] - before["resident"]) / streams / 1000


def _rows(era: str, streams: int, subjects: dict[str, Subject], memory: dict[str, float]) -> list[Row]:
    # A handful of streams fits into memory that the process has already.
    weighable = memory["sdk"] > 0
    cost = {side: subject.median for side, subject in subjects.items()}
    return [
        Row(
            "deliveries",
            f"CPU µs a delivery, {ERAS[era]}, {streams:,} streams",
            **cost,
            value=subjects["sdk"].times(subjects["tidings"]),
            target=FASTER[era],
            note="SDK / Tidings",
        ),
        Row(
            "deliveries",
            f"KB a stream, {ERAS[era]}, {streams:,} streams",
            **memory,
            value=memory["tidings"] if weighable else None,
            target=LIGHT[era] if weighable else None,
            note=f"{memory['tidings'] / memory['sdk']:.2f}{TIMES} the SDK's" if weighable else "",
        ),
    ]
