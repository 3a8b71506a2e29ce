"""Parts of one-shot commands: TARGET, the common options, and facts about the server. Imports no SDK.

An exception becomes a message on standard error and an exit code; standard output has only data.
"""

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from tidings._kit.process import can_open_browser
from tidings._kit.text import harmless
from tidings.cli.exits import ALL, ending, failed
from tidings.cli.terminal import all_of, option, styled, typed_line
from tidings.client.masking import shown_url
from tidings.client.servers_file import ServersFileEntry
from tidings.errors import BadTarget, GaveUp, SignInNeeded, TidingsError
from tidings.inspector.catalog.catalog import Catalog, command_length, is_runner, resolve
from tidings.inspector.catalog.entry import CatalogError, ServerEntry, user_catalog

if TYPE_CHECKING:
    from tidings.client.sign_in import SignInStep

TOKEN_VARIABLE: Final = "TIDINGS_BEARER_TOKEN"  # noqa: S105 - the name of a variable
"""Not TIDINGS_TOKEN, the token of the user's own servers: it must not be sent to other servers."""
TARGET: Final = (
    "TARGET is a URL (https://host/mcp), a Python file (server.py, or server.py:mcp for an object in it), a command "
    "(python server.py), a server in a JSON file (mcp.json#name), or a name in your catalog."
)

_AFTER_DASHES: Final = "\0after --"  # Stands for TARGET if the command is given after `--`
_WORDS: Final = "tidings.words"


@dataclass(frozen=True)
class OneShotOptions:
    """The server, and the options that all one-shot commands share."""

    entry: ServersFileEntry
    era: str = "auto"
    timeout: float | None = None
    as_json: bool = False
    verbose: bool = False
    answers: str | None = None
    roots: tuple[str, ...] = ()

    @property
    def is_command(self) -> bool:
        return self.entry.command is not None

    @property
    def can_ask(self) -> bool:
        """True if a person at the terminal can answer questions."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def suits_wire_client(self) -> bool:
        """True if the wire client can do it: the server is a command, and there is nothing to answer or to show."""
        return (
            self.is_command
            and not (self.verbose or self.answers or self.roots)
            and sys.platform != "win32"  # It has no process groups.
        )


@dataclass(frozen=True)
class ServerSummary:
    """Facts about a server that both clients know once they are connected."""

    name: str
    transport: str
    protocol_version: str
    era: str
    server_info: dict[str, Any] | None
    capabilities: dict[str, Any]
    instructions: str | None
    seconds: float  # The time it took to connect


def find_server(target: str | Sequence[str], cwd: str | None) -> ServerEntry:
    """Returns the server that `target` (a text, or the words of a command) names, as the catalog has it."""
    try:
        return resolve(target, catalog())
    except BadTarget:
        # The path of the program may be relative to the folder in which it is to run.
        words = list[str]()
        with suppress(ValueError):
            words = shlex.split(target) if isinstance(target, str) else list(target)
        if cwd is None or not words or not Path(cwd, words[0]).is_file():
            raise
        return resolve([str(Path(cwd, words[0]).absolute()), *words[1:]])


def sent_headers(
    known: Mapping[str, str], headers: Mapping[str, str], token: str | None, *, token_is_explicit: bool
) -> dict[str, str]:
    """Returns the headers for a server: those that are known of it, and those of the command line instead of them."""
    own = {name.lower() for name in headers}
    sent = {name: value for name, value in known.items() if name.lower() not in own} | dict(headers)
    if token and (token_is_explicit or not any(name.lower() == "authorization" for name in sent)):
        sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
        sent["Authorization"] = f"Bearer {token.removeprefix('Bearer ')}"
    return sent


def catalog() -> Catalog:
    """Returns the user's catalog of servers."""
    return Catalog(user_catalog(os.environ, sys.platform, Path.home()), read_only=True)


def with_target_help(function: Callable[..., Any], more: str) -> str:
    """Returns the help of a command: the docstring of its function, then an explanation of TARGET."""
    return f"{inspect.cleandoc(function.__doc__ or '')}\n\n{TARGET} {more}"


class Reported(click.Command):
    """A command whose failures are JSON with `--json`."""

    def invoke(self, ctx: click.Context) -> Any:
        with ending(as_json=bool(ctx.params.get("as_json"))):
            return super().invoke(ctx)


