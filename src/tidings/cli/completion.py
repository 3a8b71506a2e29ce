"""`tidings completion`: what a shell needs to complete commands, servers, tools, resources and prompts."""

import os
import shlex
import subprocess
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tidings.cli.exits import Refusal
from tidings.cli.main import main, use

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TIDINGS_COMPLETE"


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Put it where the shell looks for it.")
def command(shell: str | None, *, install: bool) -> None:
    """Complete commands, servers, tools and resources in your shell.

    Prints the script for SHELL (bash, zsh or fish; yours, if it is left out), or installs it; a bash without
    bash-completion gets a line in ~/.bashrc. Names of tools, resources and prompts are asked of the server, and
    remembered for some minutes.
    """
    shell = shell or _own_shell()
    script = _script(shell)
    if not install:
        click.echo(script)
        return
    file = _place(shell)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n")
        changed = shell == "bash" and not _looks_by_itself() and _have_read(file)
    except OSError as error:
        raise Refusal(f"{error.filename or file} cannot be written ({error.strerror}).") from None
    click.echo(f"Installed {file}", err=True)
    if changed:
        click.echo(f"Added a line to {_bashrc()} that reads it: bash-completion is not at work here.", err=True)
    click.echo(_NEXT[shell].format(folder=file.parent), err=True)


_NEXT = {
    "bash": "Open a new shell.",
    "zsh": "If ~/.zshrc does not have it yet, add before compinit: fpath=({folder} $fpath)",
    "fish": "Open a new shell.",
}


def _looks_by_itself() -> bool:
    """Whether a new bash has bash-completion, which looks for the file when it is needed. Only bash itself can tell."""
    program = ["bash", "-ic", "[[ -n ${BASH_COMPLETION_VERSINFO-} ]]"]
    try:
        done = subprocess.run(  # noqa: S603 - nothing of anybody's goes into it
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # It must not take the terminal.
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _have_read(file: Path) -> bool:
    """Have each new bash read this file. Returns whether that took a change."""
    name = shlex.quote(str(file))
    line = f"[ ! -r {name} ] || . {name}  # completion of tidings"
    try:
        text = _bashrc().read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        text = ""
    if line in text.splitlines():
        return False
    with _bashrc().open("a", encoding="utf-8") as opened:
        opened.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
    return True


def _bashrc() -> Path:
    return Path.home() / ".bashrc"


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise Refusal(f"Which shell? Give one of {', '.join(SHELLS)}.")
    return name


def _script(shell: str) -> str:
    use()
    kind = get_completion_class(shell)
    if kind is None:
        raise Refusal(f"There is no completion for {shell}.")
    try:
        script = kind(main, {}, "tidings", VARIABLE).source()
    except RuntimeError as error:  # click looks at the version of bash.
        raise Refusal(f"{error}") from None
    # What is offered to fish comes after the first comma, and may have others in it: URIs and descriptions do.
    return script.replace('string split ","', 'string split --max 1 ","') if shell == "fish" else script


def _place(shell: str) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    match shell:
        case "bash":
            return data / "bash-completion/completions/tidings"
        case "zsh":
            return data / "zsh/site-functions/_tidings"
        case _:
            return config / "fish/completions/tidings.fish"
