"""What Tidings uses of Python and AnyIO that they do not promise to keep.

When the test fails with a new version, the table at the top of `python_seam.py` says what is lost.
"""

import subprocess
import sys
import textwrap

import pytest

WAITS = {
    "a thread of AnyIO's": "await begun(anyio.to_thread.run_sync(sleep, abandon_on_cancel=True))",
    "a thread of the event loop's": "await begun(asyncio.to_thread(sleep))",
    "a task that ignores its cancellation": "await begun(ignore())",
}
PROGRAM = """
    import asyncio, atexit, sys, threading, time
    import anyio, anyio.to_thread, uvloop
    from tidings._kit.python_seam import leave_tasks, leave_threads

    sleeping = threading.Event()

    def sleep():
        sleeping.set()
        time.sleep(60)

    async def ignore():
        sleeping.set()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

    async def begun(work):
        task = asyncio.ensure_future(work)
        while not sleeping.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        leave_tasks([] if task.done() else [task])
        leave_threads()

    async def main():
        {wait}

    atexit.register(print, "at the exit")
    {run}(main())
    print("behind it")
    sys.exit(7)
"""


@pytest.mark.parametrize("run_", ["asyncio.run", "uvloop.run"])
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_process_ends_in_good_order_without(wait: str, run_: str) -> None:
    program = textwrap.dedent(PROGRAM).format(wait=wait, run=run_)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)
    assert (run.stdout.splitlines(), run.stderr, run.returncode) == (["behind it", "at the exit"], "", 7)
