"""Child processes that answer jobs within a deadline and a memory limit. `worker` is the child's side.

A `WorkerPool` takes one job at a time, for asyncio; a `BulkPool` many, for a thread. `multiprocessing` would run the
`__main__` of the program that uses this. Should this process die, the input of the children ends, and they with it.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from queue import Empty, Full, Queue
from typing import IO, TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar, cast

from tidings._kit.worker import LEFT, WorkerLimits, framed, read_answer, read_frame, worker_command

if TYPE_CHECKING:
    import asyncio

if sys.platform == "linux":
    import fcntl

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
JobT = TypeVar("JobT")

_MOST: Final = 4
_PIPE: Final = 2**20  # Bytes of answers that may lie in a pipe: a process goes on while nobody has time to take them
_START_SECONDS: Final = 60.0
_TRIES: Final = 3  # Processes that a job is given to if each leaves in that moment
_IN_HAND: Final = 2  # Jobs that a process has at a time
_AHEAD: Final = 10  # Answers of each process that may wait to be taken, while a batch of them is used
_STOP_SECONDS: Final = 0.1  # Seconds between two questions whether to stop, while a process works

Kind = Literal["start", "busy", "timeout", "crash", "stopped"]


class WorkerGone(Exception):
    """The process ended, or sent something that is not an answer."""


class JobNotTaken(WorkerGone):
    """The process ended before it had the job, so that another one can do it."""


class WorkerFailed(Exception):
    """A job was not answered: no process started ("start"), all were busy for too long ("busy"), it took too long
    ("timeout"), the process ended under it ("crash"), or the pool was left ("stopped"). The text has the details.
    """

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind


def cores() -> int:
    """Returns how many cores this process may use; 0 where the interpreter is not a program that can be started."""
    if getattr(sys, "frozen", False) or not sys.executable:
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(jobs: int) -> int:
    """Returns how many processes to start: one a core, and not more than 4, or than there are jobs."""
    return min(_MOST, cores(), jobs)


class WorkerProcess:
    """One child process, used by one thread at a time; any thread may kill it. `quiet`: without its standard error."""

    def __init__(self, command: Sequence[str], *, quiet: bool = False) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - a program of ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            bufsize=_PIPE,
        )
        self._jobs = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        if sys.platform == "linux":
            with suppress(OSError):  # The user has no more room for pipes.
                fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE)
        self._is_ready = False
        self._is_silent = False
        self._ending = threading.Lock()
        self.pid = self._process.pid
        self.ended = False
        self.last = False  # True once it has said that it ends

    @property
    def usable(self) -> bool:
        return not self.ended and not self.last and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Waits until it has started. `receive` does so by itself. Raises `WorkerGone` if it ended before."""
        if not self._is_ready:
            self._frame()
            self._is_ready = True

    def send(self, job: object) -> None:
        """Gives it a job. It may have several, and answers them in order. Raises `WorkerGone` if it has ended."""
        try:
            self._jobs.write(framed(pickle.dumps(job, pickle.HIGHEST_PROTOCOL)))
            self._jobs.flush()
        except (OSError, ValueError) as error:
            self._is_silent = True
            raise JobNotTaken(f"it takes no jobs: {error}") from error

    def receive(self) -> bytes:
        """Waits for the next answer, and returns it. Raises `WorkerGone` if it ended before."""
        self.wait_until_ready()
        frame = self._frame()
        try:
            content, self.last = read_answer(frame)
        except ValueError as error:
            raise WorkerGone(str(error)) from error
        return content

    def kill(self) -> None:
        """Ends it at once, whatever it does: who waits for it gets `WorkerGone`."""
        with suppress(OSError):
            self._process.kill()

    def end(self) -> int:
        """Ends it, leaves nothing of it behind, and returns its exit code. Twice is once."""
        with self._ending:
            if not self.ended:
                self.ended = True
                if self._is_silent:
                    # It is about to end by itself. To kill it in that moment would lose its exit code.
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(1.0)
                self.kill()
                self._process.wait()
                for pipe in (self._jobs, self._answers):
                    with suppress(OSError):  # Something was still to be written.
                        pipe.close()
            return self._process.wait()

    def _frame(self) -> bytes:
        try:
            return read_frame(cast("Any", self._answers))
        except EOFError:
            self._is_silent = True
            raise WorkerGone("it ended") from None
        except (OSError, ValueError) as error:
            raise WorkerGone(str(error)) from error


