"""An event store for the legacy era's `Last-Event-ID`: the newest events, in memory."""

from collections import deque
from itertools import count

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage


class RecentEvents(EventStore):
    """Keeps the last `limit` events of all streams; what is older cannot be resumed."""

    def __init__(self, limit: int = 1_000) -> None:
        self._events: deque[tuple[int, str, JSONRPCMessage | None]] = deque(maxlen=limit)
        self._numbers = count(1)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        number = next(self._numbers)
        self._events.append((number, stream_id, message))
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id) if last_event_id.isdecimal() else 0
        stream = next((stream for number, stream, _ in self._events if number == last), None)
        if stream is None:
            return None
        missed = [(number, message) for number, of, message in self._events if of == stream and number > last]
        for number, message in missed:
            if message is not None:  # A priming event has nothing to say twice.
                await send_callback(EventMessage(message, str(number)))
        return stream
