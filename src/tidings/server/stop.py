"""Hearing that the process shall stop, in time to say so on every stream.

A web server waits for its responses to end before it tells the app to shut down; a stream that waits for the app to
shut down would keep both waiting. So Tidings hears the signals itself, ends its streams, and passes each signal on.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Calls `on_stop` on its event loop when the process is asked to stop, and then whoever handled that before."""

    def __init__(self, on_stop: Callable[[], object]) -> None:
        self._on_stop = on_stop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._previous: dict[int, Any] = {}
        self._alone = False
        self._active = False

    def install(self, *, only_if_handled: bool) -> None:
        """Listen from now on. Only the main thread can; elsewhere this does nothing.

        `only_if_handled` leaves alone a signal that would end the process at once: somebody else has to keep it alive
        until its streams have ended, and nobody does.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._active = True
        self._loop = asyncio.get_running_loop()
        if self._previous:
            return  # Still in the chain, from the last time.
        self._alone = not only_if_handled
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            if self._alone or (callable(previous) and previous is not signal.default_int_handler):
                self._previous[number] = previous
                signal.signal(number, self._handle)

    def uninstall(self) -> None:
        """Listen no more. Where nobody has put a handler on top since, what was there before is put back; elsewhere
        this goes on passing signals to it.
        """
        self._active = False
        if threading.current_thread() is threading.main_thread():
            for number, handler in tuple(self._previous.items()):
                if signal.getsignal(number) == self._handle:
                    signal.signal(number, handler)
                    del self._previous[number]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._active and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_stop)
        previous = self._previous.get(number)
        # The stop that was just begun ends the process where nobody else does: an interrupt would break it off.
        if callable(previous) and not (self._active and self._alone and _interrupts(previous)):
            previous(number, frame)


def _interrupts(handler: Any) -> bool:
    """Whether `handler` is Python's own answer to SIGINT: to raise in whatever runs, or to cancel what asyncio runs."""
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(runner, asyncio.Runner)
