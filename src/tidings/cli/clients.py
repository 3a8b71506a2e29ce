"""What commands that serve share towards AI clients: `--config CLIENT`, and how a client starts the command."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from tidings.cli.addresses import HttpAddress
from tidings.cli.exits import Refusal

CLIENTS: Final = ("claude-desktop", "claude-code", "vscode", "cursor")
"""As in `tidings.cli.snippets`, which is imported only when it is needed."""


def config_option(what: str) -> Callable[[Any], Any]:
    """The option `--config` of a command whose server is called `what`."""
    return click.option(
        "--config",
        type=click.Choice(CLIENTS),
        allow_from_autoenv=False,
        help=f"Print what this client needs to use {what}, and end.",
    )


def program(extra: str) -> list[str]:
    """How another program starts this one, from wherever it runs; `extra` brings the packages that it needs."""
    here = Path(sys.executable)
    if "archive-v0" in here.parts:
        # In the cache of uv, from which it may vanish.
        return [shutil.which("uvx") or "uvx", "--from", f"tidings[{extra}]", "tidings"]
    found = shutil.which("tidings", path=str(here.parent)) or shutil.which("tidings")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "tidings"]


def print_snippet(client: str, name: str, argv: list[str], http: HttpAddress | None, token: str | None) -> None:
    """Print what a client needs, alone, on standard output; what to do with it is said beside it.

    Args:
        client: One of `CLIENTS`.
        name: What the client will call the server.
        argv: What starts the server.
        http: Where it runs already; None if the client starts it.
        token: What has to be sent there.

    Raises:
        Refusal: The client cannot use a server of this kind.
    """
    from tidings.cli.snippets import Address, CannotUse, Command, snippet

    server = Command(name, argv) if http is None else Address(name, http.url, token)
    try:
        made = snippet(client, server, platform=sys.platform)
    except CannotUse as error:
        raise Refusal(str(error)) from None
    click.echo(made.text)
    click.echo(made.use, err=True)
    if http is not None:
        click.echo(f"It names the server at {http.url}: run that yourself, with all of its options.", err=True)
    if http is not None and token:
        click.echo("It holds the token: keep it to yourself.", err=True)
