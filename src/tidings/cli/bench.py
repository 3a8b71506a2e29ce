"""`tidings bench`: the benchmarks of a checkout. They measure other people's packages too, so the wheel has none."""

import os
import subprocess
import sys
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
}
"""The programs in `benchmarks/` that people run; the other files there help them."""

HERE = Path(tidings.__file__).parents[2]
"""The checkout, if the package runs from one (an editable install)."""


# What follows the benchmark's name is the benchmark's own, `--help` included.
@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("name", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, name: str | None, args: tuple[str, ...]) -> None:
    """Run a benchmark of a checkout: Tidings beside its peer and the limit.

    The benchmarks come with a checkout of the project, not with the installed package, and need what `make bench`
    sets up there.

    Without a NAME, say which there are. In a checkout, ARGS go to the benchmark, and `tidings bench NAME --help`
    explains them.
    """
    if name is None:
        click.echo("\n".join(f"{name}  {purpose}" for name, purpose in BENCHMARKS.items()))
        return
    if name not in BENCHMARKS:
        ctx.fail(f"No such benchmark {name!r}.{did_you_mean(name, BENCHMARKS)} There are: {', '.join(BENCHMARKS)}.")
    checkout = find_checkout(name, (Path.cwd(), HERE))
    if checkout is None:
        raise click.ClickException(
            f"There is no benchmarks/{name}.py here: the benchmarks come with a checkout of the project, not with the "
            "installed package. Run `make bench` in a checkout: it sets up what they need, and runs them."
        )
    ctx.exit(run(checkout, name, args))


def find_checkout(name: str, places: tuple[Path, ...]) -> Path | None:
    """The first of `places` that has this benchmark and is a checkout of Tidings."""
    parts = (f"benchmarks/{name}.py", "src/tidings/__init__.py")
    return next((place for place in places if all((place / part).is_file() for part in parts)), None)


def run(checkout: Path, name: str, args: tuple[str, ...]) -> int:
    """Run one benchmark in a process of its own, in the current directory, and give its exit code."""
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    program = [sys.executable, "-m", f"benchmarks.{name}", *args]
    # S603: what runs is one of the programs above, with the arguments of whoever typed the command.
    return subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, check=False).returncode  # noqa: S603
