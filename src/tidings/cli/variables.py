"""Options from the environment: `--read-only` of `tidings vault` is also a variable, `TIDINGS_` + `VAULT_READ_ONLY`.

The order is the same everywhere: the command line, then the environment, then the default. An empty variable is as one
that is not set.
"""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import click
from click.core import ParameterSource

from tidings.cli.exits import FEW, Refusal
from tidings.cli.logs import logger

PREFIX: Final = "TIDINGS_"
COMMANDS: Final = ("vault", "web", "mock", "inspect", "tui")
"""The commands whose options are variables, too."""


class ListOption(click.types.StringParamType):
    """A text that may be given several times; in a variable, several are parted by commas."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [word.strip() for word in rv.split(",") if word.strip()]


class Configured(click.Command):
    """A command each of whose options can be given as a variable, but for those without `allow_from_autoenv`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self._options():
            if option.envvar is None and option.allow_from_autoenv:
                option.envvar = f"{self.prefix}{long_name(option)[2:].replace('-', '_').upper()}"
        self.epilog = f"{self._example()}\n\n{FEW}"

    @property
    def prefix(self) -> str:
        """What the names of its variables begin with."""
        return f"{PREFIX}{(self.name or '').upper()}_"

    @property
    def variables(self) -> dict[str, click.Option]:
        """The variables that are its own, and the option that each stands for."""
        return {str(each.envvar): each for each in self._options() if str(each.envvar).startswith(self.prefix)}

    def _options(self) -> Iterator[click.Option]:
        return (each for each in self.params if isinstance(each, click.Option))

    def _example(self) -> str:
        variable, option = next(iter(self.variables.items()))
        return f"Each option that sets something is also a variable: {long_name(option)} is {variable}."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options.

        Raises:
            Refusal: A variable has a value that its option does not take.
        """
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option = error.param
            if option is None or ctx.get_parameter_source(option.name or "") is not ParameterSource.ENVIRONMENT:
                raise
            raise Refusal(f"{option.envvar}: {error.message}") from None

    def invoke(self, ctx: click.Context) -> Any:
        self._warn_of_unknown_variables()
        return super().invoke(ctx)

    def _warn_of_unknown_variables(self) -> None:
        """Say of each variable that is named as if it were an option that it is none: most likely it is misspelt."""
        for name in sorted(os.environ):
            if name.startswith(self.prefix) and name not in self.variables:
                near = get_close_matches(name, self.variables, n=1)
                cure = f"Did you mean {near[0]}?" if near else f"See tidings {self.name} --help."
                logger.warning("The variable %s is not heeded: there is no such setting. %s", name, cure)


def long_name(option: click.Option) -> str:
    """The option as it is written out."""
    return max(option.opts, key=len)
