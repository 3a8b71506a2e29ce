"""Can one process hold 10,000 streams, and reach each of them?"""

from benchmarks.lab import DeliveryLost, Lab
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, Target, say

URI = "bench://crowd"
SPARE_FILES = 200


def measure(lab: Lab) -> list[Row]:
    streams = lab.size.crowd
    what = f"streams open at once, each with its delivery, of {streams:,}"
    target = Target(streams, "least")
    if lab.open_files < streams + SPARE_FILES:
        note = f"the limit on open files is {lab.open_files:,}: raise `ulimit -n`"
        return [Row("crowd", what, value=0, target=target, note=note)]
    say(f"crowd: {streams:,} streams on one process")
    with lab.serve("tidings", name="crowd") as subject:
        before = subject.server.ask("memory")["resident"]
        try:
            subject.open("modern", [[URI]] * streams)
            start = subject.cpu()
            subject.publish_one(URI, streams)
            cost = (subject.cpu() - start) / streams * 1e6
            subject.check()
        except (DeliveryLost, ProcessFailed) as error:
            return [Row("crowd", what, value=0, target=target, note=str(error))]
        reached = lab.reader.ask("counts", group="crowd")
        weight = (subject.server.ask("memory")["resident"] - before) / 1e6
    whole = reached["streams"] if reached["least"] == reached["most"] == 1 else 0
    note = f"{weight:.0f} MB, {cost:.1f} µs a delivery"
    return [Row("crowd", what, tidings=whole, value=whole, target=target, note=note)]
