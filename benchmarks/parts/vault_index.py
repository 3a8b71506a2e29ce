"""How long until everything is indexed, the first time and at a restart; and what does a server occupy then?"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.parts.vault_limits import Took, plain_index
from benchmarks.parts.vault_notes import Vault
from benchmarks.parts.vault_servers import Server
from benchmarks.parts.vault_session import Memory, Session
from benchmarks.parts.vault_yard import BARE, Yard, median, ratios
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, Target, say

ASLEEP = Target(1, "most", " %")


class Goals(NamedTuple):
    """What is aimed at with one vault."""

    first: Target
    again: Target | None = None
    memory: Target | None = None


SMALL = Goals(Target(4, "most", " s"), Target(1.5, "most", " s"), Target(150, "most", " MB"))
LARGE = Goals(Target(20, "most", " s"))


@dataclass
class Builds:
    """What one server needed for one vault."""

    first: list[Took] = field(default_factory=list[Took])
    again: list[Took] = field(default_factory=list[Took])
    memory: list[Memory] = field(default_factory=list[Memory])
    idle: float = 0
    """The share of a core, in percent."""


_TIDYING = 20.0
"""Seconds that a server may go on for after it is ready, before it is measured how busy it is when idle."""
_AT_REST = 3.0
"""Percent of a core."""
_RESTING = 3.0
"""Seconds for which it has to be no busier than that: a server may begin to tidy up when nobody asked for a while."""


def measure(yard: Yard) -> Iterator[Row]:
    small, large = yard.vault(yard.size.notes), yard.vault(yard.size.many)
    peers = {
        name: found
        for name, found in yard.beside(lambda peer: _builds(yard, peer, small, 1) if peer.indexes else None).items()
        if found is not None
    }
    yield from _rows(yard, small, yard.size.builds, peers, SMALL)
    yield from _rows(yard, large, 1, {}, LARGE)


def _rows(yard: Yard, vault: Vault, times: int, peers: dict[str, Builds], goals: Goals) -> list[Row]:
    plain: list[Took] = []
    ours = Builds()
    for _ in range(times):
        # Neighbours in time, so that both have the machine at the same pace.
        plain.append(plain_index(vault, yard.fresh()))
        more = _builds(yard, yard.tidings, vault, 1)
        ours.first += more.first
        ours.again += more.again
        ours.memory += more.memory
        ours.idle = more.idle
    of = f"{len(vault.notes):,} notes"
    bare: dict[str, Cell] = {BARE: median([each.seconds for each in plain])}
    rows = [
        _row(f"s to index {of}", ours.first, {n: each.first for n, each in peers.items()}, bare, goals.first),
        _row(
            f"s to restart with {of}, nothing changed",
            ours.again,
            {n: each.again for n, each in peers.items()},
            {},
            goals.again,
        ),
    ]
    resident = median([each.resident for each in ours.memory])
    theirs: dict[str, Cell] = {name: each.memory[-1].resident for name, each in peers.items()}
    last = ours.memory[-1]
    rows.append(
        Row(
            "memory",
            f"MB resident after indexing {of}",
            tidings=resident,
            others=theirs,
            value=resident if goals.memory else None,
            target=goals.memory,
            note=f"PSS {last.shared:.0f}, of its own {last.own:.0f}, at most {last.peak:.0f}",
        )
    )
    idle: dict[str, Cell] = {name: each.idle for name, each in peers.items()}
    what = f"% of a core when idle, {of}"
    rows.append(Row("idle", what, tidings=ours.idle, others=idle, value=ours.idle, target=ASLEEP))
    return rows


def _row(
    what: str, ours: list[Took], theirs: dict[str, list[Took]], bare: dict[str, Cell], target: Target | None
) -> Row:
    took = median([each.seconds for each in ours])
    others: dict[str, Cell] = {name: median([each.seconds for each in runs]) for name, runs in theirs.items()} | bare
    cpu = f"CPU {median([each.cpu for each in ours]):.2f} s"
    cpu += "".join(f", {name} {runs[0].cpu:.0f}" for name, runs in theirs.items())
    note = "; ".join(filter(None, (cpu, f"best {min(each.seconds for each in ours):.2f}", ratios(took, others))))
    return Row("index", what, tidings=took, others=others, value=took if target else None, target=target, note=note)


def _builds(yard: Yard, server: Server, vault: Vault, times: int) -> Builds:
    found = Builds()
    for _ in range(times):
        say(f"index: {server.name}, {len(vault.notes):,} notes")
        cache = yard.fresh()
        with server.start(vault, cache) as session:
            found.first.append(_ready(yard, server, session, vault))
            _check(yard, server, session, vault)
            found.memory.append(session.memory())
            found.idle = _idle(session, yard.size.idle)
        with server.start(vault, cache) as session:
            found.again.append(_ready(yard, server, session, vault))
            _check(yard, server, session, vault)
        yard.keep(server, vault, cache)
    return found


def _ready(yard: Yard, server: Server, session: Session, vault: Vault) -> Took:
    session.open()
    server.wait(session, vault, yard.size.patience)
    return Took(time.monotonic() - session.began, session.whole_cpu())


def _idle(session: Session, seconds: float) -> float:
    """How busy it is once it has tidied up; or, if it never comes to rest, a while after it was ready."""
    until = time.monotonic() + _TIDYING
    while time.monotonic() < until and _busy(session, min(seconds, _RESTING)) > _AT_REST:
        pass
    return _busy(session, seconds)


def _busy(session: Session, seconds: float) -> float:
    before, start = session.whole_cpu(), time.monotonic()
    time.sleep(seconds)
    return (session.whole_cpu() - before) / (time.monotonic() - start) * 100


def _check(yard: Yard, server: Server, session: Session, vault: Vault) -> None:
    """An index that lacks something was not quick."""
    if server is yard.tidings:
        stats = json.loads(session.read("vault://stats"))
        if (stats["notes"], stats["tags"]) != (len(vault.notes), len(vault.tags)):
            wanted = f"{len(vault.notes)} notes, {len(vault.tags)} tags"
            raise ProcessFailed(f"the index is said to be complete, but it is not: {stats}, not {wanted}")
