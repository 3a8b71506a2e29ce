"""What one-shot commands have in common: a TARGET, and the options that say how to speak with it.

A command is a function that gets `Asked` first. What it raises becomes words on standard error and an exit code;
standard output has nothing but data.

What a TARGET on the command line stands for, with the options that were given for it.

Without the SDK: a one-shot command must not wait for it to learn what was meant.

What several commands have, with the same words: TARGET, and `--era`.

Names that the shell completes: imported by each command, so that nothing is imported here before it is needed.
"""

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from tidings.cli import exits
from tidings.cli.exits import ending
from tidings.client.servers_file import ServersFileEntry
from tidings.errors import BadTarget
from tidings.inspector.catalog import Catalog, user_catalog
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.catalog.targets import resolve

TOKEN_VARIABLE: Final = "TIDINGS_BEARER_TOKEN"  # noqa: S105 - the name of a variable
"""Not TIDINGS_TOKEN, which is what a server of ours asks of its clients: it must not reach other people's servers."""


@dataclass(frozen=True)
class ChosenTarget:
    """The server that was meant, with all that the user gave for it, and what the catalog has for it besides."""

    entry: ServersFileEntry
    era: str | None = None
    timeout: float | None = None
    roots: tuple[str, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether the server is a program to start."""
        return self.entry.command is not None


@dataclass(frozen=True)
class Extras:
    """What was given besides the target."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = None
    token_is_explicit: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None


def choose(target: str | Sequence[str], extras: Extras) -> ChosenTarget:
    """The server that `target` stands for: a text, or the words of a command.

    Raises:
        BadTarget: It was not understood, or an option does not fit it.
    """
    try:
        found = resolve(target, catalog())
    except BadTarget:
        # The program may be there only as seen from the folder that it is to run in.
        if extras.cwd is None or not (words := _words(target)) or not Path(extras.cwd, words[0]).is_file():
            raise
        found = ServerEntry(words[0], command=words[0], args=tuple(words[1:]))
    return ChosenTarget(
        _with(found.resolved(os.environ), extras),
        era=found.era if found.era != "auto" else None,
        timeout=found.timeouts.request or found.timeouts.connect,
        roots=found.roots,
    )


def _words(target: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(target) if isinstance(target, str) else list(target)
    except ValueError:
        return []


def catalog() -> Catalog:
    """The user's catalog of servers."""
    return Catalog(user_catalog(os.environ, sys.platform, Path.home()), read_only=True)


def _with(entry: ServersFileEntry, extras: Extras) -> ServersFileEntry:
    if entry.command is not None:
        for option, given in (("--header", extras.headers), ("--token", extras.token_is_explicit)):
            if given:
                raise BadTarget(f"{option} is for a server at a URL; this one is a command. Give it a variable: --env.")
        return replace(entry, env={**entry.env, **extras.env}, cwd=extras.cwd or entry.cwd)
    for option, given in (("--env", extras.env), ("--cwd", extras.cwd)):
        if given:
            raise BadTarget(f"{option} is for a command; this server is at a URL. Leave it out.")
    own = {name.lower() for name in extras.headers}
    headers = {name: value for name, value in entry.headers.items() if name.lower() not in own} | dict(extras.headers)
    if extras.token and (extras.token_is_explicit or not any(name.lower() == "authorization" for name in headers)):
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {extras.token.removeprefix('Bearer ')}"
    return replace(entry, headers=headers)


TARGET: Final = (
    "TARGET is a URL (https://host/mcp), a command in quotes ('python server.py'), a server of a JSON file "
    "(mcp.json#name), or a name in your catalog."
)

era_option: Final = click.option(
    "--era",
    type=click.Choice(["auto", "legacy", "2026-07-28"]),
    help="Which era of the protocol to speak; auto takes the newest that both sides know.",
)


def explaining_target(function: Callable[..., Any], more: str) -> str:
    """The help of a command: what its function says, then what TARGET is."""
    return f"{inspect.cleandoc(function.__doc__ or '')}\n\n{TARGET} {more}"


def complete_target(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What the shell is offered for a TARGET."""
    from tidings.cli.names import targets

    return targets(incomplete)


_AFTER_DASHES: Final = "\0after --"
"""Stands where TARGET would, if the command is given after `--`."""

_WORDS: Final = "tidings.words"


@dataclass(frozen=True)
class Asked:
    """The server that was meant, and how to speak with it."""

    chosen: ChosenTarget
    era: str = "auto"
    timeout: float | None = None
    as_json: bool = False
    verbose: bool = False
    answers: str | None = None
    roots: tuple[str, ...] = ()

    @property
    def can_ask(self) -> bool:
        """Whether there is a person at the terminal who can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def is_ordinary(self) -> bool:
        """Whether the small client can do it: a command, and nothing to answer or to show."""
        return (
            self.chosen.is_command
            and not (self.verbose or self.answers or self.roots)
            and sys.platform != "win32"  # Its pipes cannot be waited for in this way.
        )


def _target(ctx: click.Context, _param: click.Parameter, given: str) -> str | list[str]:
    """A TARGET: its text, or the words after `--`."""
    return cast("list[str]", ctx.meta[_WORDS]) if given == _AFTER_DASHES else given


class OneShot(click.Command):
    """A command with a TARGET, or with the words of a command after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            words = args[place + 1 :]
            if not words and not ctx.resilient_parsing:
                ctx.fail("What is the command? Give it after --, as in: -- python server.py")
            ctx.meta[_WORDS] = words
            args = [_AFTER_DASHES, *args[:place]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with ending(as_json=bool(ctx.params.get("as_json"))):
            return super().invoke(ctx)


def one_shot(name: str, cls: type[OneShot] = OneShot) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that takes `Asked` and its own parameters: adds TARGET and the options in common."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        @click.pass_context
        def run(ctx: click.Context, /, **given: Any) -> Any:
            return function(_asked(ctx, given), **given)

        for option in reversed(_OPTIONS):
            run = option(run)
        run = click.argument("target", callback=_target, shell_complete=complete_target)(run)
        help_ = explaining_target(function, "Or leave it out, and give the command after --.")
        return click.command(name, cls=cls, help=help_, epilog=exits.ALL)(run)

    return decorate


def _asked(ctx: click.Context, given: dict[str, Any]) -> Asked:
    """Takes what is in common out of `given`."""
    token = given.pop("token")
    extras = Extras(
        dict(given.pop("headers")),
        token,
        token is not None and ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE,
        dict(given.pop("env")),
        given.pop("cwd"),
    )
    chosen = choose(given.pop("target"), extras)
    era, timeout = given.pop("era"), given.pop("timeout")
    return Asked(
        chosen,
        era=era or chosen.era or "auto",
        timeout=timeout or chosen.timeout,
        as_json=given.pop("as_json"),
        verbose=given.pop("verbose"),
        answers=given.pop("answers"),
        roots=given.pop("roots") or chosen.roots,
    )


def _pairs(_ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, text = value.partition("=")
        if not name.strip() or (not equals and param.name != "env"):
            raise click.BadParameter("write NAME=VALUE.", param=param)
        if not equals:  # As it is here.
            if name not in os.environ:
                raise click.BadParameter(f"{name} is not set here: write {name}=VALUE.", param=param)
            text = os.environ[name]
        pairs.append((name.strip(), text))
    return pairs


_OPTIONS: Final = (
    click.option("--json", "as_json", is_flag=True, help="Print JSON: one document, or one a line for a stream."),
    era_option,
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="How long to wait for a connection (30) and an answer (60). Progress starts it anew, five times at most.",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        callback=_pairs,
        metavar="K=V",
        help="Send this with each request, to a URL.",
    ),
    click.option(
        "--token",
        envvar=TOKEN_VARIABLE,
        show_envvar=True,
        metavar="SECRET",
        help="Send this bearer token, to a URL.",
    ),
    click.option(
        "--env",
        multiple=True,
        callback=_pairs,
        metavar="K[=V]",
        help="Set a variable for a command; without =V, pass it on.",
    ),
    click.option("--cwd", metavar="DIR", type=click.Path(file_okay=False), help="Run a command there."),
    click.option("--root", "roots", multiple=True, metavar="DIR", help="A folder that the server may work in."),
    click.option(
        "--answers",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Answer what the server asks from this script.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show each message on standard error."),
)


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(kind: str) -> Completer:
    """A completer for the names of what the TARGET has: tools, resources, prompts."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tidings.cli.names import names

        return names(ctx, kind, incomplete)

    return complete
