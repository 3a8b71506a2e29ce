"""The client process: many streams over bare sockets, each delivery counted and checked.

A group is the set of streams that one server holds. A stream notes how often each URI arrived on it, when it last
did, and with which cursor, so that the parent can tell a lost, doubled or misdirected delivery from a good one.
"""

import asyncio
import contextlib
import socket
import sys
import time
from typing import Any, cast

import uvloop

from benchmarks import wire
from benchmarks.control import Control, pin, raise_open_files, take_stdout

STREAMS_PER_ADDRESS = 5_000
"""Source ports run out long before 10,000 when others use them too, so the streams come from several addresses."""

OPENING_AT_ONCE = 48


class Stream(asyncio.Protocol):
    """One connection: first requests and responses, then an event stream."""

    def __init__(self, group: "Group", number: int, uris: list[str]) -> None:
        self.group, self.id, self.uris = group, number, frozenset(uris)
        self.transport: asyncio.Transport
        self.counts: dict[str, int] = {}
        self.arrived: dict[str, float] = {}
        self.cursors: dict[str, str] = {}
        self.live = self.acknowledged = self.has_result = self.ended = False
        self.over = asyncio.Event()
        self._head: wire.Head | None = None
        self._buffer = b""
        self._chunks, self._frames = wire.Chunks(), wire.Frames()
        self._waiter: asyncio.Future[wire.Head] | None = None
        self._now = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        if self._waiter and not self._waiter.done():
            self._waiter.set_exception(ConnectionError(f"closed while opening: {exc}"))

    def _end(self) -> None:
        if self.live and not self.ended:
            self.ended = True
            self.over.set()
            self.group.ended += 1

    async def exchange(self, request: bytes, *, stream: bool = False) -> wire.Head:
        """Send a request; returns once its response is complete, or, for a stream, once it is open."""
        self._head, self._buffer, self._chunks, self.live = None, b"", wire.Chunks(), stream
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        head = await self._waiter
        if head.status >= 300 or (stream and not head.chunked):
            self.live = False
            self.transport.abort()
            raise ConnectionError(f"HTTP {head.status} {self._buffer[:300]!r}")
        return head

    def data_received(self, data: bytes) -> None:
        if self.group.parses_later and self.live:
            self.group.unread.append((self, time.monotonic(), data))
            self.group.count_unread()
        else:
            self.take(data, time.monotonic())

    def take(self, data: bytes, now: float) -> None:
        self._now = now
        if self._head is None:
            self._buffer += data
            text, blank, data = self._buffer.partition(b"\r\n\r\n")
            if not blank:
                return
            self._head, self._buffer = wire.Head(text), b""
        if self.live and self._head.chunked:
            self._take(self._chunks.feed(data))
        else:
            self._collect(self._head, data)

    def _collect(self, head: wire.Head, data: bytes) -> None:
        if head.chunked:
            self._chunks.feed(data)
            complete = self._chunks.ended
        else:
            self._buffer += data
            complete = len(self._buffer) >= head.length
        if complete:
            self._opened(head)

    def _opened(self, head: wire.Head) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(head)

    def _take(self, payloads: list[bytes]) -> None:
        assert self._head
        for payload in payloads:
            for message in self._frames.feed(payload):
                self._note(message)
        # A legacy stream is open once its head is there; no frame need ever follow.
        if self.group.era == "legacy" or self.acknowledged:
            self._opened(self._head)
        if self._chunks.ended:
            self._end()

    def _note(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "notifications/resources/updated":
            self._delivered(message["params"])
        elif method == "notifications/subscriptions/acknowledged":
            self.acknowledged = True
        elif "result" in message:
            self.has_result = True

    def _delivered(self, params: dict[str, Any]) -> None:
        uri, meta = params["uri"], params.get("_meta", {})
        if uri not in self.uris or (self.group.era == "modern" and meta.get(wire.SUBSCRIPTION_ID) != self.id):
            self.group.strays += 1
            return
        self.counts[uri] = self.counts.get(uri, 0) + 1
        self.arrived[uri] = self.group.latest = self._now
        if cursor := meta.get(wire.CURSOR):
            self.cursors[uri] = cursor
        self.group.count()


class Group:
    """The streams of one server."""

    def __init__(self, port: int, era: str) -> None:
        self.port, self.era = port, era
        self.streams: list[Stream] = []
        self.delivered = self.strays = self.ended = 0
        self.latest = time.monotonic()
        self.parses_later = False
        """To parse a delivery takes longer than to make one: the time of each is noted as it comes."""
        self.unread: list[tuple[Stream, float, bytes]] = []
        self._goal = 0
        self._reached = asyncio.Event()

    def count(self) -> None:
        self.delivered += 1
        if self.delivered == self._goal:
            self._reached.set()

    def count_unread(self) -> None:
        if self.delivered + len(self.unread) == self._goal:
            self._reached.set()

    def parse_unread(self) -> None:
        unread, self.unread = self.unread, []
        for stream, now, data in unread:
            stream.take(data, now)

    async def reach(self, goal: int, within: float) -> None:
        self._goal = goal
        deadline = time.monotonic() + within
        while self.delivered < goal and time.monotonic() < deadline:
            self._reached.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), 1 if self.parses_later else within)
            self.parse_unread()

    async def open(self, number: int, uris: list[str], receive_buffer: int | None) -> None:
        stream = Stream(self, number, uris)
        sock = await self._connect(number, receive_buffer)
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=sock)
        if self.era == "modern":
            await stream.exchange(wire.listen(self.port, number, uris), stream=True)
        else:
            await self._open_session(stream, uris)
        self.streams.append(stream)

    async def _open_session(self, stream: Stream, uris: list[str]) -> None:
        head = await stream.exchange(wire.initialize(self.port))
        session = head.headers["mcp-session-id"]
        await stream.exchange(wire.initialized(self.port, session))
        for number, uri in enumerate(uris, 1):
            await stream.exchange(wire.subscribe(self.port, session, number, uri))
        await stream.exchange(wire.get_stream(self.port, session), stream=True)

    async def _connect(self, number: int, receive_buffer: int | None) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if sys.platform == "linux":
            sock.bind((f"127.0.0.{2 + number // STREAMS_PER_ADDRESS}", 0))
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return sock


