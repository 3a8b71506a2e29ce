"""`tidings call`: call a tool.

How far a call is: one line on a terminal, lines elsewhere if they were asked for, JSON Lines with `--json`.
"""

import json
import sys
from types import TracebackType
from typing import Any, Self, cast

import click

from tidings.cli.contents import binary_of, dumped, save, show_blocks
from tidings.cli.conversation import unknown
from tidings.cli.exits import BAD_ANSWER, OneShotFailed, failed, malformed
from tidings.cli.live_conversation import arguments_for, document_of
from tidings.cli.oneshot import Asked, OneShot, completes, one_shot
from tidings.cli.terminal import DrawnLine, harmless
from tidings.errors import MalformedMessage, TidingsError


class ProgressLine:
    """Shows what the server tells of a call's progress; the line on a terminal is gone when this is left."""

    def __init__(self, asked: Asked, *, lines: bool) -> None:
        self._events = lines and asked.as_json
        self._lines = lines and not asked.as_json
        self._line = None if lines else DrawnLine()

    def told(self, progress: float, total: float | None, message: str | None) -> None:
        """The server told how far it is."""
        if self._events:
            event = {"progress": progress, "total": total, "message": message}
            click.echo(json.dumps({key: value for key, value in event.items() if value is not None}))
            return
        far = f"{progress:g}" if not total else f"{progress:g}/{total:g} ({100 * progress / total:.0f} %)"
        text = " ".join(f"{far} {message or ''}".split())
        if self._lines:
            click.echo(harmless(text), err=True)
        elif self._line is not None:
            self._line.draw(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.clear()


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
    from tidings.cli.live_conversation import LiveTalk

    given = document_of(pairs, document)
    try:
        with LiveTalk(asked) as talk, ProgressLine(asked, lines=progress) as shown:
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
    from tidings.inspector.forms import check

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
        raise OneShotFailed("The result has no binary content to save; its text is printed without --output.")
    save([data for data, _ in found], names, output)
