"""The root of the command: which subcommands there are, and what they are for.

A subcommand is `command` in the file of its name (`FILES` names those whose name is taken). The file is imported when
the subcommand is called or completed, so that `tidings --help` costs what click costs.
"""

import difflib
import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

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

FILES = {"inspect": "inspect_", "list": "list_"}
"""The files of subcommands whose names mean something else in Python."""

_INTERRUPTED = 130
"""The same as `exits.INTERRUPTED`, which is not imported yet."""

CONTEXT = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def main(self, *args: Any, **options: Any) -> Any:
        if os.environ.get("_TIDINGS_COMPLETE", "").startswith("bash"):
            from tidings.cli.completion_bash import use

            use()
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            from tidings.cli.ending import ending
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
    return import_module(f"tidings.cli.{FILES.get(name, name)}").command


def did_you_mean(word: str, possibilities: Iterable[str]) -> str:
    """A question to add to an error message; empty if nothing is close to `word`."""
    close = difflib.get_close_matches(word, possibilities, n=2)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", message="tidings %(version)s")
def main() -> None:
    """Live MCP: resource subscriptions and change notifications that really work."""
