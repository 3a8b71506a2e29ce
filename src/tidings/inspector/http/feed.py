"""The feed: what the page has to be sent, kept until every reader has it, and bounded.

It listens to a session. For each record it keeps a row, and notes which parts of a server's facts the record changed.
A reader that has everything up to a record gets the rows since then, and the parts that changed since then, made on
request: however many records came in between, each part is sent once.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_text
from tidings.inspector.http.rows import PARTS, VIEW_PARTS, Facts, Row, facts_of, rows_of, subscription_of
from tidings.inspector.records import Record
from tidings.inspector.session import Session
from tidings.inspector.view.fold import covering
from tidings.inspector.view.view import PACE_SECONDS, ServerView

MOST_KEPT: Final = 20_000  # Rows for readers that are behind. The rings of the session have more.
MOST_IN_BATCH: Final = 5_000
_PACES: Final = ("resource-updated", "resources-list-changed", "tools-list-changed", "prompts-list-changed")


@dataclass(slots=True)
class _ServerNotes:
    """Facts about one server that its view does not have."""

    born: int  # The newest record when the server was added.
    # The last record that changed each part of the facts.
    touched: dict[str, int] = field(default_factory=dict[str, int])
    # The last record that changed each subscription, the newest last.
    uris: dict[str, int] = field(default_factory=dict[str, int])
    replaced: int = 0  # The last record that changed the list of subscriptions.
    level: str | None = None  # The log level that was set last.
    states: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=2_000))
    contents: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=5_000))

    @classmethod
    def of(cls, view: ServerView, seq: int) -> "_ServerNotes":
        """Returns the notes about a server as it is now."""
        return cls(seq, uris=dict.fromkeys(view.subscriptions, seq))

    def note(self, view: ServerView, record: Record) -> None:
        """Notes a record that was just folded into the view."""
        for part in PARTS.get(record.kind, ()):
            self.touched[part] = record.seq
        uri = record.data.get("uri")
        match record.kind:
            case "change" | "content" | "content-failed" | "subscription-failed" if isinstance(uri, str):
                for each in covering(view, uri):
                    if self.uris.pop(each.uri, None) is not None:
                        self.uris[each.uri] = record.seq
            case "subscriptions":
                self.replaced = record.seq
                self.uris = {uri: self.uris.get(uri, record.seq) for uri in view.subscriptions}
            case _:
                pass


class PageFeed:
    """The latest rows and facts. Belongs to the event loop of the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: deque[tuple[int, Row]] = deque(maxlen=MOST_KEPT)
        self._total = 0
        self._lost = self.seq  # The newest record whose row is not kept any more.
        self._servers = {name: _ServerNotes.of(view, self.seq) for name, view in session.view.servers.items()}
        self._removed: dict[str, int] = {}
        self._stale: dict[str, int] = {}
        self._readers: set[asyncio.Event] = set()
        session.listen(self._hear)

    @property
    def seq(self) -> int:
        """The newest record."""
        return self._session.view.seq

    def knows(self, seq: int) -> bool:
        """Returns whether all rows since this record are still kept."""
        return self._lost <= seq <= self.seq

    def noted_rows(self, server: str) -> tuple[deque[Row], ...]:
        """Returns the rows of a server's connection, and of the contents that were read: no view has them."""
        notes = self._servers.get(server)
        return () if notes is None else (notes.states, notes.contents)

    def mark_stale(self, what: str) -> None:
        """Tells pages that something without records has changed: saved calls or sessions, the catalog, the tour."""
        self._stale[what] = self._stale.get(what, 0) + 1
        self._wake()

    def mark_level(self, server: str, level: str) -> None:
        """Notes the log level of a server, which no record has."""
        found = self._servers.get(server)
        if found is not None:
            found.level = level
            found.touched["level"] = self.seq + 1  # It may be sent more than once, until the next record comes.
            self._wake()

    @contextmanager
    def reader(self, after: int) -> "Generator[FeedReader]":
        """Registers a reader that has everything up to this record."""
        reader = FeedReader(self, after, self._total - sum(seq > after for seq, _ in self._rows), dict(self._stale))
        reader.news.set()
        self._readers.add(reader.news)
        try:
            yield reader
        finally:
            self._readers.discard(reader.news)

    def batch(self, reader: "FeedReader") -> dict[str, Any] | None:
        """Returns what a reader does not have yet; None if there is nothing."""
        waiting = self._total - reader.had
        kept = min(waiting, len(self._rows), MOST_IN_BATCH)
        rows = [row for _, row in islice(reversed(self._rows), kept)][::-1]
        after = reader.seq
        # None: the server was removed.
        facts: dict[str, Facts | None] = {name: None for name, seq in self._removed.items() if seq > after}
        for name, server in self._servers.items():
            view = self._session.view.servers.get(name)
            if view is not None and (server.born > after or any(seq > after for seq in server.touched.values())):
                facts[name] = self._facts_since(view, server, -1 if server.born > after else after)
        stale = [what for what, tick in self._stale.items() if tick != reader.stale.get(what)]
        reader.had, reader.seq, reader.stale = self._total, self.seq, dict(self._stale)
        if not rows and not facts and not stale:
            return None
        batch = {"to": self.seq, "now": self._session.clock(), "rows": rows, "facts": facts, "held": waiting - kept}
        return {**batch, "stale": stale} if stale else batch

    def _hear(self, record: Record) -> None:
        view = self._session.view.servers.get(record.server)
        if view is None:
            if self._servers.pop(record.server, None) is not None:
                self._removed[record.server] = record.seq
                self._wake()
            return
        server = self._servers.get(record.server)
        if server is None:
            server = self._servers[record.server] = _ServerNotes.of(view, self.seq)
            self._removed.pop(record.server, None)
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
        """Returns all facts of a server."""
        return self._facts_since(view, self._servers.get(view.name) or _ServerNotes.of(view, self.seq), -1)

    def _facts_since(self, view: ServerView, server: _ServerNotes, after: int) -> Facts:
        """Returns the parts of a server's facts that changed after a record; all of them after -1."""

        def changed(part: str) -> bool:
            return after < 0 or server.touched.get(part, 0) > after

        facts: Facts = {}
        for part in filter(changed, VIEW_PARTS):
            facts |= facts_of(part, view)
        if changed("level"):
            own = as_dict((view.entry or {}).get("tidings"))
            facts["log_level"] = server.level or as_text(own.get("logLevel")) or "info"
        if changed("queue"):
            statuses = [each.status for each in view.requests.values() if not each.over and not each.aside]
            running = statuses.count("in_progress")
            facts |= {"queued": len(statuses) - running, "running": running}
        if changed("pace"):
            # The page keeps its own five minutes: it only needs the last seconds, which may still grow.
            seconds = list(view.pace)[0 if after < 0 else -3 :]
            oldest = self._session.clock() - PACE_SECONDS
            facts["pace"] = [[at, *(counts[kind] for kind in _PACES)] for at, counts in seconds if at >= oldest]
        if after < 0 or server.replaced > after:
            facts["subscriptions"] = {uri: subscription_of(each) for uri, each in view.subscriptions.items()}
            facts["all_subscriptions"] = True
        elif changed("subscriptions"):
            newest = takewhile(lambda uri: server.uris[uri] > after, reversed(server.uris))
            subscriptions = view.subscriptions
            facts["subscriptions"] = {
                uri: subscription_of(subscriptions[uri]) for uri in newest if uri in subscriptions
            }
        return facts


@dataclass(eq=False)
class FeedReader:
    """One page that follows. A slow one costs no more than a quick one: rows that it misses are counted."""

    feed: PageFeed
    seq: int  # The record up to which the page has everything.
    had: int  # The number of rows up to then.
    stale: dict[str, int]  # The marks of `mark_stale` up to then.
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, seconds: float) -> bool:
        """Waits at most so long for something new, and returns whether there is."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> dict[str, Any] | None:
        """Returns what is new since the last time; None if there is nothing."""
        self.news.clear()
        return self.feed.batch(self)