@dataclass(eq=False, repr=False)
class WorkerPool(Generic[T]):
    """Processes that answer one job at a time, for asyncio, from entering this until leaving it.

    A process is started when none is free, and kept. One that takes too long or breaks down, or whose job is cancelled,
    is ended. `function` ("module:function") answers a job with bytes, in the child; `decode` makes the result of them,
    in a thread, and raises `ValueError` if the process is broken. A job may `wait` so many seconds for one of the at
    most `count` processes, and `limits.seconds` is its deadline from then on. `command` is for tests.
    """

    function: str
    decode: Callable[[bytes], T]
    _: KW_ONLY
    count: int = 0  # By default as many as `processes_for` says
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    wait: float = 60.0
    command: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.count = self.count or max(1, processes_for(_MOST))
        self._command = tuple(self.command or worker_command(self.function, self.limits))
        self._turns: asyncio.Semaphore | None = None  # None: not entered yet, or left
        self._free: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()

    async def __aenter__(self) -> Self:
        import asyncio  # noqa: PLC0415 - takes long, and a bulk pool does without

        self._turns = asyncio.Semaphore(self.count)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turns = None
        self._free.clear()
        for process in tuple(self._all):
            process.kill()
        for process in tuple(self._all):
            await self._end(process)

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in self._all if process.usable)

    async def ask(self, job: object) -> T:
        """Returns the answer to a job. Raises `WorkerFailed` if there is none."""
        async with self._turn():
            for again in range(_TRIES, 0, -1):
                process = await self._process()
                try:
                    answer = await self._run(process, lambda p=process: self._answer(p, job), self.limits.seconds)
                except TimeoutError:
                    raise WorkerFailed("timeout", f"it took longer than {self.limits.seconds:g} s") from None
                except WorkerGone as error:
                    code = await self._end(process)
                    # It was idle for long and left in this moment, or somebody killed it before it had the job.
                    untouched = code == LEFT or isinstance(error, JobNotTaken)
                    if untouched and again > 1 and not self._is_left():
                        continue
                    raise self._crashed(code) from error
                if process.usable and not self._is_left():
                    self._free.append(process)
                else:
                    await self._end(process)
                return answer
        raise AssertionError("the last try returns or raises")  # pragma: no cover

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        import asyncio  # noqa: PLC0415 - see `__aenter__`

        turns = self._turns
        if turns is None:
            raise RuntimeError("enter the pool first: async with WorkerPool(...) as pool")
        try:
            async with asyncio.timeout(self.wait):
                await turns.acquire()
        except TimeoutError:
            raise WorkerFailed("busy", f"all {self.count} processes were busy for {self.wait:g} s") from None
        try:
            yield
        finally:
            turns.release()

    async def _process(self) -> WorkerProcess:
        """Returns a process that is free, or a new one. Clears away those that have ended meanwhile."""
        while self._free:
            process = self._free.pop()
            if process.usable:
                return process
            await self._end(process)
        if self._is_left():
            raise self._crashed(0)
        try:
            process = WorkerProcess(self._command, quiet=True)
        except OSError as error:
            raise WorkerFailed("start", f"no process can be started: {error}") from error
        self._all.add(process)
        try:
            await self._run(process, process.wait_until_ready, _START_SECONDS)
        except (WorkerGone, TimeoutError) as error:
            code = await self._end(process)
            if self._is_left():  # Left while it started.
                raise self._crashed(code) from error
            raise WorkerFailed("start", f"a process did not start; run {' '.join(self._command)}") from error
        if self._is_left():
            raise self._crashed(await self._end(process))
        return process

    def _answer(self, process: WorkerProcess, job: object) -> T:
        process.send(job)
        try:
            return self.decode(process.receive())
        except ValueError as error:
            raise WorkerGone(f"not an answer: {error}") from error

    async def _run(self, process: WorkerProcess, work: Callable[[], R], seconds: float | None) -> R:
        """Returns the result of `work` in a thread. Ends the process if that takes too long, or is cancelled."""
        import asyncio  # noqa: PLC0415 - see `__aenter__`

        future = _in_thread(work)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(future)
        except WorkerGone:
            raise
        except BaseException:
            future.cancel()  # Nobody waits for it any more: the loop may be closed before the thread ends.
            process.kill()
            await self._end(process)
            raise

    async def _end(self, process: WorkerProcess) -> int:
        """Ends a process, even if this task is cancelled meanwhile."""
        from tidings._kit.tasks import run_to_end  # noqa: PLC0415 - it imports asyncio: see `__aenter__`

        try:
            return await run_to_end(_in_thread(process.end))
        finally:
            self._all.discard(process)

    def _is_left(self) -> bool:
        return self._turns is None

    def _crashed(self, code: int) -> WorkerFailed:
        if self._is_left():
            return WorkerFailed("stopped", "the pool was left")
        return WorkerFailed("crash", f"signal {-code}" if code < 0 else f"exit code {code}")


