"""`tidings completion`."""

import os
import shlex
import subprocess
from pathlib import Path

import click
from click.shell_completion import add_completion_class, get_completion_class

from tidings.cli.exits import Refusal
from tidings.cli.main import BashCompletion, main

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TIDINGS_COMPLETE"


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Install the script where the shell looks for it.")
def command(shell: str | None, *, install: bool) -> None:
    """Set up shell completion for commands, servers, tools and resources.

    Prints the script for SHELL (bash, zsh or fish; by default yours), or installs it. If bash has no bash-completion,
    --install adds a line to ~/.bashrc. Completion asks the server for the names of tools, resources and prompts, and
    caches them for some minutes.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise Refusal(f"Your shell is not known. Give one of {', '.join(SHELLS)}.")
    script = _script(shell)
    if not install:
        click.echo(script)
        return
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = {"bash": data / "bash-completion/completions/tidings", "zsh": data / "zsh/site-functions/_tidings"}
    file = places.get(shell, config / "fish/completions/tidings.fish")
    bashrc = Path.home() / ".bashrc"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n")
        changed = shell == "bash" and not _has_bash_completion() and _add_to_bashrc(bashrc, file)
    except OSError as error:
        raise Refusal(f"Cannot write {error.filename or file}: {error.strerror}.") from None
    click.echo(f"Installed {file}", err=True)
    if changed:
        click.echo(f"Added a line to {bashrc} that loads it, because bash-completion is not active.", err=True)
    in_zsh = f"If it is not there yet, add this line to ~/.zshrc before compinit: fpath=({file.parent} $fpath)"
    click.echo(in_zsh if shell == "zsh" else "Open a new shell.", err=True)


def _has_bash_completion() -> bool:
    """Returns whether a new bash has bash-completion, which finds the file by itself. Only bash can tell."""
    program = ["bash", "-ic", "[[ -n ${BASH_COMPLETION_VERSINFO-} ]]"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # An interactive bash would take the terminal.
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _add_to_bashrc(bashrc: Path, file: Path) -> bool:
    """Lets each new bash load a file. Returns whether `bashrc` was changed."""
    name = shlex.quote(str(file))
    line = f"[ ! -r {name} ] || . {name}  # completion of tidings"
    text = bashrc.read_text("utf-8", "surrogateescape") if bashrc.exists() else ""
    if line in text.splitlines():
        return False
    with bashrc.open("a", encoding="utf-8") as opened:
        opened.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
    return True


def _script(shell: str) -> str:
    add_completion_class(BashCompletion)
    kind = get_completion_class(shell)
    if kind is None:
        raise Refusal(f"There is no completion for {shell}.")
    try:
        script = kind(main, {}, "tidings", VARIABLE).source()
    except RuntimeError as error:  # click checks the version of bash.
        raise Refusal(f"{error}") from None
    # URIs and descriptions may contain commas, too: only the first one is a separator.
    return script.replace('string split ","', 'string split --max 1 ","') if shell == "fish" else script
