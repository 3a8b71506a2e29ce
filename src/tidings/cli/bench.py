"""`tidings bench`: starts the benchmarks of a clone. They measure other packages too, so the wheel has none."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

import tidings
from tidings._kit.suggest import did_you_mean, there_are
from tidings.cli.terminal import option

BENCHMARKS = {  # The programs in `benchmarks/` that people run; the other files there help them
    "fanout": "The cost of notifying many subscribers of one change.",
    "client": "The cost of the live client compared with the SDK's client, and what it adds.",
    "scale": "Delay and throughput of changes between many processes, for each bus.",
    "vault": "The vault server with thousands of notes, compared with its peers and ripgrep.",
    "web": "Quality and speed of reading web pages, compared with popular libraries.",
    "bridge": "The cost of a call through the bridge, and the changes it relays, compared with other proxies.",
    "oneshot": "The cost of one-shot commands, compared with the official Inspector's.",
    "inspector": "The inspector's page in Chromium: time to load, and its limits.",
    "events": "Delay of events by webhook with 1,000 subscriptions, compared with mcp-webhook-events.",
    "install": "Download and disk size of each extra, compared with the SDK alone.",
}
HERE = Path(tidings.__file__).parents[2]  # The clone, if the package runs from one (an editable install)
_TIDY_SECONDS: Final = 15


# Everything after the benchmark's name is for the benchmark, including `--help`.
@click.command(context_settings={"allow_interspersed_args": False})
@option("every --all", "Run all benchmarks and print one table of ratios (about 40 minutes).")
@option("--quick", "With --all: smaller benchmarks (about 20 minutes).")
@option(
    "file --json=FILE",
    "With --all: also write all figures to this file.",
    click.Path(dir_okay=False, writable=True, path_type=Path),
)
@click.argument("name", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, name: str | None, args: tuple[str, ...], *, every: bool, quick: bool, file: Path | None
) -> None:
    """Run a benchmark: Tidings compared with its peers (needs a clone).

    The benchmarks come with a clone of the project, not with the installed package. `make bench` installs what they
    need.

    Without NAME, list the benchmarks. ARGS are for the benchmark; `tidings bench NAME --help` explains them.

    Exit codes: 0 every measured target is met; 1 a target is missed; 2 something could not be measured.
    """
    if every:
        if name is not None:
            ctx.fail("--all runs all benchmarks. Omit NAME.")
        if file is not None and not file.parent.is_dir():
            ctx.fail(f"--json cannot write {str(file)!r}: there is no folder {str(file.parent)!r}.")
        words = ["--quick"] if quick else []
        ctx.exit(_run("all", [*words, "--json", str(file)] if file is not None else words))
    if quick or file is not None:
        option = "--quick" if quick else "--json"
        ctx.fail(f"{option} needs --all, or goes after the benchmark's NAME: tidings bench {name or 'NAME'} {option}")
    if name is None:
        widest = max(map(len, BENCHMARKS))
        click.echo("\n".join(f"{name:{widest}}  {purpose}" for name, purpose in BENCHMARKS.items()))
        return
    if name not in BENCHMARKS:
        ctx.fail(f"No such benchmark {name!r}.{did_you_mean(name, BENCHMARKS)}{there_are(BENCHMARKS)}")
    ctx.exit(_run(name, args))


def _run(name: str, args: Sequence[str]) -> int:
    """Runs a program of `benchmarks/` in the current directory, and returns its exit code."""
    files = f"benchmarks/{name}.py", "src/tidings/__init__.py"
    clone = next((place for place in (Path.cwd(), HERE) if all((place / file).is_file() for file in files)), None)
    if clone is None:
        raise click.ClickException(
            f"There is no benchmarks/{name}.py here. The benchmarks come with a clone of the project, not with the "
            "installed package. Run `make bench` in a clone: it installs what they need, and runs them."
        )
    path = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH")]))
    words = [sys.executable, "-m", f"benchmarks.{name}", *args]
    process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path})  # noqa: S603 - one of our programs
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached the benchmark too, which may have results to print.
        with suppress(subprocess.TimeoutExpired):
            if (code := process.wait(_TIDY_SECONDS)) > 0:
                return code
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TIDY_SECONDS)
            process.kill()
            process.wait()
