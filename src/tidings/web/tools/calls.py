"""Calls of tools on their way. When the process is to stop, they end with a word, in time, instead of being cut off."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio
from mcp.server.mcpserver.exceptions import ToolError

from tidings.server.stop import StopSignals


class Calls:
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
