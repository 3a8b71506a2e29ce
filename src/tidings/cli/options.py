"""What several commands have, with the same words: TARGET, and `--era`."""

import inspect
from collections.abc import Callable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

TARGET: Final = (
    "TARGET is a URL (https://host/mcp), a command in quotes ('python server.py'), a server of a JSON file "
    "(mcp.json#name), or a name in your catalog."
)

era_option: Final = click.option(
    "--era",
    type=click.Choice(["auto", "legacy", "2026-07-28"]),
    help="Which era of the protocol to speak; auto takes the newest that both sides know.",
)


def explaining_target(function: Callable[..., Any], more: str) -> str:
    """The help of a command: what its function says, then what TARGET is."""
    return f"{inspect.cleandoc(function.__doc__ or '')}\n\n{TARGET} {more}"


def complete_target(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What the shell is offered for a TARGET."""
    from tidings.cli.completing import targets

    return targets(incomplete)
