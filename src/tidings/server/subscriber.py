"""`Subscriber`: a listen stream or a legacy session, its backlog and deadline; `Frame`: a change as bytes.

A frame for an idle stream is written at once, within the call that publishes. While a write is under way, or the stream
is not open yet, the newest frame of each change is kept, in the order in which they came. A reader that takes nothing
for `Limits.write_deadline` seconds, or lets more than `Limits.backlog` changes wait, is cut off: its stream ends
abruptly, without a result, so that it can tell. A frame is encoded once for all its subscribers.
"""

import asyncio
import itertools
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tidings._kit.tasks import retrieve
from tidings._kit.telemetry import measure
from tidings._kit.uvicorn_seam import as_chunk
from tidings.changes import CURSOR_KEY, FEATURE_OF, FEATURES, Change, Cursor, Feature, ResourceUpdated
from tidings.errors import NotAuthorized, TidingsError
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.config import Limits

logger = logging.getLogger(__name__)

FRAME_END: Final = b"}}}\r\n\r\n"  # The end of `_meta`, of `params`, of the message and of the event.

# Shared by all subscribers that have none of their own, which saves memory. Never written to.
_NOTHING_ASKED: dict[str, tuple[bool, float]] = {}
_NOTHING_WAITS: dict[Change, "Frame"] = {}

_LONGEST_TIMER: Final = 86_400.0  # Seconds: a timer of years would not fit into what the system counts.

Screen = Callable[[str], Awaitable[bool]]
"""Decides whether a subscriber may be notified of a resource."""

_METHODS: Final[dict[type[Change], str]] = {
    ResourceUpdated: "notifications/resources/updated",
    **{type(change): f"notifications/{feature}/list_changed" for change, feature in FEATURE_OF.items()},
}
_quoted = json.JSONEncoder().encode
_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class Frame:
    """One change at its place in the log, as it goes over the wire. Of several at a place, the last has a `cursor`."""

    place: Cursor
    change: Change
    cursor: str | None = None
    meta: dict[str, Any] | None = None
    origin: str = field(default="", kw_only=True)  # The key of the caller whose doing it is, if known. It is not sent.
    before: str | None = field(default=None, kw_only=True)  # The resource's text before, if known. It is not sent.
    legacy: bytes = field(init=False)  # The whole event for legacy streams.
    modern: bytes = field(init=False)  # For modern streams up to the subscription id. The id and `FRAME_END` follow.
    _legacy_chunk: bytes | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        text = "" if self.cursor is None else f'"{CURSOR_KEY}":{_quoted(self.cursor)}'
        if self.meta:
            text += f"{',' if text else ''}{_quoted(self.meta)[1:-1]}"
        uri = f'"uri":{_quoted(self.change.uri)},' if isinstance(self.change, ResourceUpdated) else ""
        # Built by hand, because every published change comes through here, and dumping a dict costs more. The event has
        # no name, because that means "message" and saves each stream a tenth of the bytes.
        common = f'data: {{"jsonrpc":"2.0","method":"{self.method}","params":{{{uri}"_meta":{{{text}'
        self.legacy = common.encode() + FRAME_END
        self.modern = f'{common}{"," if text else ""}"{SUBSCRIPTION_ID_META_KEY}":'.encode()

    @property
    def legacy_chunk(self) -> bytes:
        if self._legacy_chunk is None:
            self._legacy_chunk = as_chunk(self.legacy)
        return self._legacy_chunk

    @property
    def method(self) -> str:
        return _METHODS[type(self.change)]

    def params(self, **meta: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"uri": self.change.uri} if isinstance(self.change, ResourceUpdated) else {}
        params["_meta"] = {**({} if self.cursor is None else {CURSOR_KEY: self.cursor}), **(self.meta or {}), **meta}
        return params


