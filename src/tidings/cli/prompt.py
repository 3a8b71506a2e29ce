"""`tidings prompt`."""

import sys
from typing import Any

import click

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.suggest import did_you_mean
from tidings._kit.text import listed
from tidings.cli.contents import Content, dumped, show_blocks
from tidings.cli.conversation import KINDS, Conversation, converse
from tidings.cli.exits import OneShotFailed, malformed
from tidings.cli.oneshot import OneShotOptions, completes, one_shot
from tidings.cli.terminal import styled


@one_shot("prompt")
@click.argument("name", shell_complete=completes("prompts"))
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--no-check", is_flag=True, help="Send the request even if the prompt or its arguments look wrong.")
def command(options: OneShotOptions, name: str, pairs: tuple[str, ...], *, no_check: bool) -> None:
    """Get a prompt and print its messages.

    The text of a single message is printed alone; several messages have their roles as headings.
    """
    arguments: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OneShotFailed(f"{pair!r} is not an argument. Write KEY=VALUE.")
        arguments[key] = value

    def get(conversation: Conversation) -> dict[str, Any]:
        if not no_check:
            _check(conversation, name, arguments)
        result = conversation.request("prompts/get", {"name": name, **({"arguments": arguments} if arguments else {})})
        messages = [as_dict(each) for each in as_list(result.get("messages"))]
        valid = all(isinstance(each.get("role"), str) and isinstance(each.get("content"), dict) for each in messages)
        if not isinstance(result.get("messages"), list) or not valid:
            raise malformed("The server's answer to prompts/get has no list of messages with role and content.", result)
        return result

    converse(options, get, lambda result: click.echo(dumped(result)) if options.as_json else _show(result["messages"]))


def _check(conversation: Conversation, name: str, arguments: dict[str, str]) -> None:
    prompt = conversation.load(KINDS["prompts"]).find(name)
    listing: list[dict[str, Any]] = prompt.get("arguments") or []
    known = {str(each["name"]): bool(each.get("required")) for each in listing}
    for key in arguments:
        if key not in known:
            raise OneShotFailed(
                f"The prompt {name!r} has no argument {key!r}.{did_you_mean(key, known, cutoff=0.5)} "
                f"Its arguments: {listed(known, none='none')}.",
                code="unknown-argument",
            )
    if missing := [key for key, needed in known.items() if needed and key not in arguments]:
        more = " ".join(f"{key}=…" for key in missing)
        raise OneShotFailed(
            f"The prompt {name!r} has required arguments that are missing: {more}", code="missing-argument"
        )


def _show(messages: list[Content]) -> None:
    if len(messages) == 1 and not sys.stdout.isatty():
        show_blocks([messages[0]["content"]])
        return
    for number, message in enumerate(messages):
        click.echo(("\n" if number else "") + styled(f"[{message['role']}]", "place"))
        show_blocks([message["content"]])
