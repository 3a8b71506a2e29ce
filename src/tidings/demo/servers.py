"""A server process that is restarted when it ends, and ends with its parent.

`python -m tidings.demo.servers MODULE ARGUMENT…` runs a module until its standard input ends. The parent holds the
other end, which closes when it ends, even by `kill -9`: so nothing of a demo outlives it.
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
from dataclasses import KW_ONLY, dataclass
from typing import Final

from tidings._kit.program import Program
from tidings.demo.sample import StageFailed

AWAY_SECONDS: Final = 2.0  # From the end of a server to its restart: long enough to be seen


@dataclass(eq=False)
class ServerProcess:
    """One server, from `run` until that is cancelled.

    `arguments` are those of `tidings` that start it. Settings in the environment do not apply: they are for the user's
    own servers. It must print `Serving …` to standard error once it listens. `ended` is called each time it has ended
    and will be restarted, and `serves` with its process id each time it listens.
    """

    name: str
    arguments: list[str]
    _: KW_ONLY
    ended: Callable[[], object] = lambda: None
    serves: Callable[[int], object] = lambda _: None

    def __post_init__(self) -> None:
        self._program: Program | None = None
        self._serving = asyncio.Event()
        self._output: deque[str] = deque(maxlen=12)
        self.serving = self._serving.wait

    @property
    def pid(self) -> int | None:
        return None if self._program is None or self._program.returncode is not None else self._program.pid

    def kill(self) -> None:
        """Kills it as a crash would, with `kill -9`."""
        if self.pid is not None:
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    async def run(self) -> None:
        """Keeps it running. Raises `StageFailed` after several failed starts in a row."""
        failed = 0
        while True:
            await self._once()
            failed = 0 if self._serving.is_set() else failed + 1
            self._serving.clear()
            if failed == 3:
                output = "\n".join(f"  {line}" for line in self._output) or "  (none)"
                raise StageFailed(f"The {self.name} server could not be started. Its error output:\n{output}")
            if not failed:
                self.ended()
            await asyncio.sleep(AWAY_SECONDS if not failed else 0.2)

    async def _once(self) -> None:
        words = (sys.executable, "-P", "-m", "tidings.demo.servers", "tidings", *self.arguments)
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
        # In a session of its own: Ctrl-C in the terminal goes to the demo alone.
        self._program = program = await Program.start(words, env, grace=0.9)
        listening = asyncio.create_task(self._listen(program), name=f"error output of the {self.name} server")
        try:
            await program.exited.wait()
            # Its last output is still to be read; but one of its own processes may hold the other end for a while.
            await asyncio.wait((listening,), timeout=0.1)
        finally:
            listening.cancel()
            await program.stop()

    async def _listen(self, program: Program) -> None:
        async for line in program.stderr:
            text = line.decode(errors="replace").rstrip()
            self._output.append(text)
            if text.startswith("Serving "):
                self._serving.set()
                self.serves(program.pid)


def main() -> None:
    """Runs the module that the arguments name."""

    def end_with_parent() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=end_with_parent, name="parent watch", daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
