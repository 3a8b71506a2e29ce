"""`tidings inspect` and `tidings tui`: the inspector in the browser and in the terminal."""

import asyncio
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from tidings._kit.lazy import install_command
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options, logger
from tidings.cli.oneshot import credential_options, era_option, sent_headers, with_target_help
from tidings.cli.serving import Configured, HttpAddress, PortInUse, listen
from tidings.cli.terminal import all_of, option
from tidings.errors import BadTarget

if TYPE_CHECKING:
    import socket

    from tidings.inspector.catalog.entry import ServerEntry
    from tidings.inspector.session import Session

_FIRST_PORT: Final = 6280

_PORT: Final = click.IntRange(0, 65535)
_PORT.name = "port"  # For the error message of a wrong value.

_OPTIONS = (
    click.argument("targets", metavar="[TARGET]...", nargs=-1),
    era_option,
    credential_options,
    option(
        "--catalog",
        "Use this file of servers instead of your own catalog. It may be the mcpServers file of another program.",
        click.Path(dir_okay=False, path_type=Path),
    ),
    option("--read-only", "Never change the catalog."),
    option("--no-journal", "Do not record the session."),
)
_PORT_HELP: Final = f"Port of the page (default: the first free port from {_FIRST_PORT})."
page_options: Final = all_of(
    [
        option("--port=PORT", _PORT_HELP, _PORT),
        option("--no-browser", "Do not open the page in a browser; only print its URL."),
    ]
)


@dataclass(frozen=True)
class Inspected:
    """The servers to inspect, and the files of the inspector: its catalog, and the one that records sessions."""

    servers: "tuple[ServerEntry, ...]"
    catalog: Path
    read_only: bool
    journal: Path | None


