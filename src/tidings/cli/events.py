"""`tidings events`: the events of a server (MCP Events) and its webhooks; and `tidings receive`."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidings._kit import event_wire
from tidings._kit.bounded_json import as_dict, as_dicts
from tidings._kit.text import harmless
from tidings.cli.contents import dumped
from tidings.cli.conversation import converse
from tidings.cli.exits import OneShotFailed, Refusal, end_with_reader
from tidings.cli.logs import log_options, logger
from tidings.cli.oneshot import OneShotOptions, one_shot
from tidings.cli.serving import HttpAddress, begin, serve_app, until_stopped
from tidings.cli.terminal import Given, Words, option, styled, table
from tidings.cli.watch import run_program

if TYPE_CHECKING:
    from tidings.client.server_events import EventsTruncated, ServerEvent

_SECRET: Final = "TIDINGS_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_since = option("--since=CURSOR", "Begin after this cursor instead of now.")
_arguments = click.argument("arguments", nargs=-1, metavar="[K=V]...")
_program = option("program --exec=CMD", "Run this shell command for each event, with its JSON on standard input.")
_secret = option("--secret=WHSEC", "The webhook's secret: whsec_ followed by base64.", envvar=_SECRET, show_envvar=True)


@click.group("events", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, poll and follow a server's events, or send them to a webhook."""


