"""A process that has everything imported, and forks the others of a chaos run: so that one starts in no time.

It reads orders from its standard input, one JSON object a line: {"start": kind, ...options} forks a child and answers
with its pid; {"kill": pid} kills one, with -9, and waits until it is gone. When its input ends it kills all of them.
"""

import gc
import json
import os
import signal
import sys
from typing import Any

from tests.chaos import listeners, replicas

KINDS = {
    "replica": replicas.run,
    "stock-replica": replicas.run_stock,
    "listeners": listeners.run,
    "stock-listeners": listeners.run_stock,
}


def main() -> None:
    gc.freeze()  # What is there already is garbage in no child.
    children: set[int] = set()
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if (pid := order.pop("kill", None)) is not None:
            _kill(pid)
            children.discard(pid)
            answer = pid
        else:
            answer = _fork(order.pop("start"), order)
            children.add(answer)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in children:
        _kill(pid)


def _fork(kind: str, options: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    # What the driver says is for the parent alone; a child that fails says so on the standard error.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    try:
        KINDS[kind](**options)
    finally:
        os._exit(1)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
