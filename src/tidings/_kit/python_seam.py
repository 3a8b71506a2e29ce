"""Everything of Python's and AnyIO's own that is not public API: a process that ends without what still runs in it.

A thread cannot be ended from outside. `asyncio.run` waits for every task and for the threads of its executor, and the
interpreter for every thread that is not a daemon: a tool that sleeps for a minute would keep the process for as long.

| what is not waited for | the private name |
|---|---|
| a busy thread of AnyIO's | `loop` and `queue` of its worker threads |
| a thread of the event loop's executor | `_default_executor` of the loop (uvloop's has no name), `_threads`, \
  `_threads_queues` |
| either of them, by the interpreter | `threading._shutdown_locks`; from Python 3.13 on, `threading._thread_shutdown` |
| a task that ignores its cancellation | `asyncio.tasks._unregister_task`, which is documented for other task classes |

Without a name, the process waits. `tests/_kit/test_python_seam.py` pins each of them.
"""

# ruff: noqa: SLF001 - see above

import asyncio
import gc
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, thread
from contextlib import suppress
from typing import Any

_left: set[threading.Thread] = set()


def leave_tasks(tasks: Iterable["asyncio.Future[Any]"]) -> None:
    """Lets the running event loop end without these tasks, which go on until then."""
    with suppress(AttributeError, KeyError):
        for task in tasks:
            vars(asyncio.tasks)["_unregister_task"](task)
            setattr(task, "_log_destroy_pending", False)  # noqa: B010 - unknown to type checkers


def leave_threads() -> None:
    """Lets the running event loop, and then the process, end without the worker threads that are busy now."""
    with suppress(AttributeError, KeyError):
        for worker in _busy_workers(asyncio.get_running_loop()):
            _left.add(worker)
            vars(thread)["_threads_queues"].pop(worker, None)
            if sys.version_info < (3, 13):
                vars(threading)["_shutdown_locks"].discard(worker._tstate_lock)
        if sys.version_info >= (3, 13):
            vars(threading)["_thread_shutdown"] = _join_others


def _join_others() -> None:
    """Waits for the threads for which the interpreter waits, without those that were left behind."""
    here = threading.current_thread()
    while others := [each for each in threading.enumerate() if not (each.daemon or each in _left or each is here)]:
        others[0].join()


def _busy_workers(loop: Any) -> list[Any]:
    threads: list[Any] = threading.enumerate()
    busy = [each for each in threads if getattr(each, "loop", None) is loop and each.queue.unfinished_tasks]
    # A loop of uvloop's shows its parts to the garbage collector alone.
    hidden = (each for each in gc.get_referents(loop) if isinstance(each, ThreadPoolExecutor))
    executor: Any = getattr(loop, "_default_executor", None) or next(hidden, None)
    if executor is not None:
        loop.set_default_executor(ThreadPoolExecutor())  # It starts a thread only if it is used.
        busy += executor._threads
    return busy
