"""`tidings mock`."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidings._kit.text import counted, harmless
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options
from tidings.cli.serving import Configured, begin, check_token_use, http_address, http_options, serve_app, until_stopped
from tidings.cli.terminal import option, table

if TYPE_CHECKING:
    from tidings.inspector.records import Record
    from tidings.inspector.sessions.saved import SavedSession


@click.command("mock", cls=Configured)
@click.argument("session", metavar="SESSION", required=False, type=click.Path())
@option("listing --list", "List the sessions that the inspector recorded, and exit.", allow_from_autoenv=False)
@http_options
@option("--server=NAME", "Serve this server, if the session has several.")
@log_options
def command(*, session: str | None, http: str | None, token: str | None, server: str | None, listing: bool) -> None:
    """Serve a recorded session as an MCP server.

    SESSION is a file that the inspector exported, or the number or the name of a recorded session (see --list).

    Without --http, the server speaks MCP over stdio, for a client that starts it: tidings list "tidings mock
    session.jsonl"
    """
    address = None if http is None else http_address(http)
    check_token_use(address, token)
    if listing:
        rows: list[tuple[str, ...]] = []
        for each in _recorded():
            began = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.began))
            names = harmless(each.title or ""), harmless(", ".join(each.servers))
            rows.append((str(each.id), began, counted(each.records, "record"), *names))
        table(rows, ("name", "dim", "dim", "", ""), sys.stdout)
        if not rows:
            click.echo("There are no recorded sessions. `tidings inspect` records them.", err=True)
        return
    if session is None:
        text = "SESSION is missing. Give a file, or the number or the name of a session of `tidings mock --list`."
        raise Refusal(text)
    from tidings.inspector.sessions.mock import asgi, serve_stdio

    records = _records(session)
    try:
        app: Any = None if address is None else asgi(records, host=address.host, server=server)
        served = begin("the recorded session", address, token, for_clients=False)
        over_stdio = partial(serve_stdio, records, server=server)
        until_stopped(over_stdio if served is None else partial(serve_app, app, served))
    except LookupError as error:
        raise Refusal(str(error.args[0]) if error.args else "The session has no such server.") from None


def _records(session: str) -> "Sequence[Record]":
    from tidings.inspector.sessions.saved import NotASession, default_path, import_session, load_session

    path = Path(session)
    if not path.exists():  # The session of this number, or else the newest of this name.
        recorded = _recorded()
        found = [each.id for each in recorded if str(each.id) == session]
        if found := found or [each.id for each in recorded if each.title == session]:
            return load_session(default_path(), found[0])
    try:
        return import_session(path).records
    except NotASession as error:
        raise Refusal(f"{error}. Export one from the inspector.") from None
    except FileNotFoundError:
        raise Refusal(f"There is no file or recorded session {session}. See `tidings mock --list`.") from None
    except OSError as error:
        raise Refusal(f"Cannot read {session}: {error.strerror}.") from None


def _recorded() -> "list[SavedSession]":
    from tidings.inspector.sessions.saved import JournalUnusable, default_path, list_sessions

    try:
        return list_sessions(default_path())
    except JournalUnusable as error:
        raise Refusal(str(error)) from None
