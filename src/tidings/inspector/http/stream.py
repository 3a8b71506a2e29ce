"""The stream: what happens, as server-sent events, at most one for each frame of a screen.

- `batch`, with the number of its last record as its id: `{to, now, rows, facts, held, stale?}`. A reader that was
  disconnected asks again with that number and continues from there.
- `reset`: the records since that number are not kept any more, or are of another session. Fetch a snapshot.
- `rest`: newer pages read now. A visible page asks again at once; one in the background waits until it is visible.

A slow reader gets fewer and larger batches, with at most `MOST_IN_BATCH` rows each: the rest is counted as `held`, and
stays in the session. A reader that does not read at all is disconnected.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidings._kit.bounded_json import dumps
from tidings.inspector.http.exchange import is_index
from tidings.inspector.http.feed import PageFeed

FRAME_SECONDS: Final = 0.033
BEAT_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 30.0  # A reader that does not read for so long is disconnected.
_GOODBYE_SECONDS: Final = 0.5
# At the same time. A browser has six connections to a host for all its tabs, and pages need some for requests.
MOST_STREAMS: Final = 4


class EventStream(Response):
    """A response that lasts until the page is closed or the inspector ends."""

    def __init__(
        self,
        feed: PageFeed,
        after: int,
        stopping: asyncio.Event,
        others: deque[asyncio.Event] | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__()
        self._feed = feed
        self._others: deque[asyncio.Event] = deque() if others is None else others
        self._after = after
        self._stopping = stopping
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        rest = asyncio.Event()
        self._others.append(rest)
        while len(self._others) > MOST_STREAMS:
            self._others.popleft().set()
        tasks: set[asyncio.Task[object]] = {
            asyncio.create_task(self._send_batches(send)),
            asyncio.create_task(_disconnected(receive)),
            asyncio.create_task(self._stopping.wait()),
            asyncio.create_task(rest.wait()),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with suppress(ValueError):
                self._others.remove(rest)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        if not any(isinstance(end, TimeoutError) for end in ends):  # A reader that was disconnected must notice it.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    body = b"event: rest\ndata: {}\n\n" if rest.is_set() else b""
                    await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _send_batches(self, send: Send) -> None:
        loop = asyncio.get_running_loop()

        async def write(text: str) -> None:
            async with asyncio.timeout(self._patience):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        if not self._feed.knows(self._after):
            await write("retry: 1000\nevent: reset\ndata: {}\n\n")
            return
        await write("retry: 1000\n\n")
        with self._feed.reader(self._after) as reader:
            while True:
                if not await reader.wait(BEAT_SECONDS):
                    await write(": still here\n\n")
                    continue
                began = loop.time()
                batch = reader.take()
                if batch is not None:
                    await write(f"id: {batch['to']}\nevent: batch\ndata: {dumps(batch)}\n\n")
                await asyncio.sleep(max(0.0, FRAME_SECONDS - (loop.time() - began)))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def after_of(request: Request) -> int:
    """Returns the last record that a reader has, as its browser or its page says; -1 if neither does."""
    for text in (request.headers.get("last-event-id"), request.query_params.get("after")):
        if text and is_index(text):
            return int(text)
    return -1
