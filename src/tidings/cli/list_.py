"""`tidings list`."""

import sys
from typing import Any

import click

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import counted, harmless, listed
from tidings.cli.contents import dumped
from tidings.cli.conversation import KINDS, Conversation, Item, ListedItems, ListKind, converse, summary_of
from tidings.cli.exits import malformed, payload_text
from tidings.cli.oneshot import OneShotOptions, one_shot
from tidings.cli.terminal import styled, table

_STYLES = ("name", "dim", "")


@one_shot("list")
@click.argument("kind", required=False, type=click.Choice(list(KINDS)), metavar="[tools|resources|templates|prompts]")
@click.argument("name", required=False, metavar="[NAME]")
def command(options: OneShotOptions, kind: str | None, name: str | None) -> None:
    """List a server's tools, resources, templates and prompts.

    With NAME, show one item in full.
    """

    def load(conversation: Conversation) -> list[ListedItems]:
        if kind is not None:
            return [conversation.load(KINDS[kind])]
        return [conversation.load_if_any(each) for each in KINDS.values()]

    converse(options, load, lambda lists: _show(options, lists, name))


def _show(options: OneShotOptions, lists: list[ListedItems], name: str | None) -> None:
    if name is not None:
        item = lists[0].find(name)
        click.echo(dumped(item) if options.as_json else _in_full(lists[0].kind, item))
        return
    invalid = [each for found in lists for each in found.malformed]
    if options.as_json:
        document: dict[str, Any] = {found.kind.key: found.items for found in lists}
        click.echo(dumped(document | ({"malformed": invalid} if invalid else {})))
    else:
        _as_tables(lists)
    sys.stdout.flush()
    if invalid:
        reasons = "; ".join(f"in {each['list']}, {each['reason']}" for each in invalid[:5])
        message = f"The server lists {counted(len(invalid), 'invalid item')}: {reasons}."
        raise malformed(message, [each["item"] for each in invalid[:5]])


def _as_tables(lists: list[ListedItems]) -> None:
    several, cut = len(lists) > 1, False
    shown = [found for found in lists if found.items]
    for number, found in enumerate(shown):
        if several:
            gap = "\n" if number else ""
            click.echo(gap + styled(f"{found.kind.word.capitalize()} ({len(found.items)})", "heading"))
        rows = [_row(found.kind, item) for item in found.items]
        if all(not row[1] for row in rows):
            rows = [(row[0], row[2]) for row in rows]
        styles = _STYLES if len(rows[0]) == 3 else (_STYLES[0], _STYLES[2])
        cut = table(rows, styles, sys.stdout, indent="  " if several else "") or cut
    sys.stdout.flush()
    if not shown:
        click.echo(f"The server has no {' or '.join(found.kind.word for found in lists)}.", err=True)
    for found in shown:
        if found.twice:
            names = harmless(listed(found.twice))
            click.echo(f"Several {found.kind.word} have the same name, and clients see only one: {names}.", err=True)
    if cut:
        click.echo("Some texts are shortened (…): `tidings list TARGET tools NAME` shows one in full.", err=True)


def _row(kind: ListKind, item: Item) -> tuple[str, str, str]:
    match kind.word:
        case "tools":
            schema = as_dict(item["inputSchema"])
            required = as_list(schema.get("required"))
            middle = " ".join(_argument(name, name in required) for name in as_dict(schema.get("properties")))
        case "prompts":
            arguments: list[Item] = item.get("arguments") or []
            middle = " ".join(_argument(each["name"], each.get("required")) for each in arguments)
        case _:
            middle = str(item.get("mimeType") or "")
    about = summary_of(item) or (harmless(str(item["name"])) if kind.id != "name" else "")
    return harmless(str(item[kind.id])), harmless(middle), about


def _argument(name: str, required: object) -> str:
    return name if required else f"[{name}]"


def _in_full(kind: ListKind, item: Item) -> str:
    lines = [styled(harmless(str(item[kind.id])), "name")]
    for key in ("title", "description"):
        if isinstance(item.get(key), str):
            lines += ["", harmless(item[key].strip())]
    rest = {key: value for key, value in item.items() if key not in (kind.id, "title", "description")}
    for key, value in rest.items():
        text = value if isinstance(value, str) else payload_text(value, longest=20_000)
        lines += ["", styled(key, "heading"), harmless(text)]
    return "\n".join(lines)
