"""`tidings call`: a tool call, with progress as one line on a terminal, as lines, or as JSON Lines."""

import json
import sys
from contextlib import closing
from typing import Any

import click

from tidings._kit.bounded_json import as_dict
from tidings._kit.text import harmless, one_line
from tidings.cli.contents import binary_of, dumped, save, show_blocks
from tidings.cli.conversation import tools_of
from tidings.cli.exits import BAD_ANSWER, OneShotFailed, malformed
from tidings.cli.oneshot import OneShot, OneShotOptions, completes, one_shot
from tidings.cli.terminal import DrawnLine
from tidings.errors import MalformedMessage


class ProgressLine:
    """Shows the progress of a call. A line on a terminal is cleared at the end."""

    def __init__(self, options: OneShotOptions, *, lines: bool) -> None:
        self._as_json = options.as_json
        self._line = None if lines else DrawnLine()

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        if self._line is None and self._as_json:
            event = {"progress": progress, "total": total, "message": message}
            click.echo(json.dumps({key: value for key, value in event.items() if value is not None}))
            return
        share = f"{progress:g}" if not total else f"{progress:g}/{total:g} ({100 * progress / total:.0f} %)"
        text = one_line(f"{share} {message or ''}")
        if self._line is None:
            click.echo(harmless(text), err=True)
        else:
            self._line.draw(text)

    def close(self) -> None:
        if self._line is not None:
            self._line.clear()


class _Call(OneShot):
    """Reads `--json '{…}'` as `--json --args '{…}'`; `--json` alone only asks for JSON output."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        given = iter(args)
        for word in given:
            if word == "--":  # The server's command follows.
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
@click.option(
    "--args",
    "document",
    metavar="JSON",
    help="All arguments as one JSON object. --json '{…}' does the same and prints JSON.",
)
@click.option("-o", "--output", metavar="FILE", help="Save images and other binary content to this file or folder.")
@click.option("--progress", is_flag=True, help="Print progress: lines on standard error, or JSON Lines with --json.")
@click.option(
    "--no-check", is_flag=True, help="Send the call even if the tool is unknown or arguments break its schema."
)
def command(
    options: OneShotOptions,
    tool: str,
    pairs: tuple[str, ...],
    document: str | None,
    output: str | None,
    *,
    progress: bool,
    no_check: bool,
) -> None:
    """Call a tool and print its result.

    Arguments are KEY=VALUE, with the types of the tool's schema: limit=5, tags=a tags=b (a list),
    filter.since=2026-07-28 (in an object), exact (true), point:='{"x": 1}' (any JSON), body=@letter.txt (a file). Or
    give one JSON object, with --args or, as -, on standard input.
    """
    from tidings.cli.live_conversation import LiveConversation, arguments_for, document_of, plain

    given = document_of(pairs, document)
    with LiveConversation(options) as conversation, closing(ProgressLine(options, lines=progress)) as line:
        client = conversation.client
        found = {} if no_check else conversation.run(tools_of(client)).find(tool)
        schema = found.get("inputSchema", {"type": "object"})
        arguments = arguments_for(tool, schema, () if given else pairs, given, checked=not no_check)
        try:
            call = conversation.run(client.call_tool(tool, arguments, on_progress=line.show))
        except MalformedMessage as error:
            answer = conversation.raw_answer
            raise malformed(_complaint(tool, found, answer) or error.message, answer) from error
        result = {} if call.result is None else plain(call.result)
    _show(options, result, output, events=progress)


def _complaint(tool: str, found: dict[str, Any], answer: Any) -> str | None:
    """Returns where a structured output breaks the tool's output schema; None if that is not the fault."""
    from tidings.inspector.forms import check

    schema, output = found.get("outputSchema"), as_dict(answer).get("structuredContent")
    if schema is None or output is None:
        return None
    problems = [problem.message for problem in check(schema, output) if problem.fault == "value"]
    return f"The result of {tool!r} breaks its own output schema: {'; '.join(problems[:5])}." if problems else None


def _show(options: OneShotOptions, result: dict[str, Any], output: str | None, *, events: bool) -> None:
    blocks: list[dict[str, Any]] = result.get("content") or []
    is_error = bool(result.get("isError"))
    if output is not None and not is_error:
        binary = [(data, block) for block in blocks if (data := binary_of(block)) is not None]
        if not binary:
            raise OneShotFailed("The result has no binary content to save. Omit --output to print its text.")
        kinds = [(block.get("type", "content"), str(block.get("mimeType", ""))) for _, block in binary]
        save([data for data, _ in binary], [f"{kind}.{mime.rpartition('/')[2]}" for kind, mime in kinds], output)
    if options.as_json:
        click.echo(json.dumps({"result": result}, ensure_ascii=False) if events else dumped(result))
    elif is_error:
        sys.stdout.flush()
        click.echo("The tool reported an error:", err=True)
        show_blocks(blocks, err=True)
    elif blocks:
        show_blocks(blocks)
    elif result.get("structuredContent") is not None:
        click.echo(dumped(result["structuredContent"]))
    sys.stdout.flush()
    if is_error:
        sys.exit(BAD_ANSWER)
