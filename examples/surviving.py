"""Watch two copies stay fresh: a live server that is killed now and then, and a live client of each era.

python examples/surviving.py [how many changes]     (Ctrl-C ends it)
"""

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import tidings
from tidings.client import Backoff, ClientConfig
from tidings.client.events import StateChanged

URI = "note://today"
QUICK = ClientConfig(backoff=Backoff(delays=(0.1, 0.2, 0.4), tries=None))
ERAS = {"modern": "2026-07-28", "old": "legacy"}


def serve(port: int, note: Path) -> None:
    """The server: one note, in a file, so that it outlives the process."""
    mcp = tidings.LiveServer("notes", log_level="CRITICAL")

    @mcp.resource(URI)
    def today() -> str:
        return note.read_text()

    @mcp.tool()
    async def write(text: str) -> None:
        note.write_text(text)
        await mcp.notify.resource_updated(URI)

    mcp.run("streamable-http", port=port)


class Copy:
    """What one client has in hand, and since when."""

    def __init__(self, era: str, client: tidings.LiveClient) -> None:
        self.era = era
        self.client = client
        self.text: str | None = None
        self.since = 0.0
        self.changed = asyncio.Event()
        client.on(StateChanged, self.tell)

    async def watch(self) -> None:
        async for read in self.client.watch(URI):
            self.text, self.since = read.text, time.perf_counter()
            self.changed.set()

    async def until(self, text: str) -> float:
        while self.text != text:
            self.changed.clear()
            await self.changed.wait()
        return self.since

    def tell(self, event: StateChanged) -> None:
        if event.signal in ("connection_lost", "handshake_complete") and self.text is not None:
            print(f"              the {self.era} client: {event.new.value}", flush=True)


class Server:
    """The server's process."""

    def __init__(self, note: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.note = note
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, __file__, "--serve", str(self.port), str(self.note)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


async def main(changes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "today")
        note.write_text("nothing yet")
        server = Server(note)
        server.start()
        try:
            await show(server, changes)
        finally:
            server.kill()


async def show(server: Server, changes: int) -> None:
    url = f"http://127.0.0.1:{server.port}/mcp"
    print(f"A live server on {url}, and a live client of each era that watches {URI}:\n", flush=True)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        copies = [
            Copy(era, await stack.enter_async_context(tidings.connect(url, era=version, config=QUICK)))
            for era, version in ERAS.items()
        ]
        watching = [tasks.create_task(copy.watch()) for copy in copies]
        for count in range(1, changes + 1):
            await one_change(count, server, copies)
            await asyncio.sleep(1 if count < changes else 0)
        for task in watching:
            task.cancel()


async def one_change(count: int, server: Server, copies: list[Copy]) -> None:
    text, killed = f"note {count}, {time.strftime('%H:%M:%S')}", count % 4 == 0
    began = time.perf_counter()
    if killed:
        print("\n  kill -9: the server is gone. The note changes while nobody serves it.", flush=True)
        server.kill()
        server.note.write_text(text)
        server.start()
    else:
        await copies[0].client.call_tool("write", {"text": text})
    fresh = [f"{copy.era} era {_took(await copy.until(text) - began)}" for copy in copies]
    print(f"  {text!r} in hand: {', '.join(fresh)}{chr(10) if killed else ''}", flush=True)


def _took(seconds: float) -> str:
    return f"after {seconds:4.2f} s" if seconds > 0.5 else f"after {seconds * 1000:4.1f} ms"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        try:
            asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
        except KeyboardInterrupt:
            print()
