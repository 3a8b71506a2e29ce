"""`tidings web`: the web for agents, over standard input and output or over HTTP.

Its options come from the table of settings: see `tidings.web.settings`.
"""

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tidings.cli import client_config
from tidings.cli.client_config import config_option
from tidings.cli.exits import Refusal
from tidings.cli.logs import log_options
from tidings.cli.serving import HttpAddress, begin, check_token_use, http_address, http_options, run
from tidings.cli.variables import Configured
from tidings.web.settings import SETTINGS, BadSetting, Setting, Settings

if TYPE_CHECKING:
    from tidings.web.server import WebServer

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # Not every version of click has it with a type.


@dataclass(frozen=True)
class WebOptions:
    """What the command was asked for."""

    settings: Settings
    http: HttpAddress | None
    bus: str | None = field(repr=False)
    token: str | None = field(repr=False)


class Value(_ParamType):
    """The value of a setting, from the command line or the environment."""

    def __init__(self, setting: Setting) -> None:
        self.name = setting.name
        self._setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it.

        Raises:
            Refusal: It is not what the setting takes.
        """
        try:
            return self._setting.parse(value)
        except BadSetting as error:
            of_environment = ctx and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT
            where = self._setting.variable if of_environment else self._setting.option
            raise Refusal(f"{where}: {error}") from None

    def split_envvar_value(self, rv: str) -> list[str]:
        """Several values in a variable are parted by commas or spaces."""
        return [word for word in re.split(r"[,\s]+", rv) if word]


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each setting."""
    for setting in reversed(SETTINGS):
        command = _option(setting)(command)
    return command


def _option(setting: Setting) -> Callable[[Any], Any]:
    help_ = f"{setting.help[0].upper()}{setting.help[1:]}".replace("`", "")
    if setting.kind == "flag":
        return click.option(
            setting.option, setting.name, default=None, is_flag=True, envvar=setting.variable, help=f"{help_}."
        )
    default = "" if setting.shown == "none" else f" [{setting.shown}]"
    return click.option(
        setting.option,
        setting.name,
        type=Value(setting),
        multiple=setting.many,
        envvar=setting.variable,
        metavar=setting.metavar,
        help=f"{help_}{default}.",
    )


@click.command("web", cls=Configured)
@http_options
@click.option("--bus", metavar="URL", help="Share changes with other processes, as in redis://host; needs --store.")
@settings_options
@config_option("the web server")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    http: str | None,
    token: str | None,
    bus: str | None,
    config: str | None,
    **given: Any,
) -> None:
    """Fetch pages for agents, watch them, and tell of every change.

    Pages are read safely: no address of this machine or network is fetched from unless --allow-private says so. A SIZE
    may be 500k or 10M, SECONDS may be 90s, 5m, 2h or 1d.

    Without --http, this speaks MCP on standard input and output, for a client that starts it. The snippet that such a
    client needs is printed by --config.
    """
    address = None if http is None else http_address(http)
    try:
        settings = Settings(**{name: value for name, value in given.items() if value not in (None, ())})
    except BadSetting as error:
        raise Refusal(str(error)) from None
    options = WebOptions(settings, address, bus, token or None)
    check_token_use(ctx, address, options.token)
    if config is not None:
        print_snippet(config, options)
    else:
        serve(options)


def serve(options: WebOptions) -> None:
    """Serve until the process is asked to stop.

    Raises:
        Refusal: It cannot, for a reason that has a name.
    """
    gc.disable()  # Nothing of what a start makes is garbage, and looking for some takes a tenth of it.
    server = make_server(options)
    gc.freeze()
    gc.enable()
    run(server, begin("the web", options.http, options.token))


def make_server(options: WebOptions) -> "WebServer":
    """The server, not yet running.

    Raises:
        Refusal: A package is missing, the store cannot be used, or there is no such bus.
    """
    from tidings.web.needs import PACKAGES, packages_missing

    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise Refusal(packages_missing(missing))
    if options.settings.render and find_spec("playwright") is None:
        raise Refusal(packages_missing(["playwright"], extra="render"))
    from tidings.web.server import WebServer

    try:
        return WebServer(options.settings, bus=options.bus)
    except (ValueError, ImportError, OSError) as error:
        raise Refusal(str(error)) from error


def print_snippet(client: str, options: WebOptions) -> None:
    """Print what a client needs to use the web server."""
    make_server(options)  # A snippet with which it could not start is none.
    client_config.print_snippet(
        client, "web", [*client_config.program("web"), "web", *arguments(options)], options.http, options.token
    )


def arguments(options: WebOptions) -> list[str]:
    """The arguments of this command, as another program has to give them: independent of where it is started."""
    values = [(setting, getattr(options.settings, setting.name)) for setting in SETTINGS]
    given = [word for setting, value in values if value != setting.default for word in setting.written(value)]
    return [*given, "--bus", options.bus] if options.bus else given
