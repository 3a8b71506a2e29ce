"""One worker from the server's side: a process that is started, asked, and ended."""

import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from tidings.web.extract.frames import HEAD, Failure, framed, length, read_answer
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions

COMMAND: Final = (sys.executable, "-P", "-m", "tidings.web.extract.worker")
"""What is started. `-P`: nothing is imported from the current folder."""
_START_SECONDS: Final = 60.0
_LEAVING_SECONDS: Final = 1.0
_PIECE: Final = 1 << 18


class Gone(Exception):
    """The process ended, or said what is no answer."""


class Worker:
    """A process that has said that it is ready."""

    def __init__(self, process: Process, source: ByteReceiveStream, target: ByteSendStream) -> None:
        self._process = process
        self._source = source
        self._target = target
        self._ended = False
        self._silent = False
        self.last = False
        """Whether it has said that it ends."""

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """A process that is ready.

        Raises:
            ExtractionFailed: It cannot be started.
        """
        try:
            process = await anyio.open_process(command, stderr=subprocess.DEVNULL)
        except OSError as error:
            raise ExtractionFailed("crash", f"No process that reads pages can be started: {error}.") from error
        if process.stdout is None or process.stdin is None:  # pragma: no cover - both were asked for
            raise ExtractionFailed("crash", "No process that reads pages can be started.")
        worker = cls(process, process.stdout, process.stdin)
        try:
            with anyio.fail_after(_START_SECONDS):
                await worker._frame()
        except (Gone, TimeoutError) as error:
            await worker.end()
            how = f"{sys.executable} -m tidings.web.extract.worker 1000000000 20 1 1"
            raise ExtractionFailed(
                "crash", f"A process that reads pages did not start; to see why, run: {how}"
            ) from error
        except BaseException:
            await worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it can be asked, as far as is known."""
        return not self._ended and not self.last and self._process.returncode is None

    async def ask(self, body: bytes, content_type: str, url: str, options: ExtractOptions) -> Extracted | Failure:
        """What it makes of a body.

        Raises:
            Gone: It ended before it answered.
        """
        question = pickle.dumps((body, content_type, url, options), pickle.HIGHEST_PROTOCOL)
        try:
            await self._target.send(framed(question))
            outcome, self.last = read_answer(await self._frame())
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self._silent = True
            raise Gone(str(error)) from error
        except ValueError as error:
            raise Gone(str(error)) from error
        return outcome

    async def end(self) -> int | None:
        """End it, whatever it does, and leave nothing of it behind. Returns what it ended with."""
        with anyio.CancelScope(shield=True):
            if not self._ended:
                self._ended = True
                if self._silent:
                    # It is about to end by itself. To kill it in that moment would lose what it ends with.
                    with anyio.move_on_after(_LEAVING_SECONDS):
                        await self._process.wait()
                if self._process.returncode is None:
                    with suppress(ProcessLookupError):  # It ended in this moment.
                        self._process.kill()
                await self._process.aclose()
            return self._process.returncode

    async def _frame(self) -> bytes:
        head = await self._exactly(HEAD)
        try:
            return await self._exactly(length(head))
        except ValueError as error:
            raise Gone(str(error)) from error

    async def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            try:
                found += await self._source.receive(min(size - len(found), _PIECE))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                self._silent = True
                raise Gone("it ended") from error
        return bytes(found)
