"""Runs seeds: each draws a world, changes and faults; in the end every copy must equal the truth.

python -m tests.simulation.run [--seeds N] [--first N] [--jobs N] [--seed N --trace] [--only FAULT] [--without FAULT]

A seed that fails is shrunk: faults and changes are dropped one by one while it still fails. The same seed gives the
same trace, byte for byte, in every process.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.simulation.clock import simulated
from tests.simulation.faults import FAULTS, Plan, draw
from tests.simulation.loop import Stuck, VirtualLoop
from tests.simulation.world import World

BEGIN_SECONDS: Final = 30.0
"""Seconds in which all clients must have the truth for the first time."""

SETTLE_SECONDS: Final = 100.0
"""Seconds after the last fault in which every copy must equal the truth."""

NOTICE_SECONDS: Final = 75.0
"""Seconds in which a client must notice that a stream is silent for good: twice its limit for a server of ours."""

_process_time = time.process_time
_PROGRESS_SEEDS: Final = 200


@dataclass(frozen=True)
class Outcome:
    """The result of one run: what was wrong, and the trace."""

    seed: int
    wrong: tuple[str, ...]
    trace: str


def run(plan: Plan) -> Outcome:
    """Runs a plan in a world of its own."""
    lines: list[str] = []

    def trace(line: str) -> None:
        lines.append(f"{loop.time():.6f} {line}")

    loop = VirtualLoop(plan.seed, trace)
    asyncio.set_event_loop(loop)
    with simulated(loop, plan.seed):
        wrong = _run(loop, plan, trace)
        outcome = Outcome(plan.seed, tuple(wrong), "".join(f"{line}\n" for line in [*lines, *wrong]))
    asyncio.set_event_loop(None)
    return outcome


def _run(loop: VirtualLoop, plan: Plan, trace: Callable[[str], None]) -> list[str]:
    world = World(loop, plan.world, trace)
    loop.set_exception_handler(lambda _, context: world.wrong.append(_unhandled(context)))
    try:
        loop.run_until_complete(_all(world, plan))
    except Stuck as error:
        world.wrong.append(f"stuck: {error}")
    return [f"wrong: {line}" for line in dict.fromkeys(world.wrong)]


def _unhandled(context: dict[str, Any]) -> str:
    return f"unhandled: {context.get('message')} {context.get('exception')!r}"


async def _all(world: World, plan: Plan) -> None:
    await world.begin()
    if plan.waits and not await _until(lambda: not world.problems(), BEGIN_SECONDS):
        world.wrong += world.problems()
        return
    noticing = asyncio.create_task(_notice(world))
    await _rage(world, plan)
    await _until(lambda: world.is_stored, SETTLE_SECONDS)
    world.trace("calm")
    if not await _until(lambda: world.is_stored and not world.problems() and not _silenced(world), SETTLE_SECONDS):
        world.wrong += world.problems()
        world.wrong += [f"nobody noticed that {connection} is silent" for connection in _silenced(world)]
    for client in world.clients:
        await world.loop.on(client.node, client.wait_fresh())
    noticing.cancel()
    # A client may have noticed just now that another stream of its is silent, and connect again.
    await _until(lambda: not world.problems(), SETTLE_SECONDS)
    world.wrong += world.problems()
    world.trace("close")
    await world.close()


async def _rage(world: World, plan: Plan) -> None:
    async def fault(index: int, at: float, what: str) -> None:
        await asyncio.sleep(at)
        world.trace(f"fault {index} {what}")
        await FAULTS[what](world, plan.dice(f"fault {index}"))

    async def change(index: int, at: float, what: str) -> None:
        await asyncio.sleep(at)
        world.change(what, plan.dice(f"change {index}").randrange(len(world.replicas)))

    async def probe() -> None:
        dice = plan.dice("probe")
        while True:
            await asyncio.sleep(dice.uniform(0.5, 4))
            client = dice.choice(world.clients)
            if not client.node.dead:
                await asyncio.wait([world.loop.on(client.node, client.wait_fresh())], timeout=10)

    world.is_raging = True
    probing = asyncio.create_task(probe())
    await asyncio.gather(
        *(change(step.index, step.at, step.what) for step in plan.changes),
        *(fault(step.index, step.at, step.what) for step in plan.faults),
        asyncio.sleep(plan.seconds),
    )
    world.is_raging = False
    probing.cancel()


async def _notice(world: World) -> None:
    """Notes each client that calls itself connected for too long after one of its streams died."""
    network = world.loop.network
    while True:
        await asyncio.sleep(1)
        for client in world.clients:
            if client.live is None or not client.live.connected or client.node.dead or client.node.paused_since:
                continue
            for connection, since in network.silenced.items():
                if connection.is_between(client.node) and world.loop.time() - since > NOTICE_SECONDS:
                    world.wrong.append(f"{client.node} is connected, and {connection} has been silent for too long")


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.25)
    return True


def _silenced(world: World) -> list[Any]:
    """Returns the streams whose clients have not noticed that they are silent."""
    silenced = world.loop.network.silenced.items()
    return [connection for connection, _ in silenced if not connection.ends[0].node.dead]


def shrink(plan: Plan) -> Plan:
    """Returns a plan that still fails, and does not without any one of its steps."""
    for step in (*plan.faults, *plan.changes):
        smaller = plan.smaller(step)
        if run(smaller).wrong:
            plan = smaller
    return plan


def _outcome(seed: int, *, only: str | None, without: Sequence[str]) -> Outcome:
    return run(draw(seed, only=only, without=without))


def _outcomes(seeds: range, jobs: int, work: Callable[[int], Outcome]) -> Any:
    if jobs == 1:
        yield from map(work, seeds)
        return
    # Each process keeps some memory of what it ran, so it is replaced now and then.
    with multiprocessing.get_context("spawn").Pool(jobs, quiet, maxtasksperchild=100) as pool:
        yield from pool.imap(work, seeds, chunksize=4)


def quiet() -> None:
    """Hides the SDK's warning about the legacy era, and tasks of dead nodes that end with the process."""
    warnings.filterwarnings("ignore", "resources/subscribe is removed")
    sys.unraisablehook = lambda _: None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.simulation.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="so many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--trace", action="store_true", help="print the trace of each seed")
    parser.add_argument("--only", choices=sorted(FAULTS), help="no other faults than this")
    parser.add_argument("--without", action="append", default=[], choices=sorted(FAULTS), help="not this fault")
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they are")
    chosen = parser.parse_args(arguments)
    quiet()
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else [chosen.seed]
    work = partial(_outcome, only=chosen.only, without=chosen.without)
    began, failed = _process_time(), 0
    for done, outcome in enumerate(_outcomes(seeds, chosen.jobs, work), 1):
        if chosen.trace:
            sys.stdout.write(outcome.trace)
        if outcome.wrong:
            failed += 1
            _report(outcome, draw(outcome.seed, only=chosen.only, without=chosen.without), not chosen.no_shrink)
        if not done % _PROGRESS_SEEDS:
            sys.stderr.write(f"{done} of {len(seeds)} seeds, {failed} failed\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(seeds)} seeds, {failed} failed, {_process_time() - began:.1f} s of CPU in this process\n")
    return 1 if failed else 0


def _report(outcome: Outcome, plan: Plan, shrinks: bool) -> None:
    sys.stdout.write(f"FAILED seed {outcome.seed}: {outcome.wrong[0].removeprefix('wrong: ')}\n")
    if shrinks:
        plan = shrink(plan)
        sys.stdout.write(run(plan).trace)
        sys.stdout.write(f"  {plan.world}\n")
        sys.stdout.write("".join(f"  {step}\n" for step in (*plan.faults, *plan.changes)))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
