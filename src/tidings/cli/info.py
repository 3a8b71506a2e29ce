"""`tidings info` and `tidings ping`."""

import json
import sys
import time
from typing import Any

import click

from tidings._kit.bounded_json import as_dict
from tidings._kit.text import harmless
from tidings.cli.contents import dumped
from tidings.cli.conversation import Conversation, converse
from tidings.cli.oneshot import OneShotOptions, ServerFacts, one_shot
from tidings.cli.terminal import styled, table


@one_shot("info")
def command(options: OneShotOptions) -> None:
    """Show a server's name, version and capabilities.

    Also shows the protocol version in use, and the instructions that the server has for models.
    """
    converse(
        options,
        lambda conversation: conversation.server,
        lambda server: click.echo(dumped(_as_json(server))) if options.as_json else _show(server),
    )


def _as_json(server: ServerFacts) -> dict[str, Any]:
    return {
        "serverInfo": server.server_info,
        "protocolVersion": server.protocol_version,
        "era": server.era,
        "transport": server.transport,
        "capabilities": server.capabilities,
        "instructions": server.instructions,
        "connectMs": round(server.seconds * 1000, 1),
    }


def _show(server: ServerFacts) -> None:
    info = server.server_info or {}
    name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "(not stated)"
    capabilities: list[str] = []
    for key, more in server.capabilities.items():
        details = [detail for detail, value in as_dict(more).items() if value]
        capabilities.append(f"{key} ({', '.join(details)})" if details else key)
    rows = [
        ("server", harmless(name)),
        ("title", harmless(str(info.get("title") or ""))),
        ("website", harmless(str(info.get("websiteUrl") or ""))),
        ("protocol", f"{server.protocol_version} ({server.era} era)"),
        ("transport", server.transport),
        ("capabilities", harmless(", ".join(capabilities) or "none stated")),
        ("connected in", f"{server.seconds * 1000:,.0f} ms"),
    ]
    table([row for row in rows if row[1]], ("dim", "name"), sys.stdout)
    if server.instructions:
        click.echo("\n" + styled("Instructions", "heading") + "\n" + harmless(server.instructions.strip()))


@one_shot("ping")
@click.option("--count", type=click.IntRange(min=1), default=1, metavar="N", help="Send N pings (default 1).")
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    default=1.0,
    metavar="SECONDS",
    help="Time between two pings (default 1).",
)
def ping_command(options: OneShotOptions, count: int, interval: float) -> None:
    """Check whether a server answers, and how fast.

    The time to connect is not counted. With --json, prints one line per answer.
    """

    def ask(conversation: Conversation) -> None:
        name = conversation.server.name
        for number in range(count):
            if number:
                time.sleep(interval)
            took = conversation.ping() * 1000
            click.echo(json.dumps({"ms": round(took, 3)}) if options.as_json else f"{name} answered in {took:.1f} ms")

    converse(options, ask, lambda _: None)
