"""What does content cost that is at hand already?"""

import statistics

from benchmarks.pair import Pair
from benchmarks.report import Row, Target, say

QUICK_ENOUGH = Target(10, "most", " µs")


def measure(pair: Pair) -> list[Row]:
    caller, (_, port) = pair.caller(), pair.serve()
    say(f"cache: {pair.size.hits:,} hits, {pair.size.rounds} times")
    samples = caller.ask("hits", port=port, times=pair.size.hits, rounds=pair.size.rounds)
    median = statistics.median(samples["tidings"])
    return [Row("cache", "CPU µs a cache hit", tidings=median, value=median, target=QUICK_ENOUGH)]
