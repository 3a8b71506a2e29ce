"""The feed: what the page has to be sent, kept until every reader has it, and bounded; and the stream that sends it.

For each record of a session it keeps a row, and notes which parts of a server's facts the record changed. A reader gets
the rows since its last record, and the parts that changed since then, made on request: each part is sent once.

The stream sends server-sent events, at most one for each frame of a screen:

- `batch`, with the number of its last record as its id: `{to, now, rows, facts, held, stale?}`. A reader that was
  disconnected asks again with that number and continues from there.
- `reset`: the records since that number are not kept any more, or are of another session. Fetch a snapshot.
- `rest`: newer pages read now. A visible page asks again at once; one in the background waits until it is visible.

A slow reader gets fewer and larger batches, with at most `MOST_IN_BATCH` rows each: the rest is counted as `held`, and
stays in the session. A reader that does not read at all is disconnected.
"""

import asyncio
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidings._kit.bounded_json import as_dict, as_text, dumps
from tidings.inspector.http.rows import PARTS, VIEW_PARTS, Facts, Row, facts_of, row_of_record, subscription_of
from tidings.inspector.records import Record
from tidings.inspector.session import Session
from tidings.inspector.view.fold import covering
from tidings.inspector.view.view import PACE_SECONDS, ServerView

MOST_KEPT: Final = 20_000  # Rows for readers that are behind. The rings of the session have more.
MOST_IN_BATCH: Final = 5_000
FRAME_SECONDS: Final = 0.033
BEAT_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 30.0  # A reader that does not read for so long is disconnected.
_GOODBYE_SECONDS: Final = 0.5
# At the same time. A browser has six connections to a host for all its tabs, and pages need some for requests.
MOST_STREAMS: Final = 4
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

    def note(self, view: ServerView, record: Record) -> None:
        for part in PARTS.get(record.kind, ()):
            self.touched[part] = record.seq
        uri = record.data.get("uri")
        if record.kind == "subscriptions":
            self.replaced = record.seq
            self.uris = {uri: self.uris.get(uri, record.seq) for uri in view.subscriptions}
        elif "subscriptions" in PARTS.get(record.kind, ()) and isinstance(uri, str):
            for each in covering(view, uri):
                if self.uris.pop(each.uri, None) is not None:
                    self.uris[each.uri] = record.seq


@dataclass(eq=False)
class FeedReader:
    """One page that follows. A slow one costs no more than a quick one: rows that it misses are counted."""

    seq: int  # The record up to which the page has everything.
    had: int  # The number of rows up to then.
    stale: dict[str, int]  # The marks of `mark_stale` up to then.
    news: asyncio.Event = field(default_factory=asyncio.Event)


