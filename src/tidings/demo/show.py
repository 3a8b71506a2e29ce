"""The demo from start to end.

The page is served first, while the servers start as processes of their own. Once they listen, the inspector connects to
them and subscribes to a few resources, and the steps of the tour can be done. At the end the processes are stopped and
the folder is removed, even after `kill -9` of this process (see `servers.py` and `sample.py`).
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.demo.sample import PLAN_URI, StageFailed, temporary_folder
from tidings.demo.stage import Stage
from tidings.demo.terminal import HELP, TerminalTour, read_lines
from tidings.demo.tour import Tour, snippets, steps
from tidings.inspector.catalog import ServerEntry
from tidings.inspector.http.gate import Key
from tidings.inspector.http.serve import ServePlan, Serving

if TYPE_CHECKING:
    from tidings.inspector.session import Session


@dataclass(frozen=True)
class DemoOptions:
    """The options of one run."""

    listening: socket.socket  # The socket on which the page is served
    key: Key
    say: Callable[[str], object]
    automatic: bool = False  # Do all steps, one after the other, and end
    typed: bool = False  # Read commands from the terminal
    seconds: float | None = None  # End after this time, whatever happens


async def show(options: DemoOptions) -> int:
    """Runs the demo, cleans up, and returns the exit code. Raises `StageFailed` if it cannot be shown."""
    with _ending() as asked:
        with temporary_folder() as folder:
            code = await Demo(folder, options, asked).run()
        if folder.exists():
            options.say(f"Not all of {folder} could be removed.")
        return code


@contextlib.contextmanager
def _ending() -> Generator[asyncio.Event]:
    """Yields an event that Ctrl-C, SIGTERM and the end of the terminal set, so that everything ends in order."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    with contextlib.suppress(NotImplementedError):  # On Windows, KeyboardInterrupt cancels this.
        for number in numbers:
            loop.add_signal_handler(number, asked.set)
    yield asked
    with contextlib.suppress(NotImplementedError):
        for number in numbers:
            loop.remove_signal_handler(number)


class Demo:
    """One run. It is the guide of its inspector; see `tidings.inspector.http.context.Guide`."""

    def __init__(self, folder: Path, options: DemoOptions, asked: asyncio.Event) -> None:
        self._options = options
        self._asked = asked
        self._terminal = TerminalTour(self._say)
        self.tour = Tour(on_seen=self._terminal.seen)
        self._stage = Stage(folder, on_ended=self.tour.server_ended, on_served=self.tour.server_listens)
        self._failure: BaseException | None = None
        self._work: set[asyncio.Task[None]] = set()
        entries = tuple(ServerEntry(name, url=url) for name, url in self._stage.urls.items())
        # The servers are still starting when the page is served: connecting at once would fail.
        plan = ServePlan(entries, connect=False, environ=os.environ, guide=self)
        self._serving = Serving(options.listening, options.key, plan)

    async def run(self) -> int:
        """Runs the demo and returns the exit code. Raises `StageFailed` if a server cannot be started or used."""
        stage = self._stage
        await asyncio.to_thread(stage.sample.write)
        async with stage.site.served():
            self.tour.set_steps(steps(stage.sample.plan, stage.site.page), snippets(stage.urls["vault"], PLAN_URI))
            await self._run_until_asked()
        if self._failure is not None:
            raise self._failure
        return 0 if self.tour.complete or not self._options.automatic else 1

    async def _run_until_asked(self) -> None:
        self._start(self._stage.vault.run())
        self._start(self._stage.web.run())
        self._start(self._begun())
        serving = asyncio.create_task(self._serving.run(signals=False), name="the inspector")
        serving.add_done_callback(self._ended)
        asked = asyncio.create_task(self._asked.wait())
        self._terminal.steps(self.tour)
        if self._options.typed:
            self._say(f"\n{HELP}")
            read_lines(self._typed)
        self._say("")
        try:
            await asyncio.wait((serving, asked), timeout=self._options.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:  # All at the same time: this takes no longer than the slowest.
            self._serving.stop()
            for task in (asked, *self._work):
                task.cancel()
            await asyncio.gather(serving, asked, *self._work, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # Nothing can be shown without it: a failure of one part ends the demo.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._asked.set()

    async def _begun(self) -> None:
        """Waits for the inspector's session. Raises `RuntimeError` if it cannot be started."""
        inspector = self._serving.inspector
        while inspector.failure is None and inspector.running is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.1)
        if inspector.failure:
            raise RuntimeError(f"The inspector's session could not be started: {inspector.failure.get('message')}")

    def begin(self, session: "Session", changed: Callable[[], object]) -> None:
        self.tour.listen(changed)
        self._start(self._open(session))

    def facts(self) -> dict[str, Any]:
        return self.tour.facts()

    def do(self, step: str) -> bool:
        return self.tour.do(step)

    async def _open(self, session: "Session") -> None:
        actions = {name: partial(self._act, action) for name, action in self._stage.actions(session).items()}
        session.listen(lambda record: self._terminal.hear(record, session.view))
        session.listen(lambda record: self.tour.hear(record, session.view))
        self._start(self._stage.live())
        await self._stage.connect(session, lambda server, source: self.tour.open(server, source, actions))
        if self._options.automatic:
            await self._do_all()

    def _act(self, action: Callable[[], object]) -> None:
        try:
            action()
        except StageFailed as error:  # A full disk ends the demo.
            self._fail(error)

    async def _do_all(self) -> None:
        for progress in self.tour.progress.values():
            self._terminal.announce(progress)
            self.tour.do(progress.step.name)
            if await self.tour.wait(progress.step.name) is None:
                self._say(f"✗ {progress.step.title}: no effect was seen.")
        self._terminal.last(self.tour)
        self._asked.set()

    def _typed(self, line: str | None) -> None:
        if line is None or not self._terminal.typed(line, self.tour):
            self._asked.set()

    def _say(self, text: str) -> None:
        try:
            self._options.say(text)
        except OSError:  # Nobody reads it any more.
            self._asked.set()
