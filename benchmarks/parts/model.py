"""Does the model of `benchmarks.sizing` foretell a point that it was not fitted to?

It is fitted to one server with many streams, and to two with a single stream each. It has to foretell what four
servers with a middling number of streams need. What a stream weighs does not depend on the bus, and is measured once.
"""

from contextlib import ExitStack

from benchmarks import sizing
from benchmarks.ground import Ground
from benchmarks.lab import MICRO, Lab, Size
from benchmarks.parts.deliveries import WARM_UP
from benchmarks.report import TIMES, Row, Target

URI = "bench://weighed"
CLOSE = Target(1.25, "most", TIMES)
SERVERS = 4
LISTENERS = 4


def measure(ground: Ground) -> list[Row]:
    if not ground.engine.shared:
        return _weight(ground)
    size, name = ground.size, ground.engine.name
    pair, alone = ground.turns(2, 1), ground.turns(1, 2 * size.streams)
    costs = sizing.fit(
        publisher=pair.server(0), hearer=pair.server(1), alone=alone.server(0),
        changes=size.changes, streams=2 * size.streams,
    )  # fmt: skip
    measured = ground.turns(SERVERS, size.streams).servers
    foretold = sizing.cpu(costs, servers=SERVERS, streams=size.streams, changes=size.changes)
    off = max(measured, foretold) / min(measured, foretold) if min(measured, foretold) > 0 else float("inf")
    point = f"{SERVERS} servers, {size.streams} streams each"
    return [
        Row("model", f"CPU µs to publish a change, {name}", tidings=costs.publish),
        Row("model", f"CPU µs to hear of a change, {name}", tidings=costs.hear, note="in each server"),
        Row("model", f"CPU µs to deliver a change, {name}", tidings=costs.deliver, note="to each stream"),
        Row(
            "model",
            f"CPU ms a turn, {name}, {point}",
            tidings=measured * 1000,
            value=off,
            target=CLOSE,
            note=f"the model says {foretold * 1000:.0f} ({foretold / measured - 1:+.0%})",
        ),
        *_broker(ground),
    ]


def _broker(ground: Ground) -> list[Row]:
    """What the broker does for each change and each process that hears of it, with changes that come one by one."""
    if ground.engine.broker is None:
        return []
    few, many = (_paced(ground, count) for count in (1, 1 + LISTENERS))
    what = f"CPU µs of the broker for each change and process, {ground.engine.name}"
    return [Row("model", what, tidings=(many - few) / LISTENERS, note=f"and {few:.0f} for the first")]


def _paced(ground: Ground, count: int) -> float:
    """CPU microseconds of the broker for each change that `count` processes hear of, of which one publishes."""
    uris = [f"bench://{count}/{number}" for number in range(ground.size.paced)]
    with ExitStack() as stack:
        handles = [stack.enter_context(ground.handle()) for _ in range(count)]
        before = ground.engine.broker_cpu()
        handles[0].ask("paced", uris=uris, pause=0.002)
        for handle in handles:
            handle.ask("heard", uris=uris)
        return (ground.engine.broker_cpu() - before) / len(uris) * MICRO


def _weight(ground: Ground) -> list[Row]:
    streams = ground.size.weighed
    with Lab(Size()) as lab, lab.serve("tidings", "--anywhere") as subject:
        # What is made once, with the first streams, is not the weight of a stream.
        subject.open("modern", [[URI]] * WARM_UP)
        subject.close()
        before, used = subject.server.ask("memory")["resident"], subject.cpu()
        subject.open("modern", [[URI]] * streams)
        opening = (subject.cpu() - used) / streams * MICRO
        weight = (subject.server.ask("memory")["resident"] - before) / streams / 1000
    return [
        Row("model", "MB a server without streams", tidings=before / 1e6),
        Row("model", f"KB a stream, of {streams:,}", tidings=weight, note="modern era"),
        Row("model", "CPU µs to open a stream", tidings=opening, note="modern era"),
    ]
