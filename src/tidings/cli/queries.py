"""`tidings list`, `read`, `prompt`, `info` and `ping`: one question to a server, and its answer."""

import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.suggest import closest, did_you_mean, question
from tidings._kit.text import counted, harmless, listed
from tidings.cli.contents import dumped, show_blocks, show_resource
from tidings.cli.conversation import Item, ListedItems, converse, load, load_if_any, summary_of, unknown
from tidings.cli.exits import OneShotFailed, failed, malformed, payload_text
from tidings.cli.oneshot import OneShotOptions, ServerSummary, one_shot
from tidings.cli.terminal import option, styled, table
from tidings.errors import ResourceNotFound, ServerError
from tidings.inspector.records import LISTS, ListKind

if TYPE_CHECKING:
    from tidings.cli.conversation import Client


@one_shot("list")
@click.argument("kind", required=False, type=click.Choice(list(LISTS)), metavar="[tools|resources|templates|prompts]")
@click.argument("name", required=False, metavar="[NAME]")
def list_command(options: OneShotOptions, kind: str | None, name: str | None) -> None:
    """List a server's tools, resources, templates and prompts.

    With NAME, show one item in full.
    """

    def ask(client: "Client") -> None:
        if kind is None:
            _show_lists(options, [load_if_any(client, each) for each in LISTS.values()])
            return
        found = load(client, LISTS[kind])
        if name is None:
            _show_lists(options, [found])
        else:
            click.echo(dumped(found.find(name)) if options.as_json else _in_full(found.kind, found.find(name)))

    converse(options, ask)


def _show_lists(options: OneShotOptions, lists: list[ListedItems]) -> None:
    invalid = [each for found in lists for each in found.malformed]
    if options.as_json:
        document: dict[str, Any] = {found.kind.key: found.items for found in lists}
        click.echo(dumped(document | ({"malformed": invalid} if invalid else {})))
    else:
        _as_tables(lists)
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
        rows, styles = [_row(found.kind, item) for item in found.items], ("name", "dim", "")
        if all(not row[1] for row in rows):
            rows, styles = [(row[0], row[2]) for row in rows], ("name", "")
        cut = table(rows, styles, sys.stdout, indent="  " if several else "") or cut
    sys.stdout.flush()
    if not shown:
        click.echo(f"The server has no {' or '.join(found.kind.word for found in lists)}.", err=True)
    for found in shown:
        if twice := [name for name, times in Counter(found.ids).items() if times > 1]:
            names = harmless(listed(twice))
            click.echo(f"Several {found.kind.word} have the same name, and clients see only one: {names}.", err=True)
    if cut:
        click.echo("Some texts are shortened (…): `tidings list TARGET tools NAME` shows one in full.", err=True)


def _row(kind: ListKind, item: Item) -> tuple[str, str, str]:
    match kind.word:
        case "tools":
            schema = as_dict(item["inputSchema"])
            required = as_list(schema.get("required"))
            arguments = {name: name in required for name in as_dict(schema.get("properties"))}
        case "prompts":
            arguments = {each["name"]: each.get("required") for each in as_list(item.get("arguments"))}
        case _:
            arguments = {str(item.get("mimeType") or ""): True}
    middle = " ".join(name if required else f"[{name}]" for name, required in arguments.items())
    about = summary_of(item) or (harmless(str(item["name"])) if kind.id != "name" else "")
    return harmless(str(item[kind.id])), harmless(middle), about


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


@one_shot("read")
@click.argument("uri")
@option("-o --output=FILE", "Write the content to this file, or several contents to a folder.")
def read_command(options: OneShotOptions, uri: str, output: str | None) -> None:
    """Read a resource and print its content.

    Text is printed as it is. Binary content can go to a pipe or, with --output, to a file, but not to a terminal.
    """
    if not uri.strip():
        raise OneShotFailed("The URI is empty. `tidings list TARGET resources` shows the resources of the server.")

    def ask(client: "Client") -> None:
        try:
            result = client.request("resources/read", {"uri": uri})
        except ServerError as error:
            raise _not_read(client, uri, error) from error
        contents = as_list(result.get("contents"))
        if not isinstance(result.get("contents"), list) or not all(isinstance(each, dict) for each in contents):
            raise malformed("The server's answer to resources/read has no list of contents.", result)
        if options.as_json and output is None:
            click.echo(dumped(result))
        else:
            show_resource(contents, output)

    converse(options, ask)


