"""`RunningCalls`: the requests under way, and their end at a stop.

A handler may take any time, and one in a thread cannot be ended. So each has a task of its own, to be left behind.
"""

import asyncio
import logging
from typing import Final

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from tidings._kit.python_seam import leave_tasks
from tidings._kit.tasks import retrieve
from tidings.server.core import rpc_errors
from tidings.server.http_exchange import stopping
from tidings.server.policy import RequestContext
from tidings.server.stop import CALLS, CANCELLED, BrokenOff, StopBudget

logger = logging.getLogger(__name__)

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
        """Accepts requests, again after `end`."""
        self._stopping = self._ended = False

    def begin_stop(self) -> None:
        """Lets the event loop end without the requests under way: a second Ctrl-C ends it before `end` returns."""
        self._stopping = True
        leave_tasks(self._open)

    async def run(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Returns what the handler returns. Raises what it raises, or `MCPError` if a stop does not wait for it."""
        if self._ended:
            with rpc_errors(ctx, not_found=types.INTERNAL_ERROR):
                raise stopping()
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
    def __init__(self, ctx: RequestContext) -> None:
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
