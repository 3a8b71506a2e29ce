"""`tidings info`: who a server is.

`tidings ping`: whether a server is there.
"""

import json
import sys
import time
from typing import Any, cast

import click

from tidings.cli.contents import dumped
from tidings.cli.conversation import Conversation, converse
from tidings.cli.oneshot import Asked, one_shot
from tidings.cli.terminal import harmless, styled, table


@one_shot("info")
def command(asked: Asked) -> None:
    """Say who a server is, and what it can do.

    Its name and version, the protocol that both sides agreed on, its capabilities, and what it tells models about its
    use.
    """
    converse(asked, _facts, lambda facts: click.echo(dumped(facts)) if asked.as_json else _show(facts))


def _facts(talk: Conversation) -> dict[str, Any]:
    return {
        "serverInfo": talk.server_info,
        "protocolVersion": talk.protocol_version,
        "era": "modern" if talk.protocol_version >= "2026" else "legacy",
        "transport": talk.transport,
        "capabilities": talk.capabilities,
        "instructions": talk.instructions,
        "connectMs": round(talk.took * 1000, 1),
    }


def _show(facts: dict[str, Any]) -> None:
    server: dict[str, Any] = facts["serverInfo"] or {}
    name = " ".join(str(server[key]) for key in ("name", "version") if server.get(key)) or "(it does not say)"
    rows = [
        ("server", harmless(name)),
        ("title", harmless(str(server.get("title") or ""))),
        ("website", harmless(str(server.get("websiteUrl") or ""))),
        ("protocol", f"{facts['protocolVersion']} ({facts['era']} era)"),
        ("transport", facts["transport"]),
        ("can", harmless(", ".join(_abilities(facts["capabilities"])) or "nothing that it says")),
        ("connected in", f"{facts['connectMs']:,.0f} ms"),
    ]
    table([row for row in rows if row[1]], ("dim", "name"), sys.stdout)
    if facts["instructions"]:
        click.echo("\n" + styled("Instructions", "heading") + "\n" + harmless(facts["instructions"].strip()))


def _abilities(capabilities: dict[str, Any]) -> list[str]:
    """Each capability, with what is special about it."""
    words: list[str] = []
    for name, more in capabilities.items():
        items = cast("dict[str, Any]", more).items() if isinstance(more, dict) else ()
        details = [key for key, value in items if value]
        words.append(f"{name} ({', '.join(details)})" if details else name)
    return words


@one_shot("ping")
@click.option("--count", type=click.IntRange(min=1), default=1, metavar="N", help="Ask so many times.")
@click.option(
    "--interval", type=click.FloatRange(min=0), default=1.0, metavar="SECONDS", help="Wait so long between (1)."
)
def ping_command(asked: Asked, count: int, interval: float) -> None:
    """Ask a server whether it is there, and how soon it answers.

    The time to start or to reach it is not counted. With --json, one line for each answer.
    """

    def ask(talk: Conversation) -> None:
        for number in range(count):
            if number:
                time.sleep(interval)
            took = talk.ping() * 1000
            words = json.dumps({"ms": round(took, 3)}) if asked.as_json else f"{talk.name} answered in {took:.1f} ms"
            click.echo(words)

    converse(asked, ask, lambda _: None)
