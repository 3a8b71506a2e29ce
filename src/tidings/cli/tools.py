"""`tidings call` and `tidings load`: one call of a tool with its progress, or many with their response times."""

import json
import math
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import counted
from tidings.cli.contents import dumped, show_result
from tidings.cli.conversation import Item, ListedItems, load
from tidings.cli.exits import BAD_ANSWER, OneShotFailed, exit_code_of, malformed
from tidings.cli.oneshot import OneShot, OneShotOptions, one_shot
from tidings.cli.task import ProgressLine, follow, no_tasks_by_id, show_detached
from tidings.cli.terminal import DrawnLine, bar, option, styled, table
from tidings.errors import MalformedMessage, TidingsError
from tidings.inspector.records import LISTS

if TYPE_CHECKING:
    from tidings.client.live import LiveClient
    from tidings.client.tasks import RemoteTask

_REQUESTS: Final = 100
_PARTS: Final = {"fastest": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "slowest": 1.0}


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
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE... | -]")
@option("document --args=JSON", "All arguments as one JSON object. --json '{…}' does the same and prints JSON.")
@option("-o --output=FILE", "Save images and other binary content to this file or folder.")
@option("--progress", "Print progress: lines on standard error, or JSON Lines with --json.")
@option("--detach", "If the server runs the tool as a task, print the task's id and exit.")
@option("--no-check", "Send the call even if the tool is unknown or arguments break its schema.")
def call_command(
    options: OneShotOptions,
    tool: str,
    pairs: tuple[str, ...],
    document: str | None,
    output: str | None,
    *,
    progress: bool,
    detach: bool,
    no_check: bool,
) -> None:
    """Call a tool and print its result.

    Arguments are KEY=VALUE, with the types of the tool's schema: limit=5, tags=a tags=b (a list),
    filter.since=2026-07-28 (in an object), exact (true), point:='{"x": 1}' (any JSON), body=@letter.txt (a file). Or
    give all arguments as one JSON object: with --args, or with - on standard input.

    If the server runs the tool as a task, the command waits for its end; Ctrl-C cancels the task.
    """
    call = _OneCall(options, tool, pairs, document_of(pairs, document), is_checked=not no_check)
    with closing(ProgressLine(options, lines=progress)) as line:
        result = call.by_wire(line) if options.suits_wire_client and not detach else None
        if result is None:
            result = call.live(line, detach=detach)
    if not isinstance(result, dict):
        show_detached(options, result)
        return
    if detach:
        click.echo("The server answered at once, without a task.", err=True)
    show_result(result, output, as_json=options.as_json, events=progress)


@dataclass(frozen=True)
class _OneCall:
    """A call of a tool, with its arguments as they were typed."""

    options: OneShotOptions
    tool: str
    pairs: tuple[str, ...]
    given: dict[str, Any] | None
    is_checked: bool

    def _arguments(self, found: Item) -> dict[str, Any]:
        schema = found.get("inputSchema", {"type": "object"})
        return arguments_for(self.tool, schema, self.pairs, self.given, checked=self.is_checked)

    def by_wire(self, line: ProgressLine) -> dict[str, Any] | None:
        """Returns the result by the wire client. None, before anything is called: the live client is needed."""
        from tidings.cli.wire_client import Unusual, WireClient

        with suppress(Unusual), WireClient(self.options) as client:
            if "io.modelcontextprotocol/tasks" in as_dict(client.server.capabilities.get("extensions")):
                return None  # The server may run any tool as a task.
            found = load(client, LISTS["tools"]).find(self.tool) if self.is_checked else {}
            if as_dict(found.get("execution")).get("taskSupport") == "required":
                return None
            result = client.call(self.tool, self._arguments(found), line.show)
            if complaint := _complaint(self.tool, found, result):
                raise malformed(complaint, result)
            return result
        return None

    def live(self, line: ProgressLine, *, detach: bool) -> "dict[str, Any] | RemoteTask":
        """Returns the result by the live client; with `detach`, the task that the call has become."""
        from tidings.cli.live_conversation import LiveConversation

        with LiveConversation(self.options) as conversation:
            if detach and conversation.server.era == "legacy":
                raise no_tasks_by_id()
            found = conversation.run(tools_of(conversation.client)).find(self.tool) if self.is_checked else {}
            given, timeout = self._arguments(found), self.options.timeout
            try:
                return follow(
                    conversation,
                    lambda client: client.start_call(self.tool, given, timeout=timeout),
                    line,
                    detach=detach,
                )
            except MalformedMessage as error:
                answer = conversation.raw_answer
                raise malformed(_complaint(self.tool, found, answer) or error.message, answer) from error


