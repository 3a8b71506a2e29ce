"""The child of every pool, and the frames between the two: `python -m tidings._kit.worker MODULE:FUNCTION LIMITS`.

Jobs come pickled, because the parent is trusted. Answers of foreign data should be JSON, which runs nothing when read.
The process ends when its input does, even during a job: it never outlives its parent.
"""

import faulthandler
import gc
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final

LEFT: Final = 75
"""The exit code of a process that was idle for too long. It has not looked at what it was sent meanwhile."""
HEAD: Final = 8  # Bytes of the length at the beginning of a frame
LARGEST: Final = 256 * 2**20  # Bytes of the largest frame

_GRACE: Final = 10.0
"""Seconds beyond a job's time after which the process ends itself: the parent should have done it long ago."""


@dataclass(frozen=True)
class WorkerLimits:
    """The limits and the setup of a child process."""

    seconds: float | None = None  # Seconds that a job may take
    memory: int | None = None
    """Bytes that the process may have, where the system can see to that (Linux). It also ends, after a job, when it
    has grown to half of them: freed memory is seldom given back."""
    jobs: int | None = None  # The process ends after so many jobs
    idle: float | None = None  # It ends after so many idle seconds, with the exit code `LEFT`
    nice: int = 0  # By how much its priority is lowered
    collect: bool = True  # Let Python look for cyclic garbage. Off, work that makes none is quicker.
    warm_up: str | None = None
    """A function to call before the first job, `module:function`: for what makes the first job slow."""


class LastAnswer(bytes):
    """An answer after which the process ends, because the job has used it up."""

    __slots__ = ()


def worker_command(function: str, limits: WorkerLimits) -> tuple[str, ...]:
    """Returns the command that starts a child for `function` ("module:function")."""
    # -P: nothing is imported from the current folder, which may hold files of strangers.
    return (sys.executable, "-P", "-m", "tidings._kit.worker", function, json.dumps(asdict(limits)))


def framed(content: bytes) -> bytes:
    """Returns `content` behind its length."""
    return len(content).to_bytes(HEAD, "big") + content


def read_frame(source: BinaryIO) -> bytes:
    """Returns the content of the next frame. Raises `EOFError` if the file ends, `ValueError` if it is too large."""
    head = source.read(HEAD)
    if len(head) < HEAD:
        raise EOFError
    size = int.from_bytes(head, "big")
    if size > LARGEST:
        raise ValueError(f"a frame of {size:,} bytes")
    content = source.read(size)
    if len(content) < size:
        raise EOFError
    return content


def read_answer(frame: bytes) -> tuple[bytes, bool]:
    """Returns the content of an answer, and whether the process ends with it. Raises `ValueError` if it is none."""
    if frame[:1] not in (b"\0", b"\1"):
        raise ValueError("not an answer")
    return frame[1:], frame[:1] == b"\1"


def work(
    jobs: "SimpleQueue[Any]", target: BinaryIO, answer: Callable[[Any], bytes], limits: WorkerLimits | None = None
) -> int:
    """Answers jobs until a limit is reached, and returns the exit code."""
    limits = limits or WorkerLimits()
    target.write(framed(b"ready"))
    target.flush()
    number = 0
    while True:
        try:
            job = jobs.get(timeout=limits.idle)
        except Empty:
            return LEFT
        number += 1
        content = _answer_in_time(answer, job, limits.seconds)
        del job
        last = number == limits.jobs or isinstance(content, LastAnswer) or _has_grown(limits.memory)
        target.write(framed((b"\1" if last else b"\0") + content))
        target.flush()
        if last:
            return 0
        del content
        if limits.collect:
            gc.collect(1)


def _answer_in_time(answer: Callable[[Any], bytes], job: Any, seconds: float | None) -> bytes:
    if seconds is None:
        return answer(job)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
        # Not a thread of Python: it ends a process that is caught in C as well.
        faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=nowhere)
        try:
            return answer(job)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _has_grown(memory: int | None) -> bool:
    # Not by the most that it ever had: Linux counts in that what the process had that started this one.
    if memory is None:
        return False
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - for each job
            pages = int(file.read().split()[1])
    except OSError:  # Elsewhere the memory is not limited, either.
        return False
    return pages * os.sysconf("SC_PAGE_SIZE") > memory // 2


def _receive(source: BinaryIO, jobs: "SimpleQueue[Any]") -> None:
    try:
        while True:
            jobs.put(pickle.loads(read_frame(source)))  # noqa: S301 - from the process that started this one
    finally:
        # Nobody waits for an answer any more.
        os._exit(0)


def _named(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


def main(arguments: list[str]) -> None:
    """Works until the input ends, or until a limit is reached."""
    # An interrupt at the terminal is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer, limits = _named(arguments[0]), WorkerLimits(**json.loads(arguments[1]))
    if not limits.collect:
        gc.disable()
    if limits.nice and hasattr(os, "nice"):
        os.nice(limits.nice)
    answers = os.dup(1)
    # Whatever prints something must not print it into an answer.
    os.dup2(2, 1)
    if limits.warm_up is not None:
        _named(limits.warm_up)()
    if limits.memory is not None:
        with suppress(ImportError, OSError, ValueError):
            import resource  # noqa: PLC0415 - not on Windows

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # No dump of what strangers wrote.
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    jobs: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()
    code = 1
    try:
        with suppress(BrokenPipeError), os.fdopen(answers, "wb") as target:
            code = work(jobs, target, answer, limits)
    except Exception:  # noqa: BLE001 - the end of the process is what says it
        traceback.print_exc()
    os._exit(code)


if __name__ == "__main__":
    # By its own name: the function's module imports `LastAnswer` from there, too.
    _named("tidings._kit.worker:main")(sys.argv[1:])
