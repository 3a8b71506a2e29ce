"""The stream: what happens, as server-sent events, at most one each frame of a screen.

- `batch`, with the number of its last record as its id: `{to, now, rows, facts, held, stale?}`. A reader who was cut
  off asks again with that number and goes on from there.
- `reset`: the past since that number is gone, or was never ours. Take a snapshot.
- `rest`: others read now. A page that somebody looks at asks again; one in the background waits until somebody does.

A reader who is slow gets fewer and larger batches, and at most `MOST_IN_BATCH` rows in one: the rest is counted as
`held`, and stays in the session. One who does not read at all is cut off.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tidings._kit.bounded_json import dumps
from tidings.inspector.http.feed import PageFeed

FRAME_SECONDS: Final = 0.033
BEAT_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 30.0
"""How long a reader may not read before it is cut off."""
_GOODBYE_SECONDS: Final = 0.5
MOST_STREAMS: Final = 4
"""At once. A browser has six connections to a host, for all its tabs: were each a stream, no page could ask more."""


class EventStream:
    """An answer that goes on until the page leaves or the inspector ends."""

    def __init__(
        self,
        feed: PageFeed,
        after: int,
        stopping: asyncio.Event,
        others: deque[asyncio.Event] | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._feed = feed
        self._others: deque[asyncio.Event] = deque() if others is None else others
        """What each stream that is open waits for, the oldest first: that it is its turn to rest."""
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
            asyncio.create_task(self._tell(send)),
            asyncio.create_task(_left(receive)),
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
        if not any(isinstance(end, TimeoutError) for end in ends):  # One who was cut off is to notice it.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    body = b"event: rest\ndata: {}\n\n" if rest.is_set() else b""
                    await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _tell(self, send: Send) -> None:
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


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def after_of(request: Request) -> int:
    """The record that a reader has: the newest that its browser saw, or the one that its page named."""
    for text in (request.headers.get("last-event-id"), request.query_params.get("after")):
        if text and text.isascii() and text.isdigit() and len(text) <= 15:
            return int(text)
    return -1
