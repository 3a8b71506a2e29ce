"""`tidings tui`: the inspector in the terminal."""

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidings.inspector.catalog import ServerEntry
    from tidings.inspector.tui.shelf import Shelf

NO_TERMINAL = (
    "tidings tui needs a terminal to draw on, and there is none here. For scripts and pipes: tidings list, call, read "
    "and watch, with --json."
)
NO_TEXTUAL = "tidings tui needs Textual, which is not installed: pip install 'tidings[inspector]'"


class Refused(click.ClickException):
    """It does not begin: what was asked for cannot be."""

    exit_code = 2


@click.command()
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@click.option("--era", default="auto", show_default=True, help="auto, legacy, or a version such as 2026-07-28.")
@click.option("--light", is_flag=True, help="Begin with the light scheme; t changes it.")
@click.option("--catalog", type=click.Path(path_type=Path, dir_okay=False), help="Another catalog than yours.")
def command(targets: tuple[str, ...], era: str, light: bool, catalog: Path | None) -> None:
    """Inspect servers in the terminal: changes as they come, tools, resources, messages.

    A TARGET is a URL, a command in quotes, a server of a JSON file (mcp.json#name), or a name in your catalog. Each is
    connected to. Without one, the servers of your catalog are shown, and those are connected to that say so.

    ? shows the keys, q quits.
    """
    if find_spec("textual") is None:
        raise Refused(NO_TEXTUAL)
    shelf = make_shelf(catalog)
    entries = chosen(targets, era, shelf)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused(NO_TERMINAL)
    asyncio.run(run(entries, shelf, connect_all=bool(targets), dark=not light))


def make_shelf(catalog: Path | None) -> "Shelf":
    """Where servers are found on this machine."""
    from tidings.inspector.catalog import Catalog, user_catalog
    from tidings.inspector.tui.shelf import Shelf

    home = Path.home()
    path = catalog or user_catalog(os.environ, sys.platform, home)
    return Shelf(Catalog(path, read_only=catalog is not None), home, Path.cwd(), sys.platform, os.environ)


def chosen(targets: tuple[str, ...], era: str, shelf: "Shelf") -> "list[ServerEntry]":
    """The servers that were asked for, each under a name of its own; without targets, those of the catalog.

    Raises:
        Refused: One of them means no server, or the catalog cannot be read.
    """
    from dataclasses import replace

    from tidings.errors import TidingsError
    from tidings.inspector.catalog import CatalogError

    entries: dict[str, ServerEntry] = {}
    try:
        if not targets and shelf.catalog is not None:
            return list(shelf.catalog.entries())
        for target in targets:
            entry = shelf.entry(target, None, entries)
            entries[entry.name] = replace(entry, era=era) if era != "auto" else entry
    except (TidingsError, CatalogError) as error:
        raise Refused(getattr(error, "message", None) or str(error)) from None
    return list(entries.values())


async def run(entries: "list[ServerEntry]", shelf: "Shelf", *, connect_all: bool, dark: bool) -> None:
    """Show the servers until somebody quits; then disconnect from all of them."""
    from tidings.inspector.session import Session
    from tidings.inspector.tui.app import InspectorApp

    async with Session(environ=os.environ) as session:
        for entry in entries:
            await session.add(entry, connect=connect_all or entry.auto_connect)
        await InspectorApp(session, shelf=shelf, dark=dark).run_async()
