"""`tidings tui`: the inspector in the terminal."""

import asyncio
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidings.cli.inspecting import catalog_path, journal_path, keeping_options, meant
from tidings.cli.serving import Refusal

if TYPE_CHECKING:
    from tidings.inspector.catalog import Catalog, ServerEntry

NO_TERMINAL = (
    "tidings tui needs a terminal to draw on, and there is none here. For scripts and pipes: tidings list, call, read "
    "and watch, with --json."
)
NO_TEXTUAL = "tidings tui needs Textual, which is not installed: pip install 'tidings[inspector]'"


@click.command()
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@click.option("--era", default="auto", show_default=True, help="auto, legacy, or a version such as 2026-07-28.")
@click.option("--light", is_flag=True, help="Begin with the light scheme; t changes it.")
@keeping_options
def command(
    targets: tuple[str, ...], era: str, *, light: bool, catalog: Path | None, read_only: bool, no_journal: bool
) -> None:
    """Inspect servers in the terminal: changes as they come, tools, resources, messages.

    A TARGET is a URL, a command in quotes, a server of a JSON file (mcp.json#name), or a name in your catalog. Each is
    connected to. The servers of your catalog are there too, and those are connected to that say so.

    ? shows the keys, q quits.
    """
    if find_spec("textual") is None:
        raise Refusal(NO_TEXTUAL)
    from tidings.inspector.catalog import Catalog

    path = catalog_path(catalog)
    given = meant(targets, path, read_only=read_only)
    if era != "auto":
        given = tuple(replace(entry, era=era) for entry in given)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refusal(NO_TERMINAL)
    asyncio.run(run(given, Catalog(path, read_only=read_only), journal_path(keep=not no_journal), dark=not light))


async def run(given: "tuple[ServerEntry, ...]", catalog: "Catalog", journal: Path | None, *, dark: bool) -> None:
    """Show the servers until somebody quits; then disconnect from all of them."""
    from tidings.inspector.servers import Servers
    from tidings.inspector.session import Session
    from tidings.inspector.tui.app import InspectorApp

    async with Session(journal=journal, environ=os.environ) as session:
        servers = Servers(session, catalog, os.environ)
        await servers.begin(given)
        await InspectorApp(session, servers=servers, dark=dark).run_async()