def _complaint(tool: str, found: Item, result: Any) -> str | None:
    """Returns the fault of a result that breaks the protocol or the tool's output schema."""
    from tidings.inspector.forms.check import check_result

    content: Any = as_dict(result).get("content", [])
    blocks = as_list(content)
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in blocks):
        return f"The result of {tool!r} has no list of content blocks."
    problems = [problem.message for problem in check_result(found, result) or () if problem.fault == "value"]
    return f"The result of {tool!r} breaks its own output schema: {'; '.join(problems[:5])}." if problems else None


@one_shot("load")
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE... | -]")
@option("document --args=JSON", "All arguments as one JSON object.")
@option("--requests=N", f"Number of calls (default {_REQUESTS}).", click.IntRange(min=1))
@option(
    "--seconds=S", "Call for S seconds, instead of a fixed number of times.", click.FloatRange(min=0, min_open=True)
)
@option("--concurrency=C", "Number of calls at the same time (default 1).", click.IntRange(min=1, max=1000), default=1)
def load_command(
    options: OneShotOptions,
    *,
    tool: str,
    pairs: tuple[str, ...],
    document: str | None,
    requests: int | None,
    seconds: float | None,
    concurrency: int,
) -> None:
    """Call a tool many times and measure its response times.

    Print the calls per second, percentiles of the response time, and the errors by kind. The calls are real: choose a
    tool that does no harm.
    """
    from asyncio import Runner

    if requests is not None and seconds is not None:
        raise click.UsageError("--requests and --seconds exclude each other.")
    given = document_of(pairs, document)
    load = Load(options, tool, concurrency, (requests or _REQUESTS) if seconds is None else None, seconds)
    interrupted = False
    with Runner() as runner:
        try:
            runner.run(load.run(pairs, given))
        except KeyboardInterrupt:
            interrupted = True  # The calls until then are reported.
    if not load.times and interrupted:
        raise KeyboardInterrupt
    if options.as_json:
        click.echo(dumped(load.figures()))
    else:
        load.show()
    if interrupted:
        raise KeyboardInterrupt
    if load.errors:
        sys.exit(load.exit_codes[load.errors.most_common(1)[0][0]])


@dataclass
class Load:
    """Calls of one tool, and their response times."""

    options: OneShotOptions
    tool: str
    concurrency: int
    calls: int | None  # None: call for `seconds`
    seconds: float | None
    times: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])
    exit_codes: dict[str, int] = field(default_factory=dict[str, int])
    took: float = 0.0

    def __post_init__(self) -> None:
        self._left = self.calls
        self._began = 0.0

    async def run(self, pairs: tuple[str, ...], given: dict[str, Any] | None) -> None:
        import asyncio

        from tidings.cli.live_conversation import ONCE, live_client
        from tidings.client.config import CacheLimits

        limits: dict[str, Any] = {"cache": CacheLimits(entries=1), "concurrency": self.concurrency, "history": 0}
        async with live_client(self.options, backoff=ONCE, **limits) as client:
            found = (await tools_of(client)).find(self.tool)
            arguments = arguments_for(self.tool, found["inputSchema"], pairs, given)
            self._began = time.perf_counter()
            showing = asyncio.create_task(self._show_progress())
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(self.concurrency):
                        tasks.create_task(self._call(client, arguments))
            finally:
                self.took = time.perf_counter() - self._began
                showing.cancel()

    async def _show_progress(self) -> None:
        from asyncio import sleep

        line = DrawnLine()
        try:
            while line.shows:
                await sleep(0.2)
                passed, calls = time.perf_counter() - self._began, len(self.times)
                part = calls / self.calls if self.calls else passed / (self.seconds or passed)
                line.draw(f"{bar(part)} {counted(calls, 'call')} in {passed:.0f} s")
        finally:
            line.clear()

    async def _call(self, client: Any, arguments: dict[str, Any]) -> None:
        while self._goes_on():
            at = time.perf_counter()
            failure = None
            try:
                call = await client.call_tool(self.tool, arguments)
            except TidingsError as error:
                failure = error.code, exit_code_of(error)
            else:
                if call.result is not None and call.result.is_error:
                    failure = "tool-failed", BAD_ANSWER
            self.times.append(time.perf_counter() - at)
            if failure is not None:
                self.errors[failure[0]] += 1
                self.exit_codes[failure[0]] = failure[1]
            if not client.connected:
                return

    def _goes_on(self) -> bool:
        if self._left is None:
            return time.perf_counter() - self._began < (self.seconds or 0)
        self._left -= 1
        return self._left >= 0

    def figures(self) -> dict[str, Any]:
        times = sorted(self.times)
        places = {name: max(0, math.ceil(round(part * len(times), 6)) - 1) for name, part in _PARTS.items()}
        return {
            "tool": self.tool,
            "calls": len(times),
            "seconds": round(self.took, 3),
            "concurrency": self.concurrency,
            "perSecond": round(len(times) / self.took, 1) if self.took else 0.0,
            "ms": {name: round(times[place] * 1000, 3) for name, place in places.items()} if times else {},
            "errors": dict(self.errors),
        }

    def show(self) -> None:
        figures = self.figures()
        click.echo(
            f"{counted(figures['calls'], 'call')} of {self.tool} in {figures['seconds']:.1f} s, "
            f"{self.concurrency} at a time: " + styled(f"{figures['perSecond']:,.0f} per second", "name")
        )
        table([(name, f"{ms:,.2f} ms") for name, ms in figures["ms"].items()], ("dim", ""), sys.stdout, indent="  ")
        for kind, number in self.errors.most_common():
            click.echo(styled(f"  {number:,} failed with {kind}", "bad"))


