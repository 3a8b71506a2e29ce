"""The tour: its steps and their texts, doing them, and ticking them off.

A step is ticked off when the session's records show its effect, whoever did it. Pressing its button is not enough. The
page and the terminal show the same texts.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from tidings.demo.step_check import HopSource, ObservedEffect, Outage, seen_answer, seen_change
from tidings.inspector.records import Record
from tidings.inspector.view.view import SessionView

QUESTION: Final = "flour"  # The search of the second step


@dataclass(frozen=True)
class TourStep:
    """One step of the tour."""

    name: str
    title: str
    words: str  # The instruction, and what it shows
    action: str  # The label of its button
    place: str  # The file, the address or the command that it is about
    is_path: bool = False  # Offer to copy `place`
    server: str = "vault"  # The server and the screen of the inspector that show it
    screen: str = "live"


def steps(plan: Path, page: str) -> tuple[TourStep, ...]:
    """Returns the steps in their order. Their texts are in `tour.json`."""
    names = {"plan": plan, "page": page, "question": QUESTION}
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tour.json").read_text("utf-8"))
    for row in rows:
        row.update({key: text.format(**names) for key, text in row.items() if isinstance(text, str)})
    return tuple(TourStep(**row) for row in rows)


LAST_TITLE: Final = "Use it"
LAST_WORDS: Final = "With your own notes, your own server, your own agent:"


def snippets(vault_url: str, plan_uri: str) -> dict[str, str]:
    """Returns the three ways to use Tidings, by their titles. The agent works at once, with this vault."""
    return {
        "Your notes, in Claude and others": "tidings vault ~/Notes --config claude-desktop",
        "Your server, made live": (
            'live = tidings.attach(server)  # SDK or FastMCP\nawait live.notify.resource_updated("note://1")'
        ),
        "Your agent, never stale": (
            f'async with tidings.connect("{vault_url}") as client:\n'
            f'    async for note in client.watch("{plan_uri}"):\n'
            "        print(note.text)"
        ),
    }


LATE_SECONDS: Final = 20.0  # A step that had no effect after this time counts as late

Status = Literal["ready", "doing", "seen", "late"]


@dataclass
class TourProgress:
    """The progress of one step."""

    number: int
    step: TourStep
    status: Status = "ready"
    seen: ObservedEffect | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    late: asyncio.TimerHandle | None = None


class Tour:
    """All steps. Belongs to the event loop of the session. `on_seen` is called when a step had its effect."""

    def __init__(self, *, on_seen: Callable[[TourProgress], object] = lambda _: None) -> None:
        self.progress: dict[str, TourProgress] = {}
        self.snippets: Mapping[str, str] = {}
        self._changed: Callable[[], object] = lambda: None
        self._actions: Mapping[str, Callable[[], object]] = {}
        self._sources: dict[str, HopSource] = {}
        """By server: the source of its changes. The steps of a server that is missing here cannot be done yet."""
        self._lost_at = 0.0
        self._on_seen = on_seen
        self._outage: Outage | None = None

    def listen(self, changed: Callable[[], object]) -> None:
        self._changed = changed

    def set_steps(self, steps: Sequence[TourStep], snippets: Mapping[str, str]) -> None:
        self.progress = {step.name: TourProgress(number, step) for number, step in enumerate(steps, 1)}
        self.snippets = snippets

    @property
    def complete(self) -> bool:
        return all(each.seen is not None for each in self.progress.values())

    def open(self, server: str, source: HopSource, actions: Mapping[str, Callable[[], object]]) -> None:
        """Allows the steps of a server, which is connected now. `actions` has the action of each step by its name."""
        self._sources[server] = source
        self._actions = {**self._actions, **actions}
        self._changed()

    def do(self, name: str) -> bool:
        """Starts a step. Returns False if its server is not connected yet; raises `KeyError` for an unknown step."""
        progress = self.progress[name]
        if progress.step.server not in self._sources:
            return False
        if progress.status == "doing":
            return True
        progress.status = "doing"
        progress.settled.clear()
        progress.late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._be_late, progress)
        self._changed()
        self._actions[name]()
        return True

    def _be_late(self, progress: TourProgress) -> None:
        if progress.status == "doing":
            progress.status = "late"
            progress.settled.set()
            self._changed()

    async def wait(self, name: str) -> ObservedEffect | None:
        """Waits for the effect of a step that was started. Returns None if it takes too long."""
        progress = self.progress[name]
        await progress.settled.wait()
        return progress.seen if progress.status == "seen" else None

    def server_ended(self, since: float, written: str) -> None:
        """Notes that the vault's server has ended, and the text that was written since."""
        if "vault" not in self._sources:
            return  # It was not connected yet.
        self._outage = Outage(since, written, self._sources["vault"].uri)
        if self._lost_at >= since - 1:  # The inspector noticed first.
            self._outage.lost, self._outage.since = self._lost_at, min(since, self._lost_at)
        if self.progress["kill"].status != "doing":  # The user killed it.
            self.progress["kill"].status = "doing"
            self._changed()

    def server_listens(self, at: float, pid: int) -> None:
        kill = self.progress["kill"]
        kill.step = replace(kill.step, place=f"kill -9 {pid}", is_path=True)
        self._changed()
        if self._outage is not None:
            self._outage.served = at

    def hear(self, record: Record, views: SessionView) -> None:
        view, source = views.servers.get(record.server), self._sources.get(record.server)
        if view is None or source is None:
            return
        if record.server == "web":
            self._tick("page", seen_change(record, view, source))
            return
        if record.kind == "state" and record.data.get("old") == "connected":
            self._lost_at = record.at
        if self._outage is not None:
            seen = self._outage.hear(record, view)
            if seen is not None:
                self._outage = None
                self._tick("kill", seen)
        else:
            self._tick("edit", seen_change(record, view, source))
            self._tick("ask", seen_answer(record, view))

    def _tick(self, name: str, seen: ObservedEffect | None) -> None:
        if seen is None:
            return
        progress = self.progress[name]
        progress.status, progress.seen = "seen", seen
        if progress.late is not None:
            progress.late.cancel()
        progress.settled.set()
        self._on_seen(progress)
        self._changed()

    def facts(self) -> dict[str, Any]:
        """Returns the tour as the page shows it."""
        snippets = [{"title": title, "text": text} for title, text in self.snippets.items()]
        return {
            "steps": [self._facts(each) for each in self.progress.values()],
            "last": {"title": LAST_TITLE, "words": LAST_WORDS, "snippets": snippets},
        }

    def _facts(self, progress: TourProgress) -> dict[str, Any]:
        seen = progress.seen and asdict(progress.seen)
        if seen:
            del seen["lines"]  # The inspector shows them.
        ready = progress.step.server in self._sources
        return {**asdict(progress.step), "status": progress.status, "seen": seen, "ready": ready}
