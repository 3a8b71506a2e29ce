"""`TaskStream`: hears of tasks on a stream (`subscriptions/listen` with `taskIds`) where the server offers that.

One stream carries all tasks that the client follows. A filter cannot be edited: for a new task, another stream is
opened, and the one before it is closed when the new one is acknowledged. Whoever follows a task looks at it when the
stream begins or ceases to carry it, and polls while it does not: so nothing depends on the stream but the delay.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tidings._kit.backoff import Pauses
from tidings._kit.bounded_json import as_dict, as_texts
from tidings._kit.tasks import Wakeup
from tidings.client.connection import Connection
from tidings.client.http_health import LISTEN
from tidings.client.link import Link
from tidings.client.queue import QueueEntry
from tidings.client.task_wire import NOTIFICATION, TaskState
from tidings.client.transports.http import current_call
from tidings.errors import MalformedMessage, TidingsError

_REOPEN: Final = (0.2, 0.5, 2.0, 10.0, 60.0)  # Seconds before a lost stream is opened again.
_LASTED: Final = 5.0  # Seconds. A stream that was open for longer did not end at once.
_GATHER: Final = 0.01  # Seconds in which tasks that begin together come together on one stream.
_ids = count(1)


@dataclass(eq=False)
class _OpenStream:
    link: Link
    asked: frozenset[str]
    over: Callable[[], None]
    id: str = field(default_factory=lambda: f"tidings-tasks-{next(_ids)}")
    is_offered: bool = False  # The server knows what `taskIds` are.
    carried: frozenset[str] = frozenset()
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self.task is not None and not self.task.done() and not self.task.cancelling()

    def start(self) -> None:
        self.task = asyncio.create_task(self._run(), name=self.id)
        self.task.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        self.acknowledged.set()
        self.over()

    async def _run(self) -> None:
        current_call.set(QueueEntry(self.id, LISTEN, {}, aside=True))
        params = {"notifications": {"taskIds": sorted(self.asked)}, "_meta": {}}
        with contextlib.suppress(MCPError, TidingsError):  # The tasks are polled then.
            await self.link.send_raw(LISTEN, params, request_id=self.id)

    def acknowledge(self, params: Mapping[str, Any]) -> None:
        agreed = as_dict(params.get("notifications"))
        self.is_offered = "taskIds" in agreed
        self.carried = self.asked.intersection(as_texts(agreed.get("taskIds")))
        self.acknowledged.set()

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(eq=False, repr=False)
class TaskStream:
    """Calls `heard` with each state of a wanted task, and `look` when the stream begins or ceases to carry a task."""

    connection: Connection
    seconds: float  # For the acknowledgement of a stream.
    _: KW_ONLY
    heard: Callable[[TaskState], None]
    look: Callable[[str], None]

    def __post_init__(self) -> None:
        self._wanted: set[str] = set()
        self._open: _OpenStream | None = None  # The one that carries tasks.
        self._next: _OpenStream | None = None  # The one that is not acknowledged yet.
        self._silent: Link | None = None  # Its server offers no such stream.
        self._wakeup = Wakeup()
        self._keeper: asyncio.Task[None] | None = None

    def want(self, task_id: str) -> None:
        """Carries a task from soon on, if the server offers that."""
        self._wanted.add(task_id)
        self._wakeup()
        if self._keeper is None or self._keeper.done():  # Done: there was no hope of a connection.
            self._keeper = asyncio.create_task(self._keep(), name="tidings stream of tasks")

    def unwant(self, task_id: str) -> None:
        self._wanted.discard(task_id)
        if not self._wanted and self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

    def carries(self, task_id: str) -> bool:
        """Returns whether the server announces each change of a task at present."""
        return self._open is not None and self._open.is_open and task_id in self._open.carried

    def hear(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Takes a notification. Returns True if it belongs to a stream of tasks."""
        told = as_dict(params)
        if method == NOTIFICATION:
            with contextlib.suppress(MalformedMessage):
                if (state := TaskState.parse(told, method=method)).task_id in self._wanted:
                    self.heard(state)
            return True
        stream_id = as_dict(told.get("_meta")).get(SUBSCRIPTION_ID_META_KEY)
        for stream in (self._open, self._next):
            if stream is None:
                continue
            if method == "notifications/subscriptions/acknowledged" and stream_id == stream.id:
                stream.acknowledge(told)
                return True
            if method == "notifications/cancelled" and told.get("requestId") == stream.id:
                stream.close()
                return True
        return False

    async def _keep(self) -> None:
        pauses = Pauses(_REOPEN, below=0.5)
        try:
            while True:
                await asyncio.sleep(_GATHER)
                link = await self.connection.ready()
                if link is self._silent or link.facts.era != "modern":
                    await link.until_over()
                    continue
                began = asyncio.get_running_loop().time()
                stream = await self._opened(link)
                if stream.is_open and not stream.is_offered:
                    stream.close()
                    self._replace(None)
                    self._silent = link
                    continue
                if stream.is_open:
                    self._replace(stream)
                    await self._wakeup.until(
                        lambda stream=stream: not stream.is_open or not self._wanted <= stream.asked
                    )
                if self._open is not None and not self._open.is_open:
                    self._replace(None)
                if asyncio.get_running_loop().time() - began > _LASTED:
                    pauses.reset()
                if not stream.is_open:
                    await asyncio.sleep(pauses.next())
        except TidingsError:
            pass  # There will be no connection: whoever follows a task is told by its own requests.
        finally:
            self._replace(None)
            if self._next is not None:
                self._next.close()

    async def _opened(self, link: Link) -> _OpenStream:
        """Returns a stream for all wanted tasks. It is not open if the server does not acknowledge it in time."""
        self._next = stream = _OpenStream(link, frozenset(self._wanted), self._wakeup)
        stream.start()
        try:
            async with asyncio.timeout(self.seconds):
                await stream.acknowledged.wait()
        except TimeoutError:
            stream.close()
        self._next = None
        return stream

    def _replace(self, stream: _OpenStream | None) -> None:
        before, self._open = self._open, stream
        was, now = (frozenset[str]() if each is None else each.carried for each in (before, stream))
        for task_id in (was ^ now) & self._wanted:
            self.look(task_id)
        if before is not None:
            before.close()
