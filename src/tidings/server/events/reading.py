"""Reads the events of one type from a cursor: those of authors from a bounded stream, changes from the compacted log.

A `Listener` stands in the hub for each poll, stream and webhook: it is woken by changes, and ends when its rights or
its server do. What it is sent is read from its own cursor, so nothing is kept for a slow reader.
"""

import asyncio
import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from tidings.bus import Records
from tidings.bus.streams import EventStream, StreamEvent, parse_cursor
from tidings.changes import FEATURES, Change, Cursor, Filter, ResourceUpdated, change_key
from tidings.errors import NotAuthorized, TidingsError
from tidings.server.core import Core
from tidings.server.events.messages import Event, EventType, canonical
from tidings.server.subscriber import Collector, Frame, Screen

_SCANNED: Final = 500  # Events that are read before the next look at who else waits.
_RECENT: Final = 1_000  # Events that are kept in memory for those who follow a stream.
_RECENT_BYTES: Final = 8 * 2**20
_MOST_TIMES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order, and the cursor after them. See `tidings.bus.streams.Page`."""

    events: Sequence[Event]
    start: str  # The cursor before them, from which they can be read again.
    cursor: str
    truncated: bool
    more: bool


class Listener(Collector):
    """The subscriber for one reader. It collects nothing: `news` is set when there may be something, or it is over."""

    __slots__ = ("news", "over", "reason")

    def __init__(
        self, core: Core, screen: Screen | None, wanted: Filter | None, news: asyncio.Event | None = None, **who: Any
    ) -> None:
        features: Any = frozenset(each for each in FEATURES if wanted is not None and getattr(wanted, each))
        super().__init__(
            **who,
            features=features,
            subscriptions=set() if wanted is None else set(wanted.subscriptions),
            limits=core.policy.limits,
            screen=screen,
        )
        self.news = news or asyncio.Event()
        self.over = False
        self.reason: TidingsError | None = None

    def deliver(self, frame: Frame) -> None:
        self.news.set()

    def deliver_everything(self, place: Cursor, cursor: str | None) -> None:
        self.news.set()

    async def permits(self, uri: str) -> bool:
        """Returns whether the reader may hear of `uri`, as far as is remembered."""
        if self.screen is None:
            return True
        answer, until = self._screened.get(uri, (False, 0.0))
        if time.monotonic() >= until:
            answer = await self.screen(uri)
            self.permitted(uri, answer)
        return answer

    async def require(self, uri: str) -> None:
        """Raises `NotAuthorized` unless the reader may hear of `uri`."""
        if not await self.permits(uri):
            raise NotAuthorized("This subscription is no longer permitted.")

    def end(self, reason: TidingsError | None = None) -> None:
        if not self.over:
            self.over, self.reason = True, reason
            self.news.set()


def encoded(event_id: str, at: float, data: object, about: str) -> bytes:
    """Returns an event as a stream keeps it."""
    return canonical([event_id, at, data, about]).encode()


def _decoded(stored: StreamEvent) -> Event:
    event_id, at, data, about = json.loads(stored.payload)
    return Event(event_id, at, data, stored.cursor, about)


class StreamSource:
    """The stream of one event type. While somebody reads, this process follows its end, and keeps the newest events."""

    def __init__(self, records: Records, kind: EventType) -> None:
        self.stream = EventStream(records, f"events/{kind.name}", kind.retention)
        self._readers: set[EventReader] = set()
        self._recent: deque[tuple[Event, int]] = deque()
        self._size = 0
        self._before = ""  # The cursor before the oldest of these.
        self._end: str | None = None  # The cursor after the newest.
        self._turn = asyncio.Lock()
        self._due = False

    async def follow(self) -> None:
        if self._due:
            return  # The one who waits for its turn reads this, too.
        self._due = True
        async with self._turn:
            self._due = False
            while self._readers and await self._read_on():
                pass
            if not self._readers:
                self._forget("")
                self._end = None

    async def _read_on(self) -> bool:
        if self._end is None:
            self._end = self._before = await self.stream.end()
        page, before = await self.stream.read(self._end, _SCANNED), self._end
        if page.truncated:
            self._forget(page.cursor)
            for reader in self._readers:
                reader.listener.news.set()
        elif page.events:
            events = [_decoded(each) for each in page.events]
            for event, stored in zip(events, page.events, strict=True):
                self._recent.append((event, len(stored.payload)))
                self._size += len(stored.payload)
            while len(self._recent) > _RECENT or self._size > _RECENT_BYTES:
                oldest, size = self._recent.popleft()
                self._before, self._size = oldest.cursor, self._size - size
            for reader in self._readers:
                reader.offered(before, events, page.cursor)
        self._end = page.cursor
        return page.more

    def _forget(self, before: str) -> None:
        self._recent.clear()
        self._size, self._before = 0, before

    async def read(self, cursor: str) -> Batch:
        """Returns the events after a cursor. Raises `ValueError` if it is none."""
        if self._end is not None and (place := self._place(cursor)) is not None:
            events = [event for event, _ in islice(self._recent, place, place + _SCANNED)]
            end = events[-1].cursor if events else cursor
            return Batch(events, cursor, end, truncated=False, more=place + len(events) < len(self._recent))
        page = await self.stream.read(cursor, _SCANNED)
        start = page.cursor if page.truncated else cursor
        if page.truncated and page.events:
            epoch, number, _ = parse_cursor(page.events[0].cursor)
            start = f"{epoch}.{number - 1}."
        return Batch([_decoded(each) for each in page.events], start, page.cursor, page.truncated, page.more)

    def _place(self, cursor: str) -> int | None:
        """Returns the place of the event after `cursor` among the recent ones; None if it is not there."""
        if cursor == self._end:
            return len(self._recent)
        if cursor == self._before:
            return 0
        places = (place for place in range(len(self._recent), 0, -1) if self._recent[place - 1][0].cursor == cursor)
        return next(places, None)

    async def join(self, reader: "EventReader") -> None:
        self._readers.add(reader)
        await self.follow()

    def leave(self, reader: "EventReader") -> None:
        self._readers.discard(reader)


class EventReader:
    """Reads the events of an author that one subscriber wants."""

    def __init__(
        self, source: StreamSource, kind: EventType, wants: Callable[[Event], bool], listener: Listener, cursor: str
    ) -> None:
        self._source = source
        self._subject = kind.uri
        self._wants = wants
        self.listener = listener
        self._busy = False
        self.cursor = cursor

    def offered(self, before: str, events: Iterable[Event], after: str) -> None:
        """Hears what has come. If it has everything else and wants none of these, it need not be woken."""
        if self.cursor == before and not self._busy and not any(map(self._wants, events)):
            self.cursor = after
        else:
            self.listener.news.set()

    async def next(self, most: int, *, oldest: float = 0.0) -> Batch:
        """Returns up to `most` events, none older than `oldest` (in seconds since the epoch), and goes on behind them.

        Raises `NotAuthorized` if its subscription is no longer permitted, and `TransportError` if the bus is away.
        """
        self._busy = True
        try:
            permits = self.listener.permits
            await self.listener.require(self._subject)
            batch = await self._source.read(self.cursor)
            found: list[Event] = []
            start, cursor, truncated, more = batch.start, batch.cursor, batch.truncated, batch.more
            for place, event in enumerate(batch.events, 1):
                if event.at < oldest:
                    truncated, start = True, event.cursor if not found else start
                elif self._wants(event) and (not event.about or await permits(event.about)):
                    found.append(event)
                if len(found) == most and place < len(batch.events):
                    cursor, more = event.cursor, True
                    break
            self.cursor = cursor
            return Batch(found, start, cursor, truncated, more)
        finally:
            self._busy = False


class HeardTimes:
    """The times at which this process heard of changes. Those from before count as heard at its start."""

    def __init__(self) -> None:
        self.started = time.time()
        self._times: OrderedDict[Change, tuple[Cursor, float]] = OrderedDict()

    def heard(self, cursor: Cursor, change: Change | None) -> None:
        if change is not None:
            self._times[change] = cursor, time.time()
            self._times.move_to_end(change)
            if len(self._times) > _MOST_TIMES:
                self._times.popitem(last=False)

    def of(self, cursor: Cursor, change: Change) -> float:
        heard, at = self._times.get(change, (None, self.started))
        return at if heard == cursor else self.started


class ChangeReader:
    """Reads the changes of the log that one subscriber wants."""

    def __init__(self, core: Core, wanted: Filter, times: HeardTimes, listener: Listener, cursor: str) -> None:
        self._core = core
        self._wanted = wanted
        self._times = times
        self._listener = listener
        self.cursor = cursor

    async def next(self, most: int, *, oldest: float = 0.0) -> Batch:
        """Returns the same for changes. See `EventReader.next`."""
        permits, core = self._listener.permits, self._core
        for subscription in self._wanted.subscriptions:
            await self._listener.require(subscription)
        place, head = Cursor.parse(self.cursor), core.bus.head
        entries = None if place is None else await core.entries_since(place, self._wanted.wants)
        if place is None or entries is None:
            self.cursor = str(head)
            return Batch((), self.cursor, self.cursor, truncated=True, more=False)
        found: list[Event] = []
        truncated, start = False, self.cursor
        for at, change in entries[:most]:
            uri = change.uri if isinstance(change, ResourceUpdated) else ""
            happened = self._times.of(at, change)
            if happened < oldest:
                truncated, start = True, str(at) if not found else start
            elif not uri or await permits(uri):
                mark = core.seals.digest("event", f"{at.epoch} {at.version} {change_key(change)}")
                found.append(Event(f"evt_{mark}", happened, {"uri": uri} if uri else {}, str(at), uri))
        end = max(place, head) if head.epoch == place.epoch else place
        self.cursor = str(entries[:most][-1][0] if entries else end)
        return Batch(found, start, self.cursor, truncated, more=len(entries) > most)


Reader = EventReader | ChangeReader
