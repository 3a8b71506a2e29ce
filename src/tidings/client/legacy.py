"""The handshake eras (2024-11-05 to 2025-11-25): `resources/subscribe`, and notifications on the session's stream.

Missed changes cannot be asked for: on a new connection, and when the stream is opened anew, everything is unknown.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp_types import LoggingLevel, RootsListChangedNotification

from tidings.changes import Filter
from tidings.client.feed import ChangeListener, without
from tidings.client.link import Link
from tidings.errors import ConnectionLost, RequestTimedOut, TidingsError

_AT_ONCE: Final = 16
"""Requests at the same time."""

_STREAM_SECONDS: Final = 5.0
"""Seconds for the server to open the session's stream. After that, it counts as a server without one."""


class LegacyFeed:
    """The feed of the handshake eras."""

    def __init__(self, link: Link, listener: ChangeListener, seconds: float) -> None:
        self._link = link
        self._listener = listener
        self._seconds = seconds
        self._known = Filter()
        capabilities = link.client.server_capabilities
        self.supported = bool(capabilities.resources and capabilities.resources.subscribe)
        link.http.on_stream_again = self._again

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        await self._stream()
        added, removed = without(wanted, self._known), without(self._known, wanted)
        refused = await self._each("resources/subscribe", sorted(added.subscriptions))
        await self._each("resources/unsubscribe", sorted(removed.subscriptions))
        honoured = Filter.of(
            (uri for uri in wanted.subscriptions if uri not in refused),
            tools=wanted.tools,
            prompts=wanted.prompts,
            resources=wanted.resources,
        )
        self._known, fresh = honoured, without(honoured, self._known)
        if fresh:
            self._listener.unknown(fresh)
        return refused

    async def _stream(self) -> None:
        """Waits for the stream of notifications: what is published before it is open may never arrive."""
        try:
            async with asyncio.timeout(_STREAM_SECONDS):
                await self._link.http.stream_opened.wait()
        except TimeoutError:
            self._link.http.deaf = True
        if self._link.http.deaf:
            self.supported = False

    async def _each(self, method: str, uris: Iterable[str]) -> dict[str, TidingsError]:
        failed: dict[str, TidingsError] = {}
        room = asyncio.Semaphore(_AT_ONCE)

        async def ask(uri: str) -> None:
            async with room:
                try:
                    async with asyncio.timeout(self._seconds):
                        await self._link.send_raw(method, {"uri": uri})
                except TimeoutError:
                    failed[uri] = RequestTimedOut(
                        f"No answer to {method} within {self._seconds:g} s. Give it longer with Timeouts(request=...).",
                        method=method,
                        server=self._link.name,
                    )
                except ConnectionLost:
                    return  # See below.
                except MCPError as error:
                    failed[uri] = self._link.explain(error, method)

        async with asyncio.TaskGroup() as group:
            for uri in uris:
                group.create_task(ask(uri))
        if self._link.over:
            raise ConnectionLost(f"{self._link.name} went away.", server=self._link.name)
        return failed

    def hear(self, method: str, params: object) -> bool:
        change = event_from_wire(method, cast("Mapping[str, Any] | None", params))
        if change is None:
            return False
        self._listener.changed(change)
        return True

    def _again(self) -> None:
        self._listener.unknown(self._known)
        self._listener.resumed()

    @property
    def is_deaf(self) -> bool:
        return self._link.http.stream_ended

    async def ping(self) -> None:
        await self._link.session.send_ping()

    async def set_log_level(self, level: LoggingLevel) -> None:
        await self._link.send_raw("logging/setLevel", {"level": level})

    async def roots_changed(self) -> None:
        await self._link.session.send_notification(RootsListChangedNotification())

    async def aclose(self) -> None:
        pass
