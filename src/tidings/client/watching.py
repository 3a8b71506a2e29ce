"""Resources that are kept current: read again after each change, and their content for those who watch.

`Refresher` reads, outside the queue of the user's requests. `Watches` passes new content on to every `watch()` loop.
A resource may be missing for a while (a note that is renamed, the last one with a tag). A loop that has seen content
waits until there is some again. A loop that has not may have a misspelt URI, and gets the error.

`change_loop` hands out what changed in batches, for programs to which each batch costs something. The content that was
handed out last is on record, for each loop by its name and for each resource: so a change is handed out once, and what
several changes came to as one difference. With a state file, the record outlives the process.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tidings._kit.backoff import Backoff, jittered
from tidings._kit.bounded_json import as_dict, as_float, as_list, as_text
from tidings._kit.diff import unified
from tidings._kit.tasks import Wakeup
from tidings._kit.telemetry import Trace, current_trace, within
from tidings.changes import check_uri
from tidings.client.cache import ResourceRead, lasts
from tidings.client.config import Poll
from tidings.errors import Cancelled, GaveUp, InvalidUri, NotConnected, ResourceNotFound, TidingsError

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile

logger = logging.getLogger(__name__)

_RETRIES: Final = Backoff((0.2, 1.0, 5.0, 15.0), jitter=0.2)


def check_watched(uris: str | Sequence[str], missing: str) -> tuple[list[str], bool]:
    """Returns the URIs to watch, and whether to wait for the first of them to exist. Raises `InvalidUri`."""
    if missing not in ("raise", "wait"):
        raise ValueError(f"missing= is 'raise' or 'wait', not {missing!r}")
    listed: list[Any] = [uris] if isinstance(uris, str) else list(uris)
    for uri in listed:
        if isinstance(uri, str) and uri.endswith("*"):
            shown = uri if len(uri) <= 80 else "…" + uri[-79:]
            raise InvalidUri(
                f"`watch` takes the URIs of single resources, and {shown!a} stands for many. For everything that "
                f"begins like this, use subscribe([{shown!a}]) and on(ResourceUpdated, ...)."
            )
    return [check_uri(uri) for uri in listed], missing == "wait"


@dataclass(eq=False, slots=True)
class WatchedResource:
    """One watched resource, for all its watchers."""

    uri: str
    watchers: "set[Watcher]" = field(default_factory=set["Watcher"])
    latest: ResourceRead | None = None
    digest: str | None = None
    error: TidingsError | None = None
    polling: asyncio.Task[None] | None = None

    def update(self, read: ResourceRead) -> None:
        """Passes content on, unless it is the same as before."""
        self.error = None
        if (digest := read.digest) != self.digest:
            self.latest, self.digest = read, digest
            self._notify()

    def fail(self, error: TidingsError) -> None:
        """Passes an error on: there will be no more content, or the resource is missing for now."""
        self.error = error
        if self.is_gone:  # If the same content comes back, it is new for a watcher that begins meanwhile.
            self.latest = self.digest = None
        self._notify()

    @property
    def is_gone(self) -> bool:
        """True if the server has no such resource at present."""
        return isinstance(self.error, ResourceNotFound)

    def start_polling(self, poll: Poll, read: Callable[[str], None]) -> None:
        """Reads the resource again and again, because the server does not say when it changes."""
        if self.polling is None:
            read(self.uri)
            self.polling = asyncio.create_task(self._poll(poll, read))

    async def _poll(self, poll: Poll, read: Callable[[str], None]) -> None:
        pause = poll.interval
        while True:
            before = self.digest
            least = 0.0 if self.latest is None else lasts(self.latest.result)
            await asyncio.sleep(max(jittered(pause, below=poll.jitter, above=poll.jitter), least))
            pause = poll.interval if self.digest != before else min(pause * 1.5, poll.longest)
            read(self.uri)

    def stop_polling(self) -> None:
        if self.polling is not None:
            self.polling.cancel()
            self.polling = None

    def _notify(self) -> None:
        for watcher in self.watchers:
            watcher.notify(self)


@dataclass(eq=False, repr=False)
class Watcher:
    """One loop over `number` watched resources. A `patient` one waits even if none of them exists yet.

    With `tells_gone`, it is also told when a resource does not exist, or no longer.
    """

    number: int
    wakeup: Wakeup
    _: KW_ONLY
    patient: bool
    tells_gone: bool = False

    def __post_init__(self) -> None:
        self._missing: set[str] = set()
        self._news: dict[str, WatchedResource] = {}
        self._seen: dict[str, str | None] = {}  # None for one that is gone.
        self._has_seen_some = False
        self._has_news = Wakeup()
        self._waits = False

    def notify(self, watched: WatchedResource) -> None:
        self._news[watched.uri] = watched
        self._has_news()

    @property
    def is_behind(self) -> bool:
        """True if it waits although there is something new, which it will get in a moment."""
        return self._waits and bool(self._news)

    async def next(self) -> tuple[str, ResourceRead | None]:
        """Returns the next resource that differs from what was seen; None for one that is gone. May be cancelled."""
        while True:
            while self._news:
                watched = self._news.pop(next(iter(self._news)))
                if watched.is_gone:
                    self._missing.add(watched.uri)
                waits = self.patient or self._has_seen_some or len(self._missing) < self.number
                if watched.error is not None and not (watched.is_gone and waits):
                    raise watched.error
                if watched.latest is not None and self._seen.get(watched.uri) != watched.digest:
                    self._seen[watched.uri] = watched.digest
                    self._has_seen_some = True
                    return watched.uri, watched.latest
                if watched.is_gone and self.tells_gone and self._seen.get(watched.uri, "") is not None:
                    self._seen[watched.uri] = None
                    return watched.uri, None
            self._waits = True
            try:
                await self._has_news.wait()
            finally:
                self._waits = False
            self.wakeup()  # `is_behind` may have changed.


@dataclass(eq=False, repr=False)
class Watches:
    """All watched resources of one client. `added` is called for the first watcher of one, `removed` after the last."""

    added: Callable[[WatchedResource], None]
    removed: Callable[[WatchedResource], None]
    wakeup: Wakeup

    def __post_init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._pinned: dict[str, Watcher] = {}
        self.resources: dict[str, WatchedResource] = {}

    @property
    def handed_over(self) -> bool:
        """True if every loop that waits for content has been given what there is."""
        return not any(watcher.is_behind for watcher in self._watchers)

    async def watch(self, uris: Sequence[str], patient: bool) -> AsyncGenerator[ResourceRead]:
        """Yields the content of each resource now, and whenever it is different. A slow loop gets only the newest."""
        with self.watching(uris, patient=patient) as watcher:
            while True:
                _, read = await watcher.next()
                if read is not None:
                    yield read

    @contextmanager
    def watching(self, uris: Sequence[str], *, patient: bool, tells_gone: bool = False) -> Generator[Watcher]:
        """Keeps these resources current for one loop."""
        uris = tuple(dict.fromkeys(uris))
        watcher = Watcher(len(uris), self.wakeup, patient=patient, tells_gone=tells_gone)
        self._watchers.add(watcher)
        watched = [self._hold(uri, watcher) for uri in uris]
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            for each in watched:
                self._release(each, watcher)

    def pin(self, uri: str) -> None:
        """Keeps a resource current without a loop, until `unpin`."""
        if uri not in self._pinned:
            self._pinned[uri] = watcher = Watcher(1, self.wakeup, patient=True)
            self._hold(uri, watcher)

    def unpin(self, uri: str) -> None:
        if (watcher := self._pinned.pop(uri, None)) is not None and (watched := self.resources.get(uri)) is not None:
            self._release(watched, watcher)

    def _hold(self, uri: str, watcher: Watcher) -> WatchedResource:
        if is_new := uri not in self.resources:
            self.resources[uri] = WatchedResource(uri)
        watched = self.resources[uri]
        watched.watchers.add(watcher)
        if is_new:
            self.added(watched)
        elif watched.latest is not None or watched.error is not None:
            watcher.notify(watched)
        return watched

    def _release(self, watched: WatchedResource, watcher: Watcher) -> None:
        watched.watchers.discard(watcher)
        if not watched.watchers and self.resources.get(watched.uri) is watched:
            del self.resources[watched.uri]
            watched.stop_polling()
            self.removed(watched)

    def fail_all(self, error: TidingsError) -> None:
        for watched in tuple(self.resources.values()):
            watched.stop_polling()
            watched.fail(error)


@dataclass(eq=False, repr=False)
class Refresher:
    """Reads what may have changed, `at_once` at a time.

    A resource that changes while it is being read is read once more. A read that failed for a reason that may pass is
    repeated; one without a connection waits for the next. Of more than `most_waiting` resources, those that wait
    longest are passed over.
    """

    read: Callable[[str], Awaitable[object]]
    _: KW_ONLY
    failed: Callable[[str, TidingsError], None]
    wakeup: Wakeup
    at_once: int = 16
    most_waiting: int | None = None
    retries: Backoff = _RETRIES

    def __post_init__(self) -> None:
        self._stale: dict[str, Trace] = {}  # For each resource, the trace of its last `want`.
        self._reading: set[str] = set()
        self._failures: dict[str, int] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._parked: set[str] = set()  # Waits for a connection.
        self.wants = 0  # The number of calls of `want`.
        self._unread: dict[str, int] = {}  # For each resource, the number of the first `want` that no read followed.

    def want(self, uri: str) -> None:
        """Reads a resource soon, once more if it is being read."""
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale[uri] = current_trace()
        self.wants += 1
        self._unread.setdefault(uri, self.wants)
        if self.most_waiting is not None and len(self._stale) > self.most_waiting:
            self.forget(next(iter(self._stale)))
        if len(self._workers) < self.at_once and uri not in self._reading:
            self._workers.add(asyncio.create_task(self._work()))

    def forget(self, uri: str) -> None:
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale.pop(uri, None)
        self._failures.pop(uri, None)
        self._unread.pop(uri, None)

    def is_stale(self, uri: str) -> bool:
        """Returns whether a resource waits to be read, or is being read."""
        return uri in self._stale or uri in self._reading or uri in self._timers or uri in self._parked

    @property
    def idle(self) -> bool:
        return not self._unread

    async def until_read(self, given_up: Callable[[], bool]) -> None:
        """Waits until a read has followed each `want` until now, or until `given_up`."""
        now = self.wants
        for uri in tuple(self._unread):
            await self.wakeup.until(lambda uri=uri: given_up() or self._unread.get(uri, now + 1) > now)

    async def _work(self) -> None:
        try:
            while (uri := next((uri for uri in self._stale if uri not in self._reading), None)) is not None:
                trace = self._stale.pop(uri)
                self._reading.add(uri)
                with within(trace):
                    await self._read(uri)
        finally:
            # Here, not in a callback of the task: a `want` in between must start another.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _read(self, uri: str) -> None:
        wants = self.wants
        try:
            await self.read(uri)
            self._failures.pop(uri, None)
            self._unread[uri] = wants + 1
        except TidingsError as error:
            self._handle_failure(uri, error)
        except Exception:
            logger.exception("reading %s again failed", uri)
        finally:
            self._reading.discard(uri)
            if not self.is_stale(uri):
                self._unread.pop(uri, None)
            self.wakeup()

    def _handle_failure(self, uri: str, error: TidingsError) -> None:
        if uri in self._stale:
            return  # It is read once more in any case.
        if isinstance(error, NotConnected | GaveUp):
            self._parked.add(uri)
        elif error.retryable or isinstance(error, Cancelled):
            failures = self._failures[uri] = self._failures.get(uri, 0) + 1
            pause = self.retries.pause(failures - 1) + (error.retry_after or 0)
            self._timers[uri] = asyncio.get_running_loop().call_later(pause, self.want, uri)
        if not isinstance(error, Cancelled):  # The user cancelled this read, not the watch.
            self.failed(uri, error)

    def resume(self) -> None:
        """Reads at once what could not be read while there was no connection."""
        for uri in (*self._parked, *self._timers):
            self.want(uri)

    def _stop_timer(self, uri: str) -> None:
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()

    async def aclose(self) -> None:
        self._stale.clear()
        self._parked.clear()
        self._unread.clear()
        for uri in tuple(self._timers):
            self._stop_timer(uri)
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._workers.difference_update(workers)  # One that had not begun did not remove itself.


# `client.changes()`.

HANDED_KEPT: Final = "handed out"  # The kind of its rows in the state file.
_GATHER: Final = 0.05  # Seconds in which resources that change together come into one batch.


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource whose content differs from what the loop got before."""

    uri: str
    read: ResourceRead | None
    """The current content. None if the resource is gone."""
    before: str | None
    """The text that the loop got before. None if the resource did not exist, or is new to the loop."""

    @property
    def text(self) -> str | None:
        """The current text. None if the resource is gone; empty if it has no text, like an image."""
        return None if self.read is None else self.read.text

    @property
    def diff(self) -> str:
        """The difference between `before` and `text`, as a diff."""
        return "\n".join(unified((self.before or "").splitlines(), (self.text or "").splitlines()))


