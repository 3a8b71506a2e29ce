"""How many changes a second does one process publish, and how soon knows one that was away what it missed?

Both are of the same changes: many updates of fewer URIs, of each of which the newest is kept.
"""

import statistics

from benchmarks.ground import Ground
from benchmarks.lab import MICRO, DeliveryLost
from benchmarks.report import Row, Target

SOON = {"nats": Target(50, "most", " ms"), "redis": Target(20, "most", " ms")}


def measure(ground: Ground) -> list[Row]:
    size, engine = ground.size, ground.engine
    uris = [f"bench://{number}" for number in range(size.uris)]
    rates: list[float] = []
    costs: list[float] = []
    single_rates: list[float] = []
    single_costs: list[float] = []
    notify_rates: list[float] = []
    notify_costs: list[float] = []
    broker: list[float] = []
    catch_ups: list[float] = []
    with ground.handle() as here, ground.handle():  # Another process hears of it all.
        for _ in range(size.repetitions):
            before = engine.broker_cpu()
            storm = here.ask("storm", 120, uris=uris, updates=size.updates, publishers=size.publishers)
            broker.append((engine.broker_cpu() - before) / size.updates * MICRO)
            rates.append(size.updates / storm["seconds"])
            costs.append(storm["cpu"] / size.updates * MICRO)
            since = here.ask("since", cursor=storm["before"], times=size.repetitions)
            if since["found"] != [size.uris]:
                raise DeliveryLost(f"{engine.name}: {size.uris} URIs changed, and since knows of {since['found']}")
            catch_ups.append(since["seconds"] * 1000)
            few = size.updates // 10
            single = here.ask("storm", 120, uris=uris, updates=few, publishers=1)
            single_rates.append(few / single["seconds"])
            single_costs.append(single["cpu"] / few * MICRO)
            burst = here.ask("notify_storm", 120, uris=uris, updates=size.updates, publishers=size.publishers)
            notify_rates.append(size.updates / burst["seconds"])
            notify_costs.append(burst["cpu"] / size.updates * MICRO)
    used = f"CPU µs: {statistics.median(costs):.0f} here" + (
        f", {statistics.median(broker):.0f} in the broker" if engine.broker else ""
    )
    took = statistics.median(catch_ups)
    target = SOON.get(engine.name)
    return [
        Row("publishes", f"publishes a second, {engine.name}", tidings=statistics.median(rates), note=used),
        Row(
            "publishes",
            f"publishes a second, one after the other, {engine.name}",
            tidings=statistics.median(single_rates),
            note=f"CPU µs: {statistics.median(single_costs):.0f} here",
        ),
        Row(
            "publishes",
            f"changes a second through notify, {engine.name}",
            tidings=statistics.median(notify_rates),
            note=f"CPU µs: {statistics.median(notify_costs):.0f} here; each is stored before notify returns",
        ),
        Row(
            "catch-up",
            f"ms to catch up with {size.uris:,} URIs after {size.updates:,} updates, {engine.name}",
            tidings=took,
            value=took if target else None,
            target=target,
            note="by a process that has just come" if engine.shared else "within the process",
        ),
    ]
