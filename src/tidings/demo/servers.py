"""A server as a process of its own, which is started again when it ends.

Runs a module as long as whoever started it lives: `python -m tidings.demo.servers MODULE ARGUMENT…`.

Standard input is the tether. Its other end is held by the process that started this one, and is let go when that
process ends, even by `kill -9`: so nothing of a demo outlives it.
"""

import asyncio
import os
import runpy
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

AWAY_SECONDS: Final = 2.0
"""From the end of a server to its next start: long enough to be seen."""
_GRACE: Final = 0.9
"""For a server to end by itself."""
_VAIN: Final = 3
"""Starts in a row of a server that never came to serve, after which there is no point in another."""


class NeverServed(Exception):
    """A server could not be started. Says what it said."""


class ServerProcess:
    """One server, from `run` until that is cancelled.

    Args:
        name: What it is called.
        arguments: Those of `tidings` that start it, which alone say how it runs: its settings in the environment are
            for the user's own servers. It has to say `Serving …` on its error output once it listens.
        ended: Called each time it has ended and will be started again.
        serves: Called each time it listens, with its process.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        *,
        ended: Callable[[], object] = lambda: None,
        serves: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.name = name
        self._arguments = arguments
        self._ended = ended
        self._serves = serves
        self._process: asyncio.subprocess.Process | None = None
        self._serving = asyncio.Event()
        self._said: deque[str] = deque(maxlen=12)

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def serving(self) -> None:
        """Wait until it listens."""
        await self._serving.wait()

    def kill(self) -> bool:
        """End it as a crash would: `kill -9`. False if it does not run."""
        if self.pid is None:
            return False
        os.kill(self.pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        return True

    async def run(self) -> None:
        """Keep it running.

        Raises:
            NeverServed: There is no point in it.
        """
        vain = 0
        try:
            while True:
                await self._once()
                vain = 0 if self._serving.is_set() else vain + 1
                self._serving.clear()
                if vain == _VAIN:
                    said = "\n".join(f"  {line}" for line in self._said) or "  (it said nothing)"
                    raise NeverServed(f"The {self.name} server could not be started. It said:\n{said}")
                if not vain:
                    self._ended()
                await asyncio.sleep(AWAY_SECONDS if not vain else 0.2)
        finally:
            await self._stop()

    async def _once(self) -> None:
        """Start it, and wait for its end."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "tidings.demo.servers", "tidings", *self._arguments,
            stdin=asyncio.subprocess.PIPE,  # The tether: this process holds the other end.
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")},
            start_new_session=True,  # Ctrl-C in the terminal is for the demo, which then ends everything in order.
        )  # fmt: skip
        listening = asyncio.create_task(self._listen(process), name=f"what the {self.name} server says")
        try:
            await process.wait()
            # What it said last is still to be read; but a process of its own may hold the other end for a while.
            await asyncio.wait((listening,), timeout=0.1)
        finally:
            listening.cancel()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        async for line in cast("asyncio.StreamReader", process.stderr):
            text = line.decode(errors="replace").rstrip()
            self._said.append(text)
            if text.startswith("Serving "):
                self._serving.set()
                self._serves(process.pid)

    async def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await process.wait()
        if hasattr(os, "killpg"):
            # What it started itself, if that is still there.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
        await process.wait()


_PARENT_GRACE: Final = 1.0


def main() -> None:
    """Run what the arguments name."""
    threading.Thread(target=_hold, name="tether", daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _hold() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PARENT_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
