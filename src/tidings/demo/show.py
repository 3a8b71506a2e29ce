"""The demo from start to end; and its tour in a terminal: the steps, and a line for each change.

The page is served first, while the servers start as processes of their own. Once they listen, the inspector connects to
them and subscribes to a few resources, and the steps of the tour can be done. At the end the processes are stopped and
the folder is removed, even after `kill -9` of this process (see `servers.py` and `sample.py`).
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import textwrap
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tidings._kit.text import clock
from tidings.demo.sample import StageFailed, temporary_folder
from tidings.demo.stage import Stage
from tidings.demo.tour import LAST_TITLE, LAST_WORDS, Tour, TourProgress, change_of, duration, snippets, steps
from tidings.inspector.catalog import ServerEntry
from tidings.inspector.http.gate import Key
from tidings.inspector.http.serve import ServePlan, Serving
from tidings.inspector.records import Record
from tidings.inspector.view.view import SessionView

if TYPE_CHECKING:
    from tidings.inspector.session import Session

_MOST_LINES: Final = 8


class TerminalTour:
    """Prints the tour with `say`."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self._lost: set[str] = set()

    def steps(self, tour: Tour) -> None:
        for progress in tour.progress.values():
            step = progress.step
            self.say(f"  {progress.number}  {step.title:<18} {step.place}")
        self.say(f"  {len(tour.progress) + 1}  {LAST_TITLE:<18} {LAST_WORDS.rstrip(':').lower()}")

    def last(self, tour: Tour) -> None:
        self.say(f"\n{LAST_TITLE}. {LAST_WORDS}")
        for title, text in tour.snippets.items():
            self.say(f"\n  {title}:\n{textwrap.indent(text, '    ')}")
        self.say("")

    def announce(self, progress: TourProgress) -> None:
        step = progress.step
        self.say(f"\n{progress.number}  {step.title}: {step.place}")
        self.say(textwrap.fill(step.words, 100, initial_indent="   ", subsequent_indent="   "))

    def seen(self, progress: TourProgress) -> None:
        seen = progress.seen
        if seen is None:
            return
        self.say(f"{clock(seen.at, milliseconds=True)}  ✓ {progress.number} {progress.step.title}: {seen.words}")
        if seen.hops:
            hops = (hop.words + ("" if hop.ms is None else f" ({duration(hop.ms / 1000)})") for hop in seen.hops)
            self.say(f"                  {' → '.join(hops)}")
        for line in seen.lines[:_MOST_LINES]:
            self.say(f"                    {line}")
        if len(seen.lines) > _MOST_LINES:
            self.say(f"                    … {len(seen.lines) - _MOST_LINES} more")

    def hear(self, record: Record, views: SessionView) -> None:
        view = views.servers.get(record.server)
        if view is None:
            return
        if record.kind == "content":
            change = change_of(record, view)
            if change is not None and change.uri is not None:
                fresh = "" if change.fresh_in is None else f"fresh in {duration(change.fresh_in)}"
                short = re.sub(r"^(vault://(note/)?|webfetch://)", "", unquote(change.uri))
                self._print(record, f"{short:<34} {fresh}")
        elif record.kind == "state":
            state = record.data.get("state")
            if state == "connected" and record.server in self._lost:
                self._lost.discard(record.server)
                self._print(record, "is connected again")
            elif state == "error" and record.server not in self._lost:
                self._lost.add(record.server)
                self._print(record, "is lost; reconnecting")

    def _print(self, record: Record, words: str) -> None:
        self.say(f"{clock(record.at, milliseconds=True)}  {record.server:<6} {words}".rstrip())


@dataclass(frozen=True)
class DemoOptions:
    """The options of one run."""

    listening: socket.socket  # The socket on which the page is served
    key: Key
    say: Callable[[str], object]
    automatic: bool = False  # Do all steps, one after the other, and end
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
        self.facts, self.do = self.tour.facts, self.tour.do
        self._stage = Stage(
            folder, on_woken=self.tour.woken, on_ended=self.tour.server_ended, on_served=self.tour.server_listens
        )
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
            claude = not self._options.automatic and shutil.which("claude") is not None
            texts = snippets(stage.urls["vault"], claude=claude)
            self.tour.set_steps(steps(stage.sample.folder, stage.site.page), texts)
            await self._run_until_asked()
        if self._failure is not None:
            raise self._failure
        return 0 if self.tour.complete or not self._options.automatic else 1

    async def _run_until_asked(self) -> None:
        for work in (self._stage.vault.run(), self._stage.web.run(), self._stage.wake(), self._begun()):
            self._start(work)
        serving = asyncio.create_task(self._serving.run(signals=False), name="the inspector")
        serving.add_done_callback(self._ended)
        asked = asyncio.create_task(self._asked.wait())
        self._terminal.steps(self.tour)
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

    async def _open(self, session: "Session") -> None:
        actions = {name: partial(self._act, action) for name, action in self._stage.actions(session).items()}
        session.listen(lambda record: self._terminal.hear(record, session.view))
        session.listen(lambda record: self.tour.hear(record, session.view))
        self._start(self._stage.live())
        await self._stage.connect(session, lambda server, source: self.tour.open(server, source, actions))
        if self._options.automatic:
            for progress in self.tour.progress.values():
                self._terminal.announce(progress)
                self.tour.do(progress.step.name)
                if await self.tour.wait(progress.step.name) is None:
                    self._say(f"✗ {progress.step.title}: no effect was seen.")
            self._terminal.last(self.tour)
            self._asked.set()

    def _act(self, action: Callable[[], object]) -> None:
        try:
            action()
        except StageFailed as error:  # A full disk ends the demo.
            self._fail(error)

    def _say(self, text: str) -> None:
        try:
            self._options.say(text)
        except OSError:  # Nobody reads it any more.
            self._asked.set()
