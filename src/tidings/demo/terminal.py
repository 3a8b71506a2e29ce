"""The tour in a terminal: a line for each change, and typed commands."""

import asyncio
import os
import re
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from tidings._kit.text import clock
from tidings.demo.step_check import change_of, duration
from tidings.demo.tour import LAST_TITLE, LAST_WORDS, Tour, TourProgress
from tidings.inspector.records import Record
from tidings.inspector.view.view import SessionView

_MOST_LINES: Final = 8
HELP: Final = "Type a number and Enter to have a step done for you, Enter alone for the next one, q to end."


class TerminalTour:
    """Prints the tour with `say`."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self._lost: set[str] = set()

    def steps(self, tour: Tour) -> None:
        for progress in tour.progress.values():
            step = progress.step
            mark = "✓" if progress.seen is not None else " "
            self.say(f"  {mark} {progress.number}  {step.title:<18} {step.place}")
        self.say(f"    {len(tour.progress) + 1}  {LAST_TITLE:<18} {LAST_WORDS.rstrip(':').lower()}")

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
            way = seen.hops[0].words
            for hop in seen.hops[1:]:
                way += f" → {hop.words}" + ("" if hop.ms is None else f" ({duration(hop.ms / 1000)})")
            self.say(f"                  {way}")
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

    def typed(self, line: str, tour: Tour) -> bool:
        """Does what was typed. Returns False for the end."""
        word = line.strip().lower()
        names = list(tour.progress)
        if word in ("q", "quit", "exit"):
            return False
        if word == "":
            left = [name for name, each in tour.progress.items() if each.status in ("ready", "late")]
            word = str(names.index(left[0]) + 1 if left else len(names) + 1)
        if word == str(len(names) + 1):
            self.last(tour)
        elif word.isascii() and word.isdigit() and 0 < int(word) <= len(names):
            if not tour.do(names[int(word) - 1]):
                self.say("In a moment: the servers are starting.")
        else:
            self.say(HELP)
            self.steps(tour)
        return True


def read_lines(typed: Callable[[str | None], object]) -> None:
    """Calls `typed` on this event loop with each line, and None at the end. A thread reads, as every system can."""
    loop = asyncio.get_running_loop()

    def pass_on(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(typed, line)

    def read() -> None:
        rest = b""
        with suppress(OSError):  # A background process must not read from its terminal.
            while data := os.read(0, 4096):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    pass_on(line.decode(errors="replace"))
            pass_on(None)

    threading.Thread(target=read, name="typed lines", daemon=True).start()
