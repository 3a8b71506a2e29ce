"""A person signs in to a server from the command line.

Where there is a screen, a browser opens and comes back by itself. Otherwise the person opens the address anywhere, and
pastes the one that the browser shows at the end.
"""

import asyncio
import json
import os
import sys
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tidings._kit.process import can_open_browser
from tidings._kit.text import harmless
from tidings.cli.terminal import styled, typed_line
from tidings.client.masking import shown_url

if TYPE_CHECKING:
    from tidings.client.sign_in import SigningIn, SignInStep


async def sign_in(url: str, *, browser: bool = True, **options: Any) -> None:
    """Leads a person through a sign-in. It ends when the browser comes back, or an address is pasted."""
    from tidings.client.sign_in import SigningIn

    opens = browser and can_open_browser(os.environ)
    signing_in = SigningIn(url, open_browser=lambda address: _lead(address, opens=opens), **options)
    pasting = asyncio.create_task(_take_pasted(signing_in))
    try:
        account = await signing_in.run()
    finally:
        pasting.cancel()
    click.echo(f"Signed in to {shown_url(signing_in.url)} as {harmless(account.name)}.", err=True)


def _lead(address: str, *, opens: bool) -> None:
    if opens:
        with suppress(webbrowser.Error, OSError):
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)
    first = "Your browser opens to sign in. If it does not, open" if opens else "To sign in, open this in a browser"
    click.echo(f"{first}:\n\n  {harmless(address)}\n", err=True)
    click.echo("If the browser is on another machine, paste here the address that it shows after you agreed.", err=True)


async def _take_pasted(signing_in: "SigningIn") -> None:
    """Takes what is pasted as the end of the sign-in, until it fits."""
    with suppress(EOFError, OSError, ValueError):  # There is no standard input, or it cannot be watched.
        while True:
            line = await typed_line("")
            if line.strip():
                try:
                    signing_in.finish(line)
                except ValueError as error:
                    click.echo(str(error), err=True)


def print_step(step: "SignInStep") -> None:
    """Prints what a step of a sign-in has come to."""
    if step.status is not None:
        click.echo(styled(f"  {step.name}: {step.words}", "dim", sys.stderr), err=True)


def print_in_full(step: "SignInStep") -> None:
    """Prints a step with its request and its answer."""
    status = "waiting" if step.status is None else f"HTTP {step.status}, {step.ms:.0f} ms"
    click.echo(f"{styled(step.name, 'heading', sys.stderr)} ({status}): {step.words}", err=True)
    if step.url:
        click.echo(f"  {step.method} {shown_url(step.url)}", err=True)
    for name, value in (("sent", step.request), ("answer", step.answer)):
        if value is not None:
            click.echo(f"  {name}: {harmless(json.dumps(value, ensure_ascii=False))}", err=True)
