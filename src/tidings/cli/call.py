"""`tidings call`: call a tool."""

import json
import sys
from typing import Any, cast

import click

from tidings.cli.arguments import arguments_for, document_of
from tidings.cli.contents import binary_of, dumped, save, show_blocks
from tidings.cli.exits import BAD_ANSWER, Failed, failed, malformed
from tidings.cli.lists import unknown
from tidings.cli.naming import completes
from tidings.cli.oneshot import Asked, OneShot, one_shot
from tidings.cli.progressing import Progress
from tidings.errors import MalformedMessage, TidingsError


class _Call(OneShot):
    """`--json '{…}'` gives the arguments and asks for JSON in return; `--json` alone only asks for that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        given = iter(args)
        for word in given:
            if word == "--":  # What follows is the server's command.
                words += [word, *given]
            elif word.startswith("--json="):
                words += ["--json", "--args", word.partition("=")[2]]
            elif words and words[-1] == "--json" and word.lstrip().startswith("{"):
                words += ["--args", word]
            else:
                words.append(word)
        return super().parse_args(ctx, words)


@one_shot("call", cls=_Call)
@click.argument("tool", shell_complete=completes("tools"))
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE... | -]")
@click.option("--args", "document", metavar="JSON", help="All arguments as one JSON object; --json '{…}' does both.")
@click.option("-o", "--output", metavar="FILE", help="Save images and other binary content there.")
@click.option("--progress", is_flag=True, help="Tell how far it is: lines on standard error, JSON Lines with --json.")
@click.option(
    "--no-check", is_flag=True, help="Send it as it is: unknown tools and arguments that break the schema too."
)
def command(
    asked: Asked,
    tool: str,
    pairs: tuple[str, ...],
    document: str | None,
    output: str | None,
    *,
    progress: bool,
    no_check: bool,
) -> None:
    """Call a tool, and print what it returns.

    Arguments are KEY=VALUE, by the types of the tool's schema: limit=5, tags=a tags=b, filter.since=2026-07-28, exact,
    point:='{"x": 1}' for any JSON, body=@letter.txt for a file. Or one JSON object, with --args or, as -, on standard
    input.
    """
    from tidings.cli.live_talk import LiveTalk

    given = document_of(pairs, document)
    try:
        with LiveTalk(asked) as talk, Progress(asked, lines=progress) as shown:
            schema: Any = {"type": "object"}
            found: dict[str, Any] | None = None
            if not no_check:
                tools = talk.tools()
                found = tools.find(tool)
                if found is None:
                    raise unknown(tools, tool)
                schema = found["inputSchema"]
            arguments = arguments_for(tool, schema, () if given else pairs, given, checked=not no_check)
            try:
                result = talk.call(tool, arguments, shown.told)
            except MalformedMessage as error:
                raise malformed(_complaint(tool, found, talk.answer) or error.message, talk.answer) from error
    except TidingsError as error:
        raise failed(error, is_command=asked.chosen.is_command) from error
    _show(asked, result, output, events=progress)


def _complaint(tool: str, found: dict[str, Any] | None, answer: Any) -> str | None:
    """At which place a structured output breaks the schema that its tool promised; None if that is not it."""
    from tidings.inspector.schemas import check

    schema: Any = (found or {}).get("outputSchema")
    output: Any = cast("dict[str, Any]", answer).get("structuredContent") if isinstance(answer, dict) else None
    if schema is None or output is None:
        return None
    problems = [problem.message for problem in check(schema, output) if problem.fault == "value"]
    return f"What {tool!r} returned breaks its own output schema: {'; '.join(problems[:5])}." if problems else None


def _show(asked: Asked, result: dict[str, Any], output: str | None, *, events: bool) -> None:
    blocks: list[dict[str, Any]] = result.get("content") or []
    is_error = bool(result.get("isError"))
    if output is not None and not is_error:
        save_blocks(blocks, output)
    if asked.as_json:
        click.echo(json.dumps({"result": result}, ensure_ascii=False) if events else dumped(result))
    elif is_error:
        sys.stdout.flush()
        click.echo("The tool said that it failed:", err=True)
        show_blocks(blocks, err=True)
    elif blocks:
        show_blocks(blocks)
    elif result.get("structuredContent") is not None:
        click.echo(dumped(result["structuredContent"]))
    sys.stdout.flush()
    if is_error:
        sys.exit(BAD_ANSWER)


def save_blocks(blocks: list[dict[str, Any]], output: str) -> None:
    """Write the binary content of a result to a file, or into a folder."""
    found = [(data, block) for block in blocks if (data := binary_of(block)) is not None]
    names = [
        f"{block.get('type', 'content')}.{str(block.get('mimeType', '')).rpartition('/')[2]}" for _, block in found
    ]
    if not found:
        raise Failed("The result has no binary content to save; its text is printed without --output.")
    save([data for data, _ in found], names, output)
