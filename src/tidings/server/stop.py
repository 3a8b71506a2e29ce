"""Stop signals, the time that a stop may take, and the end of the requests under way.

A web server waits for its responses to end before it shuts the app down. So Tidings handles the signals itself, ends
its streams and requests, and passes each signal on. A handler may take any time, and one in a thread cannot be ended.
So each has a task of its own, to be left behind.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, NamedTuple

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from tidings._kit.python_seam import leave_tasks, leave_threads
from tidings._kit.tasks import retrieve
from tidings.server.http_exchange import stopping

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_TURNS: Final = 0.02  # Seconds in which a cancelled task has its turns.


class Share(NamedTuple):
    """One part of a stop."""

    until: float  # Its end at the latest, in seconds since the stop began.
    at_least: float = 0.0  # Seconds that it has in any case, because something else decides when it begins.


CALLS: Final = Share(0.2)  # Requests under way end by themselves.
CANCELLED: Final = Share(0.25)  # Those that were cancelled clean up.
FLUSH: Final = Share(0.35)  # The bus accepts the changes that are held back.
DRAIN: Final = Share(0.5)  # Readers take what waits for them.
# Streams end, and the system takes their last bytes. The web server notices within 0.1 s.
END: Final = Share(0.6, at_least=0.1)
HOOKS: Final = Share(0.7, at_least=0.1)  # Hooks stop watching sources.
BUS: Final = Share(0.85, at_least=0.05)  # The bus is closed.


class StopBudget:
    """The time of one stop: each part has what those before it have left over. Twice as long with 10,000 streams."""

    def __init__(self, clock: Callable[[], float], streams: int = 0) -> None:
        self._clock = clock
        self._began = clock()
        self._stretch = 1 + streams / 10_000

    def left(self, share: Share) -> float:
        return max(self._began + share.until * self._stretch - self._clock(), share.at_least, 0.0)


class BrokenOff:
    """The tasks that a stop has broken off: code of the server's author, which may take any time and a thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def add(self, tasks: Iterable[asyncio.Future[Any]]) -> None:
        self._tasks.update(tasks)
        leave_tasks(self._tasks)

    async def leave(self) -> None:
        """Cancels them, and lets the process end without their threads."""
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()  # Unlike a scope, this gets past AnyIO's shields.
        await asyncio.wait(self._tasks, timeout=_TURNS)
        self._tasks.clear()
        leave_threads()


class StopSignals:
    """Calls `on_stop` when the process is asked to stop, then the handler from before. Any order works."""

    def __init__(self, on_stop: Callable[[], object]) -> None:
        self._on_stop = on_stop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: list[_Link] = []

    def install(self, *, only_if_handled: bool) -> None:
        """Handles the signals from now on, if this is the main thread. `only_if_handled`: those that others handle."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        if self._links:
            return
        for number in _SIGNALS:
            previous = _in_use(signal.getsignal(number))
            if not only_if_handled or (callable(previous) and previous is not signal.default_int_handler):
                link = _Link(self._call, previous, alone=not only_if_handled)
                self._links.append(link)
                signal.signal(number, link)

    def uninstall(self) -> None:
        """Ends this. A link below a handler that was added later stays, and passes signals on."""
        for link in self._links:
            link.call = None
        self._links.clear()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if (used := _in_use(handler)) is not handler:
                    signal.signal(number, used)

    def _call(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_stop)


class _Link:
    """A signal handler that calls `call`, and then the handler from before."""

    def __init__(self, call: Callable[[], None], previous: Any, *, alone: bool) -> None:
        self.call: Callable[[], None] | None = call
        self.previous = previous
        self._alone = alone

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.call is not None:
            self.call()
        # The stop that was just begun ends the process, and an interrupt would break it off.
        if callable(self.previous) and not (self.call is not None and self._alone and _interrupts(self.previous)):
            self.previous(number, frame)


def _in_use(handler: Any) -> Any:
    """Returns `handler`, or the one below it if it is a link of a server that has stopped."""
    while isinstance(handler, _Link) and handler.call is None:
        handler = handler.previous
    return handler


def _interrupts(handler: Any) -> bool:
    """Returns whether `handler` is Python's own for SIGINT, which raises in the running code, or asyncio's."""
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(runner, asyncio.Runner)


# With the SDK's code and first words for a request whose connection ends. A client repeats one that only reads.
_BROKEN_OFF: Final = (
    "Connection closed: this server is stopping, and did not wait for the end of this request. It may have taken "
    "effect or not. Connect again in a moment."
)


class RunningCalls:
    """The requests of one server that are under way."""

    def __init__(self, broken_off: BrokenOff) -> None:
        self._open: dict[asyncio.Task[HandlerResult], _RunningCall] = {}
        self._broken_off = broken_off
        self._stopping = self._ended = False

    def begin(self) -> None:
        self._stopping = self._ended = False

    def begin_stop(self) -> None:
        """Lets the event loop end without the requests under way: a second Ctrl-C ends it before `end` returns."""
        self._stopping = True
        leave_tasks(self._open)

    def check(self) -> None:
        """Raises `LimitReached` if no request is accepted any more."""
        if self._ended:
            raise stopping()

    async def run(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Returns what the handler returns. Raises what it raises, or `MCPError` if a stop does not wait for it."""
        call = _RunningCall(ctx)
        task = asyncio.get_running_loop().create_task(call.handle(call_next))
        task.add_done_callback(call.release)
        self._open[task] = call
        if self._stopping:
            leave_tasks([task])
        try:
            await call.over.wait()
        except asyncio.CancelledError:
            call.scope.cancel()
            if self._stopping:
                self._broken_off.add([task])
            else:
                with anyio.CancelScope(shield=True):
                    await call.over.wait()
            raise
        finally:
            del self._open[task]
        if not task.done() or call.scope.cancelled_caught:
            raise MCPError(types.CONNECTION_CLOSED, _BROKEN_OFF, {"limit": "stopping"})
        return task.result()

    async def end(self, budget: StopBudget) -> None:
        """Waits for the requests under way, cancels those that take too long, and lets go of what does not end."""
        while self._open and (left := budget.left(CALLS)):
            await asyncio.wait(self._open, timeout=left)
        self._ended = True
        if not self._open:
            return
        logger.warning("The stop does not wait for %s.", ", ".join(map(str, self._open.values())))
        broken_off = set(self._open)
        self._broken_off.add(broken_off)
        for call in self._open.values():
            call.scope.cancel()
        _, late = await asyncio.wait(broken_off, timeout=budget.left(CANCELLED))
        if late:
            logger.warning("%d of these cannot be cancelled, and run until the process ends.", len(late))
        for call in self._open.values():
            call.over.set()

    def break_off(self) -> None:
        """Breaks off what is still open, because there is no time for `end`."""
        self._broken_off.add(self._open)


class _RunningCall:
    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._ctx = ctx
        self.scope = anyio.CancelScope()
        self.over = asyncio.Event()  # It has ended, or was left behind.

    def __str__(self) -> str:
        params = self._ctx.params or {}
        return " ".join(map(str, filter(None, (self._ctx.method, params.get("name"), params.get("uri")))))

    async def handle(self, call_next: CallNext) -> HandlerResult:
        with self.scope:
            return await call_next(self._ctx)

    def release(self, task: "asyncio.Task[HandlerResult]") -> None:
        retrieve(task)
        self.over.set()
