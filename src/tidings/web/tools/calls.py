"""Calls of tools in progress: their progress messages, and an orderly end when the process stops."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from tidings.server.stop import StopSignals

_LEAST: Final = 0.02  # smaller advances are not worth a message
_ARRIVED: Final = 0.9  # the share of a step for receiving the bytes; the rest is for reading them


class RunningCalls:
    """The calls of one server."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    @contextmanager
    def one(self) -> Generator[None]:
        """Surrounds a call. Raises `ToolError` if it was ended."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise ToolError("This server is stopping. Connect to it again in a moment, and repeat the call.")

    @contextmanager
    def ended_by_signals(self) -> Generator[None]:
        """Lets a signal to stop end the calls in progress."""
        signals = StopSignals(self.end)
        signals.install(only_if_handled=True)
        try:
            yield
        finally:
            signals.uninstall()

    def end(self) -> None:
        """Ends all calls."""
        for scope in tuple(self._scopes):
            scope.cancel()


class Steps:
    """The progress of several steps at the same time. What is reported never decreases."""

    def __init__(self, ctx: Context[Any, Any], total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._parts: dict[str, float] = {}
        self._bytes: dict[str, int] = {}
        self._reported = 0.0

    def of(self, name: str) -> Callable[[int, int | None], Awaitable[None]]:
        """Returns the function that reports the bytes of one step."""

        async def report(done: int, whole: int | None) -> None:
            # Without a known total, it approaches the end without reaching it.
            part = done / whole if whole else done / (done + 262_144)
            self._bytes[name] = done
            await self._advance(name, min(part, 1.0) * _ARRIVED)

        return report

    async def done(self, name: str) -> None:
        """Reports that one step is done."""
        await self._advance(name, 1.0)

    async def _advance(self, name: str, part: float) -> None:
        self._parts[name] = max(part, self._parts.get(name, 0.0))
        so_far = round(sum(self._parts.values()), 3)
        if so_far - self._reported >= _LEAST or (so_far > self._reported and part >= _ARRIVED):
            self._reported = so_far
            await self._ctx.report_progress(so_far, self._total, self._words())

    def _words(self) -> str:
        done = sum(part == 1.0 for part in self._parts.values())
        words = f"{done} of {self._total} done"
        if done == self._total:
            return words
        arrived = len(self._parts) == self._total and min(self._parts.values()) >= _ARRIVED
        return f"{words}, {sum(self._bytes.values()) / 1e6:.1f} MB received" + (", being read" if arrived else "")
