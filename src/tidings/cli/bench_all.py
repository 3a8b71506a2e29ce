"""All benchmarks, one after the other, and one table of all that was compared.

Each runs in a process of its own, and writes its rows as JSON (`benchmarks/report.py` says which). What it says
meanwhile is the progress: on a terminal the newest line of it, with the time so far; elsewhere, all lines.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import click

from tidings.cli.terminal import harmless, is_terminal, shortened, styled, width

_NOTHING: Final = "–"  # noqa: RUF001 - the sign for nothing in a table
_TICK: Final = 0.5


class Start(Protocol):
    """Starts a benchmark."""

    def __call__(self, name: str, args: Sequence[str], *, stdout: int, stderr: int) -> "subprocess.Popen[str]":
        """Start the benchmark `name`; what it writes is text."""
        ...


@dataclass(frozen=True)
class Compared:
    """One figure of a benchmark, beside the peer's, and what is held against the target."""

    benchmark: str
    what: str
    tidings: str
    peer: str
    ratio: str
    target: str
    met: bool | None
    """None: it has no target."""

    @classmethod
    def of(cls, benchmark: str, row: dict[str, Any]) -> "Compared":
        """From a row as the benchmark wrote it."""
        peers = {"SDK": row["sdk"], **row["others"], "bare sockets": row["floor"]}
        known = {name: _figure(value) for name, value in peers.items() if value is not None}
        target: dict[str, Any] = row["target"] or {}
        unit: str = target.get("unit", "")
        return cls(
            benchmark,
            row["what"],
            _figure(row["tidings"]),
            ", ".join(f"{name} {figure}" for name, figure in known.items()) or _NOTHING,
            f"{_judged(row['value'])}{unit}",
            f"{'≥' if target['at'] == 'least' else '≤'} {_figure(target['bound'])}{unit}" if target else "",
            row["met"],
        )


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
    def words(self) -> str:
        """How it went, in a line."""
        missed = sum(row["met"] is False for row in self.rows)
        if not self.rows:
            how = f"nothing measured{f': {self.said[-1]}' if self.said else ''}"
        elif missed:
            how = f"{missed} missed"
        else:
            how = "all met"
        return how if self.code in (0, 1) or not self.rows else f"{how}; not everything could be measured"


def run_all(names: Sequence[str], arguments: Callable[[str], Sequence[str]], start: Start, file: Path | None) -> int:
    """Run them, and print the table; what was measured before a Ctrl-C is in it, too.

    Args:
        names: The benchmarks.
        arguments: What each is given, besides where to write its rows.
        start: Starts one.
        file: Where to write all rows as JSON.

    Returns:
        The worst of their exit codes; 130 if it was interrupted.
    """
    ended: list[Ended] = []
    worst, began = 0, time.monotonic()
    try:
        for number, name in enumerate(names, 1):
            progress = Progress(f"[{number}/{len(names)}] {name}")
            done = _run(name, arguments(name), start, progress)
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
        rows: list[dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.is_file() else []
    # One that fell over has no rows, and one that measured nothing says why.
    code = code if rows or code == 0 else 2
    return Ended(name, code, time.monotonic() - began, tuple(rows), tuple(said))


def _hear(stream: IO[str], said: list[str], progress: "Progress") -> None:
    with stream:
        for line in stream:
            if text := line.strip():
                said.append(text)
                progress.say(text)


class Progress:
    """How far one benchmark is, on standard error: one line on a terminal, else a line for each thing that it says."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._newest = ""
        self._one_line = is_terminal(sys.stderr)
        self._lock = threading.Lock()
        if self._one_line:
            self.tick()
        else:
            click.echo(title, err=True)

    def say(self, text: str) -> None:
        """The benchmark said something."""
        self._newest = text
        if self._one_line:
            self.tick()
        else:
            click.echo(f"  {harmless(text)}", err=True)

    def tick(self) -> None:
        """Some time has passed."""
        if not self._one_line:
            return
        text = f"{self._title}, {_span(time.monotonic() - self._began)} so far  {harmless(self._newest)}"
        with self._lock:
            sys.stderr.write(f"\r\x1b[K{shortened(text, (width(sys.stderr) or 80) - 1)}")
            sys.stderr.flush()

    def end(self, words: str) -> None:
        """It has ended."""
        with self._lock:
            sys.stderr.write(("\r\x1b[K" if self._one_line else "") + f"{self._title}: {harmless(words)}\n")
            sys.stderr.flush()


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
        if one.code not in (0, 1) or not one.rows:
            click.echo(f"{one.name}: {harmless(one.words)}", err=True)


def table(compared: Sequence[Compared]) -> str:
    """A Markdown table, aligned so that it reads well in a terminal, too."""
    lines = [("", "what", "Tidings", "beside it", "ratio", "target", "")]
    before = ""
    for each in compared:
        verdict = {None: "", True: "met", False: "MISSED"}[each.met]
        name = "" if each.benchmark == before else each.benchmark
        lines.append((name, each.what, each.tidings, each.peer, each.ratio, each.target, verdict))
        before = each.benchmark
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text = [line.replace("MISSED", styled("MISSED", "bad", sys.stdout)) for line in text]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def _figure(value: float | str | None) -> str:
    """A figure as the benchmarks' own tables have it."""
    match value:
        case None:
            return _NOTHING
        case str():
            return value
        case _:
            return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def _judged(value: float) -> str:
    """With a digit more: what is just beside its target must not look as if it met it."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
