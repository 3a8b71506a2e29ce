"""How soon is a subscriber told of an edit on the disk, and how soon does a search find it?"""

import random
import time
from pathlib import Path
from urllib.parse import quote

from benchmarks.parts.vault_notes import Vault
from benchmarks.parts.vault_servers import Server
from benchmarks.parts.vault_session import Session
from benchmarks.parts.vault_yard import Yard, high, median
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, Target, say
from benchmarks.table import figure

SOON = Target(50, "most", " ms")
ONCE = Target(1, "most")
SEEN_WITHIN = 15.0
OVERVIEWS = ("vault://recent", "vault://stats", "vault://tags", "vault://search/quetzal")


def measure(yard: Yard) -> list[Row]:
    vault = yard.vault(yard.size.notes, "Edited")
    say(f"edits: {yard.size.edits}")
    with yard.indexed(yard.tidings, vault) as session:
        alone = _edit(yard, session, vault, "")
        for uri in OVERVIEWS:
            session.subscribe(uri)
        among = _edit(yard, session, vault, " among overviews")
        found = _found(yard.tidings, session, vault)
    if found is None:
        raise ProcessFailed("what was written to a note is not found")
    return [*alone, *among, _seen(yard, found)]


def _edit(yard: Yard, session: Session, vault: Vault, among: str) -> list[Row]:
    """Edit watched notes one by one, with pauses of random length, so that they meet no rhythm of the server."""
    rng = random.Random(1)
    notes = rng.sample(vault.notes, yard.size.watched)
    uris = {note: f"vault://note/{quote(note)}" for note in notes}
    for uri in uris.values():
        session.subscribe(uri)
    time.sleep(0.3)
    session.forget()
    took: list[float] = []
    told = 0
    cpu = session.cpu()
    for number in range(yard.size.edits):
        note = notes[number % len(notes)]
        start = change(vault.root / note, f"\nEdit {number}{among}\n", replace=number % 2 == 1)
        took.append((session.updated(uris[note]) - start) * 1000)
        time.sleep(rng.uniform(0.15, 0.25))
        told += 1 + sum(notified.params.get("uri") == uris[note] for notified in session.forget())
    used = (session.cpu() - cpu) / yard.size.edits * 1000
    watched = f"{len(notes)} notes" + (f", {', '.join(OVERVIEWS)}" if among else "")
    what = "ms from an edit until its subscriber is told" + (", overviews watched too" if among else "")
    return [
        Row(
            "edits",
            what,
            tidings=median(took),
            value=median(took),
            target=SOON,
            note=f"CPU {figure(used)} ms; {watched}",
        ),
        Row("edits", f"{what}, p95", tidings=high(took)),
        Row(
            "edits",
            "notifications of a note for one edit" + (", overviews watched too" if among else ""),
            tidings=told / yard.size.edits,
            value=told / yard.size.edits,
            target=ONCE,
            note="half of the edits write the file, half replace it",
        ),
    ]


def change(file: Path, more: str, *, replace: bool) -> float:
    """Add to a file, in place or as editors do that write another and rename it; returns when it began."""
    text = file.read_text() + more
    start = time.monotonic()
    if replace:
        other = file.with_name(f".{file.name}.new")
        other.write_text(text)
        other.replace(file)
    else:
        file.write_text(text)
    return start


def _seen(yard: Yard, ours: float) -> Row:
    theirs: dict[str, Cell] = {}
    theirs |= yard.beside(lambda peer: _seen_by(yard, peer))
    what = "s from an edit until a search finds it"
    return Row("edits", what, tidings=ours, others=theirs, note="asked again and again; the peers tell nobody")


def _seen_by(yard: Yard, peer: Server) -> Cell:
    # In the vault that it has indexed already: one more word does no harm there.
    vault = yard.vault(yard.size.notes)
    say(f"edits: {peer.name}")
    with yard.indexed(peer, vault) as session:
        return _found(peer, session, vault) or f"> {SEEN_WITHIN:.0f}"


def _found(server: Server, session: Session, vault: Vault) -> float | None:
    """Write a word that is nowhere else, and ask for it until it is found; the seconds, None if it is not."""
    note = vault.notes[len(vault.notes) // 3]
    word = f"{server.name[:3].lower()}xylophone"
    server.find(session, word)
    start = change(vault.root / note, f"\n{word}\n", replace=False)
    while time.monotonic() - start < SEEN_WITHIN:
        if note in server.find(session, word):
            return time.monotonic() - start
        time.sleep(0.01)
    return None
