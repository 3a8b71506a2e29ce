"""The tour: its steps and their texts, doing them, and ticking them off.

A step is ticked off when the session's records show its effect, with the time of each hop. Nothing there knows who did
it: a note that was edited in an editor counts as much as one that a button edited. The page and the terminal show the
same texts.
"""

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from tidings._kit import text
from tidings._kit.bounded_json import as_dict, as_dicts, as_text
from tidings.demo.sample import FLOUR, FLOUR_URI, PLAN, PLAN_URI
from tidings.inspector.records import Record
from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ChangeView
from tidings.inspector.view.view import ServerView, SessionView

_HOPS: Final = {"published": "notified", "received": "received", "read": "fresh copy"}
_LONGEST: Final = 60.0  # A notification that comes more seconds after a change does not belong to it


@dataclass(frozen=True)
class TimedHop:
    """A hop, and the milliseconds since the previous one."""

    words: str
    ms: float | None = None


@dataclass(frozen=True)
class ObservedEffect:
    """The effect of a step, and where the inspector shows it."""

    at: float
    words: str
    hops: tuple[TimedHop, ...] = ()
    lines: tuple[str, ...] = ()  # The changed lines with their sign
    server: str = "vault"
    screen: str = "live"
    item: str | None = None


@dataclass(frozen=True)
class HopSource:
    """The source of a resource: the words for its change, and its time, where the server does not send that."""

    uri: str
    words: str
    changed_at: Callable[[], float | None] = lambda: None


def duration(seconds: float) -> str:
    """Returns a time in words."""
    return "<1 ms" if seconds < 0.001 else text.duration(seconds)


def change_of(record: Record, view: ServerView) -> ChangeView | None:
    """Returns the change that led to this content, if the content is new."""
    seq = record.data.get("change")
    change = view.changes.get(seq) if record.kind == "content" and isinstance(seq, int) else None
    return change if change is not None and change.content is not None else None


def seen_change(record: Record, view: ServerView, source: HopSource) -> ObservedEffect | None:
    """Returns the effect if a resource changed, was notified and read again."""
    change = change_of(record, view)
    versions = view.contents.get(source.uri)
    if change is None or record.data.get("uri") != source.uri or versions is None or len(versions) < 2:
        return None
    if versions[-1].seq != change.content:
        return None  # It was read again, without a difference.
    told = [(_HOPS[hop.name], hop.at) for hop in change.hops if hop.name != "source"]
    began = change.source or source.changed_at()
    if told and began is not None and 0 <= told[0][1] - began < _LONGEST:
        told.insert(0, (source.words, began))
    fresh = f"fresh in {duration(told[-1][1] - told[0][1])}; " if len(told) > 1 else ""
    diff = change_shown(versions[-2], versions[-1], context=0)
    lines = tuple(f"{line.sign} {line.text}" for hunk in diff.hunks for line in hunk.lines if line.sign != " ")
    return ObservedEffect(record.at, f"{fresh}{diff.words}", _hops(told), lines, view.name, "live", str(change.seq))


def _hops(told: list[tuple[str, float]]) -> tuple[TimedHop, ...]:
    later = [TimedHop(words, max(at - before, 0.0) * 1000) for (_, before), (words, at) in pairwise(told)]
    return (*(TimedHop(words) for words, _ in told[:1]), *later)


def seen_answer(record: Record, view: ServerView) -> ObservedEffect | None:
    """Returns the effect if a tool was called and answered."""
    if record.kind != "request":
        return None
    request = view.requests.get(str(record.data.get("id")))
    if request is None or request.aside or request.method != "tools/call" or request.status != "completed":
        return None
    result = as_dict(request.result)
    if result.get("isError") is True:
        return None
    found = as_dicts(as_dict(result.get("structuredContent")).get("results"))
    took = "" if request.took is None else f" in {duration(request.took)}"
    answer = text.counted(len(found), "note") if found else "see its answer"
    words = f"{as_text(request.params.get('name')) or 'the tool'} answered{took}: {answer}"
    paths = tuple(str(each["path"]) for each in found if each.get("path"))
    return ObservedEffect(record.at, words, (), paths, view.name, "tasks", request.id)


