"""`TaskFeed`: the tasks that one `subscriptions/listen` follows.

A notification says what `tasks/get` would say at that moment. A stream that begins is told at once of tasks that are
over or wait for input, because their client has something to do. From then on it is told of every change, on whatever
replica that happens.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from tidings.errors import TransportError
from tidings.server.modern import TaskFrame
from tidings.server.waking.record import TaskRecord
from tidings.server.waking.running import LOOK_SECONDS
from tidings.server.waking.store import TaskStore, UnknownTask

logger = logging.getLogger(__name__)


class TaskFeed:
    """Delivers the changes of some tasks, which are keys by their ids, until `close` is called or all are over."""

    def __init__(
        self,
        store: TaskStore,
        state_of: Callable[[str], Awaitable[TaskRecord]],
        tasks: Mapping[str, str],
        deliver: Callable[[TaskFrame], None],
    ) -> None:
        self._store = store
        self._state_of = state_of
        self._deliver = deliver
        self._left = {key: task for task, key in tasks.items()}
        self._told: dict[str, tuple[str, float]] = {}
        self._due = set(self._left)
        self._news = asyncio.Event()
        self._news.set()
        for key in self._left:
            store.watch(key, self._changed)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """Ends it."""
        self._worker.cancel()
        for key in tuple(self._left):
            self._leave(key)

    def _changed(self, key: str) -> None:
        self._due.add(key)
        self._news.set()

    async def _work(self) -> None:
        while self._left:
            with suppress(TimeoutError):  # Nobody says that the process of a task has died.
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._news.wait()
            self._news.clear()
            due, self._due = self._due or set(self._left), set[str]()
            for key in due.intersection(self._left):
                try:
                    await self._tell(key)
                except TransportError:
                    pass  # It is looked at again.
                except UnknownTask:
                    self._leave(key)
                except Exception:
                    logger.exception("The state of a task could not be sent.")

    async def _tell(self, key: str) -> None:
        record = await self._state_of(key)
        before, now = self._told.get(key), (record.status, record.updated)
        self._told[key] = now
        if now != before and (before is not None or record.status != "working"):
            task = self._left[key]
            self._deliver(TaskFrame(task, record.details(task)))
        if record.is_final:
            self._leave(key)

    def _leave(self, key: str) -> None:
        del self._left[key]
        self._store.unwatch(key, self._changed)