async def tools_of(client: "LiveClient") -> ListedItems:
    """Returns the tools as the live client has them; it then knows their output schemas."""
    kind = LISTS["tools"]
    tools = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in await client.list_tools()]
    aside = [{"list": kind.key, "item": each.item, "reason": each.reason} for each in client.malformed]
    return ListedItems(kind, tools, aside)


def document_of(pairs: tuple[str, ...], document: str | None) -> dict[str, Any] | None:
    """Returns the arguments if they were given as one JSON object, in an option or on standard input; else None."""
    if pairs == ("-",):
        if sys.stdin.isatty():
            click.echo("Type the arguments as a JSON object, then press Ctrl-D:", err=True)
        pairs, document = (), sys.stdin.read()
    if document is None:
        return None
    if pairs:
        raise OneShotFailed("Give the arguments either as KEY=VALUE or as JSON, not both.")
    try:
        given = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise OneShotFailed(f"The arguments are not JSON: {error}. Put the whole object in single quotes.") from None
    if not isinstance(given, dict):
        text = f'The arguments must be a JSON object, not {type(given).__name__}. For example: \'{{"city": "Oslo"}}\''
        raise OneShotFailed(text)
    return cast("dict[str, Any]", given)


def arguments_for(
    tool: str, schema: Any, pairs: tuple[str, ...], given: dict[str, Any] | None, *, checked: bool = True
) -> dict[str, Any]:
    """Returns the arguments with the types of the schema."""
    from tidings.inspector.forms.check import check
    from tidings.inspector.forms.pairs import parse_pairs

    if given is None:
        filled = parse_pairs(schema, pairs)
        if filled.problems:
            raise _bad_arguments(tool, [problem.message for problem in filled.problems])
        given = filled.value or {}
    if checked and (problems := [problem for problem in check(schema, given) if problem.fault == "value"]):
        raise _bad_arguments(tool, [problem.message for problem in problems])
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = "The arguments contain bytes that are not text. Write them in UTF-8."
        raise OneShotFailed(text, code="bad-arguments") from None
    return given or {}


def _bad_arguments(tool: str, problems: list[str]) -> OneShotFailed:
    more = "" if len(problems) <= 5 else f"\n  … and {len(problems) - 5} more"
    listing = "".join(f"\n  {problem}" for problem in problems[:5])
    return OneShotFailed(
        f"Invalid arguments for the tool {tool!r}:{listing}{more}\n"
        f"`tidings list TARGET tools {tool}` shows its schema; --no-check sends the arguments anyway.",
        code="bad-arguments",
        data={"problems": problems},
    )
