"""What the feed knows of one server beyond its view: which of its facts were touched when, its pace, its queue."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from tidings.inspector.records import Record
from tidings.inspector.views import ServerView
from tidings.inspector.web.rows import Row

PACE_SECONDS: Final = 300
_PACES: Final = {
    "resource-updated": 1,
    "resources-list-changed": 2,
    "tools-list-changed": 3,
    "prompts-list-changed": 4,
}
_STATES_KEPT: Final = 2_000
_CONTENTS_KEPT: Final = 5_000


@dataclass(slots=True)
class Notes:
    """What the feed knows of one server."""

    born: int
    """The record with which it was met."""
    touched: dict[str, int] = field(default_factory=dict[str, int])
    """Each part, and the last record that touched it."""
    pace: deque[list[int]] = field(default_factory=lambda: deque[list[int]](maxlen=PACE_SECONDS))
    open: dict[str, str] = field(default_factory=dict[str, str])
    """The requests that have not ended, with their status."""
    uris: dict[str, int] = field(default_factory=dict[str, int])
    """Each subscription, and the last record that touched it; the newest last."""
    replaced: int = 0
    """The last record that changed which subscriptions there are."""
    states: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=_STATES_KEPT))
    level: str | None = None
    """The log level that was asked for last."""
    contents: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=_CONTENTS_KEPT))

    def note(self, view: ServerView, record: Record) -> None:
        """What a part needs that the view does not say."""
        data = record.data
        if (newest := view.changes.last) is not None and newest.seq == record.seq:
            self.count(newest.change, record.at)
        match record.kind:
            case "change":
                self.touch(view, data.get("uri"), record.seq)
            case "content" | "content-failed" | "subscription-failed":
                self.touch(view, data.get("uri"), record.seq)
            case "subscriptions":
                self.replaced = record.seq
                self.uris = {uri: self.uris.get(uri, record.seq) for uri in view.subscriptions}
            case "request":
                self.follow(view, data.get("id"))
            case _:
                pass

    def touch(self, view: ServerView, uri: Any, seq: int) -> None:
        """A subscription to this, or to what it is a part of, has something new."""
        if not isinstance(uri, str):
            return
        for each in (*_wholes(uri), *(each for each in view.prefixes if uri.startswith(each[:-1]))):
            if each in self.uris:
                self.uris.pop(each)
                self.uris[each] = seq

    def follow(self, view: ServerView, known: Any) -> None:
        """A request began, or ended."""
        request = view.requests.get(known) if isinstance(known, str) else None
        if request is None or request.over or request.aside:
            self.open.pop(known, None)
        else:
            self.open[known] = request.status

    def count(self, change: Any, at: float) -> None:
        """One more change, in its second."""
        second = int(at)
        if not self.pace or self.pace[-1][0] != second:
            self.pace.append([second, 0, 0, 0, 0])
        place = _PACES.get(change) if isinstance(change, str) else None
        if place is not None:
            self.pace[-1][place] += 1

    def newest(self, after: int) -> list[str]:
        """The subscriptions that were touched after a record."""
        return _newest(self.uris, after)


def _wholes(uri: str) -> list[str]:
    """The URI, and those of what it may be a part of: a page of a document, a section of a note."""
    found = [uri]
    while (at := max(found[-1].rfind(sign) for sign in "/?#")) > 0 and len(found) < 32:
        found.append(found[-1][:at])
    return found


def _newest(uris: dict[str, int], after: int) -> list[str]:
    found: list[str] = []
    for uri, seq in reversed(uris.items()):
        if seq <= after:
            break
        found.append(uri)
    return found
