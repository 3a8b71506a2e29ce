"""What the session's records show of a step: that it had its effect, and how long each hop took.

Nothing here knows who did it: a note that was edited in an editor counts as much as one that a button edited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidings.inspector.diffs import diff_versions
from tidings.inspector.reading import as_dict, as_list, as_text
from tidings.inspector.records import Record
from tidings.inspector.view_items import ChangeView, ContentVersion, RequestView
from tidings.inspector.views import ServerView

_HOPS = {"published": "notified", "received": "received", "read": "fresh copy"}


@dataclass(frozen=True)
class Hop:
    """A hop, and the milliseconds since the one before."""

    words: str
    ms: float | None = None


@dataclass(frozen=True)
class Seen:
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


def seen_change(record: Record, view: ServerView, uri: str, source: str) -> Seen | None:
    """That a resource changed, was told of, and read again; `source` is what its beginning is called."""
    if record.data.get("uri") != uri:
        return None
    change = change_of(record, view)
    versions = view.contents.get(uri)
    if change is None or versions is None or len(versions) < 2 or versions[-1].hash == versions[-2].hash:
        return None
    if versions[-1].seq != change.content:
        return None
    hops = tuple(Hop(_HOPS.get(hop.name, source), _ms(hop.took)) for hop in change.hops)
    fresh = "" if change.fresh_in is None else f"fresh in {duration(change.fresh_in)}; "
    difference, lines = _difference(versions)
    return Seen(record.at, f"{fresh}{difference}", hops, lines, view.name, "live", str(change.seq))


def _difference(versions: Sequence[ContentVersion] | Any) -> tuple[str, tuple[str, ...]]:
    diff = diff_versions(versions[-2], versions[-1], context=0)
    return diff.words, tuple(line.sign + " " + line.text for hunk in diff.hunks for line in hunk.lines)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else max(seconds, 0.0) * 1000


def seen_answer(record: Record, view: ServerView) -> Seen | None:
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
    return Seen(record.at, words, (), _found(request), view.name, "requests", request.id)


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
    back: float | None = None
    served: float | None = None
    """When it listened again."""
    _hops: list[Hop] = field(default_factory=list[Hop])

    def hear(self, record: Record, view: ServerView) -> Seen | None:
        """Take note of a record; the whole, once it is over."""
        if record.kind == "state":
            connected = record.data.get("state") == "connected"
            if not connected and self.lost is None:
                self.lost = record.at
            if connected and self.lost is not None:
                self.back = record.at
        versions = view.contents.get(self.uri)
        newest = None if versions is None else versions.last
        if record.kind != "content" or self.back is None or newest is None or self.written not in newest.text:
            return None
        return self._over(record, view, newest)

    def _over(self, record: Record, view: ServerView, newest: ContentVersion) -> Seen:
        assert self.lost is not None
        assert self.back is not None
        hops = [Hop("killed"), Hop("noticed", _ms(self.lost - self.since))]
        last = self.lost
        if self.served is not None and last < self.served < self.back:
            hops.append(Hop("started again", _ms(self.served - last)))
            last = self.served
        hops += [Hop("connected", _ms(self.back - last)), Hop("fresh copy", _ms(record.at - self.back))]
        words = f"noticed after {duration(self.lost - self.since)}; all is back, and what was written meanwhile is here"
        item = None if newest.change is None else str(newest.change)
        screen = "resources" if item is None else "live"
        return Seen(record.at, words, tuple(hops), (f"+ - [ ] {self.written}",), view.name, screen, item or self.uri)