def inspector(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function that takes `Inspected` and its own parameters; adds TARGETs and the options."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        @click.pass_context
        def run(
            ctx: click.Context,
            /,
            targets: tuple[str, ...],
            era: str | None,
            *,
            catalog: Path | None,
            read_only: bool,
            no_journal: bool,
            **own: Any,
        ) -> Any:
            if catalog is not None and not catalog.exists() and not catalog.parent.is_dir():
                raise Refusal(f"There is no folder {catalog.parent}. Check --catalog.")
            from tidings.inspector.catalog.entry import user_catalog

            path = catalog or user_catalog(os.environ, sys.platform, Path.home())
            servers = _with_credentials(ctx, own, _resolved(targets, era, path, read_only=read_only))
            from tidings.inspector.sessions.saved import default_path

            return function(Inspected(servers, path, read_only, None if no_journal else default_path()), **own)

        help_ = with_target_help(
            function, "Several servers can be inspected at once. Without TARGET, the servers of your catalog are shown."
        )
        return click.command(name, cls=Configured, help=help_)(all_of(_OPTIONS)(run))

    return decorate


def _with_credentials(
    ctx: click.Context, own: dict[str, Any], servers: "tuple[ServerEntry, ...]"
) -> "tuple[ServerEntry, ...]":
    """Takes the credentials out of the options of a command. Returns the servers with them."""
    headers, token, named = dict(own.pop("headers")), own.pop("token"), own.pop("token_env")
    explicit = bool(named) or ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE
    if not explicit and len(servers) != 1:  # A variable does not say which of the servers it is for.
        token = None
    if (headers or explicit) and not any(server.url for server in servers):
        raise Refusal("--header, --token and --token-env are for a server at a URL. Give its URL as TARGET.")

    def with_them(entry: "ServerEntry") -> "ServerEntry":
        sent = sent_headers(entry.headers, headers, named or token, token_is_explicit=explicit)
        return entry if entry.url is None else replace(entry, headers=sent)

    return tuple(map(with_them, servers))


def _resolved(targets: tuple[str, ...], era: str | None, path: Path, *, read_only: bool) -> "tuple[ServerEntry, ...]":
    """Returns the servers of these targets, with the era if one was given."""
    if not targets:
        return ()
    from tidings.inspector.catalog.catalog import Catalog, is_runner, resolve

    try:
        # A word such as `python`, and more words: one command that is not in quotes.
        given = (targets,) if len(targets) > 1 and is_runner(targets[0]) else targets
        found = tuple(resolve(target, Catalog(path, read_only=read_only)) for target in given)
    except BadTarget as error:
        raise Refusal(error.message) from None
    return found if era is None else tuple(replace(entry, era=era) for entry in found)


def listen_for_page(host: str, port: int | None) -> "tuple[socket.socket, HttpAddress]":
    """Opens the socket of the page, at the given port or at the first free one."""
    if port is not None:
        try:
            return listen(HttpAddress(host, port))
        except PortInUse:
            raise Refusal(f"Port {port} of {host} is in use. Choose another with --port, or omit --port.") from None
    for each in range(_FIRST_PORT, _FIRST_PORT + 20):
        try:
            return listen(HttpAddress(host, each))
        except PortInUse:
            continue
    return listen(HttpAddress(host, 0))


@contextmanager
def opened(url: str, *, asked: bool) -> Generator[bool]:
    """Opens the page in a browser meanwhile, by a file that is deleted. Yields whether there is a screen for it."""
    if not asked:
        yield False
        return
    from threading import Thread, Timer

    from tidings._kit.process import can_open_browser
    from tidings.inspector.http.serve import delete_redirect, make_redirect, open_page

    if not can_open_browser(os.environ):
        yield False
        return
    redirect = make_redirect(url)
    try:
        Thread(target=open_page, args=(redirect,), daemon=True).start()
        closing = Timer(60.0, delete_redirect, (redirect,))
        closing.daemon = True
        closing.start()
        yield True
    finally:
        delete_redirect(redirect)


@inspector("inspect")
@option("--host=HOST", "Host of the page (default 127.0.0.1).", default="127.0.0.1")
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
@option("--light", "Start with the light theme. Press t to switch.")
def tui_command(inspected: Inspected, *, light: bool) -> None:
    """Open the inspector in the terminal.

    Press ? for the keys, q to quit.
    """
    if find_spec("textual") is None:
        raise Refusal(f"tidings tui needs Textual, which is not installed: {install_command('inspector')}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refusal(
            "tidings tui needs a terminal. In scripts and pipes, use tidings list, call, read and watch, with --json."
        )
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise Refusal(
            "This terminal cannot draw a screen (TERM is dumb, or not set). Set TERM, for example to xterm-256color, "
            "or use tidings list, call, read and watch."
        )
    asyncio.run(_run_tui(inspected, dark=not light))


async def _run_tui(inspected: Inspected, *, dark: bool) -> None:
    """Runs the inspector in the terminal until the user quits, or the terminal is gone; then disconnects from all."""
    from tidings.inspector.catalog.catalog import Catalog
    from tidings.inspector.session import Session, SessionServers
    from tidings.inspector.tui.app import InspectorApp

    over = threading.Event()
    async with Session(journal=inspected.journal, environ=os.environ) as session:
        servers = SessionServers(session, Catalog(inspected.catalog, read_only=inspected.read_only), os.environ)
        await servers.begin(inspected.servers)
        watch = functools.partial(_watch_terminal, session, asyncio.get_running_loop(), over)
        threading.Thread(target=watch, daemon=True).start()
        try:
            await InspectorApp(session, servers=servers, dark=dark, lands=True).run_async()
        finally:
            over.set()


def _watch_terminal(session: "Session", loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
    """Ends the process when its terminal is gone, also without a SIGHUP: Textual would read and write it for ever."""
    import termios

    from tidings.inspector.session import stop_commands

    while not over.wait(0.5):
        try:
            termios.tcgetattr(sys.__stdin__ or 0)
        except (termios.error, OSError, ValueError):
            with suppress(Exception):  # Not within its time, if the loop waits for the terminal already.
                asyncio.run_coroutine_threadsafe(session.aclose(), loop).result(5.0)
            stop_commands(session.pids, signal.SIGKILL)
            os._exit(0)
