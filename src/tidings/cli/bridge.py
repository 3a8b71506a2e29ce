"""`tidings bridge`."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidings._kit.files import same_state, state_of
from tidings._kit.lazy import not_installed, packages_missing
from tidings.cli.client_config import config_option, print_snippet, server_name
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options, logger
from tidings.cli.serving import (
    Configured,
    HttpAddress,
    ListOption,
    begin,
    check_token_use,
    http_address,
    http_options,
    run,
)
from tidings.cli.terminal import option

if TYPE_CHECKING:
    from tidings.bridge import BridgeServer, UpstreamSpec
    from tidings.inspector.session_file import SessionFile

_LOOK_SECONDS: Final = 1.0  # Between two looks at the files of servers.


@dataclass(frozen=True)
class BridgeOptions:
    """The options of the command."""

    targets: tuple[str, ...]
    http: HttpAddress | None
    bus: str | None = field(repr=False)
    token: str | None = field(repr=False)
    watch: tuple[str, ...] = ()
    poll: tuple[str, ...] = ()
    interval: str = "5s"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    pass_token: bool = False
    hints: bool = False
    record: Path | None = None


@click.command("bridge", cls=Configured)
@click.argument("targets", nargs=-1, metavar="TARGET...")
@http_options
@option("--bus=URL", "Share changes and work with other bridges over this bus, for example redis://host.")
@option(
    "--watch=CALL",
    "Offer the result of a read-only tool as a live resource: 'tool:NAME ARGUMENT=VALUE every=30s'.",
    ListOption(),
    multiple=True,
)
@option("--interval=TIME", "Poll at this interval if a server sends no notifications. [5s]", default="5s")
@option(
    "--poll=GLOB=TIME",
    "Poll matching URIs at a fixed interval, for example 'file:///*=30s'.",
    ListOption(),
    multiple=True,
)
@option("--allow=GLOB", "Offer only the tools and prompts that match.", ListOption(), multiple=True)
@option("--deny=GLOB", "Do not offer the tools and prompts that match.", ListOption(), multiple=True)
@option("--pass-token", "Pass each client's own token to the servers, with a separate session for each token.")
@option("--hints", "Append to tool results which resources have changed since the client read them.")
@option(
    "--record=FILE",
    "Record what happens between the bridge and the servers, for the inspector and 'tidings mock'.",
    click.Path(dir_okay=False, path_type=Path),
)
@config_option("the bridge")
@log_options
@click.pass_context
def command(ctx: click.Context, *, http: str | None, config: str | None, token: str | None, **given: object) -> None:
    """Make other MCP servers live, in both eras, behind one address.

    TARGET is a command in quotes, a URL, or a JSON file in the mcpServers format. All servers in the file are offered.
    With a file or several servers, names begin with the server's name: the tool list of "github" becomes github_list.
    When the file changes, the bridge reads it again.

    Without --http, the bridge speaks MCP over stdio, for a client that starts it. --config prints the configuration
    for such a client.
    """
    from tidings.bridge.settings import is_file

    options = BridgeOptions(http=None if http is None else http_address(http), token=token or None, **given)  # type: ignore[arg-type]
    if not options.targets:
        ctx.fail('TARGET is missing. Give a server, for example: tidings bridge "npx -y some-server"')
    check_token_use(options.http, options.token)
    specs = read_specs(options)
    if options.token and any(spec.pass_token for spec in specs):
        text = "--token and passing tokens on exclude each other: clients send one token, to the servers or here."
        raise Refusal(text)
    if config is not None:
        targets = [str(Path(text).expanduser().absolute()) if is_file(text) else text for text in options.targets]
        name = server_name(specs[0].name if len(specs) == 1 else "bridge")
        print_snippet(config, name, targets, options.http, options.token)
        return
    with ExitStack() as stack:
        recording = None if options.record is None else stack.enter_context(closing(_recording(options.record)))
        server = make_server(options, specs, recording)
        http_ = begin(", ".join(spec.name for spec in specs), options.http, options.token)
        run(server, http_, partial(_follow_files, server, options), uvloop=True)


def _recording(file: Path) -> "SessionFile":
    from tidings.inspector.session_file import SessionFile

    try:
        return SessionFile(file)
    except OSError as error:
        raise Refusal(f"The session cannot be recorded: {file} cannot be written ({error.strerror}).") from None


def read_specs(options: BridgeOptions) -> "list[UpstreamSpec]":
    """Returns the servers, with the options that apply to all of them."""
    from tidings.bridge.settings import call_watch, poll, read_targets, seconds

    where = ""
    try:
        specs = read_targets(options.targets, os.environ)
        where, names = "--watch: ", [spec.name for spec in specs]
        calls = [call_watch(text, names) for text in options.watch]
        where = "--poll: "
        polls = dict(map(poll, options.poll))
        where = "--interval: "
        seconds(options.interval)
    except ValueError as error:
        raise Refusal(f"{where}{error}") from None
    return [
        replace(
            spec,
            allow=[*spec.allow, *options.allow],
            deny=[*spec.deny, *options.deny],
            polls={**polls, **spec.polls},
            watches=[*spec.watches, *(call for call in calls if call.server == spec.name)],
            pass_token=spec.pass_token or (options.pass_token and not spec.has_credentials),
        )
        for spec in specs
    ]


def make_server(
    options: BridgeOptions, specs: "Sequence[UpstreamSpec]", recording: "SessionFile | None" = None
) -> "BridgeServer":
    """Makes the server. Without a bus, its log is in a file, so that waits survive a restart."""
    if missing := not_installed(["platformdirs"]):
        raise Refusal(packages_missing("The bridge", missing, extra="bridge"))
    import platformdirs

    from tidings.bridge import BridgeServer
    from tidings.bridge.settings import identity, is_file, seconds
    from tidings.bus.local import LocalBus
    from tidings.server import Waking

    folder = Path(platformdirs.user_cache_dir("tidings")) / "bridge"
    try:
        return BridgeServer(
            specs,
            prefixed=len(specs) > 1 or any(map(is_file, options.targets)),
            interval=seconds(options.interval),
            observe=None if recording is None else recording.observe,
            bus=options.bus or LocalBus(folder / f"changes-{identity(specs)}.db"),
            waking=Waking(hints=options.hints),
        )
    except (ValueError, ImportError, OSError) as error:
        raise Refusal(str(error)) from error


async def _follow_files(server: "BridgeServer", options: BridgeOptions) -> None:
    """Reads the files of servers again when they change. One with mistakes changes nothing, and is reported."""
    import anyio

    from tidings.bridge.settings import is_file

    files = [Path(text) for text in options.targets if is_file(text)]
    states = list(map(state_of, files))
    while files:
        await anyio.sleep(_LOOK_SECONDS)
        try:
            if all(map(same_state, states, (states := list(map(state_of, files))))):
                continue
            await server.set_servers(read_specs(options))
            logger.info("Read %s again.", ", ".join(map(str, files)))
        except (Refusal, ValueError, OSError) as error:
            logger.warning("The servers stay as they are: %s", error)
