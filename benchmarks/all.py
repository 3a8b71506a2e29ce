"""All benchmarks, one after the other, and one table of everything that was compared.

    tidings bench --all [--quick] [--json FILE]

Each runs in a process of its own and writes its rows as JSON (see `report`). Its messages are the progress: on a
terminal the newest one, with the time so far; elsewhere all of them.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from benchmarks.table import Compared, table
from tidings._kit.text import harmless
from tidings.cli.bench import BENCHMARKS
from tidings.cli.terminal import DrawnLine

_TICK: Final = 0.5
_TIME: Final = re.compile(r"\[ *[\d.]+ s\] ")
"""The time in a benchmark's message: the progress line has it already."""
_REPEATED: Final = re.compile(r" is left out: |^not measured: ")
"""Messages that are repeated at the end."""


@dataclass(frozen=True)
class Ended:
    """A benchmark that has run."""

    name: str
    code: int
    """0 all targets met, 1 one missed, 2 something could not be measured."""
    seconds: float
    rows: tuple[dict[str, Any], ...]
    messages: tuple[str, ...]

    @property
    def compared(self) -> list[Compared]:
        """The rows of the table: figures with something to compare."""
        return [Compared.of(self.name, row) for row in self.rows if row["value"] is not None]

    @property
    def missing(self) -> list[str]:
        """Messages about what is missing in the table, and why."""
        named = [text for text in self.messages if _REPEATED.search(text)] if self.rows else []
        return named or ([self.summary] if self.code == 2 or not self.rows else [])

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        if not self.rows:
            return f"nothing measured{f': {self.messages[-1]}' if self.messages else ''}"
        missed = sum(row["met"] is False for row in self.rows)
        outcome = f"{missed} missed" if missed else "all met"
        return f"{outcome}; not everything could be measured" if self.code == 2 else outcome


class Progress:
    """The progress of one benchmark on standard error: one line on a terminal, else a line for each message."""

    def __init__(self, number: int, of: int, name: str) -> None:
        self._title = f"[{number}/{of}] {name}"
        self._bar = f"[{'#' * (number - 1)}{'.' * (of - number + 1)}] {number}/{of} {name}"
        self._began = time.monotonic()
        self._newest = ""
        self._line = DrawnLine()
        if self._line.shows:
            self.tick()
        else:
            _print_error(self._title)

    def say(self, text: str) -> None:
        """Shows a message of the benchmark."""
        self._newest = _TIME.sub("", text, count=1)
        if self._line.shows:
            self.tick()
        else:
            _print_error(f"  {harmless(text)}")

    def tick(self) -> None:
        """Draws the line again, with the time that has passed."""
        self._line.draw(f"{self._bar}, {_span(time.monotonic() - self._began)}  {self._newest}")

    def end(self, text: str) -> None:
        """Shows the outcome."""
        self._line.clear()
        _print_error(f"{self._title}: {harmless(text)}")


def run_all(names: Sequence[str], args: Sequence[str], file: Path | None) -> int:
    """Runs benchmarks and prints the table, after a Ctrl-C with what was measured until then.

    Returns:
        The worst of their exit codes; 130 if it was interrupted.
    """
    ended: list[Ended] = []
    worst, began = 0, time.monotonic()
    try:
        for number, name in enumerate(names, 1):
            progress = Progress(number, len(names), name)
            done = _run(name, args, progress)
            progress.end(f"{_span(done.seconds)}, {done.summary}")
            ended.append(done)
            worst = max(worst, done.code)
    except KeyboardInterrupt:
        worst = 130
        _print_error("\nInterrupted: the table has what was measured before.")
    _conclude(ended, time.monotonic() - began, file)
    return worst


def _run(name: str, args: Sequence[str], progress: Progress) -> Ended:
    messages: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        file = Path(folder, "rows.json")
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{name}", *args, "--json", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert process.stderr is not None
        listening = threading.Thread(target=_listen, args=(process.stderr, messages, progress), daemon=True)
        listening.start()
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_TICK)
                    break
                progress.tick()
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reached it too.
                process.terminate()
            # It gets a moment to end what it started.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            listening.join(5)
        rows: list[dict[str, Any]] = []
        try:
            rows = json.loads(file.read_text("utf-8")) if file.is_file() else []
        except ValueError:  # Half of it was written: it was killed, or the disk is full.
            code = 2
    # A benchmark that failed has no rows, or another exit code.
    code = code if code == 0 or (code == 1 and rows) else 2
    return Ended(name, code, time.monotonic() - began, tuple(rows), tuple(messages))


def _listen(stream: IO[str], messages: list[str], progress: Progress) -> None:
    with stream:
        for line in stream:
            if text := line.strip():
                messages.append(text)
                progress.say(text)


def _conclude(ended: Sequence[Ended], seconds: float, file: Path | None) -> None:
    compared = [each for one in ended for each in one.compared]
    if compared:
        print(f"\n{table(compared)}\n")
    if file is not None:
        rows = [{"benchmark": one.name, **row} for one in ended for row in one.rows]
        file.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", "utf-8")
    judged = [each.met for each in compared if each.met is not None]
    print(f"{judged.count(True)} of {len(judged)} targets met, in {_span(seconds)}.", flush=True)
    for one in ended:
        for text in one.missing:
            _print_error(f"{one.name}: {harmless(text)}")


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _exit(*_: object) -> None:
    sys.exit(143)


def main() -> int:
    """Runs all benchmarks that this folder has."""
    parser = argparse.ArgumentParser(prog="tidings bench --all", description="Run all benchmarks.")
    parser.add_argument("--quick", action="store_true", help="smaller benchmarks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _exit)
    names = [name for name in BENCHMARKS if Path(__file__).with_name(f"{name}.py").is_file()]
    return run_all(names, ["--quick"] if given.quick else [], given.json)


if __name__ == "__main__":
    sys.exit(main())
