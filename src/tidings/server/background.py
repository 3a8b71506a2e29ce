"""Work that is begun and not waited for."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Background:
    """Keeps such work alive until it is done, and logs what it raises: nobody else would hear of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finished(self) -> None:
        """Wait until all that was begun is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    @staticmethod
    async def _run(work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("%s failed", getattr(work, "__qualname__", "work in the background"))
