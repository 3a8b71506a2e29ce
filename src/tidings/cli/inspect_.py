"""`tidings inspect` and `tidings tui`: the inspector in the browser and in the terminal."""

import asyncio
import logging
import os
import sys
from contextlib import suppress
from importlib.util import find_spec

import click

from tidings.cli.exits import Refusal
from tidings.cli.inspecting import Inspected, inspector, listen_for_page, opened, page_options
from tidings.cli.logs import log_options, logger

NO_TERMINAL = "tidings tui needs a terminal. In scripts and pipes, use tidings list, call, read and watch, with --json."
NO_TEXTUAL = (
    "tidings tui needs Textual, which is not installed: pip install 'tidings[inspector]' (in a clone: pip install "
    "'.[inspector]')"
)


@inspector("inspect")
@click.option("--host", default="127.0.0.1", metavar="HOST", help="Host of the page (default 127.0.0.1).")
@page_options
@log_options
def command(inspected: Inspected, host: str, port: int | None, *, no_browser: bool) -> None:
    """Open the inspector in the browser."""
    # At the end, asyncio warns about child processes that were killed.
    if logging.getLogger().level >= logging.WARNING:
        logging.getLogger("asyncio").setLevel(logging.ERROR)
    listening, address = listen_for_page(host, port)

    from tidings.inspector.http.gate import Key

    key = Key(address.port)
    url = f"{address.url.removesuffix('/mcp')}/#token={key.token}"
    click.echo(url)
    if address.beyond:
        logger.warning("Other machines can reach this address, and the connection is not encrypted.")
    with opened(url, asked=not no_browser):
        from tidings.inspector.http.serve import ServePlan, Serving

        journal = inspected.journal
        saved = None if journal is None else journal.with_name("saved-calls.json")
        plan = ServePlan(inspected.servers, inspected.catalog, inspected.read_only, journal, saved, os.environ)

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
def tui_command(inspected: Inspected, *, light: bool) -> None:
    """Open the inspector in the terminal.

    Press ? for the keys, q to quit.
    """
    if find_spec("textual") is None:
        raise Refusal(NO_TEXTUAL)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refusal(NO_TERMINAL)
    asyncio.run(_run_tui(inspected, dark=not light))


async def _run_tui(inspected: Inspected, *, dark: bool) -> None:
    """Runs the inspector in the terminal until the user quits; then disconnects from all servers."""
    from tidings.inspector.catalog import Catalog
    from tidings.inspector.servers import SessionServers
    from tidings.inspector.session import Session
    from tidings.inspector.tui.app import InspectorApp

    async with Session(journal=inspected.journal, environ=os.environ) as session:
        servers = SessionServers(session, Catalog(inspected.catalog, read_only=inspected.read_only), os.environ)
        await servers.begin(inspected.servers)
        await InspectorApp(session, servers=servers, dark=dark).run_async()
