"""Is a stop said? SIGTERM with open streams: a result frame on each, and the process gone within a second.

Then once more with all that could hold it up at the same time, each for a minute or for ever: another process has the
bus locked while a change is held back, readers have stopped reading, and a source is slow to be let go.
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.lab import Lab
from benchmarks.report import Cell, Row, Target, say

STREAMS = 100
STALLED = 5
PATIENCE = 2.0
WITHIN = Target(1.0, "most", " s")
ALL = Target(STREAMS, "least")
SHARED = "bench://shared"
LEAVING = "bench://leaving"
LONG = [f"bench://long/{number}/{'x' * 4_000}" for number in range(1_500)]
"""More than Linux buffers for one connection."""


def measure(lab: Lab) -> list[Row]:
    sdk = _stop(lab, "sdk-modern")
    tidings = _stop(lab, "tidings")
    hindered = _stop_hindered(lab)
    return [
        _seconds("SIGTERM", tidings, sdk=_tell(sdk[0])),
        _results("SIGTERM", tidings, sdk=sdk[1]),
        _seconds("SIGTERM, hindered", hindered),
        _results("SIGTERM, hindered", hindered),
    ]


def _seconds(what: str, outcome: tuple[float | None, int], *, sdk: Cell = None) -> Row:
    what, seconds = f"{what}: seconds until the process is gone", outcome[0]
    judged = PATIENCE if seconds is None else seconds
    return Row("stop", what, sdk=sdk, tidings=_tell(seconds), value=judged, target=WITHIN)


def _results(what: str, outcome: tuple[float | None, int], *, sdk: Cell = None) -> Row:
    what = f"{what}: streams with a result frame, of {STREAMS}"
    return Row("stop", what, sdk=sdk, tidings=outcome[1], value=outcome[1], target=ALL)


def _tell(seconds: float | None) -> Cell:
    return f"> {PATIENCE:g}" if seconds is None else seconds


def _stop(lab: Lab, variant: str) -> tuple[float | None, int]:
    say(f"stop: SIGTERM with {STREAMS} streams on {variant}")
    with lab.serve(variant, name=f"stop-{variant}") as subject:
        subject.open("modern", [[SHARED]] * STREAMS)
        seconds = subject.server.terminate(PATIENCE)
        results: int = lab.reader.ask("counts", group=subject.name)["results"]
    return seconds, results


def _stop_hindered(lab: Lab) -> tuple[float | None, int]:
    say(f"stop: SIGTERM with {STREAMS} streams, a locked bus, {STALLED} stalled readers and a slow source")
    with tempfile.TemporaryDirectory() as folder:
        bus = Path(folder) / "bus.db"
        with lab.serve("tidings", "--hindered", "--bus", f"sqlite://{bus}?timeout=60", name="stop-hindered") as subject:
            subject.open("modern", [[SHARED, LEAVING]] * STREAMS)
            subject.open("modern", [["bench://long/*"]] * STALLED, group="-reader", receive_buffer=4096)
            lab.reader.ask("stall", group=subject.name + "-reader")
            subject.server.ask("publish", uris=LONG, times=len(LONG), pause=True)
            subject.publish_one(SHARED, STREAMS)
            with closing(sqlite3.connect(bus, isolation_level=None)) as locking:
                locking.execute("BEGIN IMMEDIATE")
                subject.server.ask("publish", uris=[SHARED])
                seconds = subject.server.terminate(PATIENCE)
            results: int = lab.reader.ask("counts", group=subject.name)["results"]
    return seconds, results
