"""`tidings inspect`: the inspector in the browser.

`tidings tui`: the inspector in the terminal.
"""

import asyncio
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidings.cli.exits import Refusal
from tidings.cli.inspecting import catalog_path, inspector, journal_path, listen_for_page, meant, opened, page_options
from tidings.cli.logs import log_options, logger
from tidings.cli.serving import HttpAddress

if TYPE_CHECKING:
    import socket

    from tidings.inspector.catalog import Catalog, ServerEntry


@inspector("inspect")
@click.option("--host", default="127.0.0.1", metavar="HOST", help="Where to serve the page (127.0.0.1).")
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
    """Inspect servers in the browser: what they have, what they say, what changes."""
    # When it ends, what servers leave is killed; asyncio then wonders who was quicker to see them go.
    if logging.getLogger().level >= logging.WARNING:
        logging.getLogger("asyncio").setLevel(logging.ERROR)
    path = catalog_path(catalog)
    given = meant(targets, era, path, read_only=read_only)
    listening, address = listen_for_page(host, port)

    from tidings.inspector.http.gate import Key

    key = Key(address.port)
    url = f"{address.url.removesuffix('/mcp')}/#token={key.token}"
    click.echo(url)
    if address.beyond:
        logger.warning("Other machines can reach this address; what goes there is not encrypted.")
    with opened(url, asked=not no_browser):
        _serve(listening, key, address, _plan(given, path, read_only=read_only, keep=not no_journal))
    # Everything is closed and written. Taking the SDK's thousands of classes apart would take longer than all of that.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _plan(given: "tuple[ServerEntry, ...]", path: Path, *, read_only: bool, keep: bool) -> Any:
    from tidings.inspector.http.serve import ServePlan

    journal = journal_path(keep=keep)
    saved = None if journal is None else journal.with_name("saved-calls.json")
    return ServePlan(given, path, read_only, journal, saved, os.environ)


def _serve(listening: "socket.socket", key: Any, address: HttpAddress, plan: Any) -> None:
    import asyncio
    from contextlib import suppress

    from tidings.inspector.http.serve import Serving

    async def serve() -> None:
        await Serving(listening, key, plan, host=address.host).run()

    with suppress(KeyboardInterrupt):
        # Not `asyncio.run`: it would wait for threads that nobody waits for any more.
        asyncio.Runner().run(serve())


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
def tui_command(
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
    from tidings.inspector.servers import SessionServers
    from tidings.inspector.session import Session
    from tidings.inspector.tui.app import InspectorApp

    async with Session(journal=journal, environ=os.environ) as session:
        servers = SessionServers(session, catalog, os.environ)
        await servers.begin(given)
        await InspectorApp(session, servers=servers, dark=dark).run_async()
