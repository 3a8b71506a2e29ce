"""A process full of clients in a chaos run. Each watches all notes, and writes down what it holds.

The copies of client N are in the file `copies/N`, as JSON, replaced as a whole whenever one changes.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

from mcp import Client

from tidings.client import Backoff, ClientConfig, Timeouts, connect

CONFIG = ClientConfig(
    backoff=Backoff(delays=(0.02, 0.05, 0.1, 0.2), tries=None),
    timeouts=Timeouts(connect=10, request=10, total=60, ping=4, ping_interval=3),
)


def run(clients: list[dict[str, Any]], uris: list[str], folder: str) -> None:
    logging.disable(logging.CRITICAL)
    asyncio.run(_all(_watch, clients, uris, Path(folder)))


def run_stock(clients: list[dict[str, Any]], uris: list[str], folder: str) -> None:
    logging.disable(logging.CRITICAL)
    asyncio.run(_all(_listen, clients, uris, Path(folder)))


async def _all(follow: Any, clients: list[dict[str, Any]], uris: list[str], folder: Path) -> None:
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(follow(Notebook(folder, client["name"]), client, uris, folder))


class Notebook:
    """What one client holds."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "copies" / name
        self._copies: dict[str, str] = {}
        self._late: asyncio.TimerHandle | None = None

    def note(self, uri: str, text: str) -> None:
        self._copies[uri] = text
        if self._late is None:
            self._late = asyncio.get_running_loop().call_later(0.05, self._write)

    def _write(self) -> None:
        self._late = None
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(self._copies))
        scratch.replace(self._path)


async def _watch(notebook: Notebook, client: dict[str, Any], uris: list[str], folder: Path) -> None:
    """A live client, as people use it."""
    state = folder / "state" / client["name"] if client["keeps_state"] else None
    async with connect(client["url"], era=client["era"], config=CONFIG, state=state) as live:
        async for read in live.watch(uris):
            notebook.note(read.uri, read.text)


async def _listen(notebook: Notebook, client: dict[str, Any], uris: list[str], folder: Path) -> None:  # noqa: ARG001
    """The SDK's own client, used well: it listens, reads, reads what it hears of, and begins again when it fails."""
    while True:
        try:
            async with (
                Client(client["url"], mode="2026-07-28") as stock,
                stock.listen(resource_subscriptions=uris) as news,
            ):
                for uri in uris:
                    await _read(notebook, stock, uri)
                async for change in news:
                    await _read(notebook, stock, change.uri)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the SDK cancels its caller when a server dies
            await asyncio.sleep(0.1)
        else:
            return  # The loop ended as if all were well, and whoever wrote this believes it.


async def _read(notebook: Notebook, client: Client, uri: str) -> None:
    result = await client.read_resource(uri, cache_mode="bypass")
    notebook.note(uri, getattr(result.contents[0], "text", ""))
