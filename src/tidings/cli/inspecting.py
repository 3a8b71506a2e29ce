"""What both inspectors are told on the command line: which servers, and what to keep."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidings.cli.serving import Refusal

if TYPE_CHECKING:
    from tidings.inspector.catalog import ServerEntry

_OPTIONS = (
    click.option(
        "--catalog",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file of servers to use, instead of your own; an mcpServers file of another program will do.",
    ),
    click.option("--read-only", is_flag=True, help="Never change the catalog."),
    click.option("--no-journal", is_flag=True, help="Keep nothing of this session when it ends."),
)


def keeping_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--catalog`, `--read-only` and `--no-journal`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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


def meant(targets: tuple[str, ...], path: Path, *, read_only: bool) -> "tuple[ServerEntry, ...]":
    """The servers that these targets mean.

    Raises:
        Refusal: One of them means none, and why.
    """
    if not targets:
        return ()
    from tidings.errors import BadTarget
    from tidings.inspector.catalog import Catalog
    from tidings.inspector.catalog_targets import resolve

    try:
        return tuple(resolve(target, Catalog(path, read_only=read_only)) for target in targets)
    except BadTarget as error:
        raise Refusal(error.message) from None


def journal_path(*, keep: bool) -> Path | None:
    """Where sessions are kept; None: nowhere."""
    if not keep:
        return None
    from tidings.inspector.journal_file import default_path

    return default_path()
