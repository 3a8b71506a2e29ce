"""`tidings tui`: the inspector in the terminal."""

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidings.cli.exits import Refusal
from tidings.cli.inspecting import catalog_path, inspector, journal_path, meant

if TYPE_CHECKING:
    from tidings.inspector.catalog import Catalog, ServerEntry

NO_TERMINAL = (
    "tidings tui needs a terminal to draw on, and there is none here. For scripts and pipes: tidings list, call, read "
    "and watch, with --json."
)
NO_TEXTUAL = (
    "tidings tui needs Textual, which is not installed: pip install 'tidings[inspector]' (in a clone: pip install "
    "'.[inspector]')"
)


@inspector("tui")
@click.option("--light", is_flag=True, help="Begin with the light scheme; t changes it.")
def command(
    targets: tuple[str, ...], era: str | None, *, light: bool, catalog: Path | None, read_only: bool, no_journal: bool
) -> None:
    """Inspect servers in the terminal: changes as they come, tools, resources, messages.

    ? shows the keys, q quits.
    """
    if find_spec("textual") is None:
        raise Refusal(NO_TEXTUAL)
    from tidings.inspector.catalog import Catalog

    path = catalog_path(catalog)
    given = meant(targets, era, path, read_only=read_only)
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
