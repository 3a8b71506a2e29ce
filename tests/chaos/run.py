"""One chaos run: changes and faults for a while, then quiet, then every copy must equal the truth.

python -m tests.chaos.run [--seed N] [--engine sqlite|nats|redis] [--seconds S] [--runs N] [--stock]
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.chaos.world import CHANGES_ROLLED_BACK, Plan, Told, World, world

CATCH_UP = 400.0
"""Seconds after the last change within which everyone must be fresh, on however busy a machine: a bound, not a goal."""


async def run(plan: Plan, folder: Path) -> tuple[dict[str, list[str]], Told, float]:
    """What is stale in the end, what was done, and how long it took to become fresh. A client that keeps a dead stream
    for too long counts as stale, too.
    """
    async with world(plan, folder) as chaos:
        await _until(lambda: not chaos.stale(), CATCH_UP)
        await _rage(chaos)
        if not plan.stock and (stale := await _roll_back(chaos)):
            return stale, chaos.told, CATCH_UP
        await chaos.silent_misdeed(chaos.dice("silent"))  # Nothing comes after it that would end the streams by chance.
        for name in chaos.names:  # A last word on each: whoever is stale now has nothing to wake them.
            await chaos.change(name, "the last word")
        calm = time.monotonic()
        await _until(lambda: not chaos.stale(), 5 if plan.stock else CATCH_UP)
        took = time.monotonic() - calm
        await _until(lambda: not chaos.dead_streams, 0 if plan.stock else plan.notice_seconds)
        stale, chaos.told.slowest_notice = chaos.stale(), chaos.slowest_notice
        if not plan.stock and (chaos.dead_streams or chaos.slowest_notice > plan.notice_seconds):
            stale["a dead stream"] = [f"noticed after {chaos.slowest_notice:.1f} s", f"{chaos.dead_streams} not at all"]
        return stale, chaos.told, took


async def _rage(chaos: World) -> None:
    """The seed says how many changes and faults, which and in which order; how they fall together, the machine."""

    async def changes() -> None:
        dice = chaos.dice("changes")
        for count in range(round(chaos.plan.seconds * 12)):
            await chaos.change(dice.choice(chaos.names), str(count))
            await asyncio.sleep(dice.uniform(0, 0.1))

    async def misdeeds() -> None:
        for number in range(round(chaos.plan.seconds)):
            dice = chaos.dice(f"fault {number}")
            await asyncio.sleep(dice.uniform(0, 0.6))
            await chaos.misdeed(dice)

    async with asyncio.TaskGroup() as group:
        group.create_task(changes())
        group.create_task(misdeeds())


async def _roll_back(chaos: World) -> dict[str, list[str]]:
    """Restores an older log under clients that are ahead of it. Returns what is stale then."""
    dice = chaos.dice("rollback")
    await chaos.save_log()
    for count in range(CHANGES_ROLLED_BACK):
        await chaos.change(dice.choice(chaos.names), f"{count} after the copy")
    # Of what the copy lacks, nobody can tell a client that has not heard of it.
    await _until(lambda: not chaos.stale(), CATCH_UP)
    await chaos.roll_back_log(dice)
    await _until(lambda: not chaos.stale(), CATCH_UP)
    return chaos.stale()


async def _until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:  # noqa: ASYNC110 - files in which others write
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser("tests.chaos.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="sqlite", choices=["sqlite", "nats", "redis"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=1, help="so many, with the seeds that follow")
    parser.add_argument("--keep-alive", type=float, default=Plan.keep_alive, help="seconds between keep-alives")
    parser.add_argument("--stock", action="store_true", help="the SDK's own server, bus and client, for comparison")
    chosen = parser.parse_args()
    plan = Plan(chosen.seed, engine=chosen.engine, seconds=chosen.seconds, stock=chosen.stock)
    plan = replace(plan, keep_alive=chosen.keep_alive)
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        with tempfile.TemporaryDirectory() as folder:
            stale, told, took = asyncio.run(run(replace(plan, seed=seed), Path(folder)))
        copies = plan.clients * plan.notes
        wrong = sum(map(len, stale.values()))
        sys.stdout.write(
            f"seed {seed}: {told.published} changes, {len(told.deeds)} faults; {wrong} of {copies} copies stale "
            f"{took:.1f} s after the last change; dead streams noticed within {told.slowest_notice:.1f} s\n"
        )
        sys.stdout.flush()
        if wrong and not plan.stock:
            failed += 1
            sys.stdout.write("".join(f"  {deed}\n" for deed in told.deeds))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
