"""Child processes that answer many jobs, for a thread: all of them, as they are ready.

    with BulkPool("package.module:function", decode, here, count=processes_for(len(jobs))) as pool:
        for answer in pool.read(jobs): ...

`worker` is the child's side.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from tidings._kit.pool import WorkerGone, WorkerProcess
from tidings._kit.worker import WorkerLimits, worker_command

logger = logging.getLogger(__name__)

T = TypeVar("T")
JobT = TypeVar("JobT")

_IN_HAND: Final = 2
"""Jobs that a process has at a time."""
_AHEAD: Final = 10
"""Answers of each process that may wait to be taken: so many that it goes on while a batch of them is used."""
_STOP_SECONDS: Final = 0.1
"""How often it is asked whether to stop, while a process works."""


class BulkPool(Generic[JobT, T]):
    """Processes that answer many jobs, for a thread, from entering this (or `start`) until leaving it (or `close`).

    Where no process can be started, or one ends before its time, its jobs are done here.

    Args:
        function: Answers a job with bytes, in the child: "module:function".
        decode: Makes the result of these bytes. Whatever it raises counts as a broken process.
        here: Answers a job in this process.
        count: How many processes; see `processes_for`.
        limits: The limits of a process. Deadlines and numbers of jobs are not for a bulk pool.
        small: Says of a job whether this process itself may do it while the others start.
        room: How many answers of each process may wait before `read` takes the first.
        command: What is started instead, for tests.
    """

    def __init__(
        self,
        function: str,
        decode: Callable[[bytes], T],
        here: Callable[[JobT], T],
        *,
        count: int,
        limits: WorkerLimits | None = None,
        small: Callable[[JobT], bool] = lambda _: False,
        room: int = _AHEAD,
        command: Sequence[str] | None = None,
    ) -> None:
        self._decode = decode
        self._here = here
        self._count = count
        self._small = small
        self._command = tuple(command or worker_command(function, limits or WorkerLimits()))
        self._processes: list[WorkerProcess] = []
        self._threads: list[threading.Thread] = []
        self._jobs: deque[JobT] = deque()
        self._more = threading.Condition()
        self._all_given = False
        self._done: SimpleQueue[tuple[T] | None] = SimpleQueue()
        self._room = threading.Semaphore(count * room)
        self._surplus = count * (room - _AHEAD)
        self._left = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the processes that were started."""
        return frozenset(process.pid for process in self._processes)

    def start(self) -> None:
        """Starts the processes."""
        try:
            for _ in range(self._count):
                self._processes.append(WorkerProcess(self._command))
        except OSError as error:
            logger.warning("not all worker processes could be started: %s", error)

    def close(self) -> None:
        """Ends the processes, whatever they do."""
        with self._more:
            self._left = True
            self._more.notify_all()
        self._room.release(max(1, len(self._threads)))
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.end()

    def add(self, jobs: Iterable[JobT]) -> None:
        """Has jobs done. The answers wait for `read`."""
        with self._more:
            self._jobs.extend(jobs)
            self._more.notify_all()
        if not self._threads:
            for process in self._processes:
                thread = threading.Thread(target=self._serve, args=(process,), name="tidings-bulk-worker", daemon=True)
                self._threads.append(thread)
                thread.start()

    def read(self, jobs: Iterable[JobT], stopped: Callable[[], bool] = lambda: False) -> Iterator[T]:
        """Yields the answers to these jobs, and to those added before, as they are ready, in any order. Once.

        Ends early when `stopped` returns True, which is asked now and then, even while a process is busy.
        """
        self.add(jobs)
        with self._more:
            self._all_given = True
            self._more.notify_all()
        working = len(self._threads)
        while working and self._done.empty() and not stopped() and (small := self._take_small()):
            yield self._here(small[0])
        while working and not stopped():
            try:
                answer = self._done.get(timeout=_STOP_SECONDS)
            except Empty:
                continue
            if answer is None:
                working -= 1
            else:
                self._make_room()
                yield answer[0]
        if working:
            return
        for job in self._jobs:  # There are no processes at all.
            yield self._here(job)

    def _make_room(self) -> None:
        """An answer was taken: there is room for another, unless more waited than shall from now on."""
        if self._surplus > 0:
            self._surplus -= 1
        else:
            self._room.release()

    def _serve(self, process: WorkerProcess) -> None:
        """The thread that gives one process its jobs, while there is room for answers.

        The process has its next job before it has answered the last: it need not wait for this thread, which waits for
        others.
        """
        given: deque[JobT] = deque()
        try:
            while True:
                if len(given) < _IN_HAND and (taken := self._take(wait=not given)):
                    given.append(taken[0])
                    with suppress(WorkerGone):  # It does not answer, either.
                        process.send(taken[0])
                elif given:
                    answer = self._answer(process, given.popleft())
                    if answer is not None:
                        self._done.put(answer)
                else:
                    return
        finally:
            # Whoever else waits for room need not any more.
            self._room.release()
            self._done.put(None)

    def _take(self, *, wait: bool) -> tuple[JobT] | None:
        """The next job, if there is one and room for its answer. Unless told to `wait`, as things stand."""
        if not self._room.acquire(blocking=wait):
            return None
        with self._more:
            if wait:
                self._more.wait_for(lambda: self._jobs or self._all_given or self._left)
            if self._jobs and not self._left:
                return (self._jobs.popleft(),)
        self._room.release()
        return None

    def _take_small(self) -> tuple[JobT] | None:
        """The last job, unless doing it would keep all threads of this process waiting."""
        with self._more:
            if self._jobs and self._small(self._jobs[-1]):
                return (self._jobs.pop(),)
        return None

    def _answer(self, process: WorkerProcess, job: JobT) -> tuple[T] | None:
        """The answer to a job, from the process or from here; None if nobody waits for it any more."""
        if self._left:
            return None
        if not process.ended:
            try:
                return (self._decode(process.receive()),)
            except Exception as error:  # noqa: BLE001 - what came is no answer, in whichever way
                if self._left:
                    return None
                logger.warning("a worker process ended before its time: %r", error)
            process.kill()
            process.end()
        return (self._here(job),)
