"""`tidings web`. Its options come from the table of settings in `tidings.web.settings`."""

import gc
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tidings._kit.lazy import not_installed, packages_missing
from tidings.cli.client_config import config_option, print_snippet
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options
from tidings.cli.serving import (
    Configured,
    HttpAddress,
    begin,
    check_channel,
    check_token_use,
    http_address,
    http_options,
    run,
    waking_options,
)
from tidings.cli.terminal import Given, option
from tidings.web import PACKAGES
from tidings.web.settings import SETTINGS, BadSetting, Setting, Settings

if TYPE_CHECKING:
    from tidings.web.server import WebServer

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # Generic only in newer versions of click.


@dataclass(frozen=True)
class WebOptions:
    """The options of the command."""

    settings: Settings
    http: HttpAddress | None
    bus: str | None = field(repr=False)
    token: str | None = field(repr=False)
    hints: bool = False
    channel: bool = False


class Value(_ParamType):
    """The value of a setting, as an option or a variable."""

    def __init__(self, setting: Setting) -> None:
        self.name = setting.name
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._setting.parse(value)
        except BadSetting as error:
            of_environment = ctx and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT
            where = self._setting.variable if of_environment else self._setting.option
            raise Refusal(f"{where}: {error}") from None

    def split_envvar_value(self, rv: str) -> list[str]:
        return [word for word in re.split(r"[,\s]+", rv) if word]


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each setting."""
    for setting in reversed(SETTINGS):
        help_ = f"{setting.help[0].upper()}{setting.help[1:]}".replace("`", "")
        details: dict[str, Any] = {"default": None, "is_flag": True}
        if setting.kind != "flag":
            help_ += "" if setting.shown == "none" else f" [{setting.shown}]"
            details = {"type": Value(setting), "multiple": setting.many, "metavar": setting.metavar}
        option = click.option(setting.option, setting.name, envvar=setting.variable, help=f"{help_}.", **details)
        command = option(command)
    return command


@click.command("web", cls=Configured)
@http_options
@option("--bus=URL", "Share changes with other processes over this bus, for example redis://host. Needs --store.")
@waking_options
@settings_options
@config_option("the web server")
@log_options
def command(*, http: Given, token: Given, bus: Given, config: Given, hints: bool, channel: bool, **given: Any) -> None:
    """Serve web pages over MCP: fetch them, watch them, report changes.

    Fetching is safe: addresses of this machine and its network are refused unless --allow-private permits them. A SIZE
    is for example 500k or 10M; SECONDS can also be 90s, 5m, 2h or 1d.

    `tidings web watch URL…` follows pages without MCP: see `tidings web watch --help`.

    Without --http, the server speaks MCP over stdio, for a client that starts it. --config prints the configuration
    for such a client.
    """
    address = None if http is None else http_address(http)
    try:
        settings = Settings(**{name: value for name, value in given.items() if value not in (None, ())})
    except BadSetting as error:
        raise Refusal(str(error)) from None
    options = WebOptions(settings, address, bus, token or None, hints, channel)
    check_token_use(address, options.token)
    check_channel(address, channel)
    if config is None:
        serve(options)
    else:
        make_server(options)  # A server that cannot start gets no configuration.
        print_snippet(config, "web", [], address, options.token)


def serve(options: WebOptions) -> None:
    """Serves until the process is asked to stop."""
    gc.disable()  # The start produces no garbage, and a tenth of it would be spent on searching for some.
    server = make_server(options)
    gc.freeze()
    gc.enable()
    stdio = server.run_channel_async if options.channel else server.run_stdio_async
    run(server, begin("the web", options.http, options.token), stdio=stdio)


def check_packages(*, render: bool) -> None:
    """Raises `Refusal` if a package is missing."""
    if missing := not_installed(PACKAGES):
        raise Refusal(packages_missing("The web server", missing, extra="web"))
    if render and (missing := not_installed(["playwright"])):
        raise Refusal(packages_missing("The web server", missing, extra="render"))


def make_server(options: WebOptions) -> "WebServer":
    """Makes the server."""
    check_packages(render=options.settings.render)
    from tidings.server import Waking
    from tidings.web.server import WebServer

    try:
        return WebServer(
            options.settings, bus=options.bus, durable=_folder_of(options), waking=Waking(hints=options.hints)
        )
    except (ValueError, ImportError, OSError) as error:
        raise Refusal(str(error)) from error


def _folder_of(options: WebOptions) -> Path | None:
    """Returns the folder for servers that may fetch the same: who can use one can read what it has stored."""
    import platformdirs

    if options.http is not None and not options.http.port:
        return None
    settings = options.settings
    allowed = [
        sorted(map(str, each)) for each in (settings.allow_private, settings.allow_domain, settings.block_domain)
    ]
    place = "stdio" if options.http is None else f"{options.http.host}:{options.http.port}"
    digest = hashlib.blake2b(repr([place, allowed]).encode(), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("tidings")) / "web" / digest