@dataclass(frozen=True, slots=True)
class SubscriberInfo:
    """The state of one subscriber at one moment."""

    id: int
    client: str
    principal: str | None
    """The subject of the subscriber's token, or the token's client if the token has no subject."""
    era: str
    transport: str
    features: frozenset[str]
    subscriptions: frozenset[str]
    waiting: int
    """Changes that are published but not yet sent."""
    age: float
    """Seconds since it subscribed."""
    reachable: bool = True
    """False for a legacy session without an event stream at present: its client is slow to open one, or dead."""


@dataclass(slots=True, eq=False, kw_only=True)
class Subscriber(ABC):
    """A receiver of changes. Each era's subclass encodes frames and ends its stream: a part instead would cost time."""

    era: ClassVar[str]
    client: str
    principal: str | None
    transport: str
    features: frozenset[Feature]
    subscriptions: set[str]
    limits: Limits
    screen: Screen | None = None
    stream: BorrowedStream | None = None  # Written to directly; None where the SDK's session is used.
    writing: asyncio.Future[Any] | None = None  # The write under way, which may wait for a permission.
    id: int = field(init=False)
    began: float = field(init=False)
    _screened: dict[str, tuple[bool, float]] = field(init=False)
    _sure_until: float = field(init=False)
    _pending: dict[Change, Frame] = field(init=False)
    _expiry: asyncio.TimerHandle | None = None
    _open: bool = False
    _gone: bool = False
    _deadline: asyncio.TimerHandle | None = None
    _idle: asyncio.Event | None = None

    def __post_init__(self) -> None:
        self.id = next(_numbers)
        self.began = time.monotonic()
        self._screened = _NOTHING_ASKED if self.screen is None else {}
        self._sure_until = self.began + self.limits.permission  # Its subscriptions were permitted just now.
        self._pending = _NOTHING_WAITS

    @abstractmethod
    def _encode(self, frame: Frame) -> bytes:
        """Returns `frame` as bytes for a borrowed stream."""

    def _encode_chunk(self, frame: Frame) -> bytes:
        return as_chunk(self._encode(frame))

    @abstractmethod
    async def _notify(self, frames: Sequence[Frame]) -> None:
        """Sends `frames` in order through the SDK, where no stream is borrowed."""

    @abstractmethod
    def _cut(self) -> None:
        """Ends the stream abruptly, so that its reader can tell."""

    @abstractmethod
    def end(self, reason: TidingsError | None = None) -> None:
        """Ends the stream in good order, after what was written before; with a `reason` if the protocol has a way."""

    @abstractmethod
    def _forbidden(self, subscription: str) -> None:
        """Lets the subscriber know that it may no longer hear of something that it subscribed to."""

    def add(self, subscription: str) -> None:
        self.subscriptions.add(subscription)

    def discard(self, subscription: str) -> None:
        self.subscriptions.discard(subscription)

    def expire_at(self, time_: float | None) -> None:
        """Ends the stream when the token of its reader expires, in seconds since the epoch; None if it does not."""
        self._stop_expiry()
        if time_ is not None:
            delay = min(max(time_ - time.time(), 0.0), _LONGEST_TIMER)
            self._expiry = asyncio.get_running_loop().call_later(delay, self._expire, time_)

    def _expire(self, time_: float) -> None:
        if time.time() < time_:
            self.expire_at(time_)  # The clock was set back, or the time was too long for a timer.
        else:
            self.end(NotAuthorized("The token of this stream has expired. Sign in again, and listen again."))

    def permitted(self, uri: str, answer: bool = True) -> None:
        if self.screen is not None:
            if len(self._screened) >= self.limits.backlog:
                self._screened.clear()
            self._screened[uri] = (answer, time.monotonic() + self.limits.permission)

    def forget_permissions(self) -> None:
        self._sure_until = 0.0
        if self.screen is not None:
            self._screened.clear()

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def can_cut(self) -> bool:
        """The subscriber has a stream of its own, which can be ended without ending anything else."""
        return True

    @property
    def reachable(self) -> bool:
        return True

    @property
    def info(self) -> SubscriberInfo:
        return SubscriberInfo(
            id=self.id,
            client=self.client,
            principal=self.principal,
            era=self.era,
            transport=self.transport,
            features=frozenset(self.features),
            subscriptions=frozenset(self.subscriptions),
            waiting=len(self._pending),
            age=time.monotonic() - self.began,
            reachable=self.reachable,
        )

    def deliver(self, frame: Frame) -> None:
        if not self._open or self.writing is not None:
            self._collect(frame)
        elif self.stream is None or self.screen is not None:
            self._begin((frame,))
        else:
            # Nearly all frames go this way. With no write under way, nothing waits for an open stream.
            try:
                if (take := self.stream.chunk_taker()) is not None:
                    take(self._encode_chunk(frame))
                elif (writing := self.stream.write(self._encode(frame))) is not None:
                    self._wait_for(writing)
            except Exception as error:  # noqa: BLE001 - logged as the reason of the cut
                self.cut(f"writing failed: {error!r}")

    def deliver_everything(self, place: Cursor, cursor: str | None) -> None:
        """Notifies that everything may have changed; a prefix as itself: it is not known what it matches."""
        changes: list[Change] = [FEATURES[feature] for feature in self.features]
        changes += [ResourceUpdated(subscription) for subscription in self.subscriptions]
        for left, change in zip(range(len(changes) - 1, -1, -1), changes, strict=True):
            self.deliver(Frame(place, change, None if left else cursor))

    def replay(self, frames: Iterable[Frame]) -> None:
        """Puts missed frames, in order of version, before those that have come since; the stream is not open yet."""
        came, self._pending = self._pending, {frame.change: frame for frame in frames}
        for frame in came.values():
            self._collect(frame)

    def open(self) -> None:
        if not self._gone:
            self._open = True
            self._flush()

    def close(self) -> None:
        """Stops writing to the stream. Changes are kept for a stream that may be opened later."""
        self._open = False
        self._stop_clock()
        self._stop_expiry()
        if self.writing is not None:
            self.writing.cancel()
            self.writing = None

    @property
    def busy(self) -> bool:
        return self._open and not self._gone and (bool(self._pending) or self.writing is not None)

    async def drain(self) -> None:
        while self.busy:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()

    def cut(self, reason: str) -> None:
        """Ends the stream abruptly and drops what waits. The reader sees by the end that it missed something."""
        if self._gone or not self._open:
            return
        self._open = False
        logger.warning("Cut off %s (%s): %s", self.client, self.transport, reason)
        self._stop_clock()
        measure("tidings.cutoffs")
        try:
            self._cut()
        except Exception:
            logger.exception("Cutting off %s failed.", self.client)
        self._wake()

    def gone(self) -> None:
        """Notes that the subscriber has left: nothing more is written to it."""
        self._gone = True
        self._open = False
        self.forget_waiting()
        self._stop_clock()
        self._stop_expiry()
        if self.writing is not None:
            self.writing.cancel()
        self._wake()

    def forget_waiting(self) -> None:
        self._pending = _NOTHING_WAITS

    def _collect(self, frame: Frame) -> None:
        if self._gone:
            return
        if (waiting := self._pending.get(frame.change)) is not None:
            if waiting.place.epoch == frame.place.epoch and waiting.place.version > frame.place.version:
                return  # A replay had a later one. This one, put last, would be sent after its successors.
            del self._pending[frame.change]
            measure("tidings.merges")
        if not self._pending:
            self._pending = {}
        self._pending[frame.change] = frame
        # A filter without prefixes cannot exceed the second bound, its own length.
        if len(self._pending) > max(self.limits.backlog, len(self.subscriptions) + len(self.features)):
            self._pending = _NOTHING_WAITS
            if self._open and self.can_cut:
                self.cut(f"more than {self.limits.backlog} changes wait to be read")
            else:
                self.deliver_everything(frame.place, frame.cursor)  # A pipe cannot be cut.

    def _flush(self) -> None:
        if self._pending and self.writing is None:
            frames, self._pending = tuple(self._pending.values()), _NOTHING_WAITS
            self._begin(frames)

    def _begin(self, frames: Sequence[Frame]) -> None:
        try:
            if self.screen is None:
                writing = self._write(frames)
            elif any(self._allowed(frame) is None for frame in frames):
                # Asking counts as a write: otherwise later frames would overtake these.
                writing = asyncio.ensure_future(self._ask_and_write(self.screen, frames))
            else:
                allowed = [frame for frame in frames if self._allowed(frame)]
                writing = self._write(allowed) if allowed else None
            if writing is not None:
                self._wait_for(writing)
        except Exception as error:  # noqa: BLE001 - logged as the reason of the cut
            # The error of one stream must not reach the publisher, which is on the stack, or the other streams.
            self.cut(f"writing failed: {error!r}")

    def _wait_for(self, writing: asyncio.Future[Any]) -> None:
        self.writing = writing
        writing.add_done_callback(self._written)
        if self.can_cut:
            self._start_clock()

    def _start_clock(self) -> None:
        self._stop_clock()
        seconds = self.limits.write_deadline
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.cut, f"it read nothing for {seconds:g} s")

    def _write(self, frames: Sequence[Frame]) -> asyncio.Future[Any] | None:
        """Writes `frames` in order. Returns what to wait for before the next write, or None."""
        if self.stream is None:
            return asyncio.ensure_future(self._notify(frames))
        if len(frames) == 1:
            return self.stream.write(self._encode(frames[0]))
        # The empty write waits if the reader does not take what is before it, so that the deadline runs.
        return self.stream.write(b"".join(map(self._encode, frames))) or self.stream.write(b"")

    async def _ask_and_write(self, screen: Screen, frames: Sequence[Frame]) -> None:
        allowed: list[Frame] = []
        for frame in frames:
            answer = self._allowed(frame)
            if answer is None:
                uri = cast("ResourceUpdated", frame.change).uri
                answer = await screen(uri)
                if self._deadline is not None:
                    self._start_clock()  # It is not the reader who took this long.
                self.permitted(uri, answer)
                if not answer and uri in self.subscriptions:
                    self._forbidden(uri)
            if answer:
                allowed.append(frame)
        if allowed and self._open and (writing := self._write(allowed)) is not None:
            await writing

    def _allowed(self, frame: Frame) -> bool | None:
        """Returns whether `frame` may be sent to this subscriber; None if that has to be asked."""
        change, now = frame.change, time.monotonic()
        if not isinstance(change, ResourceUpdated) or (now < self._sure_until and change.uri in self.subscriptions):
            return True
        answer, until = self._screened.get(change.uri, (None, 0.0))
        return answer if now < until else None

    def _written(self, writing: asyncio.Future[Any]) -> None:
        if writing is not self.writing:
            return  # Its stream was abandoned meanwhile.
        self.writing = None
        self._stop_clock()
        if self._gone:
            retrieve(writing)
        elif writing.cancelled():
            self.cut("writing was cancelled")
        elif error := writing.exception():
            self.cut(f"writing failed: {error!r}")
        elif self._open:
            self._flush()
        if self.writing is None:
            self._wake()

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _wake(self) -> None:
        if self._idle is not None:
            self._idle.set()
            self._idle = None


class Collector(Subscriber):
    """A subscriber without a stream or a session, which collects what it hears of."""

    era = "any"
    __slots__ = ()

    @property
    def can_cut(self) -> bool:
        return False

    def _encode(self, frame: Frame) -> bytes:
        raise NotImplementedError  # It has no stream.

    async def _notify(self, frames: Sequence[Frame]) -> None:
        raise NotImplementedError  # It has no session.

    def _cut(self) -> None:
        self.end()

    def _forbidden(self, subscription: str) -> None:
        self.end()  # Its reader finds out by itself.