def _params(name: str, arguments: tuple[str, ...], **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in arguments:
        key, equals, value = each.partition("=")
        if not equals:
            raise OneShotFailed(f"{each!r} is not an argument of the event: write NAME=VALUE.")
        try:
            given[key] = json.loads(value)
        except ValueError:
            given[key] = value
    return {"name": name, "arguments": given, **more}


def _ask(options: OneShotOptions, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return converse(options, lambda client: client.request(method, params))


def _show_rows(rows: list[tuple[str, ...]], styles: tuple[str, ...], otherwise: str) -> None:
    if not rows:
        click.echo(otherwise, err=True)
    table([tuple(map(harmless, row)) for row in rows], styles, sys.stdout)


@one_shot("list")
def list_command(options: OneShotOptions) -> None:
    """List the events that a server offers."""
    found = _ask(options, event_wire.LIST, {})
    if options.as_json:
        click.echo(dumped(found))
        return
    rows: list[tuple[str, ...]] = []
    for each in as_dicts(found.get("events")):
        arguments = as_dict(as_dict(each.get("inputSchema")).get("properties"))
        shown = " ".join(f"[{name}]" for name in arguments)
        rows.append((str(each.get("name")), shown, str(each.get("description") or "")))
    _show_rows(rows, ("name", "", ""), "The server has no events.")


@one_shot("poll")
@click.argument("name")
@_arguments
@_since
@option("--wait=SECONDS", "If there is no event yet, wait this long for one.", click.FloatRange(min=0), default=0.0)
def poll_command(
    options: OneShotOptions, name: str, arguments: tuple[str, ...], since: str | None, wait: float
) -> None:
    """Print the events after a cursor, and the cursor after them."""
    page = _ask(options, event_wire.POLL, _params(name, arguments, cursor=since, timeoutMs=round(wait * 1000)))
    if options.as_json:
        click.echo(dumped(page))
        return
    if page.get("truncated") is True:
        click.echo("Some events are lost: the server no longer keeps them.", err=True)
    for each in as_dicts(page.get("events")):
        _print(each)
    more = "There are more. " if page.get("hasMore") is True else ""
    click.echo(f"{more}Continue with: --since {harmless(str(page.get('cursor')))}", err=True)


def _print(event: dict[str, Any]) -> None:
    data = json.dumps(event.get("data"), ensure_ascii=False)
    click.echo(f"{styled(harmless(str(event.get('timestamp') or '')), 'dim')} {harmless(data)}")


async def _take(event: "ServerEvent | EventsTruncated", program: str | None, *, as_json: bool) -> int:
    """Prints an event, or runs a program for it. Returns the exit code of the program."""
    from tidings.client.server_events import EventsTruncated

    if isinstance(event, EventsTruncated):
        said = {"truncated": True, "cursor": event.cursor}
    else:
        at = event.at and event.at.isoformat()
        said = {"eventId": event.id, "name": event.name, "timestamp": at, "data": event.data, "cursor": event.cursor}
    if program is not None:
        return await run_program(program, str(said.get("name", "truncated")), json.dumps(said).encode())
    if as_json:
        click.echo(json.dumps(said, ensure_ascii=False))
    elif "data" in said:
        _print(said)
    else:
        click.echo("Some events are lost: the server no longer keeps them.", err=True)
    return 0


@one_shot("tail")
@click.argument("name")
@_arguments
@_since
@_program
@option("--state=FILE", "Continue where the last run with this file ended.", click.Path(dir_okay=False))
@option("--count=N", "Exit after N events.", click.IntRange(min=1))
@log_options
def tail_command(
    options: OneShotOptions,
    name: str,
    arguments: Words,
    *,
    since: Given,
    program: Given,
    state: Given,
    count: int | None,
) -> None:
    """Print each event when it happens, even after the connection was lost."""
    given = _params(name, arguments)["arguments"]

    async def follow() -> None:
        from tidings.cli.live_conversation import live_client

        client, left = live_client(options, state=state), count
        async with client, contextlib.aclosing(client.events(name, arguments=given, since=since)) as events:
            async for event in events:
                await _take(event, program, as_json=options.as_json)
                if left is not None and (left := left - 1) <= 0:
                    return

    end_with_reader(printing=program is None)
    asyncio.run(follow())


@one_shot("subscribe")
@click.argument("name")
@click.argument("url")
@_arguments
@_since
@_secret
@option("--ttl=SECONDS", "The time until the subscription must be renewed.", click.FloatRange(min=1))
def subscribe_command(
    options: OneShotOptions, name: str, url: str, arguments: Words, *, since: Given, secret: Given, ttl: float | None
) -> None:
    """Send a server's events to a URL by webhook, or renew such a subscription.

    Without --secret, a new secret is created and printed. The receiver needs it to verify the events.
    """
    made = None if secret else event_wire.new_secret()
    delivery = {"mode": "webhook", "url": url, "secret": secret or made}
    lasting = {} if ttl is None else {"ttlMs": round(ttl * 1000)}
    found = _ask(options, event_wire.SUBSCRIBE, _params(name, arguments, delivery=delivery, cursor=since, **lasting))
    said = {**found, **({"secret": made} if made else {})}
    if options.as_json:
        click.echo(dumped(said))
        return
    until = found.get("refreshBefore")
    click.echo(harmless(f"{found.get('id')} until {until}" if until else str(found.get("id"))))
    if made:
        click.echo(f"secret {made}")


@one_shot("unsubscribe")
@click.argument("name")
@click.argument("url")
@_arguments
def unsubscribe_command(options: OneShotOptions, name: str, url: str, arguments: tuple[str, ...]) -> None:
    """Stop sending events to a URL."""
    _ask(options, event_wire.UNSUBSCRIBE, _params(name, arguments, delivery={"mode": "webhook", "url": url}))


@one_shot("deliveries")
@click.argument("subscription", required=False)
@option("--failed", "Show only deliveries that were not received.")
def deliveries_command(options: OneShotOptions, subscription: str | None, *, failed: bool) -> None:
    """Show your webhook subscriptions and the state of their latest deliveries (Tidings servers only)."""
    found = _ask(options, event_wire.DELIVERIES, {} if subscription is None else {"subscriptionId": subscription})
    deliveries = [
        each for each in as_dicts(found.get("deliveries")) if not (failed and each.get("state") == "delivered")
    ]
    if options.as_json:
        click.echo(dumped({**found, "deliveries": deliveries}))
        return
    for rows, keys, otherwise in (
        (as_dicts(found.get("subscriptions")), ("id", "state", "name", "url", "reason"), "You have none here."),
        (deliveries, ("eventId", "state", "tries", "at", "reason"), "There are no such deliveries."),
    ):
        cells = [tuple(str(each.get(key) or "") for key in keys) for each in rows]
        _show_rows(cells, ("name", "", "", "dim", "bad"), otherwise)


@one_shot("redeliver")
@click.argument("subscription")
@click.argument("event")
def redeliver_command(options: OneShotOptions, subscription: str, event: str) -> None:
    """Send an event again, by its id in the list of `deliveries`."""
    _ask(options, event_wire.REDELIVER, {"subscriptionId": subscription, "eventId": event})


@click.command("receive", context_settings={"help_option_names": ["-h", "--help"]})
@option("--port", "The port to listen on.", click.IntRange(0, 65535), default=8090, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@_secret
@_program
@option("--state=FILE", "Record handled events in this file, for use after a restart.", click.Path(dir_okay=False))
@log_options
def receive_command(port: int, host: str, secret: str | None, program: str | None, state: str | None) -> None:
    """Receive events by webhook, verify them, and print each one or run a command for it.

    The receiver speaks plain HTTP: put a proxy with a certificate in front of it. If CMD fails, the server is asked to
    send the event again.
    """
    from tidings.client.event_receiver import EventReceiver

    if not secret:
        secret = event_wire.new_secret()
        logger.info("The secret for the subscription: %s (set %s to use another)", secret, _SECRET)

    async def handle(event: "ServerEvent | EventsTruncated") -> None:
        if await _take(event, program, as_json=True):
            raise RuntimeError(f"{program} failed")

    try:
        receiver = EventReceiver(secret, handle, state=None if state is None else Path(state))
    except ValueError as error:
        raise Refusal(str(error)) from None
    http = begin("a receiver of webhooks", HttpAddress(host, port, path="/"), None, for_clients=False)
    end_with_reader(printing=program is None)
    if http is not None:
        until_stopped(lambda: serve_app(receiver, http))


_COMMANDS = list_command, poll_command, tail_command, subscribe_command, unsubscribe_command
for _each in (*_COMMANDS, deliveries_command, redeliver_command):
    command.add_command(_each)
