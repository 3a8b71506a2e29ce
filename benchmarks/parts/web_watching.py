"""Does a watcher tell of each change, and of nothing else? Whole servers follow pages that are served on loopback.

In each round every page is altered in one way: half of the ways change its content, the others what stands beside it
(`web_changes`). The round ends when each page was asked for again after its new state was answered: by then its look
was over, because the looks at a page follow one another. Told is what the tool `changes` then lists.

Each page is a site of its own, with an address of its own in 127.0.0.0/8. Pages have validators, as most have.
"""

import asyncio
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import tidings
from benchmarks.parts.web_changes import CHANGES, NOISES, Specimen, real, synthetic
from benchmarks.parts.web_truth import pages, site_of
from benchmarks.process import ROOT, ProcessFailed
from benchmarks.report import Row, Target, say

PAGES: Final = 200
"""Of each sort."""
ONE, RESTARTED, TWO = MODES = ("one", "restarted", "two")
"""One process; one that is killed and started again in each round; two on one store."""
_SAID: Final = {ONE: "one process", RESTARTED: "a restart in each round", TWO: "two processes on one store"}
_KINDS: Final = (*CHANGES, *NOISES)
_INTERVAL: Final = 5.0
"""Seconds between two looks at a page."""
_PATIENCE: Final = 600.0
"""Seconds for a round."""
_POLL: Final = 0.3
_AT_ONCE: Final = 20
"""Pages that a call fetches."""
MISSED: Final = Target(0, "most")
FALSE: Final = Target(1, "most", " %")


def is_unseen(url: str) -> bool:
    """Whether a page is of the half of the sites that nothing about watching was tuned on."""
    return int(sha1(site_of(url).encode(), usedforsecurity=False).hexdigest(), 16) % 2 == 0


def measure(
    home: Path, modes: Sequence[str] = MODES, *, most: int = PAGES, rounds: int = len(_KINDS), unseen: bool = True
) -> list[Row]:
    """The rows of these modes; `unseen` takes the real pages from the sites that nothing was tuned on."""
    known = [page for page in pages(home) if is_unseen(page.url) == unseen]
    rows: list[Row] = []
    for mode in modes:
        say(f"watching: {mode}, making the pages")
        specimens = [*synthetic(most), *real(known, most)]
        with TemporaryDirectory() as folder:
            rows += asyncio.run(_Run(specimens, mode, Path(folder)).rows(rounds))
    return rows


@dataclass
class _Served:
    """A page as the site has it."""

    specimen: Specimen
    body: bytes
    version: int = 0
    answered: int = -1
    """The version that was answered last."""
    settled: int = -1
    """The version after which it was asked for again."""


