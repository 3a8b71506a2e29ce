"""Other Python processes, which end with the test that started them."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

ROOT = Path(__file__).parents[2]


class Peer:
    """A running process, whose lines can be read."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._output = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        return (await self._output.receive_until(b"\n", 1_000_000)).decode()

    async def rest(self) -> list[str]:
        """The lines, whole ones only, that it still said before it ended."""
        lines: list[str] = []
        with suppress(anyio.IncompleteRead):
            while True:
                lines.append(await self.line())
        return lines

    async def write_line(self, text: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(text.encode() + b"\n")


@asynccontextmanager
async def python(*arguments: str, before: Sequence[str] = ()) -> AsyncGenerator[Peer]:
    """Run Python with `arguments`, started by the program `before`; it is killed at the end if it still runs."""
    command = [*before, sys.executable, *arguments]
    process = await anyio.open_process(command, cwd=ROOT, stderr=None, stdin=subprocess.PIPE)
    try:
        with anyio.fail_after(40):
            yield Peer(process)
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.kill()
            await process.aclose()


def peer(address: str, what: str, name: str):
    return python("-m", "tests.bus.peer", address, what, name)
