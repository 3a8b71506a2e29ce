"""`tidings completion`: what a shell needs to complete commands, servers, tools, resources and prompts."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tidings.cli.completion_bash import use
from tidings.cli.exits import Failed
from tidings.cli.main import main
from tidings.cli.oneshot import ending

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TIDINGS_COMPLETE"


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Put it where the shell looks for it.")
def command(shell: str | None, *, install: bool) -> None:
    """Complete commands, servers, tools and resources in your shell.

    Prints the script for SHELL (bash, zsh or fish; yours, if it is left out), or installs it. Names of tools, resources
    and prompts are asked of the server, and remembered for some minutes.
    """
    with ending():
        shell = shell or _own_shell()
        script = _script(shell)
        if not install:
            click.echo(script)
            return
        file = _place(shell)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(script + "\n")
        except OSError as error:
            raise Failed(f"{file} cannot be written ({error.strerror}).") from None
        click.echo(f"Installed {file}\n{_NEXT[shell].format(folder=file.parent)}", err=True)


_NEXT = {
    "bash": "Open a new shell. It needs the package bash-completion.",
    "zsh": "If ~/.zshrc does not have it yet, add before compinit: fpath=({folder} $fpath)",
    "fish": "Open a new shell.",
}


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise Failed(f"Which shell? Give one of {', '.join(SHELLS)}.")
    return name


def _script(shell: str) -> str:
    use()
    kind = get_completion_class(shell)
    if kind is None:
        raise Failed(f"There is no completion for {shell}.")
    try:
        return kind(main, {}, "tidings", VARIABLE).source()
    except RuntimeError as error:  # click looks at the version of bash.
        raise Failed(f"{error}") from None


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
