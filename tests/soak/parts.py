"""The processes of a soak run: `python -m tests.soak.parts NAME OPTIONS`, with the options as JSON.

Each samples itself from a thread, one JSON object a line, in `samples/NAME`: memory, open files, threads, tasks, the
disk space of its folder, and how much it has done (`work`), which shows that it still does something.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import random
import runpy
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
from mcp import Client
from mcp.server.mcpserver import Context

from tests.server.serving import serving
from tidings import LiveServer
from tidings.client import Backoff, ClientConfig, connect
from tidings.inspector.records import SessionLimits
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.sessions.saved import JournalLimits

NOTES = 50
IMPATIENT = ClientConfig(backoff=Backoff(delays=(0.05, 0.1, 0.2), tries=None))
SMALL = SessionLimits(
    messages=300, logs=300, notifications=300, changes=300, exchanges=100, requests=100, records=300, versions=3
)
"""Reached within the warm-up: what is kept by design is no growth."""
JOURNAL = JournalLimits(session_bytes=2**20)


class Work:
    """Counts what a process has done."""

    done = 0


def tasks() -> int:
    """The number of tasks of all loops. `asyncio.all_tasks` wants to know the loop, which is in another thread."""
    kept: Any = getattr(asyncio.tasks, "_scheduled_tasks", None)  # Since Python 3.12.
    if kept is None:
        kept = getattr(asyncio.tasks, "_all_tasks")  # noqa: B009
    while True:
        with contextlib.suppress(RuntimeError):  # It changed meanwhile.
            return sum(not each.done() for each in list(kept))


def sample_forever(out: Path, folder: Path, period: float, work: Work) -> None:
    process = psutil.Process()
    with out.open("a") as file:
        for number in itertools.count():
            gc.collect()
            everyone = [process, *process.children(recursive=True)]
            memory = files = 0
            for each in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    memory += each.memory_full_info().uss
                    files += each.num_fds()
            disk = 0
            for path in folder.rglob("*"):
                with contextlib.suppress(OSError):
                    disk += path.stat().st_size
            found = {"at": time.monotonic(), "MB": memory / 1e6, "files": files, "tasks": tasks()}
            found |= {"threads": threading.active_count(), "disk MB": disk / 1e6, "work": work.done}
            file.write(json.dumps(found) + "\n")
            file.flush()
            time.sleep(period)
            if number == 2:  # All is imported: to go through it each time would take most of the processor.
                gc.freeze()


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def uris(count: int = NOTES) -> list[str]:
    return [f"note://{number}" for number in range(count)]


async def server(work: Work, folder: Path, *, port: int, leak: bool = False) -> None:
    """A live server whose notes change all the time."""
    mcp: LiveServer[Any] = LiveServer("soak", bus=f"sqlite://{folder}/bus.db", log_level="ERROR")
    leaked: list[object] = []

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return f"{name} {work.done}"

    async with serving(mcp.asgi(), port=port):
        while True:
            await mcp.notify.resource_updated(random.choice(uris()))
            work.done += 1
            if leak:
                leaked.append((bytearray(50_000), os.open(os.devnull, os.O_RDONLY)))
                leaked.append(asyncio.create_task(asyncio.Event().wait()))
            await asyncio.sleep(0.05)


async def clients(work: Work, folder: Path, *, port: int) -> None:  # noqa: ARG001 - all parts are called alike
    """Clients of both eras, ours and the SDK's, that come and go."""

    async def ours(era: str) -> None:
        async with connect(url(port), era=era, config=IMPATIENT) as live:
            async for _ in live.watch(random.sample(uris(), 10)):
                work.done += 1

    async def stock(mode: str) -> None:
        async with Client(url(port), mode=mode) as client:
            while True:
                await client.read_resource(random.choice(uris()), cache_mode="bypass")
                work.done += 1
                await asyncio.sleep(0.1)

    async def visit(come: Callable[[str], Awaitable[None]], era: str) -> None:
        while True:
            with contextlib.suppress(Exception):  # The SDK's client does not leave quietly.
                async with asyncio.timeout(random.uniform(0.5, 3)):
                    await come(era)

    async with asyncio.TaskGroup() as group:
        for come, era in ((ours, "auto"), (ours, "legacy"), (stock, "auto"), (stock, "legacy")):
            group.create_task(visit(come, era))


async def returning(work: Work, folder: Path, *, port: int) -> None:  # noqa: ARG001
    """A client whose server is restarted again and again."""
    async with connect(url(port), config=IMPATIENT) as live:
        async for _ in live.watch(uris()):
            work.done += 1


async def readers(work: Work, folder: Path, *, vault: int, web: int, site: int, pages: int) -> None:  # noqa: ARG001
    """Clients of the vault and of the web server."""

    async def follow(port: int, find: Callable[[Any], Awaitable[list[str]]]) -> None:
        async with connect(url(port), config=IMPATIENT) as live:
            async for _ in live.watch(await find(live), missing="wait"):
                work.done += 1

    async def notes(live: Any) -> list[str]:
        return [each.uri for each in (await live.list_resources())[:NOTES]]

    async def watched(live: Any) -> list[str]:
        found: list[str] = []
        for number in range(pages):
            page = f"http://127.0.0.1:{site}/{number}"
            result = (await live.call_tool("fetch", {"urls": [page]})).result
            assert not result.is_error, result
            found.append(result.meta["dev.tidings/data"]["pages"][0]["page_uri"])
        return found

    async with asyncio.TaskGroup() as group:
        group.create_task(follow(vault, notes))
        group.create_task(follow(web, watched))


async def chatty(work: Work, folder: Path, *, port: int) -> None:  # noqa: ARG001
    """A server that says much."""
    mcp: LiveServer[Any] = LiveServer("chatty", log_level="ERROR")

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return f"{name} {work.done} {random.getrandbits(2000)}"

    @mcp.tool()
    async def talk(ctx: Context[Any]) -> str:
        for number in range(5):
            await ctx.info(f"step {number} of {work.done}")
        return f"{random.getrandbits(1000)}"

    async with serving(mcp.asgi(), port=port):
        while True:
            await mcp.notify.resource_updated(random.choice(uris(5)))
            work.done += 1
            await asyncio.sleep(0.05)


async def inspector(work: Work, folder: Path, *, port: int) -> None:
    """The inspector on a chatty server, with a journal."""
    async with Session(journal=Journal(folder / "sessions.db", limits=JOURNAL), limits=SMALL) as session:
        inspected = await session.add(ConnectionSpec("chatty", url(port)), connect=False)
        await inspected.connect()
        for uri in uris(5):
            await inspected.subscribe(uri)
        while True:
            await inspected.wait(inspected.call("talk"))
            work.done += 1
            await asyncio.sleep(0.05)


PARTS: dict[str, Callable[..., Awaitable[None]]] = {
    each.__name__: each for each in (server, clients, returning, readers, chatty, inspector)
}
PROGRAMS = ("vault", "web")
"""Commands of `tidings`. They are watched by `readers`, which count for them."""


def main(name: str, options: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    home, period = Path(options.pop("home")), options.pop("period")
    folder = home / name
    folder.mkdir(exist_ok=True)
    work = Work()
    arguments = (home / "samples" / name, folder, period, work)
    threading.Thread(target=sample_forever, args=arguments, daemon=True).start()
    if name in PROGRAMS:
        sys.argv = ["tidings", name, *options["words"]]
        runpy.run_module("tidings", run_name="__main__")
    else:
        asyncio.run(PARTS[name](work, folder, **options))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
