"""`tidings mock`: a recorded session, served."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidings.cli.ending import ending
from tidings.cli.exits import Failed
from tidings.cli.serving import DEFAULT, http_options, listen, parse_address
from tidings.cli.terminal import harmless, table

if TYPE_CHECKING:
    from tidings.inspector.journal_sessions import SavedSession
    from tidings.inspector.records import Record


@click.command("mock")
@click.argument("session", metavar="SESSION", required=False)
@click.option("--list", "listing", is_flag=True, help="List the sessions that the inspector keeps, and end.")
@http_options
@click.option("--server", metavar="NAME", help="Which server of the session, if it has several.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Repeat the changes that were recorded: 1 at their pace, 2 twice as fast, 0 at once.",
)
def command(
    session: str | None, http: str | None, token: str | None, server: str | None, speed: float | None, *, listing: bool
) -> None:
    """Serve a recorded session: an MCP server that answers as it did.

    SESSION is a file that the inspector exported, or the number or the name of a session that it keeps (see --list).
    Without --http, this speaks MCP on standard input and output, for a client that starts it: tidings list "tidings
    mock session.jsonl"
    """
    with ending():
        if listing:
            _list(_kept())
            return
        if session is None:
            raise Failed("Which session? Give a file, or the number or the name of one that `tidings mock --list` has.")
        records = _records(session)
        try:
            if http is None:
                _serve_stdio(records, server, speed)
            else:
                _serve_http(records, server, speed, http, token)
        except LookupError as error:
            raise Failed(str(error.args[0]) if error.args else "The session has no such server.") from None


def _records(session: str) -> "Sequence[Record]":
    from tidings.inspector.journal_file import default_path
    from tidings.inspector.journal_sessions import load_session
    from tidings.inspector.transfer import NotASession, import_session

    path = Path(session)
    if not path.exists() and (found := _find(session, _kept())) is not None:
        return load_session(default_path(), found.id)
    try:
        return import_session(path).records
    except NotASession as error:
        raise Failed(f"{error}. Export one from the inspector.") from None
    except FileNotFoundError:
        raise Failed(f"There is no file {session}, and no such session is kept: see `tidings mock --list`.") from None
    except OSError as error:
        raise Failed(f"{session} cannot be read ({error.strerror}).") from None


def _kept() -> "list[SavedSession]":
    from tidings.inspector.journal_file import Unusable, default_path
    from tidings.inspector.journal_sessions import list_sessions

    try:
        return list_sessions(default_path())
    except Unusable as error:
        raise Failed(f"{default_path()} cannot be read: {error}.") from None


def _find(session: str, kept: "Sequence[SavedSession]") -> "SavedSession | None":
    """The session of this number, or else the newest of this name."""
    return next((each for each in kept if str(each.id) == session), None) or next(
        (each for each in kept if each.title == session), None
    )


def _list(kept: "Sequence[SavedSession]") -> None:
    rows = [
        (
            str(each.id),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(each.began)),
            f"{each.records:,} records",
            harmless(each.title or ""),
            harmless(", ".join(each.servers)),
        )
        for each in kept
    ]
    table(rows, ("name", "dim", "dim", "", ""), sys.stdout)
    if not rows:
        click.echo("No session is kept: `tidings inspect` keeps them.", err=True)


def _serve_stdio(records: "Sequence[Record]", server: str | None, speed: float | None) -> None:
    import asyncio

    from tidings.inspector.mock import serve_stdio

    if sys.stdin.isatty():
        click.echo("This speaks MCP on standard input: for a client to start. To try it over HTTP: --http.", err=True)
    asyncio.run(serve_stdio(records, server=server, speed=speed))


def _serve_http(
    records: "Sequence[Record]", server: str | None, speed: float | None, http: str, token: str | None
) -> None:
    import uvicorn

    from tidings.cli.serving import BearerToken, check_token
    from tidings.inspector.mock import asgi

    address = parse_address(http)
    if address is None:
        raise Failed(f"--http takes HOST:PORT, as in {DEFAULT}, not {http!r}.")
    check_token(address, token)
    app = asgi(records, server=server, speed=speed, host=address.host)
    listening, address = listen(address)
    click.echo(f"Serving the recorded session at {address.url} (Ctrl-C ends it)", err=True)
    guarded = BearerToken(app, token) if token else app
    config = uvicorn.Config(guarded, log_config=None, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
