"""`ServerEvents`: follows the events of a server (MCP Events), by stream where it has streams, else by polls.

A loop goes on from its cursor after every lost connection. With a state file, it goes on there after a restart, too: an
event counts as handled when the loop asks for the next one.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError

from tidings._kit import event_wire
from tidings._kit.backoff import Pauses
from tidings._kit.bounded_json import as_dict, as_float, as_list, as_text
from tidings._kit.tasks import retrieve
from tidings.client.connection import Connection
from tidings.client.link import Link
from tidings.client.modern import stream_of
from tidings.client.requests import Requests
from tidings.errors import ConnectionLost, LimitReached, MalformedMessage, NotSupported, RequestFailed, TidingsError

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile

EVENTS_KEPT: Final = "events"  # The kind of their rows in the state file.
_MOST_WAITING: Final = 1_000  # Events of a stream that a slow loop has not taken. It reads them again later.
_LONG_POLL: Final = 20.0  # Seconds for which the server may wait for an event.
_LEAST_PAUSE: Final = 1.0  # Seconds between two polls, as the draft demands.
_RETRIES: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
_ids = count(1)


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event of the server. If its `id` is already known, the event is a repetition."""

    name: str
    id: str
    data: Any
    cursor: str | None
    """The position after this event: `client.events(name, since=cursor)` continues there."""
    at: datetime | None = None
    """The time of the event."""


@dataclass(frozen=True, slots=True)
class EventsTruncated:
    """Some events are lost: the server no longer has all events after the last one that it delivered."""

    name: str
    cursor: str | None


_News = tuple[ServerEvent | EventsTruncated | None, str | None]
"""An event that happened, and the cursor after it."""


@dataclass(eq=False, repr=False)
class ServerEvents:
    """The loops over the events of one server."""

    connection: Connection
    requests: Requests
    _: KW_ONLY
    store: "StateFile | None" = None

    def __post_init__(self) -> None:
        self._streams: dict[str, asyncio.Queue[tuple[str, Mapping[str, Any]]]] = {}
        self._without_streams: Link | None = None  # Its server has none.
        self._kept: dict[str, str] = {}

    def restore(self, rows: Mapping[str, str]) -> None:
        """Takes over the cursors of earlier processes."""
        self._kept.update(rows)

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Takes a notification. Returns True if it belongs to a stream of events."""
        if not method.startswith("notifications/events/") or (stream_id := stream_of(params)) not in self._streams:
            return False
        try:
            self._streams[stream_id].put_nowait((method, params))
        except asyncio.QueueFull:  # The stream ends for the loop behind what waits.
            del self._streams[stream_id]
        return True

    async def follow(
        self, name: str, arguments: Mapping[str, Any], since: str | None
    ) -> AsyncGenerator[ServerEvent | EventsTruncated]:
        """Yields events until there will be no more: see `LiveClient.events`."""
        key, pauses = json.dumps([name, arguments], sort_keys=True), Pauses(_RETRIES, below=0.5)
        cursor = self._kept.get(key) if since is None else since
        while True:
            link = await self.connection.ready()
            params = {"name": name, "arguments": dict(arguments), "cursor": cursor}
            has_streams = link.facts.era == "modern" and link is not self._without_streams
            try:
                async with aclosing(self._streamed(link, params) if has_streams else self._polled(params)) as news:
                    async for event, after in news:
                        pauses.reset()
                        if event is not None:
                            yield event
                        if after is not None and after != cursor:
                            cursor = after
                            await self._keep(key, cursor)
            except TidingsError as error:
                if isinstance(error, NotSupported) and has_streams:
                    self._without_streams = link
                    continue
                said = as_dict(as_dict(error.data).get("rpc_data"))
                is_forgotten = isinstance(error, RequestFailed) and said.get("field") == "cursor"
                if is_forgotten and cursor not in (None, since):  # The server lost the key, or is another one.
                    cursor = None
                    yield EventsTruncated(name, None)
                elif not error.retryable and not isinstance(error, ConnectionLost | LimitReached):
                    raise
            await asyncio.sleep(pauses.next())

    async def _keep(self, key: str, cursor: str) -> None:
        self._kept[key] = cursor
        if self.store is not None:
            self.store.note_kept(EVENTS_KEPT, key, cursor)
            await self.store.flush()

    # Each of these ends when it has to begin anew.

    async def _streamed(self, link: Link, params: dict[str, Any]) -> AsyncGenerator[_News]:
        stream_id, method = f"tidings-events-{next(_ids)}", event_wire.STREAM
        waiting = self._streams[stream_id] = asyncio.Queue(_MOST_WAITING)
        over = asyncio.create_task(link.send_aside(method, {**params, "_meta": {}}, stream_id), name=stream_id)
        over.add_done_callback(lambda _: waiting.full() or waiting.put_nowait(("", {})))
        try:
            while stream_id in self._streams or not waiting.empty():
                try:
                    async with asyncio.timeout(2 * event_wire.HEARTBEAT_SECONDS):
                        kind, told = await waiting.get()
                except TimeoutError:
                    return
                if kind == event_wire.EVENT:
                    event = parse_event(told)
                    yield event, event.cursor
                elif kind == event_wire.ACTIVE and told.get("truncated") is True:
                    cursor = as_text(told.get("cursor"))
                    yield EventsTruncated(params["name"], cursor), cursor
                elif kind in (event_wire.ACTIVE, event_wire.HEARTBEAT):
                    yield None, as_text(told.get("cursor"))
                elif kind == event_wire.TERMINATED:
                    error = as_dict(told.get("error"))
                    raise link.explain(
                        MCPError(int(as_float(error.get("code")) or 0), str(error.get("message"))), method
                    )
                elif not kind:
                    await over
                    return
        finally:
            self._streams.pop(stream_id, None)
            over.cancel()
            over.add_done_callback(retrieve)

    async def _polled(self, params: dict[str, Any]) -> AsyncGenerator[_News]:
        name = params["name"]
        seconds = min(_LONG_POLL, self.requests.timeouts.request / 2)
        asked = {**params, "timeoutMs": 0}  # The cursor from which on nothing is missed comes at once.
        while True:
            page = await self.requests.run_aside(event_wire.POLL, asked)
            asked["cursor"] = as_text(page.get("cursor"))
            if page.get("truncated") is True:
                yield EventsTruncated(name, None), None
            for each in as_list(page.get("events")):
                event = parse_event(as_dict(each))
                yield event, event.cursor
            yield None, asked["cursor"]
            if page.get("hasMore") is not True and asked["timeoutMs"]:
                await asyncio.sleep(max((as_float(page.get("nextPollMs")) or 0.0) / 1000, _LEAST_PAUSE))
            asked["timeoutMs"] = round(seconds * 1000)


def parse_event(body: Mapping[str, Any]) -> ServerEvent:
    """Returns an event as servers send it. Raises `MalformedMessage`."""
    name, event_id = as_text(body.get("name")), as_text(body.get("eventId"))
    if not name or not event_id:
        raise MalformedMessage("The server sent an event without a name or an id. The fault is at the server.")
    at = None
    with suppress(ValueError):
        at = datetime.fromisoformat(as_text(body.get("timestamp")) or "")
    return ServerEvent(name, event_id, body.get("data"), as_text(body.get("cursor")), at)