class PageFeed:
    """The latest rows and facts. Belongs to the event loop of the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: deque[tuple[int, Row]] = deque(maxlen=MOST_KEPT)
        self._total = 0
        self._lost = self.seq  # The newest record whose row is not kept any more.
        self._servers = {name: self._notes(view) for name, view in session.view.servers.items()}
        self._removed: dict[str, int] = {}
        self._stale: dict[str, int] = {}
        self._readers: set[asyncio.Event] = set()
        session.listen(self._hear)

    @property
    def seq(self) -> int:
        return self._session.view.seq

    def _notes(self, view: ServerView) -> _ServerNotes:
        return _ServerNotes(self.seq, uris=dict.fromkeys(view.subscriptions, self.seq))

    def knows(self, seq: int) -> bool:
        """Returns whether all rows since this record are still kept."""
        return self._lost <= seq <= self.seq

    def states(self, server: str) -> Iterable[Row]:
        """Returns the rows of a server's connection: no view has them."""
        notes = self._servers.get(server)
        return () if notes is None else notes.states

    def mark_stale(self, what: str) -> None:
        """Tells pages that something without records has changed: saved calls or sessions, the catalog, the tour."""
        self._stale[what] = self._stale.get(what, 0) + 1
        self._wake()

    def mark_level(self, server: str, level: str) -> None:
        """Notes the log level of a server, which no record has."""
        if (found := self._servers.get(server)) is not None:
            found.level = level
            found.touched["level"] = self.seq + 1  # It may be sent more than once, until the next record comes.
            self._wake()

    @contextmanager
    def reader(self, after: int) -> Generator[FeedReader]:
        """Registers a reader that has everything up to this record."""
        reader = FeedReader(after, self._total - sum(seq > after for seq, _ in self._rows), dict(self._stale))
        reader.news.set()
        self._readers.add(reader.news)
        try:
            yield reader
        finally:
            self._readers.discard(reader.news)

    def batch(self, reader: FeedReader) -> dict[str, Any] | None:
        reader.news.clear()
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
            server = self._servers[record.server] = self._notes(view)
            self._removed.pop(record.server, None)
        server.note(view, record)
        if (row := row_of_record(record, view)) is not None:
            if len(self._rows) == MOST_KEPT:
                self._lost = self._rows[0][0]
            self._rows.append((record.seq, row))
            self._total += 1
            if row["kind"] == "state":
                server.states.append(row)
        self._wake()

    def _wake(self) -> None:
        for event in self._readers:
            event.set()

    def facts(self, view: ServerView, *, is_kept: bool = False) -> Facts:
        notes = None if is_kept else self._servers.get(view.name)
        return self._facts_since(view, notes or self._notes(view), -1)

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
            made = [each for each in view.requests.values() if not each.aside]
            tasks = sum(each.task is not None and each.task.pending for each in made)
            states = [each.state for each in made if not each.over]
            facts |= {"queued": states.count("pending"), "running": states.count("in_progress"), "tasks": tasks}
        if changed("pace"):
            # The page keeps its own five minutes: it only needs the last seconds, which may still grow.
            seconds = list(view.pace)[0 if after < 0 else -3 :]
            oldest = self._session.clock() - PACE_SECONDS
            facts["pace"] = [[at, *(counts[kind] for kind in _PACES)] for at, counts in seconds if at >= oldest]
        subscriptions = view.subscriptions
        if after < 0 or server.replaced > after:
            facts |= {"subscriptions": {uri: subscription_of(each) for uri, each in subscriptions.items()}}
            facts["all_subscriptions"] = True
        elif changed("subscriptions"):
            newest = takewhile(lambda uri: server.uris[uri] > after, reversed(server.uris))
            facts["subscriptions"] = {
                uri: subscription_of(subscriptions[uri]) for uri in newest if uri in subscriptions
            }
        return facts


class FeedResponse(Response):
    """A response that lasts until the page is closed or the inspector ends."""

    def __init__(
        self,
        feed: PageFeed,
        after: int,
        stopping: asyncio.Event,
        others: deque[asyncio.Event] | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type="text/event-stream")
        self._feed, self._after, self._stopping, self._patience = feed, after, stopping, patience
        self._others: deque[asyncio.Event] = deque() if others is None else others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [each for each in self.raw_headers if each[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        rest = asyncio.Event()
        self._others.append(rest)
        while len(self._others) > MOST_STREAMS:
            self._others.popleft().set()

        async def disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        ends_with = self._send_batches(send), disconnected(), self._stopping.wait(), rest.wait()
        tasks: set[asyncio.Task[object]] = {asyncio.create_task(each) for each in ends_with}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with suppress(ValueError):
                self._others.remove(rest)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        if not any(isinstance(end, TimeoutError) for end in ends):  # A reader that was disconnected must notice it.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    body = b"event: rest\ndata: {}\n\n" if rest.is_set() else b""
                    await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _send_batches(self, send: Send) -> None:
        loop = asyncio.get_running_loop()

        async def write(text: str) -> None:
            async with asyncio.timeout(self._patience):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        if not self._feed.knows(self._after):
            await write("retry: 1000\nevent: reset\ndata: {}\n\n")
            return
        await write("retry: 1000\n\n")
        with self._feed.reader(self._after) as reader:
            while True:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        await reader.news.wait()
                except TimeoutError:
                    await write(": still here\n\n")
                    continue
                began = loop.time()
                if (batch := self._feed.batch(reader)) is not None:
                    await write(f"id: {batch['to']}\nevent: batch\ndata: {dumps(batch)}\n\n")
                await asyncio.sleep(max(0.0, FRAME_SECONDS - (loop.time() - began)))
