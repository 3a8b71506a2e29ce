"""The lane in which content is read again, beside the queue of the user's requests.

A resource is read again when it may have changed. However often that is said while one read runs, one more follows.
What could not be read for a reason that may pass is tried again; a connection that was lost is waited for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from tidings.client.invocations import ResourceRead
from tidings.client.pulse import Pulse
from tidings.errors import Cancelled, GaveUp, NotConnected, TidingsError

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_PAUSES: Final = (0.2, 1.0, 5.0, 30.0)

Read = Callable[[str], Awaitable[ResourceRead]]


class Refresher:
    """Reads what is stale, a few at a time, until nothing is."""

    def __init__(
        self, read: Read, *, failed: Callable[[str, TidingsError], None], pulse: Pulse, at_once: int = _AT_ONCE
    ) -> None:
        self._read = read
        self._failed = failed
        self._pulse = pulse
        self._at_once = at_once
        self._stale: dict[str, None] = {}
        self._reading: set[str] = set()
        self._failures: dict[str, int] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._parked: set[str] = set()

    def want(self, uri: str) -> None:
        """Read this, once more if it is being read."""
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale[uri] = None
        if len(self._workers) < self._at_once and uri not in self._reading:
            self._workers.add(asyncio.create_task(self._work()))

    def forget(self, uri: str) -> None:
        """This need not be read any more."""
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale.pop(uri, None)
        self._failures.pop(uri, None)

    def is_stale(self, uri: str) -> bool:
        """Whether this waits to be read, or is being read."""
        return uri in self._stale or uri in self._reading or uri in self._timers or uri in self._parked

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing is being read."""
        return not (self._stale or self._reading or self._timers or self._parked)

    async def _work(self) -> None:
        try:
            await self._read_all()
        finally:
            # Here, not when the task is found to have ended: who wants something meanwhile starts another.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _read_all(self) -> None:
        while (uri := next((uri for uri in self._stale if uri not in self._reading), None)) is not None:
            del self._stale[uri]
            self._reading.add(uri)
            try:
                await self._read(uri)
                self._failures.pop(uri, None)
            except TidingsError as error:
                self._deal_with(uri, error)
            except Exception:
                logger.exception("reading %s again failed", uri)
            finally:
                self._reading.discard(uri)
                self._pulse()

    def _deal_with(self, uri: str, error: TidingsError) -> None:
        if uri in self._stale:
            return  # It is read once more in any case.
        if isinstance(error, NotConnected | GaveUp):
            self._parked.add(uri)
        elif error.retryable or isinstance(error, Cancelled):
            failures = self._failures[uri] = self._failures.get(uri, 0) + 1
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
            self._timers[uri] = asyncio.get_running_loop().call_later(pause, self.want, uri)
        if not isinstance(error, Cancelled):  # Somebody cancelled this read; nobody gave up what it is for.
            self._failed(uri, error)

    def resume(self) -> None:
        """There is a connection again: go on with what was put aside for want of one."""
        for uri in tuple(self._parked):
            self.want(uri)

    def _stop_timer(self, uri: str) -> None:
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()

    async def aclose(self) -> None:
        """Stop reading."""
        self._stale.clear()
        self._parked.clear()
        for uri in tuple(self._timers):
            self._stop_timer(uri)
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._workers.difference_update(workers)  # One that had not begun could not take itself out.
