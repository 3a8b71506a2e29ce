"""What does a request cost the client's process? A tool call and a read, on each transport and in both eras."""

import statistics
from typing import Final

from benchmarks.pair import Pair, ratios
from benchmarks.report import TIMES, Row, Target, say

LITTLE_MORE: Final = Target(1.15, "most", TIMES)
TRANSPORTS: Final = {"http": "HTTP", "stdio": "stdio"}
ERAS: Final = {"auto": "modern era", "legacy": "legacy era"}


def measure_calls(pair: Pair) -> list[Row]:
    return _measure(pair, "calls", "CPU µs a tool call", LITTLE_MORE)


def measure_reads(pair: Pair) -> list[Row]:
    return _measure(pair, "reads", "CPU µs a read", None)


def _measure(pair: Pair, kind: str, what: str, target: Target | None) -> list[Row]:
    caller, (_, port) = pair.caller(), pair.serve()
    rows: list[Row] = []
    for transport, transport_name in TRANSPORTS.items():
        for era, era_name in ERAS.items():
            name = f"{transport_name}, {era_name}"
            say(f"{kind}: {name}, {pair.size.pairs} times {pair.size.requests} by each client")
            samples = caller.ask(
                "compare",
                300,
                kind=kind,
                transport=transport,
                era=era,
                port=port,
                times=pair.size.requests,
                pairs=pair.size.pairs,
            )
            sdk, tidings = samples["sdk"], samples["tidings"]
            median, lower, upper = ratios(tidings, sdk)
            rows.append(
                Row(
                    kind,
                    f"{what}, {name}",
                    sdk=statistics.median(sdk),
                    tidings=statistics.median(tidings),
                    value=median,
                    target=target,
                    note=f"Tidings / SDK; half of the pairs: {lower:.2f} to {upper:.2f}",
                )
            )
    return rows