def _not_read(client: "Client", uri: str, error: ServerError) -> OneShotFailed | ServerError:
    """Returns the reason why a resource could not be read, with similar resources of the server."""
    resources = load_if_any(client, LISTS["resources"])
    if uri in resources.ids:
        return error
    close = closest(uri, resources.ids, cutoff=0.5)
    if not isinstance(error, ResourceNotFound):  # It may exist although it is not listed.
        end = failed(error)
        end.message = f"{end.message.rstrip('.')}.{question(close)}" if close else end.message
        return end
    templates = load_if_any(client, LISTS["templates"])
    end = unknown(uri, resources, *([templates] if templates.ids and not close else []))
    end.code, end.help = error.code, error.help
    return end


@one_shot("prompt")
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@option("--no-check", "Send the request even if the prompt or its arguments look wrong.")
def prompt_command(options: OneShotOptions, name: str, pairs: tuple[str, ...], *, no_check: bool) -> None:
    """Get a prompt and print its messages.

    A single message is printed as plain text. Several messages are printed with their roles as headings.
    """
    arguments: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OneShotFailed(f"{pair!r} is not an argument. Write KEY=VALUE.")
        arguments[key] = value

    def ask(client: "Client") -> None:
        if not no_check:
            _check_arguments(load(client, LISTS["prompts"]).find(name), name, arguments)
        result = client.request("prompts/get", {"name": name, **({"arguments": arguments} if arguments else {})})
        messages = [as_dict(each) for each in as_list(result.get("messages"))]
        valid = all(isinstance(each.get("role"), str) and isinstance(each.get("content"), dict) for each in messages)
        if not isinstance(result.get("messages"), list) or not valid:
            raise malformed("The server's answer to prompts/get has no list of messages with role and content.", result)
        if options.as_json:
            click.echo(dumped(result))
            return
        alone = len(messages) == 1 and not sys.stdout.isatty()
        for number, message in enumerate(messages):
            if not alone:
                click.echo(("\n" if number else "") + styled(f"[{message['role']}]", "place"))
            show_blocks([message["content"]])

    converse(options, ask)


def _check_arguments(prompt: Item, name: str, arguments: dict[str, str]) -> None:
    known = {str(each["name"]): bool(each.get("required")) for each in as_list(prompt.get("arguments"))}
    for key in arguments:
        if key not in known:
            raise OneShotFailed(
                f"The prompt {name!r} has no argument {key!r}.{did_you_mean(key, known, cutoff=0.5)} "
                f"Its arguments: {listed(known, none='none')}.",
                code="unknown-argument",
            )
    if missing := [key for key, needed in known.items() if needed and key not in arguments]:
        more = " ".join(f"{key}=…" for key in missing)
        text = f"The prompt {name!r} has required arguments that are missing: {more}"
        raise OneShotFailed(text, code="missing-argument")


@one_shot("info")
def info_command(options: OneShotOptions) -> None:
    """Show a server's name, version and capabilities.

    Also show the protocol version in use, and the server's instructions for models.
    """
    converse(options, lambda client: _show_server(options, client.server))


def _show_server(options: OneShotOptions, server: ServerSummary) -> None:
    if options.as_json:
        facts = {
            "serverInfo": server.server_info,
            "protocolVersion": server.protocol_version,
            "era": server.era,
            "transport": server.transport,
            "capabilities": server.capabilities,
            "instructions": server.instructions,
            "connectMs": round(server.seconds * 1000, 1),
        }
        click.echo(dumped(facts))
        return
    info = server.server_info or {}
    name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "(not stated)"
    capabilities: list[str] = []
    for key, more in server.capabilities.items():
        details = [detail for detail, value in as_dict(more).items() if value]
        capabilities.append(f"{key} ({', '.join(details)})" if details else key)
    rows = {
        "server": name,
        "title": str(info.get("title") or ""),
        "website": str(info.get("websiteUrl") or ""),
        "protocol": f"{server.protocol_version} ({server.era} era)",
        "transport": server.transport,
        "capabilities": ", ".join(capabilities) or "none stated",
        "connected in": f"{server.seconds * 1000:,.0f} ms",
    }
    table([(what, harmless(words)) for what, words in rows.items() if words], ("dim", "name"), sys.stdout)
    if server.instructions:
        click.echo("\n" + styled("Instructions", "heading") + "\n" + harmless(server.instructions.strip()))


@one_shot("ping")
@option("--count=N", "Send N pings (default 1).", click.IntRange(min=1), default=1)
@option("--interval=SECONDS", "Time between two pings (default 1).", click.FloatRange(min=0), default=1.0)
def ping_command(options: OneShotOptions, count: int, interval: float) -> None:
    """Check whether a server answers, and how fast.

    The time to connect is not counted. With --json, print one line per answer.
    """

    def ask(client: "Client") -> None:
        name = client.server.name
        for number in range(count):
            if number:
                time.sleep(interval)
            took = client.ping() * 1000
            click.echo(json.dumps({"ms": round(took, 3)}) if options.as_json else f"{name} answered in {took:.1f} ms")

    converse(options, ask)
