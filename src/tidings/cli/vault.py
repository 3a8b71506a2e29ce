"""`tidings vault`."""

import gc
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tidings._kit.lazy import not_installed
from tidings._kit.suggest import closest, question
from tidings._kit.text import counted
from tidings.cli.client_config import config_option, print_snippet, server_name
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options, logger
from tidings.cli.serving import (
    DEFAULT,
    Configured,
    HttpAddress,
    ListOption,
    begin,
    check_channel,
    check_token_use,
    http_options,
    parse_address,
    run,
    waking_options,
)
from tidings.cli.terminal import option

if TYPE_CHECKING:
    from tidings.vault.library import VaultLibrary
    from tidings.vault.server import VaultServer


@dataclass(frozen=True)
class VaultOptions:
    """The options of the command."""

    paths: tuple[Path, ...]
    http: HttpAddress | None
    read_only: bool
    bus: str | None = field(repr=False)
    exclude: tuple[str, ...]
    cache: Path | None
    token: str | None = field(repr=False)
    hints: bool = False
    channel: bool = False


@click.command("vault", cls=Configured)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@http_options
@option("--read-only", "Offer no tools that write, and refuse every write.")
@option(
    "--exclude=GLOB",
    "Exclude files and folders that match, for example 'Private' or '*.bak'.",
    ListOption(),
    multiple=True,
)
@option("--bus=URL", "Share changes with other processes over this bus, for example redis://host.")
@option("--cache=DIR", "Store the index and the log of changes in this folder.", click.Path(path_type=Path))
@waking_options
@config_option("the vault")
@log_options
@click.pass_context
def command(
    ctx: click.Context, *, paths: tuple[str, ...], http: str | None, token: str | None, config: str | None, **given: Any
) -> None:
    """Serve an Obsidian vault over MCP, with live change notifications.

    PATH is the folder of the vault; several vaults are served together, each under its name. Neither the Obsidian app
    nor a plugin is needed.

    Without --http, the server speaks MCP over stdio, for a client that starts it. --config prints the configuration
    for such a client.
    """
    address = None if http is None else parse_address(http)
    if http is not None and address is None:
        # `--http PATH`: no address was given, and the next word is the vault.
        typed = ctx.get_parameter_source("http") is ParameterSource.COMMANDLINE
        if not typed or not Path(http).is_dir():
            text = f"--http takes HOST:PORT, for example {DEFAULT}; {http!r} is neither an address nor a folder."
            raise Refusal(text)
        paths, address = (http, *paths), parse_address(DEFAULT)
    if not paths or not all(paths):
        ctx.fail("PATH is missing. Give the folder of the vault, for example: tidings vault ~/Notes")
    folders = tuple(Path(os.path.expanduser(path)) for path in paths)  # noqa: PTH111 - leaves an unknown ~user as it is
    options = VaultOptions(folders, address, token=token or None, **given)
    check_token_use(address, options.token)
    check_channel(address, options.channel)
    if config is None:
        serve(options)
        return
    check(options)  # A server that cannot start gets no configuration.
    make_server(options)
    folders = tuple(path.resolve() for path in options.paths)
    print_snippet(config, server_name(folders[0].name), [str(path) for path in folders], address, options.token)


def serve(options: VaultOptions) -> None:
    """Serves until the process is asked to stop."""
    gc.disable()  # The start produces no garbage, and a tenth of it would be spent on searching for some.
    check(options)
    server = make_server(options)
    gc.freeze()
    gc.enable()
    http = begin(", ".join(path.resolve().name for path in options.paths), options.http, options.token)
    for path in options.paths:
        if not (path / ".obsidian").is_dir():
            logger.info("%r has no .obsidian folder: serving it as a plain folder of notes.", path.resolve().name)
    stdio = server.run_channel_async if options.channel else server.run_stdio_async
    run(server, http, partial(_log_when_indexed, server.library), stdio)


async def _log_when_indexed(library: "VaultLibrary") -> None:
    from tidings.vault.index.index import IndexBlocked

    began = time.monotonic()
    await library.settled()
    try:
        stats = await library.ask(lambda view: view.queries.stats())
    except IndexBlocked:
        return  # The server is stopping.
    took = time.monotonic() - began
    logger.info("Indexed %s in %.1f s; %s", counted(stats["notes"], "note"), took, library.status.phase)


def check(options: VaultOptions) -> None:
    """Checks the options before anything large is imported."""
    from tidings.vault import PACKAGES, packages_missing

    if missing := not_installed(PACKAGES):
        raise Refusal(packages_missing(missing))
    for path in options.paths:
        with suppress(OSError):  # The folder above it is missing, too.
            folders = [] if path.exists() else [each.name for each in path.parent.iterdir() if each.is_dir()]
            if similar := closest(path.name, folders):
                raise Refusal(f"There is no folder {str(path)!r}.{question([str(path.parent / similar[0])])}")
    if options.cache is not None and options.cache.exists() and not options.cache.is_dir():
        raise Refusal(f"--cache takes a folder; {str(options.cache)!r} is a file.")
    from tidings.vault.files.paths import Vault
    from tidings.vault.index.index import folder_for

    try:
        folder_for(Vault(options.paths, exclude=options.exclude), options.cache)
    except (ValueError, OSError) as error:
        raise Refusal(str(error)) from error


def make_server(options: VaultOptions) -> "VaultServer":
    """Makes the server, after `check`."""
    from tidings.server import Waking
    from tidings.vault.server import VaultServer

    try:
        return VaultServer(
            *options.paths,
            read_only=options.read_only,
            exclude=options.exclude,
            cache=options.cache,
            bus=options.bus,
            durable=True,
            waking=Waking(hints=options.hints),
        )
    except (ValueError, ImportError, OSError) as error:
        raise Refusal(str(error)) from error
