"""The effect of a step, found in the session's records, with the time of each hop.

Nothing here knows who did it: a note that was edited in an editor counts as much as one that a button edited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tidings._kit import text
from tidings._kit.bounded_json import as_dict, as_list, as_text
from tidings.inspector.records import Record
from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ChangeView, RequestView
from tidings.inspector.view.view import ServerView

_HOPS: Final = {"published": "notified", "received": "received", "read": "fresh copy"}
_LONGEST: Final = 60.0  # A notification that comes more seconds after a change does not belong to it


@dataclass(frozen=True)
class Hop:
    """A hop, and the milliseconds since the previous one."""

    words: str
    ms: float | None = None


@dataclass(frozen=True)
class ObservedEffect:
    """The effect of a step, and where the inspector shows it."""

    at: float
    words: str
    hops: tuple[Hop, ...] = ()
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


def _way(change: ChangeView, source: "HopSource") -> tuple[tuple[Hop, ...], str]:
    """Returns the hops of a change, from its source if that is known, and their total time in words."""
    told = [(hop.name, hop.at) for hop in change.hops if hop.name != "source"]
    began = change.source or source.changed_at()
    if told and began is not None and 0 <= told[0][1] - began < _LONGEST:
        told.insert(0, ("source", began))
    hops = [Hop(source.words if name == "source" else _HOPS[name]) for name, _ in told[:1]]
    hops += [Hop(_HOPS[name], _ms(at - before)) for (_, before), (name, at) in pairwise(told)]
    return tuple(hops), f"fresh in {duration(told[-1][1] - told[0][1])}; " if len(told) > 1 else ""


@dataclass(frozen=True)
class HopSource:
    """The source of a resource: the name of its change, and its time."""

    uri: str
    words: str
    changed_at: Callable[[], float | None] = lambda: None
    """Returns the time of its last change, for servers that do not send it."""


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else max(seconds, 0.0) * 1000


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
    took = "" if request.took is None else f" in {duration(request.took)}"
    words = f"{as_text(request.params.get('name')) or 'the tool'} answered{took}: {_answer(result)}"
    return ObservedEffect(record.at, words, (), _found(request), view.name, "requests", request.id)


def _answer(result: dict[str, Any]) -> str:
    found = as_list(as_dict(result.get("structuredContent")).get("results"))
    return f"{len(found)} note{'' if len(found) == 1 else 's'}" if found else "see its answer"


def _found(request: RequestView) -> tuple[str, ...]:
    found = as_list(as_dict(as_dict(request.result).get("structuredContent")).get("results"))
    return tuple(str(as_dict(each).get("path")) for each in found if as_dict(each).get("path"))


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
        hops = [Hop("killed")] + [Hop(words, _ms(at - before)) for (_, before), (words, at) in pairwise(told)]
        words = f"everything is back after {duration(record.at - self.since)}, with what was written meanwhile"
        item = None if newest.change is None else str(newest.change)
        screen = "resources" if item is None else "live"
        return ObservedEffect(
            record.at, words, tuple(hops), (f"+ - [ ] {self.written}",), view.name, screen, item or self.uri
        )
