"""`tidings sign-in`, `sign-out` and `accounts`."""

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tidings._kit.text import duration, harmless, one_line
from tidings.cli.contents import dumped
from tidings.cli.exits import ALL, OneShotFailed
from tidings.cli.oneshot import Reported, find_server, header_option, print_step, sign_in
from tidings.cli.terminal import Given, option, styled, table
from tidings.client.accounts import Account, default_accounts
from tidings.client.masking import shown_url

if TYPE_CHECKING:
    from tidings.client.sign_in import SignInStep

_account_option = option("--account=NAME", "The name of the account.", default="")


def _url_of(target: str) -> str:
    url = find_server(target, None).resolved(os.environ).url
    if url is None:
        raise OneShotFailed(f"{target!r} is a command, and only servers at a URL have a sign-in. Give a URL.")
    return url


def print_in_full(step: "SignInStep") -> None:
    """Prints a step with its request and its answer."""
    status = "waiting" if step.status is None else f"HTTP {step.status}, {step.ms:.0f} ms"
    click.echo(f"{styled(step.name, 'heading', sys.stderr)} ({status}): {step.words}", err=True)
    if step.url:
        click.echo(f"  {step.method} {shown_url(step.url)}", err=True)
    for name, value in (("sent", step.request), ("answer", step.answer)):
        if value is not None:
            click.echo(f"  {name}: {harmless(json.dumps(value, ensure_ascii=False))}", err=True)


@click.command("sign-in", cls=Reported, epilog=ALL)
@click.argument("target", metavar="URL")
@_account_option
@option("--client-id=ID", "The id of a registered client, or the URL of a client-id document.", default="")
@option("--client-secret-env=NAME", "The environment variable that has the secret of the registered client.")
@option("--port", "The port to which the browser returns (default: a free port).", click.IntRange(0, 65535), default=0)
@option("--no-browser", "Print the address to open. Paste the address at which the browser ends up.")
@option("--steps", "Print each step with its request and answer. Secrets are masked.")
@header_option
def sign_in_command(
    target: str, client_secret_env: Given, headers: list[tuple[str, str]], no_browser: bool, steps: bool, **options: Any
) -> None:
    """Sign in to a server by OAuth, with your browser.

    All commands, the inspector and the bridge then use the account. To have several accounts at one server, name each
    with --account. The last one that signed in is used. URL can also be a server in your catalog.
    """
    if client_secret_env is not None and client_secret_env not in os.environ:
        raise click.UsageError(f"--client-secret-env: the variable {client_secret_env} is not set.")
    begun = sign_in(
        _url_of(target),
        browser=not no_browser,
        on_step=print_in_full if steps else print_step,
        headers=dict(headers),
        client_secret=os.environ.get(client_secret_env or "", ""),
        **options,
    )
    asyncio.run(begun)


@click.command("sign-out", cls=Reported, epilog=ALL)
@click.argument("target", metavar="URL")
@_account_option
def sign_out_command(target: str, account: str) -> None:
    """Sign out of a server: revoke the tokens, and forget the account.

    Without --account, all accounts of the server are signed out.
    """
    from tidings.client.sign_in import sign_out

    url = _url_of(target)
    accounts = default_accounts()
    found = [each for each in accounts.of(url) if account in ("", each.name)]
    if not found:
        kept = f" Accounts: {', '.join(each.name for each in accounts.of(url))}." if accounts.of(url) else ""
        raise OneShotFailed(f"Nobody is signed in to {shown_url(url)}{f' as {account}' * bool(account)}.{kept}")
    for each in found:
        revoked = asyncio.run(sign_out(each, accounts))
        end = "revoked." if revoked else "forgotten here; the server offers no way to revoke them, or did not answer."
        click.echo(f"Signed out {harmless(each.name)} of {shown_url(url)}. Its tokens were {end}")


@click.command("accounts", cls=Reported, epilog=ALL)
@option("as_json --json", "Print one JSON document.")
def accounts_command(*, as_json: bool) -> None:
    """List the accounts that are signed in to servers.

    If several accounts are signed in to one server, the one with a star is used.
    """
    found = default_accounts().all()
    if as_json:
        names = ("name", "scope", "issuer", "expires", "renewable", "current")
        facts = [{"url": shown_url(each.url)} | {name: getattr(each, name) for name in names} for each in found]
        click.echo(dumped({"accounts": facts}))
    elif not found:
        click.echo("No account is signed in. Sign in with: tidings sign-in URL", err=True)
    else:
        rows: list[tuple[str, ...]] = []
        for each in found:
            name = f"{'*' if each.current else ' '} {harmless(each.name)}"
            rows.append((name, shown_url(each.url), one_line(each.scope), _life(each)))
        table(rows, ("name", "place", "dim", ""), sys.stdout)


def _life(account: Account) -> str:
    left = None if account.expires is None else account.expires - time.time()
    if account.wanted:
        return f"needs another sign-in for: {one_line(account.wanted)}"
    if account.renewable or left is None:
        return "renewed by itself" if account.renewable else "no end stated"
    return f"ends in {duration(left)}" if left > 0 else "expired: sign in again"
