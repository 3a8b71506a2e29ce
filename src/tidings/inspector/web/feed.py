"""The feed: what the page has to hear of, kept until every reader has had it, and bounded.

It listens to a session. For each record it keeps a row, and notes which parts of which server's facts it touched. A
reader who knows how far it has read gets the rows since, and the parts that were touched since, made then and there:
however many records came in between, each part is told once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Protocol

from tidings.inspector.records import Record
from tidings.inspector.views import ServerView, SessionView
from tidings.inspector.web.facts import MAKERS, PARTS, Facts, level_of, subscription_of
from tidings.inspector.web.notes import PACE_SECONDS, Notes
from tidings.inspector.web.rows import Row, rows_of

MOST_KEPT: Final = 20_000
"""Rows for readers who are behind. The rings of the session have more."""
MOST_IN_BATCH: Final = 5_000


class Observed(Protocol):
    """What of a session the feed needs."""

    @property
    def view(self) -> SessionView: ...
    def listen(self, callback: Callable[[Record], None], /) -> Callable[[], None]: ...


class Feed:
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
    def reader(self, after: int) -> "Generator[Reader]":
        """Somebody who has everything up to this record, for as long as they read."""
        reader = Reader(self, after, self._total - sum(seq > after for seq, _ in self._rows), dict(self._stale))
        self._readers.add(reader.news)
        try:
            yield reader
        finally:
            self._readers.discard(reader.news)

    def batch(self, reader: "Reader") -> dict[str, Any] | None:
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
            if row[3] == "state":
                server.states.append(row)
            elif row[3] == "content":
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


class Reader:
    """One page that follows. A slow one costs no more than a quick one: what it misses is counted."""

    def __init__(self, feed: Feed, after: int, had: int, stale: dict[str, int]) -> None:
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
