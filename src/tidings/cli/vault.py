"""`tidings vault`: an Obsidian vault for agents, over standard input and output or over HTTP."""

import difflib
import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tidings.cli import client_config
from tidings.cli.client_config import config_option
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options, logger
from tidings.cli.serving import DEFAULT, HttpAddress, begin, check_token_use, http_options, parse_address, run
from tidings.cli.variables import Configured, ListOption

if TYPE_CHECKING:
    from tidings.vault.files.paths import Vault
    from tidings.vault.library import VaultLibrary
    from tidings.vault.server import VaultServer


@dataclass(frozen=True)
class VaultOptions:
    """What the command was asked for."""

    paths: tuple[Path, ...]
    http: HttpAddress | None
    read_only: bool
    bus: str | None = field(repr=False)
    exclude: tuple[str, ...]
    cache: Path | None
    token: str | None = field(repr=False)


@click.command("vault", cls=Configured)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@http_options
@click.option("--read-only", is_flag=True, help="Offer nothing that writes, and refuse every write.")
@click.option(
    "--exclude",
    multiple=True,
    type=ListOption(),
    metavar="GLOB",
    help="Leave out what matches, as in 'Private' or '*.bak'.",
)
@click.option("--bus", metavar="URL", help="Share changes with other processes, as in redis://host.")
@click.option("--cache", metavar="DIR", type=click.Path(path_type=Path), help="Keep the index there.")
@config_option("the vault")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    http: str | None,
    read_only: bool,
    exclude: tuple[str, ...],
    bus: str | None,
    cache: Path | None,
    token: str | None,
    config: str | None,
) -> None:
    """Serve an Obsidian vault to agents, and tell them of every change.

    PATH is the folder of the vault; several are served together, each under its name. Neither the app nor a plugin is
    needed.

    Without --http, this speaks MCP on standard input and output, for a client that starts it. The snippet that such a
    client needs is printed by --config.
    """
    address = None if http is None else parse_address(http)
    if http is not None and address is None:
        # `--http PATH`: the address was left out, and what follows is the vault.
        typed = ctx.get_parameter_source("http") is ParameterSource.COMMANDLINE
        if not typed or not Path(http).is_dir():
            raise Refusal(f"--http takes HOST:PORT, as in {DEFAULT}; {http!r} is neither that nor a folder.")
        paths, address = (http, *paths), parse_address(DEFAULT)
    if not paths or not all(paths):
        ctx.fail("Which vault? Give its folder, as in: tidings vault ~/Notes")
    folders = tuple(Path(os.path.expanduser(path)) for path in paths)  # noqa: PTH111 - there may be no such user
    options = VaultOptions(folders, address, read_only, bus, exclude, cache, token or None)
    check_token_use(ctx, address, options.token)
    if config is not None:
        print_snippet(config, options)
    else:
        serve(options)


def serve(options: VaultOptions) -> None:
    """Serve until the process is asked to stop.

    Raises:
        Refusal: It cannot, for a reason that has a name.
    """
    gc.disable()  # Nothing of what a start makes is garbage, and looking for some takes a tenth of it.
    vault = check(options)
    read_meanwhile(vault, options.cache)
    server = make_server(options)
    gc.freeze()
    gc.enable()
    http = begin(_names(options.paths), options.http, options.token)
    for path in options.paths:
        if not (path / ".obsidian").is_dir():
            logger.info("%r has no .obsidian folder: serving it as a plain folder of notes.", path.resolve().name)
    run(server, http, partial(say_when_indexed, server.library))


async def say_when_indexed(library: "VaultLibrary") -> None:
    """One line when the index is complete."""
    from tidings.vault.index.database import IndexBlocked

    began = time.monotonic()
    await library.settled()
    try:
        stats = await library.ask(lambda view: view.queries.stats())
    except IndexBlocked:
        return  # The server stops already.
    took = time.monotonic() - began
    notes = f"{stats.notes:,} note{'' if stats.notes == 1 else 's'}"
    logger.info("Indexed %s in %.1f s; %s", notes, took, library.status.phase)


def check(options: VaultOptions) -> "Vault":
    """The folders, if they can be served: found out before anything is imported that takes long.

    Raises:
        Refusal: A package is missing, a folder cannot be served, or the index cannot be kept where it is to be.
    """
    from tidings.vault import PACKAGES, packages_missing

    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise Refusal(packages_missing(missing))
    for path in options.paths:
        if not path.exists() and (similar := _similar(path)):
            raise Refusal(f"There is no folder {str(path)!r}. Did you mean {similar!r}?")
    if options.cache is not None and options.cache.exists() and not options.cache.is_dir():
        raise Refusal(f"--cache takes a folder, and {str(options.cache)!r} is a file.")
    from tidings.vault.files.paths import Vault
    from tidings.vault.index.database import folder_for

    try:
        vault = Vault(options.paths, exclude=options.exclude)
        folder_for(vault, options.cache)
    except (ValueError, OSError) as error:
        raise Refusal(str(error)) from error
    return vault


def read_meanwhile(vault: "Vault", cache: Path | None) -> None:
    """Let the first notes be read, if there is no index yet, while the server is imported."""
    from tidings.vault.index import parallel

    parallel.begin(vault, cache)


def make_server(options: VaultOptions) -> "VaultServer":
    """The server, not yet running, once `check` had nothing against it.

    Raises:
        Refusal: There is no such bus, or a folder cannot be served any more.
    """
    from tidings.vault.server import VaultServer

    try:
        return VaultServer(
            *options.paths,
            read_only=options.read_only,
            exclude=options.exclude,
            cache=options.cache,
            bus=options.bus,
        )
    except (ValueError, ImportError, OSError) as error:
        raise Refusal(str(error)) from error


def _similar(path: Path) -> str | None:
    """A folder that is there and that may have been meant by `path`, which is not."""
    try:
        folders = {each.name.casefold(): each for each in path.parent.iterdir() if each.is_dir()}
    except OSError:
        return None
    close = difflib.get_close_matches(path.name.casefold(), folders, n=1)
    return str(folders[close[0]]) if close else None


def print_snippet(client: str, options: VaultOptions) -> None:
    """Print what a client needs to use the vault."""
    from tidings.cli.client_config import server_name

    # A snippet with which it could not start is none.
    check(options)
    make_server(options)
    name = server_name(options.paths[0].resolve().name)
    client_config.print_snippet(client, name, [*program(), "vault", *arguments(options)], options.http, options.token)


def program() -> list[str]:
    """How another program starts this one."""
    return client_config.program("vault")


def arguments(options: VaultOptions) -> list[str]:
    """The arguments of this command, as another program has to give them: independent of the current folder."""
    given = [str(path.resolve()) for path in options.paths]
    if options.read_only:
        given.append("--read-only")
    given += [word for glob in options.exclude for word in ("--exclude", glob)]
    if options.bus:
        given += ["--bus", options.bus]
    if options.cache:
        given += ["--cache", str(options.cache.absolute())]
    return given


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(path.resolve().name for path in paths)
