"""The root of the command: its subcommands, imported when they are called.

A subcommand is `command` in the file of its name (`PLACES` names the exceptions). `tidings --help` imports none of
them.
"""

from importlib import import_module
from typing import Any

import click

from tidings._version import __version__

COMMANDS = {  # Each subcommand with its line in `--help`, which is also the first line of its own help
    "accounts": "List the accounts that are signed in to servers.",
    "bench": "Run a benchmark: Tidings compared with its peers (needs a clone).",
    "bridge": "Make other MCP servers live, in both eras, behind one address.",
    "call": "Call a tool and print its result.",
    "demo": "Take a tour: a sample vault, a small site, and the inspector for both.",
    "doctor": "Check what Tidings uses on this machine, and say how to fix problems.",
    "info": "Show a server's name, version and capabilities.",
    "inspect": "Open the inspector in the browser.",
    "list": "List a server's tools, resources, templates and prompts.",
    "load": "Call a tool many times and measure its response times.",
    "mock": "Serve a recorded session as an MCP server.",
    "ping": "Check whether a server answers, and how fast.",
    "prompt": "Get a prompt and print its messages.",
    "read": "Read a resource and print its content.",
    "sign-in": "Sign in to a server by OAuth, with your browser.",
    "sign-out": "Sign out of a server: revoke the tokens, and forget the account.",
    "task": "Show, follow or cancel a tool call that runs as a task.",
    "tui": "Open the inspector in the terminal.",
    "vault": "Serve an Obsidian vault over MCP, with live change notifications.",
    "watch": "Print a resource, and print it again after each change.",
    "web": "Serve web pages over MCP: fetch them, watch them, report changes.",
}
PLACES = {  # The subcommands that are not `command` in the file of their name, as `module:name`
    "web watch": "web_watch:watch_command",
    "accounts": "sign_in:accounts_command",
    "call": "tools:call_command",
    "info": "queries:info_command",
    "inspect": "inspect_:command",
    "list": "queries:list_command",
    "load": "tools:load_command",
    "ping": "queries:ping_command",
    "prompt": "queries:prompt_command",
    "read": "queries:read_command",
    "sign-in": "sign_in:sign_in_command",
    "sign-out": "sign_in:sign_out_command",
    "tui": "inspect_:tui_command",
}
CONTEXT = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            from tidings.cli.exits import ending
        except KeyboardInterrupt:
            ctx.exit(130)  # `exits.INTERRUPTED`, which is not imported yet.
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
            from tidings._kit.suggest import did_you_mean

            ctx.fail(f"No such command {name!r}.{did_you_mean(name, COMMANDS, most=2)}")
        if name == "web" and args[1:2] == ["watch"]:
            return "web watch", load("web watch"), args[2:]
        if name == "watch" and args[1:2] == ["web"] and any(each.startswith(("http://", "https://")) for each in args):
            return "web watch", load("web watch"), args[2:]  # What people mean by it.
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def load(name: str) -> click.Command:
    """Imports a subcommand."""
    module, _, variable = PLACES.get(name, f"{name}:command").partition(":")
    return getattr(import_module(f"tidings.cli.{module}"), variable)


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    invoke_without_command=True,
    no_args_is_help=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.option("-V", "--version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With --version: show also what Tidings uses here, for a bug report.")
@click.pass_context
def main(ctx: click.Context, *, version: bool, verbose: bool) -> None:
    """Live MCP: servers and clients with reliable resource subscriptions and change notifications."""
    if version:
        click.echo("\n".join([f"tidings {__version__}", *(_environment() if verbose else [])]))
        ctx.exit()
    if verbose:
        ctx.fail("--verbose belongs to --version. Commands have options of their own: see `tidings COMMAND --help`.")


def _environment() -> list[str]:
    """Returns a line for Python, the system, and each package that Tidings may use and finds."""
    import platform
    import re
    from importlib.metadata import PackageNotFoundError, requires, version

    lines = [f"python {platform.python_version()}", f"system {platform.platform()}"]
    for name in dict.fromkeys(
        found[0] for found in map(re.compile(r"[\w.-]+").match, requires("tidings") or []) if found
    ):
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} (not installed)")
    return lines
