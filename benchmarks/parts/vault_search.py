"""What does a question cost, through the server: a rare word, a common one, a phrase, a pattern, all tags?"""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.parts.vault_limits import QUERIES, RIPGREP, plain_index, plain_query, ripgrep
from benchmarks.parts.vault_notes import PATTERN, Vault
from benchmarks.parts.vault_servers import LIMIT, Server
from benchmarks.parts.vault_session import Session
from benchmarks.parts.vault_yard import BARE, Yard, high, median, ratios
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, Target, leave_out, say
from benchmarks.table import figure

RG = "ripgrep"
SMALL = Target(150, "most", " MB")
TARGETS = {
    "rare": Target(5, "most", " ms"),
    "common": Target(50, "most", " ms"),
    "tags": Target(5, "most", " ms"),
}
SAID = {
    "rare": "a search for a rare word",
    "common": "a search for a common word",
    "phrase": "a search for a phrase",
    "regex": "a search for a regular expression",
    "tags": "all tags",
}
LONG_ENOUGH = 10
"""Seconds that are spent on one kind of question at most."""


def measure(yard: Yard) -> Iterator[Row]:
    if ripgrep(yard.vault(yard.size.notes), "rare", 1) is None:
        leave_out("ripgrep", "rg is not installed")
    # The peers are asked about the smaller vault alone, and the targets are for that.
    for notes in (yard.size.notes, yard.size.many):
        yield from _rows(yard, yard.vault(notes))


def _rows(yard: Yard, vault: Vault) -> list[Row]:
    judged = len(vault.notes) == yard.size.notes
    of = f"{len(vault.notes):,} notes"
    say(f"search: {of}")
    plain = yard.fresh()
    plain_index(vault, plain)
    others: dict[str, dict[str, Cell]] = {name: {} for name in SAID}
    theirs: dict[str, Cell] = {}
    if judged:
        theirs |= yard.beside(lambda peer: _ask_peer(yard, peer, vault, others))
    rows: list[Row] = []
    with yard.indexed(yard.tidings, vault) as session:
        for name, said in SAID.items():
            _beside(yard, vault, plain, name, others[name])
            took, cpu, remark = _timed(session, _question(yard, session, vault, name), yard.size.calls)
            target = TARGETS.get(name) if judged else None
            figures = f"p95 {figure(high(took))}, CPU {figure(cpu)} ms"
            note = "; ".join(filter(None, (figures, ratios(median(took), others[name]), remark)))
            rows.append(
                Row(
                    "search",
                    f"ms for {said}, {of}",
                    tidings=median(took),
                    others=others[name],
                    value=median(took) if target else None,
                    target=target,
                    note=note,
                )
            )
        memory = session.memory()
    rows.append(
        Row(
            "memory",
            f"MB resident after these searches, {of}",
            tidings=memory.resident,
            others=theirs,
            value=memory.resident if judged else None,
            target=SMALL if judged else None,
            note=f"PSS {memory.shared:.0f}, of its own {memory.own:.0f}",
        )
    )
    return rows


def _beside(yard: Yard, vault: Vault, plain: Path, name: str, others: dict[str, Cell]) -> None:
    if name in QUERIES:
        others[BARE] = plain_query(plain, name, min(yard.size.calls, 20))
    if name in RIPGREP and (took := ripgrep(vault, name, yard.size.peer_calls)) is not None:
        others[RG] = took


def _question(yard: Yard, session: Session, vault: Vault, name: str) -> Callable[[], str]:
    """Asks, and looks at the answer: what is wrong was not quick. What the answer says of itself is returned."""
    tidings = yard.tidings
    if name == "tags":

        def list_tags() -> str:
            listed = tidings.tags(session)
            if listed not in (len(vault.tags), len(vault.nested)):
                raise ProcessFailed(f"{listed} tags, not {len(vault.tags)} or, with their parents, {len(vault.nested)}")
            return ""

        return list_tags
    query = f"/{PATTERN}/" if name == "regex" else QUERIES[name]
    total = {"common": vault.common, "phrase": vault.phrase}.get(name, len(vault.rare))

    def search() -> str:
        found = tidings.search(session, query)
        if name == "regex" and "note" in found:
            return found["note"]  # It takes too long here: it ended early, and says so.
        paths = {hit["path"] for hit in found["results"]}
        if found["total"] != total or len(paths) != min(total, LIMIT):
            raise ProcessFailed(f"a search for {query} finds {found['total']} notes, not {total}")
        if total == len(vault.rare) and paths != vault.rare:
            raise ProcessFailed(f"a search for {query} finds {paths}, not {vault.rare}")
        return ""

    return search


def _timed(session: Session, ask: Callable[[], str], times: int) -> tuple[list[float], float, str]:
    """Milliseconds of each call, the server's CPU for one, and what it says of the answer."""
    said = ask()
    took: list[float] = []
    cpu, begin = session.cpu(), time.monotonic()
    while len(took) < times and (len(took) < 3 or time.monotonic() - begin < LONG_ENOUGH):
        start = time.monotonic()
        ask()
        took.append((time.monotonic() - start) * 1000)
    return took, (session.cpu() - cpu) / len(took) * 1000, said


def _ask_peer(yard: Yard, peer: Server, vault: Vault, others: dict[str, dict[str, Cell]]) -> float:
    """Adds its figures to `others`; returns what it occupies then."""
    say(f"search: {peer.name}")
    with yard.indexed(peer, vault) as session:
        for name, query in QUERIES.items():
            others[name][peer.name] = _median(lambda query=query: peer.find(session, query), yard.size.peer_calls)
        try:
            others["tags"][peer.name] = _median(lambda: peer.tags(session), yard.size.peer_calls)
        except ProcessFailed:
            others["tags"][peer.name] = "error"
        return session.memory().resident


def _median(ask: Callable[[], object], times: int) -> float:
    took: list[float] = []
    for _ in range(times):
        start = time.monotonic()
        ask()
        took.append((time.monotonic() - start) * 1000)
    return float(statistics.median(took))
