"""`tidings prompt`: the messages of a prompt, filled in."""

import sys
from typing import Any, cast

import click

from tidings._kit.suggest import closest
from tidings.cli.contents import Content, dumped, show_blocks
from tidings.cli.conversation import KINDS, Conversation, converse, load, unknown
from tidings.cli.exits import OneShotFailed, malformed
from tidings.cli.oneshot import Asked, completes, one_shot
from tidings.cli.terminal import listed, styled


@one_shot("prompt")
@click.argument("name", shell_complete=completes("prompts"))
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--no-check", is_flag=True, help="Send it as it is: unknown names and missing arguments too.")
def command(asked: Asked, name: str, pairs: tuple[str, ...], *, no_check: bool) -> None:
    """Get a prompt, filled in, and print its messages.

    One message is printed as it is; several, each under its role.
    """
    arguments = _arguments(pairs)

    def get(talk: Conversation) -> dict[str, Any]:
        if not no_check:
            _check(talk, name, arguments)
        return _checked(talk.request("prompts/get", {"name": name, **({"arguments": arguments} if arguments else {})}))

    converse(asked, get, lambda result: click.echo(dumped(result)) if asked.as_json else _show(result["messages"]))


def _arguments(pairs: tuple[str, ...]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OneShotFailed(f"{pair!r} is no argument: write KEY=VALUE.")
        arguments[key] = value
    return arguments


def _check(talk: Conversation, name: str, arguments: dict[str, str]) -> None:
    prompts = load(talk, KINDS["prompts"])
    prompt = prompts.find(name)
    if prompt is None:
        raise unknown(prompts, name)
    listing: list[dict[str, Any]] = prompt.get("arguments") or []
    known = {str(each["name"]): bool(each.get("required")) for each in listing}
    for key in arguments:
        if key not in known:
            close = closest(key, known, most=3, cutoff=0.5)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            has = listed(known) or "none"
            raise OneShotFailed(
                f"The prompt {name!r} has no argument {key!r}.{meant} It has: {has}.", code="unknown-argument"
            )
    if missing := [key for key, needed in known.items() if needed and key not in arguments]:
        more = " ".join(f"{key}=…" for key in missing)
        raise OneShotFailed(f"The prompt {name!r} needs more: {more}", code="missing-argument")


def _checked(result: dict[str, Any]) -> dict[str, Any]:
    messages = result.get("messages")
    if isinstance(messages, list) and all(_is_message(each) for each in cast("list[Any]", messages)):
        return result
    raise malformed("The server's answer to prompts/get has no list of messages, each with role and content.", result)


def _is_message(value: object) -> bool:
    message = cast("Content", value) if isinstance(value, dict) else {}
    return isinstance(message.get("role"), str) and isinstance(message.get("content"), dict)


def _show(messages: list[Content]) -> None:
    if len(messages) == 1 and not sys.stdout.isatty():
        show_blocks([messages[0]["content"]])
        return
    for number, message in enumerate(messages):
        click.echo(("\n" if number else "") + styled(f"[{message['role']}]", "place"))
        show_blocks([message["content"]])
