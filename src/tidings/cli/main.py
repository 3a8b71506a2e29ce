"""The root of the command: `command` in the file of its name (or see `PLACES`), imported when it is called."""

from importlib import import_module
from typing import Any

import click

from tidings._version import __version__

GROUPS = {  # The subcommands by what people want, each with the first line of its help
    "Use a server": {
        "list": "List a server's tools, resources, templates and prompts.",
        "call": "Call a tool and print its result.",
        "read": "Read a resource and print its content.",
        "prompt": "Get a prompt and print its messages.",
        "watch": "Print a resource, and print it again after each change.",
        "events": "List, poll and follow a server's events, or send them to a webhook.",
        "receive": "Receive events by webhook, verify them, and print each one or run a command for it.",
        "task": "Show, follow or cancel a tool call that runs as a task.",
        "info": "Show a server's name, version and capabilities.",
        "ping": "Check whether a server answers, and how fast.",
        "load": "Call a tool many times and measure its response times.",
    },
    "Look inside": {
        "inspect": "Open the inspector in the browser.",
        "tui": "Open the inspector in the terminal.",
        "mock": "Serve a recorded session as an MCP server.",
    },
    "Serve": {
        "vault": "Serve an Obsidian vault over MCP, with live change notifications.",
        "web": "Serve web pages over MCP: fetch them, watch them, report changes.",
        "bridge": "Make other MCP servers live, in both eras, behind one address.",
    },
    "Set up": {
        "install": "Add a server to the configuration of an AI client.",
        "sign-in": "Sign in to a server by OAuth, with your browser.",
        "sign-out": "Sign out of a server: revoke the tokens, and forget the account.",
        "accounts": "List the accounts that are signed in to servers.",
        "doctor": "Check the installation on this machine, and say how to fix problems.",
        "explain": "Explain an error: its causes and what to do.",
    },
    "Try and measure": {
        "demo": "Take a tour: a sample vault, a small site, and the inspector for both.",
        "bench": "Run a benchmark: Tidings compared with its peers (needs a clone).",
    },
}
COMMANDS = {name: words for group in GROUPS.values() for name, words in group.items()}
PLACES = {  # The subcommands that are not `command` in the file of their name, as `module:name`
    "web watch": "web_watch:watch_command",
    "accounts": "sign_in:accounts_command",
    "call": "tools:call_command",
    "explain": "doctor:explain_command",
    "info": "queries:info_command",
    "inspect": "inspect_:command",
    "list": "queries:list_command",
    "load": "tools:load_command",
    "ping": "queries:ping_command",
    "prompt": "queries:prompt_command",
    "read": "queries:read_command",
    "receive": "events:receive_command",
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
        longest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), words) for name, words in commands.items()])


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
@click.option("--verbose", is_flag=True, help="With --version: also show the packages in use, for a bug report.")
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
    for name in dict.fromkeys(re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in requires("tidings") or []):
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} (not installed)")
    return lines
