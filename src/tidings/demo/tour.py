"""The tour: steps that are done for whoever asks, and ticked off when their effect was seen in the session's records.

A step that was done by hand is ticked off as well; one whose button was pressed is not, until something came of it.

The words of the tour: its steps, and what to take home. The page and the terminal say the same.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from tidings.demo.step_check import HopSource, ObservedEffect, Outage, seen_answer, seen_change
from tidings.inspector.records import Record
from tidings.inspector.view.view import SessionView

QUESTION: Final = "flour"
"""What the second step searches for."""


@dataclass(frozen=True)
class TourStep:
    """One step."""

    name: str
    title: str
    words: str
    """What to do, and what it shows."""
    action: str
    """What the button says that does it."""
    place: str
    """The file or the address that it is about, or what happens."""
    is_path: bool = False
    """Whether that is to be copied."""
    server: str = "vault"
    """Where it can be seen: a server and a screen of the inspector."""
    screen: str = "live"


def steps(plan: Path, page: str) -> tuple[TourStep, ...]:
    """The steps that can be seen to have happened, in order."""
    return (
        TourStep(
            "edit",
            "Edit a note",
            "Open this file in any editor, change a line and save it. The server sees the file, tells whoever watches "
            "it, and the inspector reads it again: Live shows what changed, and how long each hop took.",
            "Edit it for me",
            str(plan),
            is_path=True,
        ),
        TourStep(
            "ask",
            "Ask a tool",
            f"Agents find things with tools. Search the vault for “{QUESTION}”: it answers from an index that is never "
            "behind the files.",
            "Search for me",
            f"search {QUESTION}",
            screen="requests",
        ),
        TourStep(
            "page",
            "Change a web page",
            "A second server watches this page of a small site. When its content changes, not merely its bytes, its "
            "readers are told, and read the difference.",
            "Change it for me",
            page,
            is_path=True,
            server="web",
        ),
        TourStep(
            "kill",
            "Kill the server",
            "The server of the vault is killed, and while it is gone the note is edited again. After two seconds it is "
            "started anew. Do nothing: the inspector notices, comes back by itself, and has what it missed.",
            "Kill it for me",
            "kill -9 of the vault server",
        ),
    )


@dataclass(frozen=True)
class TourSnippet:
    """Something to take home."""

    title: str
    text: str


LAST_TITLE: Final = "Use it"
LAST_WORDS: Final = "With your own notes, your own server, your own agent:"


def snippets(vault_url: str, plan_uri: str) -> tuple[TourSnippet, ...]:
    """The three ways to use Tidings. The agent's works at once, with this vault."""
    return (
        TourSnippet("Your notes, in Claude and others", "tidings vault ~/Notes --config claude-desktop"),
        TourSnippet(
            "Your server, made live",
            'live = tidings.attach(server)  # SDK or FastMCP\nawait live.notify.resource_updated("note://1")',
        ),
        TourSnippet(
            "Your agent, never stale",
            f'async with tidings.connect("{vault_url}") as client:\n'
            f'    async for note in client.watch("{plan_uri}"):\n'
            "        print(note.text)",
        ),
    )


LATE_SECONDS: Final = 20.0
"""After which a step that was begun and not seen is said to be late."""

Status = Literal["ready", "doing", "seen", "late"]


class NotReady(Exception):
    """The server that a step is about is not connected yet."""


@dataclass
class TourProgress:
    """How far a step is."""

    number: int
    step: TourStep
    status: Status = "ready"
    seen: ObservedEffect | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    late: asyncio.TimerHandle | None = None


class Tour:
    """All steps. Belongs to the event loop on which the session runs.

    Args:
        told: Called when a step was seen.
    """

    def __init__(self, *, told: Callable[[TourProgress], object] = lambda _: None) -> None:
        self.progress: dict[str, TourProgress] = {}
        self.snippets: tuple[TourSnippet, ...] = ()
        self.changed: Callable[[], object] = lambda: None
        """Called when there is something new to show."""
        self._actions: Mapping[str, Callable[[], object]] = {}
        self._sources: dict[str, HopSource] = {}
        """By server: what its steps change. Those of a server that is not here cannot be done yet."""
        self._lost_at = 0.0
        self._told = told
        self._outage: Outage | None = None

    def set(self, steps: Sequence[TourStep], snippets: Sequence[TourSnippet]) -> None:
        """These are the steps, by the names that `open` is given actions for."""
        self.progress = {step.name: TourProgress(number, step) for number, step in enumerate(steps, 1)}
        self.snippets = tuple(snippets)

    @property
    def complete(self) -> bool:
        """Whether the effect of every step was seen."""
        return all(each.seen is not None for each in self.progress.values())

    def open(self, server: str, source: HopSource, actions: Mapping[str, Callable[[], object]]) -> None:
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

    def _be_late(self, progress: TourProgress) -> None:
        if progress.status == "doing":
            progress.status = "late"
            progress.settled.set()
            self.changed()

    async def wait(self, name: str) -> ObservedEffect | None:
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

    def _tick(self, name: str, seen: ObservedEffect | None) -> None:
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


def _facts(progress: TourProgress) -> dict[str, Any]:
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
