"""What commands that show the inspector's page have in common: where it is served, and opening it."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from tidings.cli.addresses import HttpAddress, listen
from tidings.cli.exits import Refusal

if TYPE_CHECKING:
    import socket

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

    from tidings.inspector.web.opening_page import can_open, close_door, doorway, open_page

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
