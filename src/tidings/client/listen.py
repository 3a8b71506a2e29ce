"""`ListenStream`: one `subscriptions/listen`, whose answer is a stream of notifications. Its filter is fixed."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tidings._kit.bounded_json import as_dict
from tidings._kit.tasks import retrieve
from tidings.client.http_health import LISTEN
from tidings.client.link import Link
from tidings.errors import ConnectionLost, RequestTimedOut, TidingsError

_ids = count(1)


class ListenStream:
    """Asks for `notifications` at once. `began` gets the acknowledgment, before any other notification arrives.

    `ended` is called when the stream is over after it began, unless it was closed.
    """

    def __init__(
        self,
        link: Link,
        notifications: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        began: Callable[[Mapping[str, Any]], None],
        ended: Callable[[], None],
    ) -> None:
        self.id = f"tidings-listen-{next(_ids)}"
        self.is_over = False
        self._link, self._began, self._ended = link, began, ended
        self._acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        params = {"notifications": dict(notifications), "_meta": dict(meta)}
        self.task = asyncio.create_task(self._run(params), name=self.id)

    async def opened(self, seconds: float) -> None:
        """Waits for the acknowledgment. Raises a `TidingsError` if there is none within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._acknowledged)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                text = f"{self._link.name} did not acknowledge a subscription within {seconds:g} s."
                cure = "Give it longer with Timeouts(request=...)."
                raise RequestTimedOut(f"{text} {cure}", method=LISTEN, server=self._link.name) from None
            raise

    async def _run(self, params: dict[str, Any]) -> None:
        error: TidingsError | None = None
        try:
            await self._link.send_aside(LISTEN, params, self.id)
        except TidingsError as failure:
            error = None if self._link.over else failure
        self._end(error)

    def _end(self, error: TidingsError | None = None) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._acknowledged.done():
            self._ended()
        else:
            lost = ConnectionLost(f"{self._link.name} ended a stream before it began.", server=self._link.name)
            self._acknowledged.set_exception(error or lost)
            retrieve(self._acknowledged)

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Takes a notification. Returns True if it is about the life of this stream."""
        if method == "notifications/cancelled" and params.get("requestId") == self.id:
            self.task.cancel()
            self._end()
            return True
        if method != "notifications/subscriptions/acknowledged" or stream_of(params) != self.id:
            return False
        if not self._acknowledged.done() and isinstance(params.get("notifications"), dict):
            self._began(params)
            self._acknowledged.set_result(None)
        return True

    def close(self) -> None:
        self.is_over = True
        self.task.cancel()


def stream_of(params: Mapping[str, Any]) -> str:
    """Returns the id of the stream to which a notification belongs; empty if it names none."""
    return str(as_dict(params.get("_meta")).get(SUBSCRIPTION_ID_META_KEY, ""))
