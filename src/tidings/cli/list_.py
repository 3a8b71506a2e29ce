"""`tidings list`: what a server has."""

import sys
from typing import Any, cast

import click

from tidings.cli.contents import dumped
from tidings.cli.conversation import (
    KINDS,
    Conversation,
    Item,
    ListedItems,
    ListKind,
    converse,
    load,
    load_if_any,
    title_of,
    unknown,
)
from tidings.cli.exits import malformed as broken
from tidings.cli.exits import payload_text
from tidings.cli.oneshot import Asked, one_shot
from tidings.cli.terminal import harmless, listed, one_line, styled, table

_STYLES = ("name", "dim", "")


@one_shot("list")
@click.argument("kind", required=False, type=click.Choice(list(KINDS)), metavar="[tools|resources|templates|prompts]")
@click.argument("name", required=False, metavar="[NAME]")
def command(asked: Asked, kind: str | None, name: str | None) -> None:
    """List what a server has: tools, resources, templates and prompts.

    With NAME, one of them is shown in full.
    """
    converse(asked, lambda talk: _load(talk, kind), lambda lists: _show(asked, lists, name))


def _load(talk: Conversation, word: str | None) -> list[ListedItems]:
    if word is not None:
        return [load(talk, KINDS[word])]
    return [load_if_any(talk, kind) for kind in KINDS.values()]


def _show(asked: Asked, lists: list[ListedItems], name: str | None) -> None:
    malformed = [each for found in lists for each in found.malformed]
    if name is not None:
        item = lists[0].find(name)
        if item is None:
            raise unknown(lists[0], name)
        click.echo(dumped(item) if asked.as_json else _in_full(lists[0].kind, item))
        return
    if asked.as_json:
        document: dict[str, Any] = {found.kind.key: found.items for found in lists}
        click.echo(dumped(document | ({"malformed": malformed} if malformed else {})))
    else:
        _as_tables(lists)
    sys.stdout.flush()
    if malformed:
        reasons = "; ".join(f"in {each['list']}, {each['reason']}" for each in malformed[:5])
        raise broken(
            f"{len(malformed)} of what the server lists is not what the protocol says: {reasons}.",
            [each["item"] for each in malformed[:5]],
        )


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
        what = " or ".join(found.kind.word for found in lists)
        click.echo(f"The server has no {what}.", err=True)
    for found in shown:
        if found.twice:
            names = harmless(listed(found.twice))
            click.echo(f"Several {found.kind.word} are called the same, and a client sees one: {names}.", err=True)
    if cut:
        click.echo("… is where a text was cut: `tidings list TARGET tools NAME` shows one in full.", err=True)


def _row(kind: ListKind, item: Item) -> tuple[str, str, str]:
    match kind.word:
        case "tools":
            middle = " ".join(_arguments(item))
        case "prompts":
            arguments: list[Item] = item.get("arguments") or []
            middle = " ".join(each["name"] if each.get("required") else f"[{each['name']}]" for each in arguments)
        case _:
            middle = str(item.get("mimeType") or "")
    about = title_of(item) or (str(item["name"]) if kind.id != "name" else "")
    return harmless(str(item[kind.id])), harmless(middle), one_line(about)


def _arguments(tool: Item) -> list[str]:
    schema = tool["inputSchema"]
    properties, required = schema.get("properties"), schema.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    names = cast("Item", properties) if isinstance(properties, dict) else {}
    return [name if name in needed else f"[{name}]" for name in names]


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
