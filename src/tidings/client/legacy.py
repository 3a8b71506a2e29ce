"""The legacy era (2024-11-05 to 2025-11-25): `resources/subscribe`, and notifications on the session's stream.

Missed changes cannot be asked for: on a new connection, and when the stream is opened anew, everything is unknown.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp_types import LoggingLevel

from tidings.changes import Filter
from tidings.client.link import Link
from tidings.client.subscriptions import Subscriptions, without
from tidings.errors import ConnectionLost, RequestTimedOut, TidingsError

# Seconds for the server to open the session's stream. After that, it counts as a server without one.
_STREAM_SECONDS: Final = 5.0


@dataclass(eq=False, repr=False)
class LegacyFeed:
    """The feed of the legacy era."""

    link: Link
    listener: Subscriptions
    seconds: float

    def __post_init__(self) -> None:
        self._known = Filter()
        resources = self.link.client.server_capabilities.resources
        self.supported = bool(resources and resources.subscribe)
        self.link.http.on_stream_again = self._again

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        # What is published before the stream of notifications is open may never arrive.
        try:
            async with asyncio.timeout(_STREAM_SECONDS):
                await self.link.http.stream_opened.wait()
        except TimeoutError:
            if self.link.http.begins_at_once:  # It is lost on its way, which is noticed soon.
                text = f"{self.link.name} did not open its stream of notifications within {_STREAM_SECONDS:g} s."
                raise RequestTimedOut(text, method="resources/subscribe", server=self.link.name) from None
            self.link.http.deaf = True
        if self.link.http.deaf:
            self.supported = False
        added, removed = without(wanted, self._known), without(self._known, wanted)
        refused = await self._each("resources/subscribe", sorted(added.subscriptions))
        await self._each("resources/unsubscribe", sorted(removed.subscriptions))
        honoured = without(wanted, Filter.of(refused))
        self._known, fresh = honoured, without(honoured, self._known)
        self.listener.moved(None)  # There is no log: what is read from here on has no place in one.
        self.listener.unknown(fresh)
        return refused

    async def _each(self, method: str, uris: Iterable[str]) -> dict[str, TidingsError]:
        failed: dict[str, TidingsError] = {}
        room = asyncio.Semaphore(16)

        async def ask(uri: str) -> None:
            async with room:
                try:
                    async with asyncio.timeout(self.seconds):
                        await self.link.send_raw(method, {"uri": uri})
                except TimeoutError:
                    cure = "Give it longer with Timeouts(request=...)."
                    text = f"No answer to {method} within {self.seconds:g} s. {cure}"
                    failed[uri] = RequestTimedOut(text, method=method, server=self.link.name)
                except ConnectionLost:
                    return  # See below.
                except MCPError as error:
                    failed[uri] = self.link.explain(error, method)

        async with asyncio.TaskGroup() as group:
            for uri in uris:
                group.create_task(ask(uri))
        if self.link.over:
            raise self.link.gone()
        return failed

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        if (change := event_from_wire(method, params)) is not None:
            self.listener.changed(change)
        return change is not None

    def _again(self) -> None:
        self.listener.unknown(self._known)
        self.listener.wakeup()

    @property
    def is_deaf(self) -> bool:
        return self.link.http.stream_ended or self.link.http.is_overdue

    async def ping(self) -> None:
        await self.link.session.send_ping()

    async def set_log_level(self, level: LoggingLevel) -> None:
        await self.link.send_raw("logging/setLevel", {"level": level})

    async def aclose(self) -> None:
        pass
