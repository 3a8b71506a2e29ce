"""A process that reads bodies for another: `python -m tidings.web.extract.worker MEMORY SECONDS JOBS IDLE`.

It says when it is ready, takes pickled jobs from its standard input and answers each on its standard output. It ends
when its input does, in the midst of a job too: that is what happens when the other process ends, however it ends. It
also ends by itself: after so many jobs, after so many idle seconds, when it has grown, and when a job takes longer than
it may and nobody is left to end it.

Imports nothing but `extract`: a process is small, and starts quickly.
"""

import faulthandler
import gc
import os
import pickle
import signal
import sys
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import BinaryIO

from tidings.web.extract.dispatch import Extracted, ExtractOptions, Unsupported, extract
from tidings.web.extract.frames import LEFT, Failure, framed, read_frame, written_answer
from tidings.web.extract.html import choose, read
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.model import ExtractionFailed

READY = b"ready"
_GRACE = 10.0
"""Seconds beyond a job's time after which a worker ends itself: the server should have done it long ago."""

Job = tuple[bytes, str, str, ExtractOptions]


def answered(job: Job) -> Extracted | Failure:
    """What comes of a job, whatever it is."""
    body, content_type, url, options = job
    try:
        return extract(body, content_type, url, options)
    except (Unsupported, ExtractionFailed, BadSelector) as error:
        return error
    except MemoryError:
        return ExtractionFailed("memory", "Reading it takes more memory than is allowed: ask for it as raw.")
    except RecursionError:
        return ExtractionFailed("bomb", "It is nested too deep to be read: ask for it as raw.")
    except Exception as error:  # noqa: BLE001 - a stranger wrote it: whatever it breaks is its own fault
        kind = content_type.partition(";")[0].strip() or "a body without a type"
        return ExtractionFailed("broken", f"It cannot be read as {kind} ({type(error).__name__}): ask for it as raw.")


def work(jobs: "SimpleQueue[Job]", target: BinaryIO, *, memory: int, seconds: float, count: int, idle: float) -> int:
    """Answer jobs until it is time to end; returns what to end with."""
    target.write(framed(READY))
    target.flush()
    for number in range(1, count + 1):
        try:
            job = jobs.get(timeout=idle)
        except Empty:
            return LEFT
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
            # Not a thread of Python: it ends a process that is caught in C as well.
            faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=nowhere)
            outcome = answered(job)
            faulthandler.cancel_dump_traceback_later()
        del job
        last = (
            number == count
            or _has_grown(memory)
            or (isinstance(outcome, ExtractionFailed) and outcome.kind == "memory")
        )
        target.write(framed(written_answer(outcome, last=last)))
        target.flush()
        if last:
            break
        del outcome
        gc.collect(1)
    return 0


def limit(memory: int) -> None:
    """Let the process have no more than `memory` bytes, where the system can see to that, and leave no dump of them."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _has_grown(memory: int) -> bool:
    """Whether it uses half of its memory: what was freed is seldom given back.

    Not by the most that it ever had: Linux counts in that what the process had that started this one.
    """
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - for each job
            pages = int(file.read().split()[1])
    except OSError:  # Elsewhere the memory is not limited, either.
        return False
    return pages * os.sysconf("SC_PAGE_SIZE") > memory // 2


def _receive(source: BinaryIO, jobs: "SimpleQueue[Job]") -> None:
    try:
        while True:
            jobs.put(pickle.loads(read_frame(source)))  # noqa: S301 - from the process that started this one
    finally:
        # Nobody waits for an answer any more.
        os._exit(0)


def main(arguments: list[str]) -> None:
    """Work until the input ends, or until it is time."""
    # An interrupt at the terminal is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    memory, count = int(arguments[0]), int(arguments[2])
    seconds, idle = float(arguments[1]), float(arguments[3])
    answers = os.dup(1)
    # Whatever prints something must not print it into an answer.
    os.dup2(2, 1)
    # Warm before the first job: the model that pages are read with is most of a start.
    choose.model()
    read.read_html(b"<p>ready</p>", None, "", ExtractOptions())
    limit(memory)
    jobs: SimpleQueue[Job] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()
    code = 0
    with suppress(BrokenPipeError), os.fdopen(answers, "wb") as target:
        code = work(jobs, target, memory=memory, seconds=seconds, count=count, idle=idle)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
