"""A server is killed (SIGKILL) and started again: when is every copy fresh?

What it serves after the restart differs from what it served before, so that an old copy cannot pass for a new one.
"""

import statistics
import time

from benchmarks.pair import Pair
from benchmarks.parts.watch import keep
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, say

PATIENCE = {"sdk": 3.0, "tidings": 30.0}


def measure(pair: Pair) -> list[Row]:
    kept = pair.size.kept
    uris = [f"bench://kept/{number}" for number in range(kept)]
    server, port = pair.serve()
    callers = {side: pair.caller() for side in ("sdk", "tidings")}
    for side, caller in callers.items():
        say(f"comeback: {kept} resources watched by {side}")
        keep(caller, side, port, uris)
    seconds: dict[str, list[float]] = {side: [] for side in callers}
    ended = ""
    for number in range(pair.size.kills):
        say(f"comeback: kill {number + 1} of {pair.size.kills}")
        server.stop()
        server, _ = pair.serve(port)
        started = time.monotonic()
        for side in ("tidings", "sdk"):
            outcome = callers[side].ask("back", pid=server.pid, within=PATIENCE[side])
            if outcome["fresh"] == kept:
                seconds[side].append(max(0.0, outcome["at"] - started))
            elif side == "tidings":
                raise ProcessFailed(f"{kept - outcome['fresh']} of {kept} copies did not come back {outcome['ended']}")
            else:
                ended = outcome["ended"]
    return [
        Row(
            "comeback",
            f"seconds until {kept} watched resources are fresh after a kill",
            sdk=_tell_sdk(seconds["sdk"], ended),
            tidings=statistics.median(seconds["tidings"]),
            note="from when the server is up again" + (f"; SDK: {ended}" if ended else ""),
        )
    ]


def _tell_sdk(seconds: list[float], ended: str) -> Cell:
    if ended:
        return "does not come back"
    return statistics.median(seconds) if seconds else f"> {PATIENCE['sdk']:g}"
