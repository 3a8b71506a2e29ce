"""How long somebody may take to send a request: whoever sends half of one, and waits, is hung up on."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 60.0
"""From the first byte of a request to its last, or from the connection to the first request."""


class PatientProtocol(H11Protocol):
    """uvicorn's, with an end to its patience.

    Of h11: the quicker one keeps headers without end, and whoever sends them is not known yet.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._await_more()

    def data_received(self, data: bytes) -> None:
        """Something came: the rest of a request, or some of it."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_more()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _await_more(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(SECONDS, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
