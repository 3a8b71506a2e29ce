"""Sites on loopback, honest and hostile, and fetchers that may go there."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from tidings._kit.addresses import Address
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.settings import Settings

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
ROOMY = Settings(timeout=20.0, requests_per_minute=10_000, retries=0)
"""Limits that no test meets by accident."""


@dataclass
class Ask:
    """A request that a site was asked, and the way to answer."""

    path: str
    headers: Mapping[str, str]
    stream: anyio.abc.ByteStream
    body: bytes = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def reply(self, body: bytes = b"", status: int = 200, **headers: str) -> None:
        """A whole answer; `content_type="x"` is the header `Content-Type: x`."""
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


Page = Callable[[Ask], Awaitable[None]]


@dataclass
class Site:
    """A running site: its pages by path, and what it was asked."""

    pages: dict[str, Page]
    host: str = "127.0.0.1"
    port: int = 0
    asked: list[Ask] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [ask.path for ask in self.asked]

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        buffer = b""
        async with stream:
            try:
                while True:
                    while b"\r\n\r\n" not in buffer:
                        buffer += await stream.receive()
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    lines = head.decode("latin-1").split("\r\n")
                    size = next((int(each[16:]) for each in lines if each.lower().startswith("content-length: ")), 0)
                    while len(buffer) < size:
                        buffer += await stream.receive()
                    body, buffer = buffer[:size], buffer[size:]
                    await self._answer(lines, stream, body)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async def _answer(self, lines: Sequence[str], stream: anyio.abc.SocketStream, body: bytes) -> None:
        path = lines[0].split(" ")[1]
        pairs = [line.split(": ", 1) for line in lines[1:]]
        ask = Ask(path, {name.lower(): value for name, value in pairs}, stream, body)
        self.asked.append(ask)
        page = self.pages.get(path.partition("?")[0])
        await (page(ask) if page else ask.reply(b"nothing here", 404))


def text(body: str | bytes = "hello", status: int = 200, **headers: str) -> Page:
    """A page that says this."""
    data = body if isinstance(body, bytes) else body.encode()

    async def page(ask: Ask) -> None:
        await ask.reply(data, status, **headers)

    return page


def leads_to(location: str, status: int = 302) -> Page:
    return text(b"", status, Location=location)


def raw(*parts: bytes) -> Page:
    """A page that sends these bytes, and then closes the connection."""

    async def page(ask: Ask) -> None:
        for part in parts:
            await ask.send(part)
        await ask.stream.aclose()

    return page


def endless(head: bytes, part: bytes) -> Page:
    """A page that never ends by itself."""

    async def page(ask: Ask) -> None:
        await ask.send(head)
        while True:
            await ask.send(part)

    return page


def in_turn(*pages: Page) -> Page:
    """A page that is another one each time; the last one stays."""
    left = list(pages)

    async def page(ask: Ask) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(ask)

    return page


async def silent(_: Ask) -> None:
    await anyio.sleep_forever()


@asynccontextmanager
async def site(pages: Mapping[str, Page] | None = None, host: str = "127.0.0.1") -> AsyncGenerator[Site]:
    """A site with these pages."""
    listener = await anyio.create_tcp_listener(local_host=host, local_port=0)
    running = Site(dict(pages or {"/": text()}), host=host)
    running.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, running.serve)
        yield running
        tasks.cancel_scope.cancel()


def fetcher(limits: Settings = ROOMY, **options: Any) -> Fetcher:
    """A fetcher that may go to loopback."""
    allowed = {name: options.pop(name) for name in ("allow_private", "block_domain") if name in options}
    return Fetcher(replace(limits, **{"allow_private": LOOPBACK, **allowed}), **options)


class Names:
    """A resolver that knows these names; each time it is asked it gives the next of the answers."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise OSError("no such name")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(address) for address in answer]


class Time:
    """A clock that stands still but for those who sleep."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()