class ChangeBatch(list[ResourceChange]):
    """The changes that a loop gets in one step."""

    def __init__(self, changes: Iterable[ResourceChange], record: Any, name: str) -> None:
        super().__init__(changes)
        self._record: HandedOut = record  # No part of the public types.
        self._name = name
        self._is_confirmed = False

    async def confirm(self) -> None:
        """Marks the batch as handled now, not only when the loop asks for the next one.

        Use it if the loop ends after this batch: otherwise, the next loop gets the batch again.
        """
        if not self._is_confirmed:
            self._is_confirmed = True
            for change in self:
                self._record.note(self._name, change.uri, change.read)
            await self._record.flush()


class _Handed(NamedTuple):
    digest: str | None  # None: the resource was gone.
    text: str | None


class HandedOut:
    """The record of what was handed out, by the name of a loop and by URI."""

    def __init__(self, store: "StateFile | None") -> None:
        self._store = store
        self._contents: dict[tuple[str, str], _Handed] = {}
        self._last: dict[str, float] = {}  # For each loop, when it was last given something, by the monotonic clock.

    def restore(self, rows: Mapping[str, str]) -> None:
        for key, row in rows.items():
            try:
                place, saved = as_list(json.loads(key)), as_dict(json.loads(row))
            except (ValueError, RecursionError):
                continue
            match place:
                case [str(name), str(uri)]:
                    handed = _Handed(as_text(saved.get("digest")), as_text(saved.get("text")))
                    self._contents.setdefault((name, uri), handed)
                case [str(name)]:
                    # The clock may have been set back.
                    ago = max(time.time() - (as_float(saved.get("at")) or 0.0), 0.0)
                    self._last.setdefault(name, time.monotonic() - ago)
                case _:
                    pass

    def find(self, name: str, uri: str) -> _Handed | None:
        return self._contents.get((name, uri))

    def seconds_since(self, name: str) -> float:
        """Returns the seconds since a loop of this name was last given something."""
        return time.monotonic() - self._last.get(name, -math.inf)

    async def note_time(self, name: str) -> None:
        """Notes that a loop is given something, be it confirmed later or not."""
        self._last[name] = time.monotonic()
        self._save([name], {"at": time.time()})
        await self.flush()

    def note(self, name: str, uri: str, read: ResourceRead | None) -> None:
        self._contents[name, uri] = handed = _handed(read)
        self._save([name, uri], handed._asdict())

    def _save(self, key: list[str], row: Mapping[str, Any]) -> None:
        if self._store is not None:
            self._store.note_kept(HANDED_KEPT, json.dumps(key), json.dumps(row))

    async def flush(self) -> None:
        if self._store is not None:
            await self._store.flush()