@dataclass
class _Run:
    """One mode."""

    specimens: Sequence[Specimen]
    mode: str
    folder: Path
    looks: Counter[str] = field(default_factory=Counter[str])
    wrong: Counter[str] = field(default_factory=Counter[str])

    async def rows(self, rounds: int) -> list[Row]:
        self.served = [_Served(each, each.html()) for each in self.specimens]
        hosts = [f"127.7.{number // 200}.{number % 200 + 1}" for number in range(len(self.served))]
        self.by_host = dict(zip(hosts, self.served, strict=True))
        port = _free_port()
        site = await asyncio.start_server(self._answer, hosts, port, backlog=512)
        async with site, _server(self.folder) as first:
            self.server = first
            await self._watch_all([f"http://{host}:{port}/" for host in hosts])
            if self.mode == TWO:
                async with _server(self.folder):
                    await self._rounds(rounds)
            else:
                await self._rounds(rounds)
        return self._told()

    async def _watch_all(self, urls: Sequence[str]) -> None:
        self.ids: dict[str, str] = {}
        async with tidings.connect(self.server.url) as client:
            for start in range(0, len(urls), _AT_ONCE):
                await client.call_tool("fetch", {"urls": urls[start : start + _AT_ONCE], "max_tokens": 100})
            for url in urls:
                called = await client.call_tool("watch", {"page": url, "interval_s": _INTERVAL})
                data = _data(called)
                self.ids[data["watched"][0]["page_uri"]] = url.partition("//")[2].partition(":")[0]
            called = await client.call_tool("changes", {})
        self.cursor: str = _data(called)["cursor"]
        say(f"watching: {self.mode}, {len(self.ids)} pages are watched")

    async def _rounds(self, rounds: int) -> None:
        await self._settled()  # The first look at a page has nothing to compare.
        await self._changed()
        for number in range(rounds):
            kinds: dict[str, str] = {}
            for place, (host, page) in enumerate(self.by_host.items()):
                kinds[host] = _KINDS[(place + number) % len(_KINDS)]
                page.specimen.alter(kinds[host])
                page.body, page.version = page.specimen.html(), page.version + 1
            told = await self._settled(restart=self.mode == RESTARTED)
            told |= await self._changed()
            for host, kind in kinds.items():
                self.looks[kind] += 1
                if (host in told) != (kind in CHANGES):
                    self.wrong[kind] += 1
            say(f"watching: {self.mode}, round {number + 1} of {rounds}: {dict(self.wrong)}")

    async def _settled(self, *, restart: bool = False) -> set[str]:
        """The pages that were told of until each was looked at."""
        told: set[str] = set()
        pages = list(self.by_host.values())
        async with asyncio.timeout(_PATIENCE):
            while any(page.settled < page.version for page in pages):
                if restart and sum(page.answered == page.version for page in pages) > len(pages) / 2:
                    restart = False
                    await self.server.kill()
                    await self.server.start()
                    for page in pages:  # A look that was broken off is made again, and has to end.
                        page.answered = page.settled = -1
                told |= await self._changed()
                await asyncio.sleep(_POLL)
        return told

    async def _changed(self) -> set[str]:
        """The pages that were told of since the last call."""
        async with tidings.connect(self.server.url) as client:
            data = _data(await client.call_tool("changes", {"since": self.cursor}))
        if data.get("more") or "cursor" not in data:
            raise ProcessFailed(f"the tool `changes` answered only a part: {str(data)[:200]}")
        self.cursor = data["cursor"]
        return {self.ids[item["uri"]] for item in data["changed"] if item["uri"] in self.ids}

    def _told(self) -> list[Row]:
        changed, same = (sum(self.looks[kind] for kind in kinds) for kinds in (CHANGES, NOISES))
        missed, false = ({kind: self.wrong[kind] for kind in kinds if self.wrong[kind]} for kinds in (CHANGES, NOISES))
        alarms = sum(false.values())
        share = 100 * alarms / same if same else 0.0
        head = f"watching {len(self.by_host)} pages, {_SAID[self.mode]}"
        return [
            Row("watching", f"{head}: changes missed", tidings=sum(missed.values()), value=float(sum(missed.values())),
                target=MISSED, note=f"of {changed:,}; {missed or 'none'}"),
            Row("watching", f"{head}: false alarms, %", tidings=share, value=share, target=FALSE,
                note=f"{alarms} of {same:,} looks; {false or 'none'}"),
        ]  # fmt: skip

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower():
                writer.write(self._response(head, writer.get_extra_info("sockname")[0]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _response(self, head: str, host: str) -> bytes:
        if not head.startswith("get / "):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        page = self.by_host[host]
        etag = f'"v{page.version}"'
        page.settled = page.answered
        page.answered = page.version
        if f"if-none-match: {etag}" in head:
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        kind = "Content-Type: text/html; charset=utf-8"
        lines = f"HTTP/1.1 200 OK\r\n{kind}\r\nETag: {etag}\r\nContent-Length: {len(page.body)}\r\n\r\n"
        return lines.encode() + page.body


@dataclass
class _Server:
    """`tidings web` over HTTP, in a process of its own."""

    folder: Path
    port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        seconds = str(_INTERVAL)
        options = ("--watch-min", seconds, "--watch-max", seconds, "--cache-ttl", "0", "--keep", "1d",
            "--requests-per-minute", "100000", "--allow-private", "127.0.0.0/8", "--max-entries", "20000",
            "--max-store", "4G", "--store", str(self.folder / "pages.db"))  # fmt: skip
        words = (sys.executable, "-m", "tidings", "web", "--http", f"127.0.0.1:{self.port}", *options)
        log = (self.folder / f"{self.port}.log").open("ab")
        self.process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stderr=log, stdin=subprocess.DEVNULL)
        async with asyncio.timeout(120):
            while True:
                if self.process.returncode is not None:
                    raise ProcessFailed((self.folder / f"{self.port}.log").read_text()[-500:])
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    writer.close()
                    return

    async def kill(self) -> None:
        assert self.process
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            await self.kill()


@asynccontextmanager
async def _server(folder: Path) -> AsyncGenerator[_Server]:
    running = _Server(folder, _free_port())
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


def _data(called: Any) -> dict[str, Any]:
    """What a tool answered for programs."""
    meta: dict[str, Any] = called.result.meta or {}
    return meta.get("dev.tidings/data") or called.result.structured_content or {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
