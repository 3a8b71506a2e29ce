"""The queue of the user's requests: turns, status, history, cancelling."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.dispatcher import ProgressFnT

from tidings.errors import Cancelled, RequestCancelled, RequestTimedOut, TidingsError

if TYPE_CHECKING:
    from tidings.client.events import ProgressMade
    from tidings.client.pending import PendingRequest
    from tidings.client.tasks import RemoteTask


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
    """True if the request bypasses the queue, as the client's own requests do."""
    routine: bool = False
    """True if the request is neither announced nor remembered, because there are many of its kind: polls of a task."""
    task: "RemoteTask | None" = field(default=None, repr=False)
    """The task at the server that this tool call has become, if it has."""
    on_behalf_of: "QueueEntry | None" = field(default=None, repr=False)
    """The tool call whose task this request is about."""
    status: Status = Status.PENDING
    created_at: float = field(default_factory=time.time)
    started_at: float | None = None
    completed_at: float | None = None
    result: Any = field(default=None, repr=False)
    """The server's answer."""
    error: BaseException | None = None
    attempts: int = 0
    """The number of times that the request was sent."""
    progress: "ProgressMade | None" = field(default=None, repr=False)
    """The last progress that the server reported."""
    questions: "list[PendingRequest]" = field(default_factory=list["PendingRequest"], repr=False)
    """The questions to the user that it has caused, as far as is known: oldest first, answered ones included."""
    is_sent: bool = field(default=False, repr=False)  # An answer of the server is awaited.
    may_have_arrived: bool = field(default=False, repr=False)  # False only where the transport proves it.
    held_back: bool = field(default=False, repr=False)  # It waits for a sign-in, and has not been sent.
    http_status: int | None = field(default=None, repr=False)  # The last, if the server is at a URL.
    asked_user: bool = field(default=False, repr=False)  # The server asked the user meanwhile: not to be cached.
    holds: int = field(default=0, repr=False)  # The number of a person's answers that it waits for.
    scope: anyio.CancelScope | None = field(default=None, repr=False)
    seconds: float = field(default=0.0, repr=False)
    """The seconds for an answer. `until` is the end of all attempts, by the loop's clock."""
    until: float = field(default=0.0, repr=False)
    on_progress: ProgressFnT | None = field(default=None, repr=False)
    cancel_reason: TidingsError | None = field(default=None, repr=False)
    turn: "asyncio.Future[None] | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The tool, the prompt or the URI that the request names; its method if it names none."""
        return str(self.params.get("name") or self.params.get("uri") or self.method)

    @property
    def over(self) -> bool:
        """True if the request has ended."""
        return self.status not in (Status.PENDING, Status.IN_PROGRESS)

    def hold(self) -> None:
        """Stops the time limit while a person is asked."""
        self.holds += 1
        if self.scope is not None:
            self.scope.deadline = math.inf

    def release(self) -> None:
        """Restarts the time limit once all answers are there."""
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
    """The queue of requests: first come, first served, with `concurrency` requests at the same time."""

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

    def add(self, method: str, params: Mapping[str, Any], *, aside: bool = False, routine: bool = False) -> QueueEntry:
        """Adds a request. With `aside`, or if there is room, it has its turn at once. Call `end` in any case."""
        entry = QueueEntry(f"request-{next(self._ids)}", method, params, aside, routine)
        if aside or (not self._waiting and len(self._running) < self._concurrency):
            (self._aside if aside else self._running)[entry.id] = entry
            self._begin(entry)
        else:
            entry.turn = asyncio.get_running_loop().create_future()
            self._waiting[entry.id] = entry
            self._on_change(entry)
        return entry

    def become_task(self, entry: QueueEntry, task: "RemoteTask") -> None:
        """Takes note that a request goes on as a task at the server, and leaves its place to the next one."""
        entry.task = task
        self._running.pop(entry.id, None)
        self._aside[entry.id] = entry
        self._on_change(entry)
        self._begin_next()

    def _begin(self, entry: QueueEntry) -> None:
        entry.status, entry.started_at = Status.IN_PROGRESS, time.time()
        if not entry.routine:
            self._on_change(entry)

    async def turn(self, entry: QueueEntry, within: float = math.inf) -> None:
        """Waits for the turn of a request. Raises `RequestTimedOut`, or the reason for which it was stopped."""
        if entry.turn is None:
            return
        cure = "Allow more at once with ClientConfig(concurrency=...), or give it longer with Timeouts(total=...)."
        text = f"{entry.method} waited {within:g} s for its turn, behind other requests. {cure}"
        late = RequestTimedOut(text, method=entry.method)
        timer = asyncio.get_running_loop().call_later(within, self._stop, entry, late)
        try:
            await entry.turn
        finally:
            timer.cancel()
        self._begin(entry)

    def end(self, entry: QueueEntry, error: BaseException | None = None) -> None:
        """Ends a request, unless it has ended, and begins the next one's turn."""
        if entry.over:
            return
        entry.status = Status.COMPLETED if error is None else Status.ERROR
        if isinstance(error, Cancelled | asyncio.CancelledError):
            entry.status = Status.CANCELLED
        entry.error, entry.completed_at, entry.scope = error, time.time(), None
        self._waiting.pop(entry.id, None)
        self._running.pop(entry.id, None)
        self._aside.pop(entry.id, None)
        if not entry.routine:
            self._totals[entry.status] += 1
            self._past.append(entry)
            self._on_change(entry)
        self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            following = self._waiting.pop(next(iter(self._waiting)))
            if following.turn is not None and not following.turn.done():
                self._running[following.id] = following
                following.turn.set_result(None)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yields what runs and what waits, in order."""
        return (entry for entry in self._all() if not entry.routine)

    def _all(self) -> tuple[QueueEntry, ...]:
        return (*self._running.values(), *self._aside.values(), *self._waiting.values())

    def cancel(self, request_id: str) -> bool:
        """Cancels a request that waits or runs. Returns False if it has already ended."""
        entry = self._running.get(request_id) or self._waiting.get(request_id) or self._aside.get(request_id)
        if entry is None:
            return False
        self._stop(entry, RequestCancelled("This request was cancelled.", method=entry.method))
        return True

    def reject_all(self, make_error: Callable[[str], TidingsError]) -> None:
        """Ends everything that waits or runs, each with an error of its own, which is made from its method."""
        for entry in self._all():
            self._stop(entry, make_error(entry.method))

    def _stop(self, entry: QueueEntry, reason: TidingsError) -> None:
        if entry.turn is not None and not entry.turn.done():
            entry.turn.set_exception(reason)
            return
        if entry.cancel_reason is None:
            entry.cancel_reason = reason
            if entry.scope is not None:
                entry.scope.cancel()

    def running(self) -> Iterator[QueueEntry]:
        """Yields the requests that run. A call that continues as a task is not one: no answer of the server is due."""
        return (entry for entry in (*self._running.values(), *self._aside.values()) if entry.task is None)

    def is_busy(self) -> bool:
        return any(self.running())

    def of_task(self, task_id: str) -> QueueEntry | None:
        """Returns the request that goes on as this task."""
        entries = self._aside.values()
        return next((entry for entry in entries if entry.task is not None and entry.task.id == task_id), None)

    def status(self) -> QueueStatus:
        """Returns the number of requests in each state."""
        return QueueStatus(
            pending=len(self._waiting),
            in_progress=len(self._running) + sum(not entry.routine for entry in self._aside.values()),
            completed=self._totals[Status.COMPLETED],
            failed=self._totals[Status.ERROR],
            cancelled=self._totals[Status.CANCELLED],
        )

    def history(self, limit: int | None = None) -> list[QueueEntry]:
        """Returns the requests that ended, the latest first."""
        return list(reversed(self._past))[:limit]
