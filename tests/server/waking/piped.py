"""A chat of the modern era with a server that it starts, over pipes, by hand."""

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.bus.processes import Peer, python
from tests.server import wire
from tests.server.waking.tasking import DECLARED
from tests.server.wire import Json

_numbers = itertools.count(1)


class Chat:
    """A server process, and its client."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.notified: list[Json] = []

    async def ask(self, method: str, *, declares: bool = True, **params: Any) -> Json:
        """Returns the result of a request."""
        answer = await self.answer(method, declares=declares, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def answer(self, method: str, *, declares: bool = True, **params: Any) -> Json:
        number = next(_numbers)
        meta = wire.modern_meta(**(DECLARED if declares else {}))
        await self.write({"id": number, "method": method, "params": {**params, "_meta": meta}})
        while True:
            came = await self.next()
            if came.get("id") == number:
                return came
            self.notified.append(came)

    async def write(self, message: Json) -> None:
        await self.peer.write_line(json.dumps({"jsonrpc": "2.0", **message}))

    async def within(self, seconds: float) -> Json | None:
        """Returns the next message, if one comes in time."""
        with anyio.move_on_after(seconds):
            return json.loads(await self.peer.line())
        return None

    async def next(self) -> Json:
        with anyio.fail_after(30):
            return json.loads(await self.peer.line())

    async def call(self, tool: str, *, declares: bool = True, **arguments: Any) -> Json:
        return await self.ask("tools/call", declares=declares, name=tool, arguments=arguments)

    async def said(self, tool: str, **arguments: Any) -> str:
        """Returns the text that a tool answers."""
        result = await self.call(tool, declares=False, **arguments)
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")

    async def wait(self, *uris: str, **arguments: Any) -> str:
        """Starts to wait for changes; returns the id of the task."""
        created = await self.call("wait_for_change", uris=list(uris), **arguments)
        assert created["resultType"] == "task", created
        return created["taskId"]

    async def reaches(self, task: str, *statuses: str) -> Json:
        """Polls a task until it has one of these statuses, as clients do."""
        with anyio.fail_after(30):
            while (found := await self.ask("tasks/get", taskId=task))["status"] not in statuses:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        return found

    async def outcome(self, task: str) -> str:
        """Returns what the model is told at the end of a wait."""
        done = await self.reaches(task, "completed")
        return "\n".join(block["text"] for block in done["result"]["content"] if block["type"] == "text")

    async def kill(self) -> None:
        self.peer.process.kill()
        await self.peer.process.wait()


@asynccontextmanager
async def chat(*words: str, cache: Path | None = None) -> AsyncGenerator[Chat]:
    """Starts `tidings` with these words; `cache` is the user's folder for caches."""
    env = [] if cache is None else ["env", f"XDG_CACHE_HOME={cache}"]
    async with python("-m", "tidings", *words, before=env) as peer:
        yield Chat(peer)