def _handed(read: ResourceRead | None) -> _Handed:
    return _Handed(None, None) if read is None else _Handed(read.digest, read.text)


async def change_loop(
    watches: Watches,
    record: HandedOut,
    uris: Sequence[str],
    *,
    name: str,
    at_most_every: float,
    first: bool,
    patient: bool,
) -> AsyncGenerator[ChangeBatch]:
    """Yields the changes of some resources, in batches. With `first`, content that is new to the loop is a change."""
    news: dict[str, ResourceRead | None] = {}

    def note(uri: str, read: ResourceRead | None) -> None:
        if record.find(name, uri) is None and not first:
            record.note(name, uri, read)  # This is where it begins.
        else:
            news[uri] = read

    is_known = any(record.find(name, uri) is not None for uri in uris)
    with watches.watching(uris, patient=patient or is_known, tells_gone=True) as watcher:
        while True:
            note(*await watcher.next())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_GATHER, at_most_every - record.seconds_since(name))):
                    while True:
                        note(*await watcher.next())
            changes: list[ResourceChange] = []
            for uri, read in news.items():
                before = record.find(name, uri) or _Handed(None, None)
                if _handed(read).digest != before.digest:
                    changes.append(ResourceChange(uri, read, before.text))
            if changes:
                news.clear()
                await record.note_time(name)
                yield (batch := ChangeBatch(changes, record, name))
                await batch.confirm()
