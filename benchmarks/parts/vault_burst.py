"""Thousands of files change at once, as when another branch is checked out: how soon is the index equal to the disk?

Of the files, eight of ten are replaced by others, one comes and one goes.
"""

import json
import random
import time
from urllib.parse import quote

from benchmarks.parts.vault_notes import Vault
from benchmarks.parts.vault_session import Session
from benchmarks.parts.vault_yard import Yard, median
from benchmarks.process import ProcessFailed
from benchmarks.report import Row, Target, say

SOON = Target(2, "most", " s")
PATIENCE = 60.0


def measure(yard: Yard) -> list[Row]:
    vault = yard.vault(yard.size.notes, "Edited")
    rng = random.Random(2)
    notes = sorted(vault.notes)
    writing: list[float] = []
    equal: list[float] = []
    told: list[float] = []
    cpu: list[float] = []
    with yard.indexed(yard.tidings, vault) as session:
        session.subscribe("vault://stats")
        for number in range(yard.size.bursts):
            say(f"burst: {yard.size.burst:,} files")
            checkout = Checkout(vault, rng.sample(notes, yard.size.burst * 9 // 10), yard.size.burst // 10, number)
            watched = checkout.replaced[: yard.size.watched]
            for note in watched:
                session.subscribe(f"vault://note/{quote(note)}")
            session.forget()
            before, start = session.whole_cpu(), time.monotonic()
            checkout.run()
            written = time.monotonic()
            checkout.wait(session, len(notes))
            equal.append(time.monotonic() - written)
            writing.append(written - start)
            cpu.append(session.whole_cpu() - before)
            time.sleep(1)
            told.append(float(len(session.forget())))
            notes = sorted({*notes, *checkout.added} - {*checkout.gone})
            for note in watched:
                session.request("resources/unsubscribe", {"uri": f"vault://note/{quote(note)}"})
    what = f"s from the end of a burst of {yard.size.burst:,} files until the index is equal"
    return [
        Row(
            "burst",
            what,
            tidings=median(equal),
            value=median(equal),
            target=SOON,
            note=f"the burst itself {median(writing):.2f} s; CPU {median(cpu):.2f} s; best {min(equal):.2f}",
        ),
        Row(
            "burst",
            f"notifications for a burst of {yard.size.burst:,} files",
            tidings=median(told),
            note=f"with {yard.size.watched} of its notes and vault://stats watched",
        ),
    ]


class Checkout:
    """One burst."""

    def __init__(self, vault: Vault, touched: list[str], some: int, number: int) -> None:
        self._vault = vault
        self._tag = f"burst/turn{number}"
        self.gone, self.replaced = touched[:some], touched[some:]
        self.added = [f"Burst {number}/New {number} {i}.md" for i in range(some)]

    def run(self) -> None:
        mark = f"\n#{self._tag}\n"
        root = self._vault.root
        texts = {path: (root / path).read_text() + mark for path in self.replaced}
        (root / self.added[0]).parent.mkdir()
        for path in self.gone:
            (root / path).unlink()
        for path, text in texts.items():
            (root / path).unlink()
            (root / path).write_text(text)
        for path in self.added:
            (root / path).write_text(f"# New\n{mark}")

    def wait(self, session: Session, notes: int) -> None:
        """Return when the index has every file as it is now.

        Raises:
            ProcessFailed: It does not come to that.
        """
        marked = len(self.replaced) + len(self.added)
        deadline = time.monotonic() + PATIENCE
        while (found := self._marked(session)) != marked or (there := _notes(session)) != notes:
            if time.monotonic() > deadline:
                raise ProcessFailed(f"after a burst the index has {found} of {marked} marked notes")
            time.sleep(0.03)
        assert there == notes

    def _marked(self, session: Session) -> int:
        listed = session.call("tags", prefix=self._tag)["tags"]
        return max((tag["count"] for tag in listed), default=0)


def _notes(session: Session) -> int:
    return json.loads(session.read("vault://stats"))["notes"]
