"""What both inspectors are told on the command line: which servers, and what to keep."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidings.cli.exits import Refusal
from tidings.cli.options import complete_target, era_option, explaining_target
from tidings.cli.variables import Configured

if TYPE_CHECKING:
    from tidings.inspector.catalog import ServerEntry

_OPTIONS = (
    click.argument("targets", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target),
    era_option,
    click.option(
        "--catalog",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file of servers to use, instead of your own; an mcpServers file of another program will do.",
    ),
    click.option("--read-only", is_flag=True, help="Never change the catalog."),
    click.option("--no-journal", is_flag=True, help="Keep nothing of what was seen."),
)


def inspector(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make the command of an inspector: adds the TARGETs, which era to speak with them, and what to keep."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        help_ = explaining_target(
            function, "Several are inspected at once; without one, those of your catalog are there."
        )
        for option in reversed(_OPTIONS):
            function = option(function)
        return click.command(name, cls=Configured, help=help_)(function)

    return decorate


def catalog_path(stated: Path | None) -> Path:
    """The file of servers: the one that was stated, or the user's own.

    Raises:
        Refusal: It could not even be made.
    """
    if stated is not None:
        if not stated.exists() and not stated.parent.is_dir():
            raise Refusal(f"There is no folder {stated.parent}. Check --catalog.")
        return stated
    from tidings.inspector.catalog import user_catalog

    return user_catalog(os.environ, sys.platform, Path.home())


def meant(targets: tuple[str, ...], era: str | None, path: Path, *, read_only: bool) -> "tuple[ServerEntry, ...]":
    """The servers that these targets mean; spoken with in this era, if one was asked for.

    Raises:
        Refusal: One of them means none, and why.
    """
    if not targets:
        return ()
    from tidings.errors import BadTarget
    from tidings.inspector.catalog import Catalog
    from tidings.inspector.catalog_targets import resolve

    try:
        found = tuple(resolve(target, Catalog(path, read_only=read_only)) for target in targets)
    except BadTarget as error:
        raise Refusal(error.message) from None
    return found if era is None else tuple(replace(entry, era=era) for entry in found)


def journal_path(*, keep: bool) -> Path | None:
    """Where sessions are kept; None: nowhere."""
    if not keep:
        return None
    from tidings.inspector.journal_file import default_path

    return default_path()
