"""The queue of the user's requests: turns, status, history, cancelling."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT

from tidings.errors import Cancelled, RequestCancelled, RequestTimedOut, TidingsError


class Status(StrEnum):
    """The status of a request."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(slots=True, eq=False)
class QueueEntry:
    """One request and its outcome. Times are seconds since 1970."""

    id: str
    method: str
    params: Mapping[str, Any]
    aside: bool = False
    """True if it bypasses the queue, as the client's own requests do."""
    status: Status = Status.PENDING
    created_at: float = field(default_factory=time.time)
    started_at: float | None = None
    completed_at: float | None = None
    result: Any = field(default=None, repr=False)
    """The server's answer."""
    error: BaseException | None = None
    attempts: int = 0
    """The number of times that it was sent."""
    may_have_arrived: bool = field(default=False, repr=False)
    """True if the server may have received it. False only where the transport proves it."""
    held_back: bool = field(default=False, repr=False)
    """True if it waits for a sign-in, and has not been sent."""
    http_status: int | None = field(default=None, repr=False)
    """The last HTTP status, if the server is at a URL."""
    asked_user: bool = field(default=False, repr=False)
    """True if the server asked the user something meanwhile: such a result is never cached."""
    holds: int = field(default=0, repr=False)
    """The number of a person's answers that it waits for."""
    scope: anyio.CancelScope | None = field(default=None, repr=False)
    seconds: float = field(default=0.0, repr=False)
    """The seconds for an answer. `until` is the end of all attempts, in the loop's time."""
    until: float = field(default=0.0, repr=False)
    on_progress: ProgressFnT | None = field(default=None, repr=False)
    cancel_reason: TidingsError | None = field(default=None, repr=False)
    turn: "asyncio.Future[None] | None" = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.status not in (Status.PENDING, Status.IN_PROGRESS)

    def hold(self) -> None:
        """Stops its clock, while a person is asked."""
        self.holds += 1
        if self.scope is not None:
            self.scope.deadline = math.inf

    def release(self) -> None:
        """Starts its clock anew, once all answers are there."""
        self.holds -= 1
        if not self.holds and self.scope is not None:
            now = anyio.current_time()
            self.until = max(self.until, now + self.seconds)
            self.scope.deadline = now + self.seconds


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The number of requests in each state, since the client was made."""

    pending: int
    in_progress: int
    completed: int
    failed: int
    cancelled: int


class RequestQueue:
    """First come, first served; `concurrency` at once."""

    def __init__(
        self, *, concurrency: int = 1, history: int = 1_000, on_change: Callable[[QueueEntry], None] = lambda _: None
    ) -> None:
        self._concurrency = concurrency
        self._waiting: dict[str, QueueEntry] = {}
        self._running: dict[str, QueueEntry] = {}
        self._aside: dict[str, QueueEntry] = {}
        self._past: deque[QueueEntry] = deque(maxlen=history)
        self._totals = dict.fromkeys(Status, 0)
        self._ids = count(1)
        self._on_change = on_change

    async def enter(
        self, method: str, params: Mapping[str, Any], *, aside: bool = False, within: float = math.inf
    ) -> QueueEntry:
        """Waits for a turn, or with `aside` takes one at once. Call `end` afterwards.

        Raises:
            RequestCancelled: It was cancelled while it waited.
            RequestTimedOut: Its turn did not come within so many seconds.
            Disconnected: The client was disconnected while it waited.
        """
        entry = QueueEntry(f"request-{next(self._ids)}", method, params, aside)
        if aside:
            self._aside[entry.id] = entry
        elif self._waiting or len(self._running) >= self._concurrency:
            entry.turn = asyncio.get_running_loop().create_future()
            self._waiting[entry.id] = entry
            self._on_change(entry)
            cure = "Allow more at once with ClientConfig(concurrency=...), or give it longer with Timeouts(total=...)."
            text = f"{method} waited {within:g} s for its turn, behind other requests. {cure}"
            late = RequestTimedOut(text, method=method)
            timer = asyncio.get_running_loop().call_later(within, self._stop, entry, late)
            try:
                await entry.turn
            except BaseException as error:
                self.end(entry, error)
                raise
            finally:
                timer.cancel()
        if not aside:
            self._running[entry.id] = entry
        entry.status, entry.started_at = Status.IN_PROGRESS, time.time()
        self._on_change(entry)
        return entry

    def end(self, entry: QueueEntry, error: BaseException | None = None) -> None:
        """Ends a request, and begins the next one's turn."""
        entry.status = Status.COMPLETED if error is None else Status.ERROR
        if isinstance(error, Cancelled | asyncio.CancelledError):
            entry.status = Status.CANCELLED
        entry.error, entry.completed_at, entry.scope = error, time.time(), None
        self._totals[entry.status] += 1
        self._waiting.pop(entry.id, None)
        self._running.pop(entry.id, None)
        self._aside.pop(entry.id, None)
        self._past.append(entry)
        self._on_change(entry)
        while self._waiting and len(self._running) < self._concurrency:
            following = self._waiting.pop(next(iter(self._waiting)))
            if following.turn is not None and not following.turn.done():
                self._running[following.id] = following
                following.turn.set_result(None)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yields what runs and what waits, in order."""
        return iter((*self._running.values(), *self._aside.values(), *self._waiting.values()))

    def cancel(self, request_id: str) -> bool:
        """Cancels a request that waits or runs. Returns False if it has ended."""
        entry = self._running.get(request_id) or self._waiting.get(request_id) or self._aside.get(request_id)
        if entry is None:
            return False
        self._stop(entry, RequestCancelled("This request was cancelled.", method=entry.method))
        return True

    def reject_all(self, make_error: Callable[[QueueEntry], TidingsError]) -> None:
        """Ends everything that waits or runs, each with an error of its own."""
        for entry in tuple(self):
            self._stop(entry, make_error(entry))

    def _stop(self, entry: QueueEntry, reason: TidingsError) -> None:
        if entry.turn is not None and not entry.turn.done():
            entry.turn.set_exception(reason)
            return
        if entry.cancel_reason is None:
            entry.cancel_reason = reason
            if entry.scope is not None:
                entry.scope.cancel()

    def running(self) -> Iterator[QueueEntry]:
        """Yields the requests that run."""
        return iter((*self._running.values(), *self._aside.values()))

    def status(self) -> QueueStatus:
        """Returns the number of requests in each state."""
        return QueueStatus(
            pending=len(self._waiting),
            in_progress=len(self._running) + len(self._aside),
            completed=self._totals[Status.COMPLETED],
            failed=self._totals[Status.ERROR],
            cancelled=self._totals[Status.CANCELLED],
        )

    def history(self, limit: int | None = None) -> list[QueueEntry]:
        """Returns the requests that ended, the latest first."""
        return list(reversed(self._past))[:limit]
