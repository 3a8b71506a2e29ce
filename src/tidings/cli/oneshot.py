"""What one-shot commands have in common: a TARGET, and the options that say how to speak with it.

A command is a function that gets `Asked` first. What it raises becomes words on standard error and an exit code;
standard output has nothing but data.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import click
from click.core import ParameterSource

from tidings.cli import exits
from tidings.cli.ending import ending
from tidings.cli.options import complete_target, era_option, explaining_target
from tidings.cli.targeting import TOKEN_VARIABLE, Chosen, Extras, choose

_AFTER_DASHES: Final = "\0after --"
"""Stands where TARGET would, if the command is given after `--`."""

_WORDS: Final = "tidings.words"


@dataclass(frozen=True)
class Asked:
    """The server that was meant, and how to speak with it."""

    chosen: Chosen
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
