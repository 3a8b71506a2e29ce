"""The server process: one variant under uvicorn (uvloop, httptools), on one core, told what to publish.

Its CPU time is read inside it: from just before the first publish until the client has confirmed the last delivery.
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from benchmarks import floor
from benchmarks.control import Control, pin, raise_open_files, take_stdout

PAGE = os.sysconf("SC_PAGE_SIZE")


class Server:
    """The commands."""

    def __init__(
        self, publish: Callable[[str], Any], connections: Callable[[], int], asked: Callable[[], int] = lambda: 0
    ) -> None:
        self._publish = publish
        self._connections = connections
        self._asked = asked

    @property
    def handlers(self) -> dict[str, Any]:
        return {"publish": self.publish, "usage": self.usage, "memory": self.memory, "bus": self.bus}

    async def publish(
        self, uris: list[str], times: int = 1, *, pause: bool = False, together: bool = False
    ) -> dict[str, Any]:
        """Publish `times` changes, going round `uris`; says when each URI changed for the last time.

        With a `pause` everyone else gets a turn between two changes, whether the server's own publish gives it or not.
        `together`: nobody waits until the change before is stored, as where many tasks publish.
        """
        changed: dict[str, float] = {}
        before = time.process_time()
        if together:
            await asyncio.gather(*(self._publish(uris[number % len(uris)]) for number in range(times)))
            return {"before": before, "after": time.process_time()}
        for number in range(times):
            uri = uris[number % len(uris)]
            changed[uri] = time.monotonic()
            await self._publish(uri)
            if pause:
                await asyncio.sleep(0)
        return {"before": before, "after": time.process_time(), "changed": changed}

    async def usage(self) -> dict[str, Any]:
        return {"cpu": time.process_time(), "connections": self._connections()}

    async def bus(self) -> dict[str, Any]:
        return {"asked": self._asked()}

    async def memory(self) -> dict[str, Any]:
        """Bytes in use at rest: resident, and of those the ones that belong to this process alone."""
        await asyncio.sleep(0.2)
        gc.collect()
        return {"resident": _resident(), "unique": _unique()}


def _resident() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * PAGE if statm.exists() else 0


def _unique() -> int:
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text().splitlines() if rollup.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


async def run_floor(answers: int) -> None:
    sockets = floor.Floor()
    port = await floor.serve(sockets)
    control = Control(answers, Server(sockets.publish, lambda: len(sockets.peers)).handlers)
    control.tell({"port": port})
    await control.run()


async def run_variant(answers: int, name: str, port: int, options: dict[str, Any]) -> None:
    # Imported here: the floor must not carry the SDK's memory.
    from benchmarks.variants import VARIANTS

    variant = VARIANTS[name](**options)
    config = uvicorn.Config(
        variant.app, host="127.0.0.1", port=port, http="httptools", ws="none", log_level="error", access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    control = Control(
        answers, Server(variant.publish, lambda: len(server.server_state.connections), variant.asked).handlers
    )
    control.tell({"port": server.servers[0].sockets[0].getsockname()[1]})
    commands = asyncio.create_task(control.run())
    await serving
    commands.cancel()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variant")
    parser.add_argument("--merging", action="store_true")
    parser.add_argument("--hindered", action="store_true", help="with all that could hold up a stop")
    parser.add_argument("--write-deadline", type=float, default=30)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bus", help="the URL of a bus that several servers share")
    parser.add_argument("--anywhere", action="store_true", help="on whichever core is free")
    chosen = parser.parse_args(arguments)
    answers = take_stdout()
    logging.disable(logging.ERROR)
    if not chosen.anywhere:
        pin(0)
    raise_open_files()
    if chosen.variant == "floor":
        uvloop.run(run_floor(answers))
        return
    own = {name: getattr(chosen, name) for name in ("merging", "hindered", "write_deadline", "bus")}
    options = own if chosen.variant == "tidings" else {}
    uvloop.run(run_variant(answers, chosen.variant, chosen.port, options))


if __name__ == "__main__":
    main(sys.argv[1:])
