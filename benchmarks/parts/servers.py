"""What do more servers on one bus deliver, and does a delivery cost more the more of them there are?"""

import statistics

from benchmarks.ground import Ground, Turns
from benchmarks.lab import MICRO
from benchmarks.report import TIMES, Row, Target

NO_DEARER = Target(1.5, "most", TIMES)
"""Each server hears of every change, so there is a little more to do for each."""


def measure(ground: Ground) -> list[Row]:
    size, engine = ground.size, ground.engine
    measured = {count: ground.turns(count, size.streams) for count in size.servers if count == 1 or engine.shared}
    rows = [_row(ground, count, turns) for count, turns in measured.items()]
    if len(measured) > 1:
        least, most = min(measured), max(measured)
        rows.append(_ratio(ground, least, most, _cost(measured[most]) / _cost(measured[least])))
    return rows


def _row(ground: Ground, count: int, turns: Turns) -> Row:
    streams = f"{ground.size.streams} streams each" if count > 1 else f"{ground.size.streams} streams"
    broker = f", broker {statistics.mean(turns.broker) / turns.deliveries * MICRO:.1f}" if ground.engine.broker else ""
    return Row(
        "servers",
        f"deliveries a second, {ground.engine.name}, {count} server{'s' * (count > 1)}, {streams}",
        tidings=turns.rate,
        note=f"CPU µs a delivery: {_cost(turns):.1f}{broker}",
    )


def _ratio(ground: Ground, least: int, most: int, ratio: float) -> Row:
    return Row(
        "servers",
        f"CPU a delivery with {most} servers / {least}, {ground.engine.name}",
        value=ratio,
        target=NO_DEARER,
    )


def _cost(turns: Turns) -> float:
    return turns.servers / turns.deliveries * MICRO
