"""`tidings bench`: the benchmarks of a checkout. They measure other people's packages too, so the wheel has none.

The table of all that benchmarks compared: as wide as it is where there is room, else no wider than the terminal.

All benchmarks, one after the other, and one table of all that was compared.

Each runs in a process of its own, and writes its rows as JSON (`benchmarks/report.py` says which). What it says
meanwhile is the progress: on a terminal the newest line of it, with the time so far; elsewhere, all lines.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final, Protocol

import click

import tidings
from tidings.cli.main import did_you_mean
from tidings.cli.terminal import DrawnLine, harmless, styled, width

BENCHMARKS = {
    "fanout": "What it costs to tell many subscribers of one change.",
    "client": "What the live client costs more than the SDK's own, and what it does for that.",
    "scale": "How soon, and how much, many processes hear of over each bus.",
    "vault": "What the vault server needs for thousands of notes, beside its peers and ripgrep.",
    "web": "How well and how quickly the web server reads pages, beside the libraries people use.",
    "oneshot": "What one-shot commands cost, beside the official Inspector's.",
    "inspector": "How soon the inspector's page is there in Chromium, and what it stands.",
    "install": "What each extra downloads and takes on the disk, beside the SDK alone.",
}
"""The programs in `benchmarks/` that people run; the other files there help them."""

HERE = Path(tidings.__file__).parents[2]
"""The checkout, if the package runs from one (an editable install)."""


# What follows the benchmark's name is the benchmark's own, `--help` included.
@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Run all, one after the other, and print one table of all ratios: some 40 minutes.",
)
@click.option("--quick", is_flag=True, help="With --all: all of them smaller, in some 20 minutes.")
@click.option(
    "--json",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="With --all: write all figures there, too.",
)
@click.argument("name", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, name: str | None, args: tuple[str, ...], *, every: bool, quick: bool, file: Path | None
) -> None:
    """Run a benchmark of a checkout: Tidings beside its peer and the limit.

    The benchmarks come with a checkout of the project, not with the installed package, and need what `make bench`
    sets up there.

    Without a NAME, say which there are. In a checkout, ARGS go to the benchmark, and `tidings bench NAME --help`
    explains them.

    Exit codes: 0 every target that was measured is met; 1 one is missed; 2 something could not be measured.
    """
    if every:
        if name is not None:
            ctx.fail("--all takes no NAME: it runs all of them.")
        if file is not None and not file.parent.is_dir():
            ctx.fail(f"--json cannot write {str(file)!r}: there is no folder {str(file.parent)!r}.")
        ctx.exit(run_every(_checkout("report"), quick=quick, file=file))
    if quick or file is not None:
        option = "--quick" if quick else "--json"
        ctx.fail(f"{option} goes with --all, or after the benchmark's NAME: tidings bench {name or 'NAME'} {option}")
    if name is None:
        widest = max(map(len, BENCHMARKS))
        click.echo("\n".join(f"{name:{widest}}  {purpose}" for name, purpose in BENCHMARKS.items()))
        return
    if name not in BENCHMARKS:
        ctx.fail(f"No such benchmark {name!r}.{did_you_mean(name, BENCHMARKS)} There are: {', '.join(BENCHMARKS)}.")
    ctx.exit(run(_checkout(name), name, args))


def _checkout(name: str) -> Path:
    checkout = find_checkout(name, (Path.cwd(), HERE))
    if checkout is None:
        raise click.ClickException(
            f"There is no benchmarks/{name}.py here: the benchmarks come with a checkout of the project, not with the "
            "installed package. Run `make bench` in a checkout: it sets up what they need, and runs them."
        )
    return checkout


def find_checkout(name: str, places: tuple[Path, ...]) -> Path | None:
    """The first of `places` that has this benchmark and is a checkout of Tidings."""
    parts = (f"benchmarks/{name}.py", "src/tidings/__init__.py")
    return next((place for place in places if all((place / part).is_file() for part in parts)), None)


def run(checkout: Path, name: str, args: Sequence[str]) -> int:
    """Run one benchmark in a process of its own, in the current directory, and give its exit code."""
    # S603: what runs is one of the programs above, with the arguments of whoever typed the command.
    return subprocess.run(_program(name, args), env=_environment(checkout), check=False).returncode  # noqa: S603


def run_every(checkout: Path, *, quick: bool, file: Path | None) -> int:
    """Run all benchmarks that the checkout has, and print one table; gives the worst of their exit codes."""

    def start(name: str, args: Sequence[str], *, stdout: int, stderr: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(  # noqa: S603 - as in `run`
            _program(name, args), env=_environment(checkout), stdout=stdout, stderr=stderr, text=True, errors="replace"
        )

    names = [name for name in BENCHMARKS if find_checkout(name, (checkout,))]
    return run_all(names, ("--quick",) if quick else (), start, file)


def _program(name: str, args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}", *args]


def _environment(checkout: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


NOTHING: Final = "–"  # noqa: RUF001 - the sign for nothing in a table
_LEAST: Final = 12


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
        known = {name: figure(value) for name, value in peers.items() if value is not None}
        target: dict[str, Any] = row["target"] or {}
        unit: str = target.get("unit", "")
        return cls(
            benchmark,
            row["what"],
            figure(row["tidings"]),
            ", ".join(f"{name} {figure}" for name, figure in known.items()) or NOTHING,
            f"{judged(row['value'])}{unit}",
            f"{'≥' if target['at'] == 'least' else '≤'} {figure(target['bound'])}{unit}" if target else "",
            row["met"],
        )

    @property
    def verdict(self) -> str:
        """In a word; none if it has no target."""
        return {None: "", True: "met", False: "MISSED"}[self.met]


def table(compared: Sequence[Compared]) -> str:
    """For standard output: Markdown, if there is room for it."""
    room, text = width(sys.stdout), _markdown(compared)
    return text if room is None or len(text.partition("\n")[0]) <= room else _narrow(compared, room)


def _markdown(compared: Sequence[Compared]) -> str:
    """With all figures, and aligned, so that it reads well in a terminal, too."""
    lines = [("", "what", "Tidings", "beside it", "ratio", "target", "")]
    before = ""
    for each in compared:
        name = "" if each.benchmark == before else each.benchmark
        lines.append((name, each.what, each.tidings, each.peer, each.ratio, each.target, each.verdict))
        before = each.benchmark
    return _marked(aligned(lines))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns stand below each other; the first line names them."""
    widths = _widths(lines)
    text = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def _narrow(compared: Sequence[Compared], room: int) -> str:
    """With the ratios alone; what was compared goes on in the next line where it is too long for one."""
    widths = _widths([(each.ratio, each.target, each.verdict) for each in compared])
    space = max(room - sum(widths) - 2 * len(widths) - 2, _LEAST)
    lines: list[str] = []
    for name, group in groupby(compared, lambda each: each.benchmark):
        lines.append(styled(name, "name", sys.stdout))
        for each in group:
            first, *others = textwrap.wrap(each.what, space, subsequent_indent="  ") or [""]
            cells = [f"{first:<{space}}", f"{each.ratio:>{widths[0]}}", f"{each.target:<{widths[1]}}", each.verdict]
            lines += [f"  {'  '.join(cells).rstrip()}", *(f"  {other}" for other in others)]
    return _marked("\n".join(lines))


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]


def _marked(text: str) -> str:
    return text.replace("MISSED", styled("MISSED", "bad", sys.stdout))


def figure(value: float | str | None) -> str:
    """A figure as tables have it."""
    match value:
        case None:
            return NOTHING
        case str():
            return value
        case _:
            return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def judged(value: float) -> str:
    """With a digit more: what is just beside its target must not look as if it met it."""
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


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
