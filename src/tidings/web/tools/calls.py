"""Calls of tools on their way. When the process is to stop, they end with a word, in time, instead of being cut off.

How far a call has come, told to a client that wants to know: steps, and bytes within each.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from tidings.server.stop import StopSignals


class RunningCalls:
    """The calls of one server."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    @contextmanager
    def one(self) -> Generator[None]:
        """A call, from its beginning to its end.

        Raises:
            ToolError: It was ended.
        """
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise ToolError("This server is stopping: connect to it again in a moment, and make the call again.")

    @contextmanager
    def ended_by_signals(self) -> Generator[None]:
        """While this is entered, a signal to stop ends the calls that are on their way."""
        signals = StopSignals(self.end)
        signals.install(only_if_handled=True)
        try:
            yield
        finally:
            signals.uninstall()

    def end(self) -> None:
        """End them all."""
        for scope in tuple(self._scopes):
            scope.cancel()


_LEAST: Final = 0.02
"""Smaller advances are not worth a message."""
_HERE: Final = 0.9
"""How much of a step it is to have the bytes; the rest is to read them."""


class Steps:
    """Some things that are done at the same time. What is told never goes back."""

    def __init__(self, ctx: Context[Any, Any], total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._parts: dict[str, float] = {}
        self._bytes: dict[str, int] = {}
        self._told = 0.0

    def of(self, name: str) -> Callable[[int, int | None], Awaitable[None]]:
        """What is told of one of them: how many bytes are there, of how many if that is known."""

        async def tell(done: int, whole: int | None) -> None:
            # Of an unknown whole nobody knows the half; it comes nearer without arriving.
            part = done / whole if whole else done / (done + 262_144)
            self._bytes[name] = done
            await self._tell(name, min(part, 1.0) * _HERE)

        return tell

    async def done(self, name: str) -> None:
        """One of them is done."""
        await self._tell(name, 1.0)

    async def _tell(self, name: str, part: float) -> None:
        self._parts[name] = max(part, self._parts.get(name, 0.0))
        so_far = round(sum(self._parts.values()), 3)
        if so_far - self._told >= _LEAST or (so_far > self._told and part >= _HERE):
            self._told = so_far
            await self._ctx.report_progress(so_far, self._total, self._words())

    def _words(self) -> str:
        done = sum(part == 1.0 for part in self._parts.values())
        words = f"{done} of {self._total} done"
        if done == self._total:
            return words
        all_here = len(self._parts) == self._total and min(self._parts.values()) >= _HERE
        return f"{words}, {sum(self._bytes.values()) / 1e6:.1f} MB here" + (", being read" if all_here else "")
