"""Can one process hold 20,000 streams, reach each of them soon, and end each of them in good order?"""

import time

from benchmarks.lab import MICRO, DeliveryLost, Lab, Subject
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, Target, say

URI = "bench://crowd"
SPARE_FILES = 200
CHANGES = 5
LIGHT = Target(20, "most", " KB")
SOON = Target(300, "most", " ms")


def measure(lab: Lab) -> list[Row]:
    streams = min(lab.size.crowd, lab.open_files - SPARE_FILES)
    what, target = f"streams open at once, each with its deliveries, of {streams:,}", Target(streams, "least")
    note = "" if streams == lab.size.crowd else f"the limit on open files here is {lab.open_files:,}"
    say(f"crowd: {streams:,} streams on one process")
    with lab.serve("tidings", name="crowd") as subject:
        before = subject.server.ask("memory")["resident"]
        try:
            subject.open("modern", [[URI]] * streams, parse_later=True)
            start = subject.cpu()
            late = [_deliver(lab, subject, streams) for _ in range(CHANGES)]
            cost = (subject.cpu() - start) / (CHANGES * streams) * MICRO
            subject.check()
        except (DeliveryLost, ProcessFailed) as error:
            return [Row("crowd", what, value=0, target=target, note=str(error))]
        reached = lab.reader.ask("counts", group="crowd")
        weight = (subject.server.ask("memory")["resident"] - before) / streams / 1000
        # To end 10,000 streams may take a second more than to end a few.
        within = Target(1 + streams / 10_000, "most", " s")
        seconds = subject.server.terminate(10 * within.bound)
        results: int = lab.reader.ask("counts", group="crowd")["results"]
    whole = reached["streams"] if reached["least"] == reached["most"] == CHANGES else 0
    p99 = sorted(late)[CHANGES // 2]
    gone = "> " + str(within.bound) if seconds is None else seconds
    return [
        Row("crowd", what, tidings=whole, value=whole, target=target, note=note),
        Row("crowd", f"KB a stream, {streams:,} streams", tidings=weight, value=weight, target=LIGHT),
        Row(
            "crowd",
            f"ms until 99 % of {streams:,} streams have a change",
            tidings=p99,
            value=p99,
            target=SOON,
            note=f"the median of {CHANGES} changes, by the clock; {cost:.1f} µs of CPU a delivery",
        ),
        Row(
            "crowd",
            f"SIGTERM with {streams:,} streams: seconds until the process is gone",
            tidings=gone,
            value=10 * within.bound if seconds is None else seconds,
            target=within,
        ),
        Row(
            "crowd",
            f"SIGTERM: streams with a result frame, of {streams:,}",
            tidings=results,
            value=results,
            target=target,
        ),
    ]


def _deliver(lab: Lab, subject: Subject, streams: int) -> float:
    """Publish one change; the milliseconds until all but one in a hundred have it."""
    began = time.monotonic()
    subject.publish_one(URI, streams)
    arrived: float = lab.reader.ask("arrived", group=subject.name, uri=URI, share=0.99)["at"]
    return (arrived - began) * 1000
