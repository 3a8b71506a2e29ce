"""`TaskStream`: hears of tasks on a stream (`subscriptions/listen` with `taskIds`) where the server offers that.

One stream carries all tasks that the client follows. For a new task, another one is opened, and the one before it is
closed when the new one is acknowledged. Whoever follows a task looks at it when the stream begins or ceases to carry
it, and polls while it does not: so nothing depends on the stream but the delay.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from tidings._kit.backoff import Pauses
from tidings._kit.bounded_json import as_texts
from tidings._kit.tasks import Wakeup
from tidings.client.connection import Connection
from tidings.client.link import Link
from tidings.client.modern import ListenRequest
from tidings.client.task_wire import NOTIFICATION, TaskState
from tidings.errors import MalformedMessage, TidingsError

_REOPEN: Final = (0.2, 0.5, 2.0, 10.0, 60.0)  # Seconds before a lost stream is opened again.
_LASTED: Final = 5.0  # Seconds. A stream that was open for longer did not end at once.
_GATHER: Final = 0.01  # Seconds in which tasks that begin together come together on one stream.


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
        self._carried: frozenset[str] = frozenset()
        self._open: ListenRequest | None = None  # The one that carries tasks.
        self._next: ListenRequest | None = None  # The one that is not acknowledged yet.
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
        return self._open is not None and not self._open.is_over and task_id in self._carried

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Takes a notification. Returns True if it belongs to a stream of tasks."""
        if method == NOTIFICATION:
            with contextlib.suppress(MalformedMessage):
                if (state := TaskState.parse(params, method=method)).task_id in self._wanted:
                    self.heard(state)
            return True
        return any(stream is not None and stream.hear(method, params) for stream in (self._open, self._next))

    async def _keep(self) -> None:
        pauses = Pauses(_REOPEN, below=0.5)
        try:
            while True:
                await asyncio.sleep(_GATHER)
                link = await self.connection.ready()
                if link is self._silent or link.facts.era != "modern":
                    await link.until_over()
                    continue
                began, asked = asyncio.get_running_loop().time(), frozenset(self._wanted)
                wanted = {"taskIds": sorted(asked)}
                self._next = stream = ListenRequest(link, wanted, {}, ended=self._wakeup)
                with contextlib.suppress(TidingsError):  # The tasks are polled then.
                    await stream.opened(self.seconds)
                    if "taskIds" not in stream.agreed:  # The server does not know what that is.
                        self._silent = link
                        stream.close()
                        self._replace(None)
                    else:
                        self._replace(stream, asked.intersection(as_texts(stream.agreed["taskIds"])))
                        await self._wakeup.until(
                            lambda over=stream, asked=asked: over.is_over or not self._wanted <= asked
                        )
                if self._open is not None and self._open.is_over:
                    self._replace(None)
                if asyncio.get_running_loop().time() - began > _LASTED:
                    pauses.reset()
                if stream.is_over and link is not self._silent:
                    await asyncio.sleep(pauses.next())
        except TidingsError:
            pass  # There will be no connection: whoever follows a task is told by its own requests.
        finally:
            self._replace(None)
            if self._next is not None:
                self._next.close()

    def _replace(self, stream: ListenRequest | None, carried: frozenset[str] = frozenset()) -> None:
        before, self._open = self._open, stream
        was, self._carried = self._carried, carried
        for task_id in (was ^ carried) & self._wanted:
            self.look(task_id)
        if before is not None:
            before.close()
