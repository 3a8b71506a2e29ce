"""The effect of a step, found in the session's records, with the time of each hop.

Nothing here knows who did it: a note that was edited in an editor counts as much as one that a button edited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidings._kit import text
from tidings._kit.bounded_json import as_dict, as_dicts, as_text
from tidings.inspector.records import Record
from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ChangeView
from tidings.inspector.view.view import ServerView

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


def duration(seconds: float) -> str:
    """Returns a time in words."""
    return "<1 ms" if seconds < 0.001 else text.duration(seconds)


def change_of(record: Record, view: ServerView) -> ChangeView | None:
    """Returns the change that led to this content, if the content is new."""
    seq = record.data.get("change")
    change = view.changes.get(seq) if record.kind == "content" and isinstance(seq, int) else None
    return change if change is not None and change.content is not None else None


def seen_change(record: Record, view: ServerView, source: "HopSource") -> ObservedEffect | None:
    """Returns the effect if a resource changed, was notified and read again."""
    change = change_of(record, view)
    versions = view.contents.get(source.uri)
    if change is None or record.data.get("uri") != source.uri or versions is None or len(versions) < 2:
        return None
    if versions[-1].seq != change.content:
        return None  # It was read again, without a difference.
    hops, fresh = _way(change, source)
    diff = change_shown(versions[-2], versions[-1], context=0)
    lines = tuple(f"{line.sign} {line.text}" for hunk in diff.hunks for line in hunk.lines if line.sign != " ")
    return ObservedEffect(record.at, f"{fresh}{diff.words}", hops, lines, view.name, "live", str(change.seq))


def _way(change: ChangeView, source: "HopSource") -> tuple[tuple[TimedHop, ...], str]:
    """Returns the hops of a change, from its source if that is known, and their total time in words."""
    told = [(hop.name, hop.at) for hop in change.hops if hop.name != "source"]
    began = change.source or source.changed_at()
    if told and began is not None and 0 <= told[0][1] - began < _LONGEST:
        told.insert(0, ("source", began))
    hops = _hops([(source.words if name == "source" else _HOPS[name], at) for name, at in told])
    return hops, f"fresh in {duration(told[-1][1] - told[0][1])}; " if len(told) > 1 else ""


@dataclass(frozen=True)
class HopSource:
    """The source of a resource: the name of its change, and its time."""

    uri: str
    words: str
    changed_at: Callable[[], float | None] = lambda: None
    """Returns the time of its last change, for servers that do not send it."""


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
    return ObservedEffect(record.at, words, (), paths, view.name, "requests", request.id)


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
            connected = record.data.get("state") == "connected"
            if not connected and self.lost is None:
                self.lost = record.at
            if connected and self.lost is not None:
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
        item = None if newest.change is None else str(newest.change)
        screen = "resources" if item is None else "live"
        lines = (f"+ - [ ] {self.written}",)
        return ObservedEffect(record.at, words, _hops(told), lines, view.name, screen, item or self.uri)
