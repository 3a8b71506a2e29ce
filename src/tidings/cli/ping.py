"""`tidings ping`: whether a server is there."""

import json
import time

import click

from tidings.cli.oneshot import Asked, one_shot
from tidings.cli.talking import Talk, converse


@one_shot("ping")
@click.option("--count", type=click.IntRange(min=1), default=1, metavar="N", help="Ask so many times.")
@click.option(
    "--interval", type=click.FloatRange(min=0), default=1.0, metavar="SECONDS", help="Wait so long between (1)."
)
def command(asked: Asked, count: int, interval: float) -> None:
    """Ask a server whether it is there, and how soon it answers.

    The time to start or to reach it is not counted. With --json, one line for each answer.
    """

    def ask(talk: Talk) -> None:
        for number in range(count):
            if number:
                time.sleep(interval)
            took = talk.ping() * 1000
            words = json.dumps({"ms": round(took, 3)}) if asked.as_json else f"{talk.name} answered in {took:.1f} ms"
            click.echo(words)

    converse(asked, ask, lambda _: None)
