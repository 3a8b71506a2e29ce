"""The root of the command: which subcommands there are, and what they are for.

A subcommand is `command` in the file of its name (`PLACES` names the others). The file is imported when
the subcommand is called or completed, so that `tidings --help` costs what click costs.

Completion for bash, which takes words apart at each `:` and `=`, and so every URL and URI.

The words are read from the line as it was typed, and what is offered begins where bash thinks that the word does. It is
written as the shell wants it: a server may put blanks, or worse, into its names.
"""

import difflib
import os
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from tidings._version import __version__

COMMANDS = {
    "bench": "Run a benchmark of a checkout: Tidings beside its peer and the limit.",
    "call": "Call a tool, and print what it returns.",
    "completion": "Complete commands, servers, tools and resources in your shell.",
    "demo": "See it work: a sample vault, a small site, the inspector on both, and a tour.",
    "doctor": "Look at what Tidings uses on this machine, and say what to do.",
    "info": "Say who a server is, and what it can do.",
    "inspect": "Inspect servers in the browser: what they have, what they say, what changes.",
    "list": "List what a server has: tools, resources, templates and prompts.",
    "load": "Call a tool many times, and say how quickly it answers.",
    "mock": "Serve a recorded session: an MCP server that answers as it did.",
    "ping": "Ask a server whether it is there, and how soon it answers.",
    "prompt": "Get a prompt, filled in, and print its messages.",
    "read": "Read a resource, and print its content.",
    "tui": "Inspect servers in the terminal: changes as they come, tools, resources, messages.",
    "vault": "Serve an Obsidian vault to agents, and tell them of every change.",
    "watch": "Print a resource's content, and again whenever it changes.",
    "web": "Fetch pages for agents, watch them, and tell of every change.",
}
"""Each subcommand and its line in `--help`, the same as the first of its own help."""

PLACES = {
    "doctor": "doctor.command:command",
    "inspect": "inspect_:command",
    "list": "list_:command",
    "ping": "info:ping_command",
    "tui": "inspect_:tui_command",
}
"""The subcommands that are not `command` in the file of their name, as `module:name`."""

_INTERRUPTED = 130
"""The same as `exits.INTERRUPTED`, which is not imported yet."""

CONTEXT = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def main(self, *args: Any, **options: Any) -> Any:
        if os.environ.get("_TIDINGS_COMPLETE", "").startswith("bash"):
            use()
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            from tidings.cli.exits import ending
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        with ending():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def load(name: str) -> click.Command:
    """The subcommand of this name, from its file."""
    module, _, command = PLACES.get(name, f"{name}:command").partition(":")
    return getattr(import_module(f"tidings.cli.{module}"), command)


def did_you_mean(word: str, possibilities: Iterable[str]) -> str:
    """A question to add to an error message; empty if nothing is close to `word`."""
    close = difflib.get_close_matches(word, possibilities, n=2)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", message="tidings %(version)s")
def main() -> None:
    """Live MCP: resource subscriptions and change notifications that really work."""


_SCRIPT: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ODD: Final = re.compile(r"[^\w./:@%+=,-]")
_NOT_IN_QUOTES: Final = re.compile(r"""['"$`\\!]""")


class Bash(BashComplete):
    """Takes the place of click's own."""

    source_template = _SCRIPT
    _typed = ""
    _quote = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        self._quote = _open_quote(line)
        self._typed = words.pop() if words and (self._quote or not line[-1].isspace()) else ""
        return words[1:], self._typed

    def format_completion(self, item: CompletionItem) -> str:
        """One offer; an empty one if it cannot be written within the quotes that are open."""
        if item.type != "plain":
            return super().format_completion(item)
        value: str = item.value
        if self._quote:
            return "" if _NOT_IN_QUOTES.search(value) else f"plain,{value}"
        breaks = os.environ.get("COMP_WORDBREAKS", ":=")
        begins = 1 + max(self._typed.rfind(each) for each in ":=" if each in breaks) if set(":=") & set(breaks) else 0
        return f"plain,{_ODD.sub(lambda found: chr(92) + found[0], value[begins:])}"


def use() -> None:
    """Have bash completed in this way."""
    add_completion_class(Bash)


def _open_quote(line: str) -> str:
    """The quotation mark that was not closed yet."""
    quote, skip = "", False
    for each in line:
        if skip:
            skip = False
        elif each == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
    return quote
