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

from tidings.vault.index.read_file import Job, Missed, ReadLimits, ReadTask, Same, read_file
from tidings.vault.notes.model import IndexEntry

if sys.platform == "linux":
    import fcntl

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "tidings.vault.index.worker")
"""What is started. `-P`: nothing is imported from the current folder, which may be the vault."""

_MOST: Final = 4
_AHEAD: Final = 10
"""How many answers of each process may wait to be taken: so many that they read on while a batch is stored."""
_PIPE: Final = 2**20
"""Bytes of answers that may lie in a pipe: a process goes on while nobody has time to take them."""
_IN_HAND: Final = 2
"""How many tasks a process has at a time."""
_STOP_SECONDS: Final = 0.1
"""How often it is asked whether to stop, while a process works."""

Answer = list[IndexEntry | Missed | Same]


class IndexPool:
    """Processes that read files, from entering this (or `start`) until leaving it (or `close`).

    Args:
        limits: How much is read of a file.
        count: How many processes; see `processes_for`.
        command: What is started.
        small: Bytes that this process itself reads at once while those start.
        room: How many answers of each process may wait before `read` takes the first.
    """

    def __init__(
        self, limits: ReadLimits, *, count: int, command: Sequence[str] = COMMAND, small: int = 0, room: int = _AHEAD
    ) -> None:
        self._limits = limits
        self._small = small
        self._count = count
        self._command = command
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._todo: deque[list[Job]] = deque()
        self._more = threading.Condition()
        self._all_given = False
        self._done: SimpleQueue[Answer | None] = SimpleQueue()
        self._room = threading.Semaphore(count * room)
        self._surplus = count * (room - _AHEAD)
        self._left = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Start the processes."""
        try:
            for _ in range(self._count):
                self._processes.append(_started(self._command))
        except OSError as error:
            logger.warning("not all processes that read files could be started: %s", error)

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._more:
            self._left = True
            self._more.notify_all()
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

    def add(self, chunks: Iterable[list[Job]]) -> None:
        """Have files read. The answers wait for `read`."""
        with self._more:
            self._todo.extend(chunks)
            self._more.notify_all()
        if not self._threads:
            for process in self._processes:
                thread = threading.Thread(target=self._serve, args=(process,), name="tidings-vault-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def read(self, chunks: Iterable[list[Job]], stopped: Callable[[], bool] = lambda: False) -> Iterator[Answer]:
        """Read all files, and what was added before. The answers come as they are ready, in any order. Once.

        Ends early when `stopped`, even while a process is busy with a large file.
        """
        self.add(chunks)
        with self._more:
            self._all_given = True
            self._more.notify_all()
        working = len(self._threads)
        while self._small and working and self._done.empty() and not stopped() and (chunk := self._take_small()):
            yield self._read_here(chunk)
        while working and not stopped():
            try:
                answer = self._done.get(timeout=_STOP_SECONDS)
            except Empty:
                continue
            if answer is None:
                working -= 1
            else:
                self._make_room()
                yield answer
        if working:
            return
        for chunk in self._todo:  # There are no processes at all.
            yield self._read_here(chunk)

    def _make_room(self) -> None:
        """An answer was taken: there is room for another, unless more waited than shall from now on."""
        if self._surplus > 0:
            self._surplus -= 1
        else:
            self._room.release()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """The thread that gives one process its tasks, while there is room for answers.

        The process has its next task before it has answered the last: it need not wait for this thread, which waits
        for others.
        """
        given: deque[list[Job]] = deque()
        try:
            while True:
                if len(given) < _IN_HAND and (chunk := self._take(wait=not given)):
                    given.append(chunk)
                    self._give(process, chunk)
                elif given:
                    self._done.put(self._answer(process, given.popleft()))
                else:
                    return
        finally:
            # Whoever else waits for room need not any more.
            self._room.release()
            self._done.put(None)

    def _take(self, *, wait: bool) -> list[Job] | None:
        """The next chunk, if there is one and room for its answer. Unless told to `wait`, as things stand."""
        if not self._room.acquire(blocking=wait):
            return None
        with self._more:
            if wait:
                self._more.wait_for(lambda: self._todo or self._all_given or self._left)
            if self._todo and not self._left:
                return self._todo.popleft()
        self._room.release()
        return None

    def _give(self, process: subprocess.Popen[bytes], chunk: list[Job]) -> None:
        with suppress(OSError):  # It has ended, and does not answer.
            questions = cast("IO[bytes]", process.stdin)
            pickle.dump(ReadTask(self._limits, chunk), questions, pickle.HIGHEST_PROTOCOL)
            questions.flush()

    def _answer(self, process: subprocess.Popen[bytes], chunk: list[Job]) -> Answer:
        if self._left:
            return []
        if process.poll() is None:
            try:
                answer: Answer = pickle.load(cast("IO[bytes]", process.stdout))  # noqa: S301 - of a process of ours
                if len(answer) == len(chunk):
                    return answer
                problem = "it answered something else"
            except Exception as error:  # noqa: BLE001 - what came is no answer, in whichever way
                problem = repr(error)
            if self._left:
                return []
            logger.warning("a process that reads files ended before its time: %s", problem)
            process.kill()
            process.wait()
        return self._read_here(chunk)

    def _take_small(self) -> list[Job] | None:
        """The last chunk, unless reading it would keep all threads of this process waiting."""
        with self._more:
            if self._todo and sum(job.stamp.size for job in self._todo[-1]) <= self._small:
                return self._todo.pop()
        return None

    def _read_here(self, chunk: list[Job]) -> Answer:
        return [read_file(job, self._limits) for job in chunk]


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=_PIPE)  # noqa: S603 - ours
    if sys.platform == "linux":
        with suppress(OSError):  # The user has no more room for pipes.
            fcntl.fcntl(cast("IO[bytes]", process.stdout), fcntl.F_SETPIPE_SZ, _PIPE)
    return process


def processes_for(tasks: int) -> int:
    """How many processes to start: one a core, and not more than 4, or than there are tasks."""
    return min(_MOST, _cores(), tasks)


def _cores() -> int:
    """How many cores this process may use; none for others where the interpreter is not a program of its own."""
    if getattr(sys, "frozen", False) or not sys.executable:
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
