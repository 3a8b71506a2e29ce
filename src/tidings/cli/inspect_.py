"""`tidings inspect`: the inspector in the browser."""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidings.cli.addresses import HttpAddress
from tidings.cli.inspecting import catalog_path, inspector, journal_path, meant
from tidings.cli.logs import log_options, logger
from tidings.cli.page_door import listen_for_page, opened, page_options

if TYPE_CHECKING:
    import socket

    from tidings.inspector.catalog import ServerEntry


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

    from tidings.inspector.web.gate import Key

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
    from tidings.inspector.web.serving import Plan

    journal = journal_path(keep=keep)
    saved = None if journal is None else journal.with_name("saved-calls.json")
    return Plan(given, path, read_only, journal, saved, os.environ)


def _serve(listening: "socket.socket", key: Any, address: HttpAddress, plan: Any) -> None:
    import asyncio
    from contextlib import suppress

    from tidings.inspector.web.serving import Serving

    async def serve() -> None:
        await Serving(listening, key, plan, host=address.host).run()

    with suppress(KeyboardInterrupt):
        # Not `asyncio.run`: it would wait for threads that nobody waits for any more.
        asyncio.Runner().run(serve())
