"""`tidings inspect` and `tidings tui`: the inspector in the browser and in the terminal."""

import asyncio
import logging
import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidings.cli.exits import Refusal
from tidings.cli.inspecting import (
    catalog_path,
    chosen_servers,
    inspector,
    journal_path,
    listen_for_page,
    opened,
    page_options,
)
from tidings.cli.logs import log_options, logger

if TYPE_CHECKING:
    from tidings.inspector.catalog import Catalog, ServerEntry

NO_TERMINAL = "tidings tui needs a terminal. In scripts and pipes, use tidings list, call, read and watch, with --json."
NO_TEXTUAL = (
    "tidings tui needs Textual, which is not installed: pip install 'tidings[inspector]' (in a clone: pip install "
    "'.[inspector]')"
)


@inspector("inspect")
@click.option("--host", default="127.0.0.1", metavar="HOST", help="Host of the page (default 127.0.0.1).")
@page_options
@log_options
def command(
    targets: tuple[str, ...],
    era: str | None,
    host: str,
    port: int | None,
    *,
    no_browser: bool,
    catalog: Path | None,
    read_only: bool,
    no_journal: bool,
) -> None:
    """Open the inspector in the browser."""
    # At the end, asyncio warns about child processes that were killed.
    if logging.getLogger().level >= logging.WARNING:
        logging.getLogger("asyncio").setLevel(logging.ERROR)
    path = catalog_path(catalog)
    servers = chosen_servers(targets, era, path, read_only=read_only)
    listening, address = listen_for_page(host, port)

    from tidings.inspector.http.gate import Key

    key = Key(address.port)
    url = f"{address.url.removesuffix('/mcp')}/#token={key.token}"
    click.echo(url)
    if address.beyond:
        logger.warning("Other machines can reach this address, and the connection is not encrypted.")
    with opened(url, asked=not no_browser):
        from tidings.inspector.http.serve import ServePlan, Serving

        journal = journal_path(keep=not no_journal)
        saved = None if journal is None else journal.with_name("saved-calls.json")
        plan = ServePlan(servers, path, read_only, journal, saved, os.environ)

        async def serve() -> None:
            await Serving(listening, key, plan, host=address.host).run()

        with suppress(KeyboardInterrupt):
            asyncio.Runner().run(serve())  # `asyncio.run` would wait for threads that nobody needs any more.
    # Everything is closed and written. A regular exit would spend time on deleting the SDK's thousands of classes.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@inspector("tui")
@click.option("--light", is_flag=True, help="Start with the light theme; t switches it.")
def tui_command(
    targets: tuple[str, ...], era: str | None, *, light: bool, catalog: Path | None, read_only: bool, no_journal: bool
) -> None:
    """Open the inspector in the terminal.

    Press ? for the keys, q to quit.
    """
    if find_spec("textual") is None:
        raise Refusal(NO_TEXTUAL)
    from tidings.inspector.catalog import Catalog

    path = catalog_path(catalog)
    servers = chosen_servers(targets, era, path, read_only=read_only)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refusal(NO_TERMINAL)
    asyncio.run(run(servers, Catalog(path, read_only=read_only), journal_path(keep=not no_journal), dark=not light))


async def run(chosen: "tuple[ServerEntry, ...]", catalog: "Catalog", journal: Path | None, *, dark: bool) -> None:
    """Runs the inspector in the terminal until the user quits; then disconnects from all servers."""
    from tidings.inspector.servers import SessionServers
    from tidings.inspector.session import Session
    from tidings.inspector.tui.app import InspectorApp

    async with Session(journal=journal, environ=os.environ) as session:
        servers = SessionServers(session, catalog, os.environ)
        await servers.begin(chosen)
        await InspectorApp(session, servers=servers, dark=dark).run_async()
