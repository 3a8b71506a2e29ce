"""The doctor on the environment: variables of Tidings that are set, and those that nobody reads."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

import click

from tidings.cli.addresses import http_address
from tidings.cli.doctor_checks import Finding, Place
from tidings.cli.main import load
from tidings.cli.variables import COMMANDS, Configured, long_name

TOKENS: Final = {
    "TIDINGS_TOKEN": "what clients of your servers have to send",
    "TIDINGS_BEARER_TOKEN": "what one-shot commands send to a server at a URL",
}
"""Secrets: that they are set is told, and nothing of them."""
OTHERS: Final = {
    "TIDINGS_URI": "`tidings watch --exec` sets it for what it runs",
    "TIDINGS_WEB_PAGES": "where the benchmark of the web server has its pages from",
}

_SECRET: Final = ("--bus",)
"""Options whose values may hold a password."""
_CHECKED_LATER: Final = {"--http": http_address}
"""Options that take any text on a command line, where what follows may be a folder; a variable is refused by this."""


def variables(place: Place) -> Iterator[Finding]:
    """Each variable that is named as if it were ours."""
    options = option_variables()
    known = [*TOKENS, *OTHERS, *options]
    ours = [name for name in sorted(place.environ) if name.upper().startswith("TIDINGS_")]
    if not ours:
        yield Finding("variables", "ok", "none of Tidings is set.")
    for name in ours:
        value = place.environ[name]
        if name in TOKENS:
            yield _token(name, value)
        elif name in OTHERS:
            yield Finding(name, "ok", f"set; {OTHERS[name]}.")
        elif name in options:
            yield _option(name, value, *options[name])
        else:
            near = get_close_matches(name.upper(), known, n=1)
            cure = f"Did you mean {near[0]}?" if near else f"unset {name}"
            yield Finding(name, "wrong", "nobody reads a variable of this name.", cure)


def option_variables() -> dict[str, tuple[Configured, click.Option]]:
    """Every variable that stands for an option, but for tokens; with a command that has it, and the option."""
    return {
        str(option.envvar): (command, option)
        for name in COMMANDS
        if isinstance(command := load(name), Configured)
        for option in command.params
        if isinstance(option, click.Option) and option.envvar and option.envvar not in TOKENS
    }


def _option(name: str, value: str, command: Configured, option: click.Option) -> Finding:
    use = f"it is what `tidings {command.name} {long_name(option)}` would be"
    if name.startswith("TIDINGS_LOG_"):
        use = f"it is what `{long_name(option)}` would be"
    try:
        if value:
            values = option.type.split_envvar_value(value) if option.multiple else value
            option.type_cast_value(click.Context(command), values)
            if check := _CHECKED_LATER.get(long_name(option)):
                check(value)
    except click.ClickException as error:
        cure = f"Correct it, or: unset {name}"
        return Finding(
            name, "wrong", f"{error.message.removeprefix(f'{long_name(option)}: ').rstrip('.')}; {use}.", cure
        )
    return Finding(name, "ok", f"{'set, not shown' if long_name(option) in _SECRET else repr(value)}; {use}.")


def _token(name: str, value: str) -> Finding:
    use = TOKENS[name]
    if not value:
        return Finding(name, "look", f"set, and empty; it is {use}.", f"Give it a value, or: unset {name}")
    if not (value.isascii() and value.isprintable()) or " " in value:
        words = "has characters that cannot be sent: a token consists of visible ASCII characters without spaces."
        return Finding(name, "wrong", words, "Often it is a line's end that was copied with it: set it anew.")
    return Finding(name, "ok", f"set ({len(value)} characters, not shown); it is {use}.")
