"""How a child process is told what to do: one JSON line in for each command, one JSON line out for each answer.

The commands come over the child's standard input; when it closes, the parent is gone and the child leaves.
"""

import asyncio
import contextlib
import json
import os
import resource
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[..., Awaitable[dict[str, Any]]]


def pin(core: int) -> None:
    """Keep this process on one core, so that the server and its client do not take turns on the same one."""
    if hasattr(os, "sched_setaffinity") and core in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {core})


def raise_open_files() -> int:
    """Allow as many open sockets as the machine lets us; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def take_stdout() -> int:
    """The descriptor for answers. Whatever else is printed goes to standard error and cannot tear them."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


class Control:
    """Runs the commands that arrive on standard input, one after the other."""

    def __init__(self, answers: int, handlers: dict[str, Handler]) -> None:
        self._answers = answers
        self._handlers = handlers
        self._rest = b""
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def tell(self, answer: dict[str, Any]) -> None:
        view = memoryview(json.dumps(answer).encode() + b"\n")
        while view:
            view = view[os.write(self._answers, view) :]

    async def run(self) -> None:
        os.set_blocking(0, False)
        asyncio.get_running_loop().add_reader(0, self._read)
        while True:
            await self._execute(json.loads(await self._lines.get()))

    def _read(self) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            os._exit(0)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    async def _execute(self, command: dict[str, Any]) -> None:
        name = command.pop("do")
        try:
            self.tell(await self._handlers[name](**command))
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent is to hear of it
            traceback.print_exc()
            self.tell({"error": f"{name}: {type(error).__name__}: {error}"})
