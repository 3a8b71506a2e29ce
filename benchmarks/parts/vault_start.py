"""How soon does a client have the tools of a server that it starts on a vault that nobody has indexed yet?"""

import time
from collections.abc import Callable

from benchmarks.parts.vault_limits import QUERIES, bare_server
from benchmarks.parts.vault_notes import Vault
from benchmarks.parts.vault_servers import Server
from benchmarks.parts.vault_session import Session
from benchmarks.parts.vault_yard import BARE, Yard, median, ratios
from benchmarks.process import ProcessFailed
from benchmarks.report import TIMES, Cell, Row, Target, say

LITTLE_MORE = Target(2, "most", TIMES)
"""Of the CPU time of the SDK's own server without any tools."""


def measure(yard: Yard) -> list[Row]:
    small, large = yard.vault(yard.size.notes), yard.vault(yard.size.many)
    say(f"start: {yard.size.starts} times")
    begin: dict[str, Callable[[], Session]] = {
        "small": lambda: yard.tidings.start(small, yard.fresh()),
        "large": lambda: yard.tidings.start(large, yard.fresh()),
        **{peer.name: _starter(yard, peer, small) for peer in yard.peers},
        BARE: lambda: bare_server(yard.fresh()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in begin}
    cpu: dict[str, list[float]] = {name: [] for name in begin}
    for _ in range(yard.size.starts):
        for name, start in begin.items():
            with start() as session:
                session.open()
                seconds[name].append(time.monotonic() - session.began)
                cpu[name].append(session.cpu())
                session.close(patience=2)  # Some would finish their index first.
    rows: list[Row] = []
    for name, vault, beside in (
        ("small", small, [*(peer.name for peer in yard.peers), BARE]),
        ("large", large, [BARE]),
    ):
        ours = median(seconds[name])
        others: dict[str, Cell] = {other: median(seconds[other]) for other in beside}
        note = f"CPU {median(cpu[name]):.2f} s, bare {median(cpu[BARE]):.2f}; best {min(seconds[name]):.2f}"
        rows.append(
            Row(
                "start",
                f"s from start to tools/list, {len(vault.notes):,} notes, no index yet",
                tidings=ours,
                others=others,
                value=median(cpu[name]) / median(cpu[BARE]),
                target=LITTLE_MORE,
                note=f"{note}; {ratios(ours, others)}",
            )
        )
    return [*rows, _first_answer(yard, small)]


def _first_answer(yard: Yard, vault: Vault) -> Row:
    """How soon is a rare word found in all of its notes, by a server without an index?"""
    say("start: first answers")
    ours = [_answered(yard, yard.tidings, vault) for _ in range(yard.size.builds)]
    theirs: dict[str, Cell] = dict(yard.beside(lambda peer: _answered(yard, peer, vault)))
    what = f"s from start to the first right answer to a search, {len(vault.notes):,} notes, no index yet"
    note = f"best {min(ours):.2f}; {ratios(median(ours), theirs)}"
    return Row("start", what, tidings=median(ours), others=theirs, note=note)


def _answered(yard: Yard, server: Server, vault: Vault) -> float:
    with server.start(vault, yard.fresh()) as session:
        session.open()
        while frozenset(server.find(session, QUERIES["rare"])) != vault.rare:
            if time.monotonic() - session.began > yard.size.patience:
                raise ProcessFailed(f"{server.name} does not find the rare word in {yard.size.patience:.0f} s")
            time.sleep(0.05)
        took = time.monotonic() - session.began
        session.close(patience=2)
    return took


def _starter(yard: Yard, server: Server, vault: Vault) -> Callable[[], Session]:
    return lambda: server.start(vault, yard.fresh())
