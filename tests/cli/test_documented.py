"""Each option of a command, and each environment variable, is on the page that describes the command."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tidings.cli.main import load, main

DOCS = Path(__file__).parents[2] / "docs"
# What a command has in common with others is on these two.
COMMON = ("cli.md", "configuration.md")
PAGES = {
    "bridge": "bridge.md",
    "demo": "demo.md",
    "events": "events.md",
    "inspect": "inspector.md",
    "receive": "events.md",
    "tui": "tui.md",
    "vault": "vault.md",
    "web": "web.md",
}


def commands(command: click.Command = main, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Each command with its name, as it is typed after `tidings`."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found
            yield from commands(found, *path, name)
    yield " ".join(path), command


def undocumented(name: str, command: click.Command, text: str) -> list[str]:
    """The options and variables of a command that are not in a text."""
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    words = [word for each in options for word in (*each.opts, *each.secondary_opts) if word.startswith("--")]
    variables = [str(each.envvar) for each in options if each.envvar]
    return [f"{name}: {word}" for word in [*words, *variables] if not re.search(rf"{re.escape(word)}(?![\w-])", text)]


def test_each_option_and_variable_is_on_the_page_of_its_command() -> None:
    found = {**dict(commands()), "web watch": load("web watch")}
    assert {"vault", "events subscribe", "bench"} <= found.keys()
    missing: list[str] = []
    for name, command in found.items():
        pages = [*COMMON, PAGES.get(name.partition(" ")[0], "cli.md")]
        text = "\n".join((DOCS / page).read_text("utf-8") for page in pages)
        missing += undocumented(name, command, text)
    assert missing == []


@pytest.mark.parametrize(("text", "missing"), [("--deep, --deep-sea", []), ("--deep-sea", ["dive: --deep"])])
def test_an_option_that_is_part_of_another_one_does_not_count(text: str, missing: list[str]) -> None:
    assert undocumented("dive", click.Command("dive", params=[click.Option(["--deep"])]), text) == missing


def test_each_option_says_what_it_does() -> None:
    silent = [
        f"{name}: {option.opts[0]}"
        for name, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert silent == []
