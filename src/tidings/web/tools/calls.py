"""The progress messages of a tool call."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.mcpserver import Context

_LEAST: Final = 0.02  # smaller advances are not worth a message
_ARRIVED: Final = 0.9  # the share of a step for receiving the bytes; the rest is for reading them


class Steps:
    """The progress of several steps at the same time. What is reported never decreases."""

    def __init__(self, ctx: Context[Any, Any], total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._parts: dict[str, float] = {}
        self._reported = 0.0

    def of(self, name: str) -> Callable[[int, int | None], Awaitable[None]]:
        """Returns the function that reports the bytes of one step."""

        async def report(done: int, whole: int | None) -> None:
            # Without a known total, it approaches the end without reaching it.
            await self._advance(name, min(done / (whole or done + 262_144), 1.0) * _ARRIVED)

        return report

    async def done(self, name: str) -> None:
        """Reports that one step is done."""
        await self._advance(name, 1.0)

    async def _advance(self, name: str, part: float) -> None:
        self._parts[name] = max(part, self._parts.get(name, 0.0))
        so_far = round(sum(self._parts.values()), 3)
        if so_far - self._reported >= _LEAST or (so_far > self._reported and part >= _ARRIVED):
            self._reported = so_far
            done = sum(part == 1.0 for part in self._parts.values())
            await self._ctx.report_progress(so_far, self._total, f"{done} of {self._total} done")
