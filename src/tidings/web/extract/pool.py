"""Extraction in processes that can be killed: whatever a page does to its reader, the server goes on.

    async with Workers() as workers:
        found = await workers.extract(body, content_type, url)

A process is started when there is a job and none is free, kept warm for the next, and ends by itself when it has been
idle for long. One that takes too long, grows too large or crashes is ended, its job fails with a sentence that says so,
and the next job gets another. To cancel whoever waits for a job ends the job's process. Leaving ends them all; and
should this process die before, their input ends, and they with it.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

import anyio

from tidings.web.extract.frames import LEFT, Failure
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions
from tidings.web.extract.process import COMMAND, Gone, Worker

_MOST: Final = 4
_TRIES: Final = 3
"""Processes that a job is given to if each leaves in that moment."""
GIB: Final = 1024**3


class ExtractionPool:
    """Processes that read bodies, from entering this until leaving it.

    Args:
        count: How many at most; one a core, and not more than 4, if not said.
        timeout: Seconds that a job may take, once a process works on it.
        memory: Bytes that a process may have, where the system can see to that (Linux).
        wait: Seconds that a job may wait for a free process.
        jobs: After how many jobs a process is replaced.
        idle: After how many idle seconds it ends.
        command: What is started.
    """

    def __init__(
        self,
        *,
        count: int | None = None,
        timeout: float = 20.0,
        memory: int = GIB,
        wait: float = 60.0,
        jobs: int = 500,
        idle: float = 120.0,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.count = count or min(_MOST, _cores())
        self._timeout = timeout
        self._wait = wait
        self._memory = memory
        self._command = (*command, str(memory), str(timeout), str(jobs), str(idle))
        self._turns: anyio.Semaphore | None = None
        self._free: list[Worker] = []
        self._all: set[Worker] = set()

    async def __aenter__(self) -> Self:
        self._turns = anyio.Semaphore(self.count)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._turns = None
        self._free.clear()
        for worker in tuple(self._all):
            await self._end(worker)

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the processes that there are."""
        return frozenset(worker.pid for worker in self._all if worker.usable)

    async def extract(
        self, body: bytes, content_type: str, url: str, options: ExtractOptions | None = None
    ) -> Extracted:
        """What `body` says, as `tidings.web.extract.dispatch.extract` has it, from another process.

        Raises:
            Unsupported: Nothing reads this type: the bytes can only be handed on.
            BadSelector: One of the selectors in the options is not understood.
            ExtractionFailed: It is broken or a bomb, took too long or too much memory, or there was no process free.
        """
        async with self._turn():
            outcome = await self._asked(body, content_type, url, options or ExtractOptions())
        if isinstance(outcome, Extracted):
            return outcome
        raise outcome

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        turns = self._turns
        if turns is None:
            raise RuntimeError("enter it first: async with Workers() as workers")
        try:
            with anyio.fail_after(self._wait):
                await turns.acquire()
        except TimeoutError as error:
            raise ExtractionFailed(
                "busy", f"All {self.count} processes that read pages were busy for {self._wait:g} s: try again later."
            ) from error
        try:
            yield
        finally:
            turns.release()

    async def _asked(self, body: bytes, content_type: str, url: str, options: ExtractOptions) -> Extracted | Failure:
        for again in range(_TRIES, 0, -1):
            worker = await self._worker()
            try:
                with anyio.fail_after(self._timeout):
                    outcome = await worker.ask(body, content_type, url, options)
            except TimeoutError as error:
                await self._end(worker)
                raise ExtractionFailed(
                    "timeout", f"Reading it took longer than {self._timeout:g} s and was ended: ask for it as raw."
                ) from error
            except Gone as error:
                code = await self._end(worker)
                # It was idle for long, and left in this moment.
                if code == LEFT and again > 1 and not self._left():
                    continue
                raise self._crashed(code) from error
            except BaseException:
                await self._end(worker)
                raise
            await self._back(worker)
            return outcome
        raise AssertionError("the last try returns or raises")  # pragma: no cover

    async def _worker(self) -> Worker:
        """One that is free, or a new one. Those that have ended meanwhile are cleared away."""
        while self._free:
            worker = self._free.pop()
            if worker.usable:
                return worker
            await self._end(worker)
        worker = await Worker.start(self._command)
        self._all.add(worker)
        if self._left():  # While it started.
            raise self._crashed(await self._end(worker))
        return worker

    def _left(self) -> bool:
        return self._turns is None

    async def _back(self, worker: Worker) -> None:
        if worker.usable and not self._left():
            self._free.append(worker)
        else:
            await self._end(worker)

    async def _end(self, worker: Worker) -> int | None:
        code = await worker.end()
        self._all.discard(worker)
        return code

    def _crashed(self, code: int | None) -> ExtractionFailed:
        if self._left():
            return ExtractionFailed("stopped", "The server is stopping.")
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return ExtractionFailed(
            "crash", f"The process that read it broke down ({how}), as bombs make them do: ask for it as raw."
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
