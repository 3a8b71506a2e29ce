"""`tidings explain`: the pages about errors, without a network."""

import re
import sys

import click

from tidings._kit.suggest import did_you_mean
from tidings.cli.exits import Refusal
from tidings.cli.terminal import styled, table
from tidings.errors import leaves
from tidings.inspector.view.error_report import help_pages


@click.command("explain")
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Explain an error: its causes, and what to do.

    CODE is the code of an error, such as connect-failed, or the name of its class. Without CODE, all are listed.
    """
    if code is None:
        rows = [(error.code, (error.__doc__ or "").split("\n")[0]) for error in leaves()]
        table(rows, ("name", ""), sys.stdout)
        return
    names = {error.__name__.casefold(): error.code for error in leaves()}
    pages = help_pages()
    page = pages.get(names.get(code.casefold(), code.lower()))
    if page is None:
        raise Refusal(f"There is no error {code!r}.{did_you_mean(code, pages)} `tidings explain` lists all.")
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page.read_text("utf-8"))  # Links are of use in a browser only.
    for line in text.rstrip().splitlines():
        click.echo(styled(line.lstrip("# "), "heading") if line.startswith("#") else line)
