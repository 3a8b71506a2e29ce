"""A process that reads and parses files for another: `python -m tidings.vault.index.worker`.

It takes pickled tasks from its standard input, and answers each with a pickled list on its standard output. It ends
when its input does, in the midst of a file too: that is what happens when the other process ends, however it ends.

May import: `scan_file`.
"""

import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import BinaryIO, Final

from tidings.vault.index.read_file import ReadTask, read_file

_NICE: Final = 10


def work(tasks: Iterable[ReadTask], target: BinaryIO) -> None:
    """Answer each task."""
    for task in tasks:
        pickle.dump([read_file(job, task.limits) for job in task.jobs], target, pickle.HIGHEST_PROTOCOL)
        target.flush()


def _receive(source: BinaryIO, tasks: "SimpleQueue[ReadTask]") -> None:
    try:
        while True:
            tasks.put(pickle.load(source))  # noqa: S301 - from the process that started this one
    finally:
        # Nobody waits for an answer any more.
        os._exit(0)


def main() -> None:
    """Work until the input ends."""
    # An interrupt at the terminal is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing that is made here refers to itself, and to look for it takes a tenth of the time.
    gc.disable()
    if hasattr(os, "nice"):
        # Whoever waits for the answers is to have its core when it stores them: that takes longer.
        os.nice(_NICE)
    answers = os.dup(1)
    # Whatever prints something must not print it into an answer.
    os.dup2(2, 1)
    tasks: SimpleQueue[ReadTask] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
    with suppress(BrokenPipeError), os.fdopen(answers, "wb") as target:
        work(iter(tasks.get, None), target)
    os._exit(0)


if __name__ == "__main__":
    main()
