"""What a seed does to a world: a plan of changes and faults, drawn once, and the faults themselves.

Each part draws from a stream of its own (`random.Random("7 fault 3")`), so that dropping one fault or change leaves the
others as they were: this is how a failing plan is shrunk. A fault ends by itself: it heals what it broke.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.simulation.loop import Node
from tests.simulation.world import OVERDUE_SECONDS, ClientPlan, Replica, World, WorldPlan
from tidings.server import Coalesce

MODERN: Final = "2026-07-28"
_SLOWEST: Final = 1.5  # Seconds that a slow node may add to the way of a message.

Fault = Callable[[World, random.Random], Awaitable[None]]


@dataclass(frozen=True)
class Step:
    """A fault or a change, at a time after the beginning."""

    index: int
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:6.3f} {self.what} ({self.index})"


@dataclass(frozen=True)
class Plan:
    """All that happens in one run."""

    seed: int
    world: WorldPlan
    seconds: float
    changes: tuple[Step, ...]
    faults: tuple[Step, ...]
    waits: bool
    """All clients have the truth before the first change."""

    def dice(self, part: object) -> random.Random:
        return random.Random(f"{self.seed} {part}")

    def smaller(self, step: Step) -> "Plan":
        """Returns the plan without one step."""
        return replace(
            self,
            changes=tuple(each for each in self.changes if each is not step),
            faults=tuple(each for each in self.faults if each is not step),
        )


def draw(seed: int, *, only: str | None = None, without: Sequence[str] = ()) -> Plan:
    """Draws the plan of a seed: with all faults, or with one kind `only`."""
    dice = random.Random(f"{seed} plan")
    world = _draw_world(seed, dice)
    seconds = dice.uniform(4, 12)
    notes = [f"note://n{number}" for number in range(world.notes)]
    things = [*notes, *notes, "secret://s0", "t0", "t1"]
    kinds = [name for name in FAULTS if name not in ALONE]
    faults = tuple(Step(index, dice.uniform(0, seconds), dice.choice(kinds)) for index in range(dice.randint(1, 5)))
    # Half of the changes come right after a fault, when most can go wrong.
    times = [0.0, *(step.at for step in faults)]
    changes = tuple(
        Step(index, dice.choice([dice.uniform(0, seconds), dice.choice(times) + dice.uniform(0, 0.5)]), what)
        for index, what in enumerate(dice.choices(things, k=dice.randint(6, 16)))
    )
    if only is not None:
        world = SETTINGS.get(only, lambda world: world)(world)
        faults = tuple(replace(step, what=only) for step in faults[:1])
    faults = tuple(step for step in faults if step.what not in without)
    if all(step.what == "none" for step in faults):
        world = replace(world, counts_sessions=True)
    return Plan(seed, world, seconds, _in_order(changes), _in_order(faults), dice.random() < 0.5)


def _in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: step.at))


def _draw_world(seed: int, dice: random.Random) -> WorldPlan:
    replicas = dice.choice([1, 1, 2, 2, 3])
    clients = [
        ClientPlan("c0", "watch", dice.choice([MODERN, MODERN, "auto", "legacy"])),
        ClientPlan("c1", dice.choice(["watch", "keep"]), dice.choice([MODERN, "legacy"]), is_owner=True),
    ]
    if dice.random() < 0.4:
        clients.append(ClientPlan("c2", "listen", dice.choice([MODERN, MODERN, "legacy"])))
    more = random.Random(f"{seed} more")
    if clients[1].kind == "keep" and more.random() < 0.7:
        clients[1] = replace(clients[1], kind="exchange")
    # In the legacy era, the limit is for all subscriptions of a client. The one that listens has two.
    are_few = more.random() < 0.7 and all(client.era != "legacy" for client in clients)
    few = 1 if len(clients) < 3 else 2
    return WorldPlan(
        seed=seed,
        replicas=replicas,
        has_broker=replicas > 1 or dice.random() < 0.5,
        coalesce=dice.choice([Coalesce(), Coalesce(0, 0), Coalesce(0.3, 1.0)]),
        notes=dice.randint(1, 3),
        clients=tuple(clients),
        is_private=more.random() < 0.6,
        subscriptions=few if are_few else WorldPlan.subscriptions,
    )


# Faults of the network


async def cut(world: World, dice: random.Random) -> None:
    """Resets some connections."""
    connections = list(world.loop.network.connections.values())
    for connection in dice.sample(connections, dice.randint(min(1, len(connections)), len(connections))):
        connection.cut()


async def flap(world: World, dice: random.Random) -> None:
    """Resets all connections again and again, while clients try to come back."""
    for _ in range(dice.randint(2, 8)):
        for connection in list(world.loop.network.connections.values()):
            connection.cut()
        await asyncio.sleep(dice.uniform(0.005, 0.3))


async def cut_mid_frame(world: World, dice: random.Random) -> None:
    """Resets a stream after some bytes."""
    if streams := world.loop.network.streams():
        dice.choice(streams).bytes_left = dice.randint(1, 600)


async def short_streams(world: World, dice: random.Random) -> None:
    """Resets all streams, and those that are opened instead: within their headers, the acknowledgment, or later."""
    network = world.loop.network
    network.shortens_streams = True
    for connection in network.streams():
        connection.cut()
    for _ in range(dice.randint(1, 3)):
        world.change(dice.choice(list(world.truth.notes)), dice.randrange(len(world.replicas)))
    await asyncio.sleep(dice.uniform(0.3, 2))
    network.shortens_streams = False


async def cut_one(world: World, dice: random.Random) -> None:
    """Resets one stream again and again while everything changes, so that another of its client hears of more."""
    for _ in range(dice.randint(2, 6)):
        if streams := world.loop.network.streams():
            dice.choice(streams).cut()
        for note in dice.sample(list(world.truth.notes), len(world.truth.notes)):
            world.change(note, dice.randrange(len(world.replicas)))
        await asyncio.sleep(dice.uniform(0.05, 0.5))


async def lose_one_of_several(world: World, dice: random.Random) -> None:
    """Resets one stream of a client. All changes, the others tell, and the client wants others before it is back."""
    client = world.clients[0]
    streams = [each for each in world.loop.network.of(client.node) if each.is_stream]
    if client.live is None or len(streams) < 2:
        return
    dice.choice(streams).cut()
    await asyncio.sleep(0.03)
    for note in dice.sample(list(world.truth.notes), len(world.truth.notes)):
        world.change(note, 0)
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.03)
    some = [dice.choice(client.uris)]
    await world.loop.on(client.node, client.live.unsubscribe(some))
    await world.loop.on(client.node, client.subscribe_and_read(client.live, some))


async def slow(world: World, dice: random.Random) -> None:
    """Delays all that a node sends and gets."""
    node, seconds = _node(world, dice), dice.uniform(0.5, 5)
    node.extra_latency = dice.uniform(0.05, _SLOWEST)
    # What was sent is on its way for longer than that, even more if the other end is slow, too. Meanwhile a question on
    # another connection is answered, and nobody can know what has not arrived.
    with world.excused(seconds + 2 * _SLOWEST):
        await asyncio.sleep(seconds)
        node.extra_latency = 0.0


async def half_open(world: World, dice: random.Random) -> None:
    """Lets all that streams carry vanish, in both directions or to the client only."""
    both = dice.random() < 0.5
    for connection in world.loop.network.streams():
        connection.half_open(to_server=both)
    with world.excused(OVERDUE_SECONDS):
        await asyncio.sleep(0)


async def swallow(world: World, dice: random.Random) -> None:
    """Resets all streams, and lets all vanish that those carry which are opened instead, from their first byte on."""
    network = world.loop.network
    network.swallows_streams = True
    for connection in network.streams():
        connection.cut()
    await asyncio.sleep(dice.uniform(0.2, 2))
    network.swallows_streams = False
    with world.excused(OVERDUE_SECONDS):
        await asyncio.sleep(0)


# Faults of nodes


async def pause(world: World, dice: random.Random) -> None:
    """Stops a replica for a moment, in which the balancer does not notice."""
    async with _held(world, dice) as replica:
        if replica is not None:
            seconds = dice.uniform(0.2, 2.5)
            world.loop.pause(replica.node)
            with world.excused(seconds):
                await asyncio.sleep(seconds)
            world.loop.resume(replica.node)


async def pause_client(world: World, dice: random.Random) -> None:
    """Stops a client for a while."""
    node = dice.choice(world.clients).node
    world.loop.pause(node)
    await asyncio.sleep(dice.uniform(0.5, 8))
    world.loop.resume(node)


async def hang(world: World, dice: random.Random) -> None:
    """Stops a replica for so long that only its streams remain, and nobody new is sent to it."""
    async with _held(world, dice) as replica:
        if replica is not None and len(world.replicas) > 1 and not world.hung:
            world.loop.pause(replica.node)
            world.hung.append(replica)
            for connection in world.loop.network.of(replica.node):
                connection.note_silence()
            with world.excused(OVERDUE_SECONDS):
                await asyncio.sleep(0)


async def kill(world: World, dice: random.Random) -> None:
    """Kills a replica and starts it again. Its peers are told."""
    await _kill(world, dice, told=True)


async def kill_untold(world: World, dice: random.Random) -> None:
    """Kills a replica, whose peers are not told, and starts it again."""
    await _kill(world, dice, told=False)


async def _kill(world: World, dice: random.Random, *, told: bool) -> None:
    async with _held(world, dice) as replica:
        if replica is not None:
            replica.kill(told=told)
            if not told:
                with world.excused(OVERDUE_SECONDS):
                    await asyncio.sleep(0)
            await asyncio.sleep(dice.uniform(0.1, 4))
            replica.start()


async def restart(world: World, dice: random.Random) -> None:
    """Stops a replica in good order, and starts it again."""
    async with _held(world, dice) as replica:
        if replica is not None:
            await replica.stop()
            await asyncio.sleep(dice.uniform(0, 3))
            replica.start()


async def other_server(world: World, dice: random.Random) -> None:
    """Starts all replicas again, as a server with other tools, and perhaps without prompts.

    Or without resources: then the first one comes back in the end, with resources that changed meanwhile.
    """
    async with _all_held(world) as replicas:
        if replicas:
            truth = world.truth
            truth.has_prompts, truth.has_resources = dice.random() < 0.3, dice.random() < 0.6
            truth.tools ^= {"t0", "t2"}
        for replica in replicas:
            await replica.stop()
            replica.start()
        if replicas and not world.truth.has_resources:
            await asyncio.sleep(dice.uniform(0, 20))
            for replica in replicas:
                await replica.stop()
            world.truth.has_prompts = world.truth.has_resources = True
            for replica in replicas:
                replica.start()


async def outage(world: World, dice: random.Random) -> None:
    """Kills all replicas, and starts them again after a while."""
    async with _all_held(world) as replicas:
        for replica in replicas:
            replica.kill()
        await asyncio.sleep(dice.uniform(10, 20))
        for replica in replicas:
            replica.start()


async def kill_client(world: World, dice: random.Random) -> None:
    """Kills a client, and starts it again."""
    client = dice.choice(world.clients)
    if not client.node.dead:
        client.kill()
        await asyncio.sleep(dice.uniform(0.1, 3))
        client.start()


async def clock_jump(world: World, dice: random.Random) -> None:
    """Sets the wall clock of a node or of the broker forward or back."""
    one = dice.choice([*(each.node for each in (*world.replicas, *world.clients)), world.broker])
    one.clock_offset += dice.choice([-86_400, -60, -1, 1, 60, 86_400])
    await asyncio.sleep(0)


# Faults of the bus


async def bus_slow(world: World, dice: random.Random) -> None:
    """Delays the bus of a replica."""
    replica, seconds = dice.choice(world.replicas), dice.uniform(0.5, 4)
    if replica.bus is not None:
        line = replica.bus.line
        line.latency = dice.uniform(0.02, 1.0)
        with world.excused(seconds + 2):
            await asyncio.sleep(seconds)
            line.latency = 0.0


async def bus_cut(world: World, dice: random.Random) -> None:
    """Cuts a replica off from its bus for a moment."""
    await _cut_bus(world, dice, dice.uniform(0.3, 8))


async def bus_away(world: World, dice: random.Random) -> None:
    """Cuts a replica off from its bus for so long that it must not claim to know what changes."""
    await _cut_bus(world, dice, dice.uniform(6, 20))


async def _cut_bus(world: World, dice: random.Random, seconds: float) -> None:
    replica = dice.choice(world.replicas)
    if replica.bus is not None:
        line = replica.bus.line
        line.cut_off = True
        world.without_bus_until = max(world.without_bus_until, world.loop.time() + seconds + 2)
        await asyncio.sleep(seconds)
        line.cut_off = False


async def bus_answers_lost(world: World, dice: random.Random) -> None:
    """Loses answers of the broker, so that changes are stored twice."""
    replica = dice.choice(world.replicas)
    if replica.bus is not None:
        replica.bus.line.lost_answers += dice.randint(1, 3)
        with world.excused(2):
            await asyncio.sleep(2)


async def bus_lost(world: World, dice: random.Random) -> None:
    """Loses the log, so that a new epoch begins; with it, what a replica that is cut off has not heard of."""
    replica, seconds = dice.choice(world.replicas), dice.choice([0.0, dice.uniform(0.5, 2)])
    if replica.bus is None:
        return
    line = replica.bus.line
    line.cut_off = seconds > 0
    with world.excused(seconds + 1):
        await asyncio.sleep(seconds / 2)
        if seconds:
            world.change(dice.choice(list(world.truth.notes)), world.replicas.index(replica) + 1)
        await asyncio.sleep(seconds / 2)
        world.broker.lose()
        line.cut_off = False


async def rollback(world: World, dice: random.Random) -> None:
    """Puts an older copy in place of the log while no replica runs. The clients miss some changes after that.

    They know of all that the copy lacks: of what nobody can tell them any more, no log could know that they do not.
    """
    async with _all_held(world) as replicas:
        if not replicas or not await _all_copies_are_true(world):
            return
        for client in world.clients:
            world.loop.pause(client.node)
        for replica in replicas:
            replica.kill()
        world.broker.restore(world.first_log)
        for replica in replicas:
            replica.start()
        for _ in range(dice.randint(1, 12)):
            world.change(dice.choice(list(world.truth.notes)), 0)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        for client in world.clients:
            world.loop.resume(client.node)


async def kill_after_notify(world: World, dice: random.Random) -> None:
    """Kills a replica right after it has taken two changes in a row. The publisher believes that both are stored."""
    async with _held(world, dice) as replica:
        if replica is None:
            return
        note = dice.choice(list(world.truth.notes))
        for _ in range(2):
            world.change(note, world.replicas.index(replica))
            await asyncio.sleep(0.05)
        replica.kill()
        await asyncio.sleep(dice.uniform(0.1, 2))
        replica.start()


async def kill_while_held(world: World, dice: random.Random) -> None:
    """Kills all replicas while they hold one change back, after they have passed on a later one."""
    async with _all_held(world) as replicas:
        if not replicas:
            return
        note = dice.choice(list(world.truth.notes))
        for what in (note, note, "t0"):
            world.change(what, 0)
            await asyncio.sleep(0.05)
        for replica in replicas:
            replica.kill()
        await asyncio.sleep(dice.uniform(0.5, 2))
        for replica in replicas:
            replica.start()


async def nothing(world: World, dice: random.Random) -> None:
    """Leaves the world alone: what the fault is named after is in the settings."""


async def _all_copies_are_true(world: World) -> bool:
    """Waits for that, for a few seconds."""
    for _ in range(50):
        if world.is_stored and not world.problems():
            return True
        await asyncio.sleep(0.1)
    return False


def _node(world: World, dice: random.Random) -> Node:
    return dice.choice([*world.replicas, *world.clients]).node


@contextlib.asynccontextmanager
async def _held(world: World, dice: random.Random) -> AsyncGenerator[Replica | None]:
    """Chooses a replica, and keeps other faults from stopping it meanwhile; None if it does not run."""
    replica = dice.choice(world.replicas)
    if replica.is_held or not replica.answers:
        yield None
        return
    replica.is_held = True
    try:
        yield replica
    finally:
        replica.is_held = False


@contextlib.asynccontextmanager
async def _all_held(world: World) -> AsyncGenerator[list[Replica]]:
    """Does the same for all replicas; for none, if one of them is held or does not run."""
    if any(replica.is_held or not replica.answers for replica in world.replicas):
        yield []
        return
    for replica in world.replicas:
        replica.is_held = True
    try:
        yield world.replicas
    finally:
        for replica in world.replicas:
            replica.is_held = False


FAULTS: Final[dict[str, Fault]] = {
    "none": nothing,
    "cut": cut,
    "flap": flap,
    "cut_mid_frame": cut_mid_frame,
    "short_streams": short_streams,
    "slow": slow,
    "pause": pause,
    "pause_client": pause_client,
    "kill": kill,
    "restart": restart,
    "outage": outage,
    "kill_client": kill_client,
    "clock_jump": clock_jump,
    "bus_slow": bus_slow,
    "bus_cut": bus_cut,
    "bus_answers_lost": bus_answers_lost,
    "bus_lost": bus_lost,
    "half_open": half_open,
    "swallow": swallow,
    "hang": hang,
    "kill_untold": kill_untold,
    "rollback": rollback,
    "other_server": other_server,
    "kill_after_notify": kill_after_notify,
    "kill_while_held": kill_while_held,
    "fresh_without_bus": bus_away,
    "cut_one": cut_one,
    "lose_one_of_several": lose_one_of_several,
}
"""All faults by name."""

ALONE: Final = {"lose_one_of_several"}
"""Faults that need settings of their own, so that no world is drawn with them among others."""


def _with_broker(world: WorldPlan) -> WorldPlan:
    return replace(world, has_broker=True)


def _with_replicas(world: WorldPlan) -> WorldPlan:
    return replace(world, has_broker=True, replicas=max(world.replicas, 2))


SETTINGS: Final[dict[str, Callable[[WorldPlan], WorldPlan]]] = {
    "hang": _with_replicas,
    "kill_untold": _with_replicas,
    "rollback": _with_broker,
    "kill_after_notify": lambda world: replace(_with_broker(world), coalesce=Coalesce(0.5, 2.0)),
    "kill_while_held": lambda world: replace(_with_broker(world), coalesce=Coalesce(0.3, 1.0)),
    "fresh_without_bus": _with_broker,
    "lose_one_of_several": lambda world: replace(
        world,
        replicas=1,
        coalesce=Coalesce(0, 0),
        notes=max(world.notes, 2),
        clients=(ClientPlan("c0", "keep", MODERN),),
        subscriptions=1,
    ),
}
"""What a fault needs of the world."""
