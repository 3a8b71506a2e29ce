"""What the session's records show of a step: that it had its effect, and how long each hop took.

Nothing here knows who did it: a note that was edited in an editor counts as much as one that a button edited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_list, as_text
from tidings.inspector.records import Record
from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ChangeView, RequestView
from tidings.inspector.view.view import ServerView

_HOPS: Final = {"published": "notified", "received": "received", "read": "fresh copy"}
_LONGEST: Final = 60.0
"""Seconds between a change and its notification, beyond which the one is not the reason of the other."""


@dataclass(frozen=True)
class Hop:
    """A hop, and the milliseconds since the one before."""

    words: str
    ms: float | None = None


@dataclass(frozen=True)
class ObservedEffect:
    """The effect of a step, as it was seen."""

    at: float
    words: str
    hops: tuple[Hop, ...] = ()
    lines: tuple[str, ...] = ()
    """What changed, as lines with their sign."""
    server: str = "vault"
    screen: str = "live"
    item: str | None = None
    """Where the inspector shows it."""


def duration(seconds: float) -> str:
    """A time as people read it."""
    ms = max(seconds, 0.0) * 1000
    return f"{ms:.0f} ms" if ms >= 1 and ms < 999.5 else "<1 ms" if ms < 1 else f"{ms / 1000:.1f} s"


def change_of(record: Record, view: ServerView) -> ChangeView | None:
    """The change that a content answers, if it brought something new."""
    seq = record.data.get("change")
    change = view.changes.get(seq) if record.kind == "content" and isinstance(seq, int) else None
    return change if change is not None and change.content is not None else None


def seen_change(record: Record, view: ServerView, source: "HopSource") -> ObservedEffect | None:
    """That a resource changed, was told of, and read again."""
    change = change_of(record, view)
    versions = view.contents.get(source.uri)
    if change is None or record.data.get("uri") != source.uri or versions is None or len(versions) < 2:
        return None
    if versions[-1].seq != change.content:
        return None  # It was read again, and was the same.
    hops, fresh = _way(change, source)
    diff = change_shown(versions[-2], versions[-1], context=0)
    lines = tuple(f"{line.sign} {line.text}" for hunk in diff.hunks for line in hunk.lines if line.sign != " ")
    return ObservedEffect(record.at, f"{fresh}{diff.words}", hops, lines, view.name, "live", str(change.seq))


def _way(change: ChangeView, source: "HopSource") -> tuple[tuple[Hop, ...], str]:
    """The hops of a change, with its source's if that is known, and how long they took together, in words."""
    told = [(hop.name, hop.at) for hop in change.hops if hop.name != "source"]
    began = change.source or source.changed_at()
    if told and began is not None and 0 <= told[0][1] - began < _LONGEST:
        told.insert(0, ("source", began))
    hops = [Hop(source.words if name == "source" else _HOPS[name]) for name, _ in told[:1]]
    hops += [Hop(_HOPS[name], _ms(at - before)) for (_, before), (name, at) in pairwise(told)]
    return tuple(hops), f"fresh in {duration(told[-1][1] - told[0][1])}; " if len(told) > 1 else ""


@dataclass(frozen=True)
class HopSource:
    """What a resource is made of, and what its change is called."""

    uri: str
    words: str
    changed_at: Callable[[], float | None] = lambda: None
    """When it changed last. Servers may tell; where they do not, this machine knows."""


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else max(seconds, 0.0) * 1000


def seen_answer(record: Record, view: ServerView) -> ObservedEffect | None:
    """That a tool was called, and answered."""
    if record.kind != "request":
        return None
    request = view.requests.get(str(record.data.get("id")))
    if request is None or request.aside or request.method != "tools/call" or request.status != "completed":
        return None
    result = as_dict(request.result)
    if result.get("isError") is True:
        return None
    took = "" if request.took is None else f" in {duration(request.took)}"
    words = f"{as_text(request.params.get('name')) or 'the tool'} answered{took}: {_answer(result)}"
    return ObservedEffect(record.at, words, (), _found(request), view.name, "requests", request.id)


def _answer(result: dict[str, Any]) -> str:
    found = as_list(as_dict(result.get("structuredContent")).get("results"))
    return f"{len(found)} note{'' if len(found) == 1 else 's'}" if found else "see what it says"


def _found(request: RequestView) -> tuple[str, ...]:
    found = as_list(as_dict(as_dict(request.result).get("structuredContent")).get("results"))
    return tuple(str(as_dict(each).get("path")) for each in found if as_dict(each).get("path"))


@dataclass
class Outage:
    """A server that is away: what is seen of it, until what was written meanwhile has arrived."""

    since: float
    written: str
    """What the note has to contain to be fresh."""
    uri: str
    lost: float | None = None
    """When that was noticed."""
    served: float | None = None
    """When it listened again."""
    back: float | None = None

    def hear(self, record: Record, view: ServerView) -> ObservedEffect | None:
        """Take note of a record; the whole, once it is over."""
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
        hops = [Hop("killed")] + [Hop(words, _ms(at - before)) for (_, before), (words, at) in pairwise(told)]
        words = f"all is back after {duration(record.at - self.since)}, with what was written meanwhile"
        item = None if newest.change is None else str(newest.change)
        screen = "resources" if item is None else "live"
        return ObservedEffect(
            record.at, words, tuple(hops), (f"+ - [ ] {self.written}",), view.name, screen, item or self.uri
        )