@dataclass
class Outage:
    """A server that is away, until the text that was written meanwhile has arrived."""

    since: float
    written: str  # The text that a fresh copy contains
    uri: str
    lost: float | None = None  # The time when the loss was noticed
    served: float | None = None  # The time when it listened again
    back: float | None = None

    def hear(self, record: Record, view: ServerView) -> ObservedEffect | None:
        """Takes a record. Returns the effect once the outage is over."""
        if record.kind == "state":
            if record.data.get("state") != "connected":
                self.lost = self.lost or record.at
            elif self.lost is not None:
                self.back = record.at
        versions = view.contents.get(self.uri)
        newest = None if versions is None else versions.last
        if record.kind != "content" or newest is None or self.written not in newest.text:
            return None
        if self.lost is None or self.back is None:
            return None
        told = [("killed", self.since), ("noticed", self.lost)]
        if self.served is not None and self.lost < self.served < self.back:
            told.append(("started again", self.served))
        told += [("connected", self.back), ("fresh copy", record.at)]
        words = f"everything is back after {duration(record.at - self.since)}, with what was written meanwhile"
        screen, item = ("resources", self.uri) if newest.change is None else ("live", str(newest.change))
        return ObservedEffect(record.at, words, _hops(told), (f"+ - [ ] {self.written}",), view.name, screen, item)


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


def steps(vault: Path, page: str) -> tuple[TourStep, ...]:
    """Returns the steps in their order. Their texts are in `tour.json`."""
    names = {"plan": vault / PLAN, "flour": vault / FLOUR, "page": page, "question": QUESTION}
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tour.json").read_text("utf-8"))
    for row in rows:
        row.update({key: text.format(**names) for key, text in row.items() if isinstance(text, str)})
    return tuple(TourStep(**row) for row in rows)


LAST_TITLE: Final = "Use it"
LAST_WORDS: Final = "With your own notes, your own server, your own agent:"


def snippets(vault_url: str, *, claude: bool = False) -> dict[str, str]:
    """Returns the ways to use Tidings, by their titles. The agent works at once, with this vault.

    So does Claude Code, for users who have it. Nothing is added to its settings.
    """
    config = json.dumps({"mcpServers": {"bakery": {"type": "http", "url": vault_url}}})
    prompt = f"Wait for changes to {FLOUR_URI} with wait_for_change. When it changes, tell me what is new."
    words = ["claude", prompt, "--mcp-config", config, "--allowedTools", "mcp__bakery__wait_for_change"]
    here = {"Now, with Claude Code: run this, and repeat step 2 once it waits": shlex.join(words)} if claude else {}
    return here | {
        "Your notes, in Claude and others": "tidings install vault ~/Notes --client claude-desktop",
        "Your server, made live": (
            'live = tidings.attach(server)  # SDK or FastMCP\nawait live.notify.resource_updated("note://1")'
        ),
        "Your agent, never stale": (
            f'async with tidings.connect("{vault_url}") as client:\n'
            f'    async for note in client.watch("{PLAN_URI}"):\n'
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
        self._sources: dict[str, HopSource] = {}  # By server. The steps of one that is missing cannot be done yet.
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

    def do(self, step: str) -> bool:
        """Starts a step. Returns False if its server is not connected yet; raises `KeyError` for an unknown step."""
        progress = self.progress[step]
        if progress.step.server not in self._sources:
            return False
        if progress.status == "doing":
            return True
        progress.status = "doing"
        progress.settled.clear()

        def be_late() -> None:
            if progress.status == "doing":
                progress.status = "late"
                progress.settled.set()
                self._changed()

        progress.late = asyncio.get_running_loop().call_later(LATE_SECONDS, be_late)
        self._changed()
        self._actions[step]()
        return True

    async def wait(self, name: str) -> ObservedEffect | None:
        """Waits for the effect of a step that was started. Returns None if it takes too long."""
        await self.progress[name].settled.wait()
        return self.progress[name].seen if self.progress[name].status == "seen" else None

    def server_ended(self, since: float, written: str) -> None:
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
            if (seen := self._outage.hear(record, view)) is not None:
                self._outage = None
                self._tick("kill", seen)
        else:
            self._tick("edit", seen_change(record, view, source))
            self._tick("ask", seen_answer(record, view))

    def woken(self, at: float, saved_at: float | None, words: str, lines: tuple[str, ...]) -> None:
        """Notes that the agent was told of a change of its note, and what it says."""
        told = [("agent continues", at)]
        if saved_at is not None and 0 <= at - saved_at < _LONGEST:
            told.insert(0, ("file saved", saved_at))
        self._tick("wake", ObservedEffect(at, f"the agent says: “{words}”", _hops(told), lines))

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
        steps: list[dict[str, Any]] = []
        for each in self.progress.values():
            seen = each.seen and {**asdict(each.seen), "lines": None}  # The inspector shows them.
            ready = each.step.server in self._sources
            steps.append({**asdict(each.step), "status": each.status, "seen": seen, "ready": ready})
        snippets = [{"title": title, "text": text} for title, text in self.snippets.items()]
        return {"steps": steps, "last": {"title": LAST_TITLE, "words": LAST_WORDS, "snippets": snippets}}
