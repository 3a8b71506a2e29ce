"""Many watched resources: how many streams do they take, and what does an update cost, until its content is there?

A process for each client: one must not pay for what the other hears.
"""

import statistics

from benchmarks.pair import Pair
from benchmarks.process import Process, ProcessFailed
from benchmarks.report import Row, Target, say

MICRO = 1e6
ONE = Target(1, "most")


def measure(pair: Pair) -> list[Row]:
    server, port = pair.serve()
    watched = pair.size.watched
    callers: dict[str, Process] = {}
    listeners = 0
    for side in ("tidings", "sdk"):
        say(f"watch: {watched:,} resources by {side}")
        callers[side] = pair.caller()
        keep(callers[side], side, port, _uris(side, watched))
        if side == "tidings":  # as long as it is alone
            listeners = callers[side].ask("listeners")["listeners"]
    costs: dict[str, list[float]] = {side: [] for side in callers}
    for number in range(pair.size.rounds):
        say(f"watch: {pair.size.updates} updates, round {number + 1} of {pair.size.rounds}")
        for side, caller in callers.items():
            costs[side].append(_cost(server, caller, _uris(side, watched)[: pair.size.updates]))
    sdk, tidings = (statistics.median(costs[side]) for side in ("sdk", "tidings"))
    return [
        Row(
            "watch",
            f"streams for {watched:,} watched resources",
            tidings=listeners,
            value=listeners,
            target=ONE,
            note="counted at the server",
        ),
        Row(
            "watch",
            "CPU µs an update, until the watcher has its content",
            sdk=sdk,
            tidings=tidings,
            value=tidings / sdk,
            note="SDK: listen, and read by hand",
        ),
    ]


def keep(caller: Process, side: str, port: int, uris: list[str]) -> None:
    """Have copies kept of these resources.

    Raises:
        ProcessFailed: They did not come.
    """
    ended = caller.ask("keep", 120, side=side, port=port, uris=uris)["ended"]
    if ended:
        raise ProcessFailed(f"{side} has no copies: {ended}")


def _uris(side: str, watched: int) -> list[str]:
    return [f"bench://{side}/{number}" for number in range(watched)]


def _cost(server: Process, caller: Process, uris: list[str]) -> float:
    """CPU microseconds of the client for each update, from its notification to the new content."""
    before = caller.ask("usage")
    # Each resource changes once, so that nothing is merged on the way.
    server.ask("publish", uris=uris, times=len(uris), pause=True)
    after = caller.ask("reach", goal=before["arrived"] + len(uris))
    return (after["cpu"] - before["cpu"]) / len(uris) * MICRO
