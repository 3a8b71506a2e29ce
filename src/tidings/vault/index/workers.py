"""Reading many files on all cores: with processes that do nothing else.

They are programs of their own (`worker.py`) and not made by `multiprocessing`, which would run the `__main__` of the
program that this server is a part of. Where none can be started, or one ends before its time, its files are read here.

May import: `model`, `scan_file`.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, Final, Self, cast

from tidings.vault.index.scan_file import Job, Limits, Missed, Same, Task, read_file
from tidings.vault.text.model import Entry

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "tidings.vault.index.worker")
"""What is started. `-P`: nothing is imported from the current folder, which may be the vault."""

_MOST: Final = 4
_AHEAD: Final = 10
"""How many answers of each process may wait to be taken: so many that they read on while a batch is stored."""
_STOP_SECONDS: Final = 0.1
"""How often it is asked whether to stop, while a process works."""

Answer = list[Entry | Missed | Same]


class Workers:
    """Processes that read files, from entering this until leaving it.

    Args:
        limits: How much is read of a file.
        count: How many processes; see `processes_for`.
        command: What is started.
        small: Bytes that this process itself reads at once while those start.
    """

    def __init__(self, limits: Limits, *, count: int, command: Sequence[str] = COMMAND, small: int = 0) -> None:
        self._limits = limits
        self._small = small
        self._count = count
        self._command = command
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._room = threading.Semaphore(self._count * _AHEAD)
        self._left = False

    def __enter__(self) -> Self:
        try:
            for _ in range(self._count):
                self._processes.append(
                    subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
                )
        except OSError as error:
            logger.warning("not all processes that read files could be started: %s", error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._left = True
        self._room.release(max(1, len(self._threads)))
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # Something was still to be written.
                    cast("IO[bytes]", pipe).close()

    def read(self, chunks: Iterable[list[Job]], stopped: Callable[[], bool] = lambda: False) -> Iterator[Answer]:
        """Read all files. The answers come as they are ready, in any order. To be called once.

        Ends early when `stopped`, even while a process is busy with a large file.
        """
        todo = deque(chunks)
        done: SimpleQueue[Answer | None] = SimpleQueue()
        for process in self._processes:
            self._threads.append(
                threading.Thread(
                    target=self._serve, args=(process, todo, done), name="tidings-vault-worker", daemon=True
                )
            )
            self._threads[-1].start()
        working = len(self._processes)
        while self._small and working and done.empty() and not stopped() and (chunk := self._take_small(todo)):
            yield self._read_here(chunk)
        while working and not stopped():
            try:
                answer = done.get(timeout=_STOP_SECONDS)
            except Empty:
                continue
            if answer is None:
                working -= 1
            else:
                self._room.release()
                yield answer
        if working:
            return
        for chunk in todo:  # There are no processes at all.
            yield self._read_here(chunk)

    def _serve(
        self, process: subprocess.Popen[bytes], todo: deque[list[Job]], done: "SimpleQueue[Answer | None]"
    ) -> None:
        """The thread that gives one process its tasks: one after the other, while there is room for answers."""
        try:
            while self._room.acquire() and not self._left:
                try:
                    chunk = todo.popleft()
                except IndexError:
                    return
                done.put(self._ask(process, chunk))
        finally:
            # Whoever else waits for room need not any more.
            self._room.release()
            done.put(None)

    def _ask(self, process: subprocess.Popen[bytes], chunk: list[Job]) -> Answer:
        if process.poll() is None and process.stdin and process.stdout:
            try:
                return _exchange(process.stdin, process.stdout, Task(self._limits, chunk))
            except Exception as error:  # noqa: BLE001 - what came is no answer, in whichever way
                if self._left:
                    return []
                logger.warning("a process that reads files ended before its time: %r", error)
                process.kill()
                process.wait()
        return self._read_here(chunk)

    def _take_small(self, todo: deque[list[Job]]) -> list[Job] | None:
        """The last chunk, unless reading it would keep all threads of this process waiting."""
        try:
            chunk = todo.pop()
        except IndexError:
            return None
        if sum(job.stamp.size for job in chunk) <= self._small:
            return chunk
        todo.append(chunk)
        return None

    def _read_here(self, chunk: list[Job]) -> Answer:
        return [read_file(job, self._limits) for job in chunk]


def _exchange(questions: IO[bytes], answers: IO[bytes], task: Task) -> Answer:
    pickle.dump(task, questions, pickle.HIGHEST_PROTOCOL)
    questions.flush()
    answer: Answer = pickle.load(answers)  # noqa: S301 - from a process that was started here
    if len(answer) != len(task.jobs):
        raise ValueError("it answered something else")
    return answer


def processes_for(tasks: int) -> int:
    """How many processes to start: one a core, and not more than 4, or than there are tasks."""
    return min(_MOST, _cores(), tasks)


def _cores() -> int:
    """How many cores this process may use; none for others where the interpreter is not a program of its own."""
    if getattr(sys, "frozen", False) or not sys.executable:
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
