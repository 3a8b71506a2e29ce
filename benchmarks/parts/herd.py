"""A thousand clients lose one server, which is away for a while: do they come back spread out, and when is each fresh?

They have default settings. The SDK's client does not come back. The limit is what connecting takes: the time in which
the same clients, in the same process, came at first, without any pauses.
"""

import time

from benchmarks.pair import Pair
from benchmarks.report import Row, Target, say

AWAY = 5.0
"""Seconds."""
SPREAD = Target(0.17, "most")
"""Of all clients, in a quarter of a second. Spread evenly over the first pause of two seconds, an eighth would be."""


def measure(pair: Pair) -> list[Row]:
    clients = pair.size.crowd
    server, port = pair.serve()
    caller = pair.caller()
    say(f"herd: {clients:,} clients connect")
    began = time.monotonic()
    caller.ask("crowd", 1800, port=port, clients=clients, pid=server.pid)
    first = time.monotonic() - began
    say("herd: they lose their server")
    server.stop()
    time.sleep(AWAY)
    server, _ = pair.serve(port)
    up = time.monotonic()
    back = caller.ask("crowd_back", 600, pid=server.pid, up=time.time())
    all_clump, up_clump = back["clumps"]
    return [
        Row(
            "herd",
            f"largest clump in 250 ms of {clients:,} clients that lost their server",
            sdk="do not come back",
            tidings=float(all_clump),
            value=all_clump / clients,
            target=SPREAD,
            note=f"attempts as planned; judged: the share of all clients; {up_clump} once the server is up again",
        ),
        Row(
            "herd",
            f"seconds until {clients:,} clients are fresh after {AWAY:g} s without their server",
            sdk="do not come back",
            tidings=back["at"] - up,
            others={"without pauses": first},
            note=f"from when it is up again; pauses are up to 30 s; CPU {back['cpu'] / clients * 1000:.0f} ms each",
        ),
    ]
