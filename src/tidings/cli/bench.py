"""`tidings bench`: the benchmarks of a checkout. They measure other people's packages too, so the wheel has none."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import tidings
from tidings.cli.main import did_you_mean

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
    from tidings.cli.bench_all import run_all

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