class Reader:
    """The commands."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    @property
    def handlers(self) -> dict[str, Any]:
        names = ("open", "reach", "settle", "counts", "freshness", "arrived", "stall", "resume", "close")
        return {name: getattr(self, name) for name in names}

    async def open(
        self,
        *,
        group: str,
        port: int,
        era: str,
        streams: list[list[str]],
        within: float = 120,
        receive_buffer: int | None = None,
        parse_later: bool = False,
    ) -> dict[str, Any]:
        """Open one stream for each list of URIs in `streams`."""
        members = self._groups.setdefault(group, Group(port, era))
        first = len(members.streams)
        waiting = iter(list(enumerate(streams, first + 1)))
        refused: list[str] = []

        async def work() -> None:
            for number, uris in waiting:
                try:
                    await members.open(number, uris, receive_buffer)
                except (OSError, KeyError) as error:
                    refused.append(f"{type(error).__name__}: {error}")

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.gather(*(work() for _ in range(OPENING_AT_ONCE)))
        members.parses_later = parse_later
        return {"opened": len(members.streams) - first, "refused": len(refused), "why": refused[:3]}

    async def reach(self, group: str, goal: int, within: float = 30) -> dict[str, Any]:
        """Wait until the group has had `goal` deliveries since it was opened."""
        await self._groups[group].reach(goal, within)
        return {"delivered": self._groups[group].delivered}

    async def settle(self, group: str, quiet: float = 1, within: float = 60) -> dict[str, Any]:
        """Wait until nothing has arrived for `quiet` seconds."""
        members = self._groups[group]
        deadline = time.monotonic() + within
        while (now := time.monotonic()) < deadline and now - members.latest < quiet:  # noqa: ASYNC110 - silence is no event
            await asyncio.sleep(min(quiet, deadline - now))
        return {"delivered": members.delivered}

    async def counts(self, group: str) -> dict[str, Any]:
        """What arrived in all, and the least and the most on any one stream."""
        members = self._groups[group]
        members.parse_unread()
        each = [sum(stream.counts.values()) for stream in members.streams] or [0]
        return {
            "streams": len(members.streams),
            "delivered": members.delivered,
            "strays": members.strays,
            "ended": members.ended,
            "results": sum(stream.has_result for stream in members.streams),
            "least": min(each),
            "most": max(each),
        }

    async def freshness(self, group: str, published: dict[str, float]) -> dict[str, Any]:
        """How many subscriptions would now hold an old copy, if each notification made its stream read again.

        `published` says when each URI changed for the last time, by the clock that both processes share.
        """
        members = self._groups[group]
        wanted = [(s, uri, at) for s in members.streams for uri, at in published.items() if uri in s.uris]
        stale = sum(stream.arrived.get(uri, 0.0) <= at for stream, uri, at in wanted)
        cursors: dict[str, set[str | None]] = {}
        for stream, uri, _ in wanted:
            cursors.setdefault(uri, set()).add(stream.cursors.get(uri))
        differing = sum(len(seen) > 1 for seen in cursors.values())
        return {"subscriptions": len(wanted), "stale": stale, "differing": differing}

    async def arrived(self, group: str, uri: str, share: float) -> dict[str, Any]:
        """When this share of the streams had the last change of `uri`, by the clock that both processes share."""
        times = sorted(stream.arrived[uri] for stream in self._groups[group].streams)
        return {"at": times[int(share * (len(times) - 1))]}

    async def stall(self, group: str) -> dict[str, Any]:
        """The whole group stops reading."""
        for stream in self._groups[group].streams:
            stream.transport.pause_reading()
        return {}

    async def resume(self, group: str, within: float = 10) -> dict[str, Any]:
        """The whole group reads again; says how many of its streams had been ended meanwhile, and how."""
        members = self._groups[group]
        for stream in members.streams:
            stream.transport.resume_reading()
        deadline = time.monotonic() + within
        for stream in members.streams:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stream.over.wait(), deadline - time.monotonic())
        return {"ended": members.ended, "results": sum(stream.has_result for stream in members.streams)}

    async def close(self, group: str) -> dict[str, Any]:
        for stream in self._groups.pop(group).streams:
            stream.transport.abort()
        await asyncio.sleep(0.05)
        return {}


async def main() -> None:
    answers = take_stdout()
    pin(1)
    control = Control(answers, Reader().handlers)
    control.tell({"open_files": raise_open_files()})
    await control.run()


if __name__ == "__main__":
    uvloop.run(main())
