"""All benchmarks, one after the other, and one table of all that was compared.

Each runs in a process of its own, and writes its rows as JSON (`benchmarks/report.py` says which). What it says
meanwhile is the progress: on a terminal the newest line of it, with the time so far; elsewhere, all lines.
"""

import contextlib
import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import click

from tidings.cli.bench_table import Compared, table
from tidings.cli.drawn_line import DrawnLine
from tidings.cli.terminal import harmless

_TICK: Final = 0.5
_TIME: Final = re.compile(r"\[ *[\d.]+ s\] ")
"""What a benchmark says of its own time: the line has the time already."""
_KEPT: Final = re.compile(r" is left out: |^not measured: ")
"""What is worth saying again at the end."""


class Start(Protocol):
    """Starts a benchmark."""

    def __call__(self, name: str, args: Sequence[str], *, stdout: int, stderr: int) -> "subprocess.Popen[str]":
        """Start the benchmark `name`; what it writes is text."""
        ...


@dataclass(frozen=True)
class Ended:
    """A benchmark that has been run."""

    name: str
    code: int
    """Its exit code: 0 all targets met, 1 one missed, 2 something could not be measured."""
    seconds: float
    rows: tuple[dict[str, Any], ...]
    said: tuple[str, ...]

    @property
    def compared(self) -> list[Compared]:
        """What stands in the table: figures that were held against something."""
        return [Compared.of(self.name, row) for row in self.rows if row["value"] is not None]

    @property
    def missing(self) -> list[str]:
        """What whoever reads the table has to know: what is missing in it, and why."""
        named = [text for text in self.said if _KEPT.search(text)] if self.rows else []
        return named or ([self.words] if self.code == 2 or not self.rows else [])

    @property
    def words(self) -> str:
        """How it went, in a line."""
        missed = sum(row["met"] is False for row in self.rows)
        if not self.rows:
            how = f"nothing measured{f': {self.said[-1]}' if self.said else ''}"
        elif missed:
            how = f"{missed} missed"
        else:
            how = "all met"
        return how if self.code != 2 or not self.rows else f"{how}; not everything could be measured"


def run_all(names: Sequence[str], args: Sequence[str], start: Start, file: Path | None) -> int:
    """Run them, and print the table; what was measured before a Ctrl-C is in it, too.

    Args:
        names: The benchmarks.
        args: What each is given, besides where to write its rows.
        start: Starts one.
        file: Where to write all rows as JSON.

    Returns:
        The worst of their exit codes; 130 if it was interrupted.
    """
    ended: list[Ended] = []
    worst, began = 0, time.monotonic()
    try:
        for number, name in enumerate(names, 1):
            progress = Progress(number, len(names), name)
            done = _run(name, args, start, progress)
            progress.end(f"{_span(done.seconds)}, {done.words}")
            ended.append(done)
            worst = max(worst, done.code)
    except KeyboardInterrupt:
        worst = 130
        click.echo("\nInterrupted: the table has what was measured before.", err=True)
    _conclude(ended, time.monotonic() - began, file)
    return worst


def _run(name: str, args: Sequence[str], start: Start, progress: "Progress") -> Ended:
    said: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        file = Path(folder, "rows.json")
        process = start(name, [*args, "--json", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None  # noqa: S101 - as asked for
        hearing = threading.Thread(target=_hear, args=(process.stderr, said, progress), daemon=True)
        hearing.start()
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_TICK)
                    break
                progress.tick()
        except BaseException:
            # Ctrl-C reached it as well; it is given a moment to tidy up what it started.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            hearing.join(5)
        rows: list[dict[str, Any]] = []
        try:
            rows = json.loads(file.read_text("utf-8")) if file.is_file() else []
        except ValueError:  # Half of it was written: it was killed, or the disk is full.
            code = 2
    # One that fell over has no rows, or a code of its own; one that measured nothing says why.
    code = code if code == 0 or (code == 1 and rows) else 2
    return Ended(name, code, time.monotonic() - began, tuple(rows), tuple(said))


def _hear(stream: IO[str], said: list[str], progress: "Progress") -> None:
    with stream:
        for line in stream:
            if text := line.strip():
                said.append(text)
                progress.say(text)


class Progress:
    """How far one benchmark is, on standard error: one line on a terminal, else a line for each thing that it says."""

    def __init__(self, number: int, of: int, name: str) -> None:
        self._title = f"[{number}/{of}] {name}"
        self._bar = f"[{'#' * (number - 1)}{'.' * (of - number + 1)}] {number}/{of} {name}"
        self._began = time.monotonic()
        self._newest = ""
        self._line = DrawnLine()
        if self._line.shows:
            self.tick()
        else:
            click.echo(self._title, err=True)

    def say(self, text: str) -> None:
        """The benchmark said something."""
        self._newest = _TIME.sub("", text, count=1)
        if self._line.shows:
            self.tick()
        else:
            click.echo(f"  {harmless(text)}", err=True)

    def tick(self) -> None:
        """Some time has passed."""
        self._line.draw(f"{self._bar}, {_span(time.monotonic() - self._began)}  {self._newest}")

    def end(self, words: str) -> None:
        """It has ended."""
        self._line.clear()
        click.echo(f"{self._title}: {harmless(words)}", err=True)


def _conclude(ended: Sequence[Ended], seconds: float, file: Path | None) -> None:
    compared = [each for one in ended for each in one.compared]
    if compared:
        click.echo(f"\n{table(compared)}\n")
    if file is not None:
        rows = [{"benchmark": one.name, **row} for one in ended for row in one.rows]
        file.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", "utf-8")
    judged = [each.met for each in compared if each.met is not None]
    click.echo(f"{judged.count(True)} of {len(judged)} targets met, in {_span(seconds)}.")
    for one in ended:
        for text in one.missing:
            click.echo(f"{one.name}: {harmless(text)}", err=True)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
