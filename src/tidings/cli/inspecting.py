"""What both inspectors are told on the command line: which servers, and what to keep.

What commands that show the inspector's page have in common: where it is served, and opening it.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidings.cli.exits import Refusal
from tidings.cli.oneshot import complete_target, era_option, explaining_target
from tidings.cli.serving import HttpAddress, listen
from tidings.cli.variables import Configured

if TYPE_CHECKING:
    import socket

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
    from tidings.inspector.catalog.targets import resolve

    try:
        found = tuple(resolve(target, Catalog(path, read_only=read_only)) for target in targets)
    except BadTarget as error:
        raise Refusal(error.message) from None
    return found if era is None else tuple(replace(entry, era=era) for entry in found)


def journal_path(*, keep: bool) -> Path | None:
    """Where sessions are kept; None: nowhere."""
    if not keep:
        return None
    from tidings.inspector.sessions.saved import default_path

    return default_path()


_FIRST_PORT: Final = 6280
_PORTS: Final = range(_FIRST_PORT, _FIRST_PORT + 20)
_DOOR_SECONDS: Final = 60.0

_PORT: Final = click.IntRange(0, 65535)
_PORT.name = "port"  # As it is called where it is none.


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--port` and `--no-browser`."""
    for option in (
        click.option("--no-browser", is_flag=True, help="Do not open the page; its address is printed in any case."),
        click.option(
            "--port",
            type=_PORT,
            metavar="PORT",
            help=f"Where to serve the page (the first free from {_FIRST_PORT}).",
        ),
    ):
        command = option(command)
    return command


def listen_for_page(host: str, port: int | None) -> "tuple[socket.socket, HttpAddress]":
    """A socket for the page, and where that is: at the port that was asked for, or at the first that is free.

    Raises:
        Refusal: There is none to be had.
    """
    if port is not None:
        try:
            return listen(HttpAddress(host, port))
        except Refusal as refusal:
            if "is in use" in refusal.message:
                message = f"Port {port} of {host} is in use. Choose another with --port, or leave --port out."
                raise Refusal(message) from None
            raise
    for each in _PORTS:
        try:
            return listen(HttpAddress(host, each))
        except Refusal as refusal:
            if "is in use" not in refusal.message:
                raise
    return listen(HttpAddress(host, 0))


@contextmanager
def opened(url: str, *, asked: bool) -> Generator[bool]:
    """Open the page while the rest is imported; yields whether there is a screen to open it on.

    What leads the browser there is deleted after a while, or at the end.
    """
    if not asked:
        yield False
        return
    from threading import Thread, Timer

    from tidings.inspector.http.serve import can_open, close_door, doorway, open_page

    if not can_open(os.environ):
        yield False
        return
    door = doorway(url)
    try:
        Thread(target=open_page, args=(door,), daemon=True).start()
        closing = Timer(_DOOR_SECONDS, close_door, (door,))
        closing.daemon = True
        closing.start()
        yield True
    finally:
        close_door(door)
