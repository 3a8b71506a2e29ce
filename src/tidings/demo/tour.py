"""The tour: steps that are done for whoever asks, and ticked off when their effect was seen in the session's records.

A step that was done by hand is ticked off as well; one whose button was pressed is not, until something came of it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tidings.demo.seeing import Outage, Seen, Source, seen_answer, seen_change
from tidings.demo.steps import LAST_TITLE, LAST_WORDS, Snippet, Step
from tidings.inspector.records import Record
from tidings.inspector.views import SessionView

LATE_SECONDS: Final = 20.0
"""After which a step that was begun and not seen is said to be late."""

Status = Literal["ready", "doing", "seen", "late"]


class NotReady(Exception):
    """The server that a step is about is not connected yet."""


@dataclass
class Progress:
    """How far a step is."""

    number: int
    step: Step
    status: Status = "ready"
    seen: Seen | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    late: asyncio.TimerHandle | None = None


class Tour:
    """All steps. Belongs to the event loop on which the session runs.

    Args:
        told: Called when a step was seen.
    """

    def __init__(self, *, told: Callable[[Progress], object] = lambda _: None) -> None:
        self.progress: dict[str, Progress] = {}
        self.snippets: tuple[Snippet, ...] = ()
        self.changed: Callable[[], object] = lambda: None
        """Called when there is something new to show."""
        self._actions: Mapping[str, Callable[[], object]] = {}
        self._sources: dict[str, Source] = {}
        """By server: what its steps change. Those of a server that is not here cannot be done yet."""
        self._lost_at = 0.0
        self._told = told
        self._outage: Outage | None = None

    def set(self, steps: Sequence[Step], snippets: Sequence[Snippet]) -> None:
        """These are the steps, by the names that `open` is given actions for."""
        self.progress = {step.name: Progress(number, step) for number, step in enumerate(steps, 1)}
        self.snippets = tuple(snippets)

    @property
    def complete(self) -> bool:
        """Whether the effect of every step was seen."""
        return all(each.seen is not None for each in self.progress.values())

    def open(self, server: str, source: Source, actions: Mapping[str, Callable[[], object]]) -> None:
        """From now on the steps of a server can be done.

        Args:
            server: It is connected, and subscribed to.
            source: What changes there.
            actions: What does each step.
        """
        self._sources[server] = source
        self._actions = {**self._actions, **actions}
        self.changed()

    def do(self, name: str) -> None:
        """Do a step for somebody. What comes of it is seen later.

        Raises:
            KeyError: There is no such step.
            NotReady: It is too early.
        """
        progress = self.progress[name]
        if progress.step.server not in self._sources:
            raise NotReady
        if progress.status == "doing":
            return
        progress.status = "doing"
        progress.settled.clear()
        progress.late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._be_late, progress)
        self.changed()
        self._actions[name]()

    def _be_late(self, progress: Progress) -> None:
        if progress.status == "doing":
            progress.status = "late"
            progress.settled.set()
            self.changed()

    async def wait(self, name: str) -> Seen | None:
        """Wait until a step that is being done was seen; None if that takes too long."""
        progress = self.progress[name]
        await progress.settled.wait()
        return progress.seen if progress.status == "seen" else None

    # What is seen.

    def be_away(self, since: float, written: str) -> None:
        """The vault's server has ended, and this was written since."""
        if "vault" not in self._sources:
            return  # It was not even there.
        self._outage = Outage(since, written, self._sources["vault"].uri)
        if self._lost_at >= since - 1:  # The inspector was quicker.
            self._outage.lost, self._outage.since = self._lost_at, min(since, self._lost_at)
        if self.progress["kill"].status != "doing":  # Somebody killed it by hand.
            self.progress["kill"].status = "doing"
            self.changed()

    def be_served(self, at: float, pid: int) -> None:
        """It listens, or listens again, as this process."""
        kill = self.progress["kill"]
        kill.step = replace(kill.step, place=f"kill -9 {pid}", is_path=True)
        self.changed()
        if self._outage is not None:
            self._outage.served = at

    def hear(self, record: Record, views: SessionView) -> None:
        """Something happened: it may be what a step is about."""
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

    def _tick(self, name: str, seen: Seen | None) -> None:
        if seen is None:
            return
        progress = self.progress[name]
        progress.status, progress.seen = "seen", seen
        if progress.late is not None:
            progress.late.cancel()
        progress.settled.set()
        self._told(progress)
        self.changed()

    # What is shown.

    def facts(self) -> dict[str, Any]:
        """The tour as the page shows it."""
        return {
            "steps": [{**_facts(each), "ready": each.step.server in self._sources} for each in self.progress.values()],
            "last": {
                "title": LAST_TITLE,
                "words": LAST_WORDS,
                "snippets": [{"title": each.title, "text": each.text} for each in self.snippets],
            },
        }


def _facts(progress: Progress) -> dict[str, Any]:
    step, seen = progress.step, progress.seen
    return {
        "name": step.name,
        "title": step.title,
        "words": step.words,
        "action": step.action,
        "place": step.place,
        "is_path": step.is_path,
        "server": step.server,
        "screen": step.screen,
        "status": progress.status,
        "seen": seen
        and {
            "at": seen.at,
            "words": seen.words,
            "hops": [{"words": hop.words, "ms": hop.ms} for hop in seen.hops],
            "server": seen.server,
            "screen": seen.screen,
            "item": seen.item,
        },
    }
