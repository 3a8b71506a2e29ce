"""The feed: what the page has to hear of, kept until every reader has had it, and bounded.

It listens to a session. For each record it keeps a row, and notes which parts of which server's facts it touched. A
reader who knows how far it has read gets the rows since, and the parts that were touched since, made then and there:
however many records came in between, each part is told once.

What the feed knows of one server beyond its view: which of its facts were touched when, its pace, its queue.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from tidings.inspector.http.rows import MAKERS, PARTS, Facts, Row, level_of, rows_of, subscription_of
from tidings.inspector.records import Record
from tidings.inspector.view.view import ServerView, SessionView

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


MOST_KEPT: Final = 20_000
"""Rows for readers who are behind. The rings of the session have more."""
MOST_IN_BATCH: Final = 5_000


class Observed(Protocol):
    """What of a session the feed needs."""

    @property
    def view(self) -> SessionView: ...
    def listen(self, callback: Callable[[Record], None], /) -> Callable[[], None]: ...


class PageFeed:
    """What happened lately. Belongs to the event loop on which the session runs."""

    def __init__(self, session: Observed, *, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._clock = clock
        self._rows: deque[tuple[int, Row]] = deque(maxlen=MOST_KEPT)
        self._total = 0
        self._lost = session.view.seq
        """The newest record whose row is no longer kept: before it the past is gone."""
        self._servers: dict[str, Notes] = {}
        self._removed: dict[str, int] = {}
        self._stale: dict[str, int] = {}
        self._readers: set[asyncio.Event] = set()
        for name, view in session.view.servers.items():
            self._servers[name] = self._meet(view)
        self._unlisten = session.listen(self._hear)

    def close(self) -> None:
        """Listen no more, and let every reader look up."""
        self._unlisten()
        self._wake()

    @property
    def seq(self) -> int:
        """The newest record."""
        return self._session.view.seq

    @property
    def total(self) -> int:
        """How many rows there have been."""
        return self._total

    def knows(self, seq: int) -> bool:
        """Whether all rows since this record are still here."""
        return self._lost <= seq <= self.seq

    def states(self, server: str) -> Iterable[Row]:
        """The steps of a server's connection."""
        found = self._servers.get(server)
        return () if found is None else found.states

    def contents(self, server: str) -> Iterable[Row]:
        """The contents that were read of it."""
        found = self._servers.get(server)
        return () if found is None else found.contents

    def mark_stale(self, what: str) -> None:
        """Something that is not in records (saved calls, the catalog, kept sessions) is different now."""
        self._stale[what] = self._stale.get(what, 0) + 1
        self._wake()

    def mark_level(self, server: str, level: str) -> None:
        """The server was told another log level; no record says so."""
        found = self._servers.get(server)
        if found is not None:
            found.level = level
            found.touched["level"] = self.seq + 1  # Told until the next record comes: once too often does no harm.
            self._wake()

    @contextmanager
    def reader(self, after: int) -> "Generator[FeedReader]":
        """Somebody who has everything up to this record, for as long as they read."""
        reader = FeedReader(self, after, self._total - sum(seq > after for seq, _ in self._rows), dict(self._stale))
        self._readers.add(reader.news)
        try:
            yield reader
        finally:
            self._readers.discard(reader.news)

    def batch(self, reader: "FeedReader") -> dict[str, Any] | None:
        """What a reader does not have yet, and from now on has; None if there is nothing."""
        waiting = self._total - reader.had
        kept = min(waiting, len(self._rows), MOST_IN_BATCH)
        rows = [row for _, row in islice(reversed(self._rows), kept)][::-1]
        facts = self._news(reader.seq)
        stale = [what for what, tick in self._stale.items() if tick != reader.stale.get(what)]
        reader.had, reader.seq, reader.stale = self._total, self.seq, dict(self._stale)
        if not rows and not facts and not stale:
            return None
        batch = {"to": self.seq, "now": self._clock(), "rows": rows, "facts": facts, "held": waiting - kept}
        return {**batch, "stale": stale} if stale else batch

    def _meet(self, view: ServerView) -> Notes:
        met = Notes(self.seq)
        met.uris = dict.fromkeys(view.subscriptions, self.seq)
        for change in view.changes:
            met.count(change.change, change.at)
        met.open = {known: each.status for known, each in view.requests.items() if not each.over and not each.aside}
        return met

    def _hear(self, record: Record) -> None:
        view = self._session.view.servers.get(record.server)
        if view is None:
            if self._servers.pop(record.server, None) is not None:
                self._removed[record.server] = record.seq
                self._wake()
            return
        server = self._servers.get(record.server)
        if server is None:
            server = self._servers[record.server] = self._meet(view)
            self._removed.pop(record.server, None)
        for part in PARTS.get(record.kind, ()):
            server.touched[part] = record.seq
        server.note(view, record)
        for row in rows_of(record, view):
            if len(self._rows) == MOST_KEPT:
                self._lost = self._rows[0][0]
            self._rows.append((record.seq, row))
            self._total += 1
            if row["kind"] == "state":
                server.states.append(row)
            elif row["kind"] == "content":
                server.contents.append(row)
        self._wake()

    def _wake(self) -> None:
        for event in self._readers:
            event.set()

    def facts(self, view: ServerView) -> Facts:
        """All of a server's facts."""
        return self._delta(view, self._servers.get(view.name) or self._meet(view), -1)

    def _delta(self, view: ServerView, server: Notes, after: int) -> Facts:
        """The parts of a server's facts that were touched after a record; all of them after -1."""
        facts: Facts = {}
        for part, make in MAKERS.items():
            if after < 0 or server.touched.get(part, 0) > after:
                facts |= make(view)
        if after < 0 or server.touched.get("level", 0) > after:
            facts["log_level"] = server.level or level_of(view)
        if after < 0 or server.touched.get("queue", 0) > after:
            running = sum(status == "in_progress" for status in server.open.values())
            facts |= {"queued": len(server.open) - running, "running": running}
        if after < 0 or server.touched.get("pace", 0) > after:
            # The page keeps its own five minutes: it is told the last seconds, which may still grow.
            seconds = list(server.pace) if after < 0 else list(islice(reversed(server.pace), 3))[::-1]
            oldest = self._clock() - PACE_SECONDS
            facts["pace"] = [each for each in seconds if each[0] >= oldest]
        if after < 0 or server.replaced > after:
            facts["subscriptions"] = {uri: subscription_of(each) for uri, each in view.subscriptions.items()}
            facts["all_subscriptions"] = True
        elif server.touched.get("subscriptions", 0) > after:
            facts["subscriptions"] = {
                uri: subscription_of(view.subscriptions[uri])
                for uri in server.newest(after)
                if uri in view.subscriptions
            }
        return facts

    def _news(self, after: int) -> dict[str, Facts | None]:
        """What is different of each server since a record. None: it was removed."""
        found: dict[str, Facts | None] = {name: None for name, seq in self._removed.items() if seq > after}
        for name, server in self._servers.items():
            view = self._session.view.servers.get(name)
            if view is None:
                continue
            if server.born > after:
                found[name] = self._delta(view, server, -1)
            elif any(seq > after for seq in server.touched.values()):
                found[name] = self._delta(view, server, after)
        return found


class FeedReader:
    """One page that follows. A slow one costs no more than a quick one: what it misses is counted."""

    def __init__(self, feed: PageFeed, after: int, had: int, stale: dict[str, int]) -> None:
        self._feed = feed
        self.news = asyncio.Event()
        self.news.set()
        self.seq = after
        """The record up to which it has everything."""
        self.had = had
        """How many rows there had been then."""
        self.stale = stale

    async def wait(self, seconds: float) -> bool:
        """Until there is something new, or so long; returns whether there is."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> dict[str, Any] | None:
        """What is new since the last time; None if nothing is."""
        self.news.clear()
        return self._feed.batch(self)
