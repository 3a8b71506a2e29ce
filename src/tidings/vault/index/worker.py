"""A process that reads and parses files for another: `python -m tidings.vault.index.worker`.

It takes pickled tasks from its standard input, and answers each with a pickled list on its standard output. It
ends when its input does: that is what happens when the other process ends, however it ends.

May import: `scan_file`.
"""

import gc
import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

from tidings.vault.index.scan_file import Task, read_file


def work(source: BinaryIO, target: BinaryIO) -> None:
    """Answer what comes from `source`, until it ends."""
    with suppress(EOFError):
        while True:
            task: Task = pickle.load(source)  # noqa: S301 - from the process that started this one
            pickle.dump([read_file(job, task.limits) for job in task.jobs], target, pickle.HIGHEST_PROTOCOL)
            target.flush()


def main() -> None:
    """Work until the input ends."""
    # An interrupt at the terminal is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing that is made here refers to itself, and to look for it takes a tenth of the time.
    gc.disable()
    answers = os.dup(1)
    # Whatever prints something must not print it into an answer.
    os.dup2(2, 1)
    with suppress(BrokenPipeError), os.fdopen(answers, "wb") as target:
        work(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