def _in_thread(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Runs `work` in a thread of its own, which does not keep the program from ending."""
    import asyncio  # noqa: PLC0415 - see `WorkerPool.__aenter__`
    from concurrent.futures import Future  # noqa: PLC0415

    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            done.set_exception(error)

    future = asyncio.wrap_future(done)
    # Nobody may be left who looks at an exception.
    future.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
    threading.Thread(target=run, name="tidings-worker", daemon=True).start()
    return future


@dataclass(eq=False, repr=False)
class BulkPool(Generic[JobT, T]):
    """Processes that answer many jobs, for a thread, from entering this until leaving it.

    Where no process can be started, or one ends before its time or breaks, its jobs are done by `here`, in this one.
    `small` says of a job whether this process may do it while the others start. `command` is for tests.
    """

    function: str
    decode: Callable[[bytes], T]
    here: Callable[[JobT], T]
    _: KW_ONLY
    count: int
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    small: Callable[[JobT], bool] = lambda _: False
    command: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self._command = tuple(self.command or worker_command(self.function, self.limits))
        self._processes: list[WorkerProcess] = []
        self._threads: list[threading.Thread] = []
        self._jobs: deque[JobT] = deque()
        self._taking = threading.Lock()
        self._done: Queue[T] = Queue(self.count * _AHEAD)
        self._left = False

    def __enter__(self) -> Self:
        try:
            for _ in range(self.count):
                self._processes.append(WorkerProcess(self._command))
        except OSError as error:
            logger.warning("not all worker processes could be started: %s", error)
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.end()

    def read(self, jobs: Iterable[JobT], stopped: Callable[[], bool] = lambda: False) -> Iterator[T]:
        """Yields the answers to all jobs as they are ready, in any order, until `stopped` is True. Read once."""
        self._jobs.extend(jobs)
        due = len(self._jobs)
        for process in self._processes:
            thread = threading.Thread(target=self._serve, args=(process,), name="tidings-bulk-worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        while self._threads and self._done.empty() and not stopped():
            with self._taking:  # The last job, unless doing it would keep all threads of this process waiting.
                small = [self._jobs.pop()] if self._jobs and self.small(self._jobs[-1]) else []
            if not small:
                break
            yield self.here(small[0])
            due -= 1
        while due and self._threads and not stopped():
            try:
                answer = self._done.get(timeout=_STOP_SECONDS)
            except Empty:
                if not any(thread.is_alive() for thread in self._threads):
                    return  # What they did here failed.
            else:
                yield answer
                due -= 1
        if not self._threads:
            yield from map(self.here, self._jobs)  # There are no processes at all.

    def _serve(self, process: WorkerProcess) -> None:
        """Gives one process its jobs, in a thread, the next one before it has answered the last: it never waits."""
        given: deque[JobT] = deque()
        while not self._left:
            with self._taking:
                taken = [self._jobs.popleft()] if self._jobs and len(given) < _IN_HAND else []
            given.extend(taken)
            for job in taken:
                with suppress(WorkerGone):  # It does not answer, either.
                    process.send(job)
            if not given:
                return
            if len(given) == _IN_HAND or not taken:
                answer = self._answer(process, given.popleft())
                while answer is not None and not self._left:
                    with suppress(Full):
                        self._done.put(answer[0], timeout=_STOP_SECONDS)
                        break

    def _answer(self, process: WorkerProcess, job: JobT) -> tuple[T] | None:
        """The answer to a job, from the process or from here; None if nobody waits for it any more."""
        if self._left:
            return None
        if not process.ended:
            try:
                return (self.decode(process.receive()),)
            except Exception as error:  # noqa: BLE001 - what came is no answer, in whichever way
                if self._left:
                    return None
                logger.warning("a worker process ended before its time: %r", error)
            process.kill()
            process.end()
        return (self.here(job),)