class OneShot(Reported):
    """A command with a TARGET, or with the words of a command after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            words = args[place + 1 :]
            if not words and not ctx.resilient_parsing:
                ctx.fail("There is no command after --. Give one, for example: -- python server.py")
            ctx.meta[_WORDS] = words
            args = [_AFTER_DASHES, *args[:place]]
        elif (place := self._place_of_runner(ctx, args)) is not None:
            end = place + command_length(args[place:])
            arguments = [each for each in self.params if isinstance(each, click.Argument)][1:]
            own = {name for each in self.get_params(ctx) for name in each.opts}
            own |= {word for each in arguments if isinstance(each.type, click.Choice) for word in each.type.choices}
            while end < len(args) and args[end] not in own and not any(each.required for each in arguments):
                end += 1  # What follows can only belong to the command.
            ctx.meta[_WORDS] = args[place:end]
            args = [*args[:place], _AFTER_DASHES, *args[end:]]
        return super().parse_args(ctx, args)

    def _place_of_runner(self, ctx: click.Context, args: list[str]) -> int | None:
        """Returns the place of TARGET if it is the first word of a command that is not in quotes."""
        options = {name: each for each in self.get_params(ctx) for name in each.opts}
        place = 0
        while place < len(args) and args[place].startswith("-"):
            option = options.get(args[place])
            place += 2 if isinstance(option, click.Option) and not (option.is_flag or option.count) else 1
        if place + 1 >= len(args) or not is_runner(args[place]):
            return None
        with suppress(CatalogError):
            return None if any(entry.name == args[place] for entry in catalog().entries()) else place
        return place


def one_shot(name: str, cls: type[OneShot] = OneShot) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function that takes `OneShotOptions` and its own parameters; adds TARGET and the options."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        @click.pass_context
        def run(ctx: click.Context, /, **given: Any) -> Any:
            options = _taken(ctx, given)
            while True:
                try:
                    return function(options, **given)
                except TidingsError as error:
                    wanted = error.__cause__ if isinstance(error, GaveUp) else error
                    if not isinstance(wanted, SignInNeeded) or not options.can_ask:
                        raise failed(error, is_command=options.is_command) from error
                    import asyncio

                    entry, sent = options.entry, options.entry.headers.items()
                    headers = {name: value for name, value in sent if name.lower() != "authorization"}
                    click.echo(harmless(wanted.message.partition(" Run `tidings")[0]), err=True)
                    asyncio.run(sign_in(entry.url or "", on_step=print_step, headers=headers, account=entry.account))

        target = click.argument("target", callback=_target)
        help_ = with_target_help(function, "Instead of TARGET, you can also give a command after --.")
        return click.command(name, cls=cls, help=help_, epilog=ALL)(all_of([target, *_OPTIONS])(run))

    return decorate


async def sign_in(url: str, *, browser: bool = True, **options: Any) -> None:
    """Leads a person through a sign-in: the browser comes back by itself, or its last address is pasted."""
    import asyncio

    from tidings.client.sign_in import SigningIn

    opens = browser and can_open_browser(os.environ)
    signing_in = SigningIn(url, open_browser=lambda address: _lead(address, opens=opens), **options)

    async def take_pasted() -> None:
        with suppress(EOFError, OSError, ValueError):  # There is no standard input, or it cannot be watched.
            while True:
                line = await typed_line("")
                try:
                    if line.strip():
                        signing_in.finish(line)
                except ValueError as error:
                    click.echo(str(error), err=True)

    pasting = asyncio.create_task(take_pasted())
    try:
        account = await signing_in.run()
    finally:
        pasting.cancel()
    click.echo(f"Signed in to {shown_url(signing_in.url)} as {harmless(account.name)}.", err=True)


def _lead(address: str, *, opens: bool) -> None:
    import asyncio
    import webbrowser

    if opens:
        with suppress(webbrowser.Error, OSError):
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)
    first = "Your browser opens to sign in. If it does not, open" if opens else "To sign in, open this in a browser"
    click.echo(f"{first}:\n\n  {harmless(address)}\n", err=True)
    click.echo("If the browser is on another machine, paste the address that it shows after you agree.", err=True)


def print_step(step: "SignInStep") -> None:
    """Prints what a step of a sign-in has come to."""
    if step.status is not None:
        click.echo(styled(f"  {step.name}: {step.words}", "dim", sys.stderr), err=True)


def _target(ctx: click.Context, _param: click.Parameter, given: str) -> str | list[str]:
    return cast("list[str]", ctx.meta[_WORDS]) if given == _AFTER_DASHES else given


def _taken(ctx: click.Context, given: dict[str, Any]) -> OneShotOptions:
    """Takes the common options out of `given`, and returns them with the server that TARGET names."""
    token, cwd = given.pop("token"), given.pop("cwd")
    named, account = given.pop("token_env"), given.pop("account")
    explicit = named or (token is not None and ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE)
    found = find_server(given.pop("target"), cwd)
    headers, env = dict(given.pop("headers")), dict(given.pop("env"))
    entry = found.resolved(os.environ)
    if entry.command is None:
        if wrong := "--env" if env else "--cwd" if cwd else "":
            raise BadTarget(f"{wrong} is for a command, and this server is at a URL. Omit {wrong}.")
        sent = sent_headers(entry.headers, headers, named or token, token_is_explicit=bool(explicit))
        entry = replace(entry, headers=sent)
    else:
        if wrong := "--header" if headers else "--token" if explicit else "":
            cure = "Pass secrets to it with --env"
            raise BadTarget(f"{wrong} is for a server at a URL, and this server is a command. {cure}.")
        entry = replace(entry, env={**entry.env, **env}, cwd=cwd or entry.cwd)
    return OneShotOptions(
        replace(entry, account=account or entry.account),
        era=given.pop("era") or found.era,
        timeout=given.pop("timeout") or found.timeouts.get("request") or found.timeouts.get("connect"),
        as_json=given.pop("as_json"),
        verbose=given.pop("verbose"),
        answers=given.pop("answers"),
        roots=given.pop("roots") or found.roots,
    )


def _pairs(_ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, text = value.partition("=")
        if not name.strip() or (not equals and param.name != "env"):
            raise click.BadParameter("write NAME=VALUE.", param=param)
        if not equals:  # Passed on from this environment.
            if name not in os.environ:
                raise click.BadParameter(f"{name} is not set here. Write {name}=VALUE.", param=param)
            text = os.environ[name]
        pairs.append((name.strip(), text))
    return pairs


def _from_variable(_ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if name is not None and not os.environ.get(name):
        raise click.BadParameter(f"the variable {name} is not set, or empty.", param=param)
    return os.environ[name] if name is not None else None


era_option: Final = option(
    "--era",
    "Protocol era to use. auto: the newest version that both sides support.",
    click.Choice(["auto", "legacy", "2026-07-28"]),
)

header_option: Final = option(
    "headers --header=K=V",
    "Send this HTTP header with each request.",
    multiple=True,
    callback=_pairs,
    allow_from_autoenv=False,
)
credential_options: Final = all_of(
    [
        header_option,
        option(
            "--token=SECRET", "Send this bearer token to a server at a URL.", envvar=TOKEN_VARIABLE, show_envvar=True
        ),
        option(
            "--token-env=NAME",
            "Send the bearer token that is in this environment variable.",
            callback=_from_variable,
            allow_from_autoenv=False,
        ),
    ]
)

_OPTIONS: Final = (
    option("as_json --json", "Print JSON: one document, or one line per item of a stream."),
    era_option,
    option(
        "--timeout=SECONDS",
        "Time limit for a connection (default 30) and for an answer (default 60). Each progress notification "
        "restarts the limit for the answer, up to five times the limit in all.",
        click.FloatRange(min=0, min_open=True),
    ),
    credential_options,
    option("--account=NAME", "Use this account, if several are signed in.", default=""),
    option(
        "--env=K[=V]",
        "Set an environment variable for a command; without =V, pass on the current value.",
        multiple=True,
        callback=_pairs,
    ),
    option("--cwd=DIR", "Working directory for a command.", click.Path(file_okay=False)),
    option("roots --root=DIR", "Offer this folder to the server as a root.", multiple=True),
    option("--answers=FILE", "Answer the server's questions from this script.", click.Path(dir_okay=False)),
    option("-v --verbose", "Print every message to standard error."),
)
