"""Options from the environment: `--read-only` of `tidings vault` is also the variable `TIDINGS_VAULT_READ_ONLY`.

The command line wins over the environment, and the environment over the default. An empty variable counts as not set.
"""

import os
from typing import Any, Final

import click
from click.core import ParameterSource

from tidings._kit.suggest import did_you_mean
from tidings.cli.exits import FEW, Refusal
from tidings.cli.logs import logger

COMMANDS: Final = ("vault", "web", "bridge", "mock", "inspect", "tui")  # The commands whose options are also variables


class ListOption(click.types.StringParamType):
    """A text that may be given several times; a variable separates several by commas."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [word.strip() for word in rv.split(",") if word.strip()]


class Configured(click.Command):
    """A command whose options are also variables, except those with `allow_from_autoenv=False`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._options = [each for each in self.params if isinstance(each, click.Option)]
        self.prefix = f"TIDINGS_{(self.name or '').upper()}_"
        for option in self._options:
            if option.envvar is None and option.allow_from_autoenv:
                option.envvar = f"{self.prefix}{long_name(option)[2:].replace('-', '_').upper()}"
        variable, option = next(iter(self.variables.items()))
        example = f"{variable} for {long_name(option)}"
        self.epilog = f"Options can also be set with environment variables, for example {example}.\n\n{FEW}"

    @property
    def variables(self) -> dict[str, click.Option]:
        return {str(each.envvar): each for each in self._options if str(each.envvar).startswith(self.prefix)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option = error.param
            if option is None or ctx.get_parameter_source(option.name or "") is not ParameterSource.ENVIRONMENT:
                raise
            raise Refusal(f"{option.envvar}: {error.message}") from None

    def invoke(self, ctx: click.Context) -> Any:
        for name in sorted(os.environ):  # Most likely misspelled.
            if name.startswith(self.prefix) and name not in self.variables:
                cure = did_you_mean(name, self.variables, show=str) or f" See tidings {self.name} --help."
                logger.warning("The variable %s is ignored: there is no such setting.%s", name, cure)
        return super().invoke(ctx)


def long_name(option: click.Option) -> str:
    """Returns the long form of an option, with its dashes."""
    return max(option.opts, key=len)
