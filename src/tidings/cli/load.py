"""`tidings load`."""

import asyncio
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import click

from tidings._kit.text import counted
from tidings.cli.contents import dumped
from tidings.cli.conversation import tools_of
from tidings.cli.exits import BAD_ANSWER, INTERRUPTED, exit_code_of
from tidings.cli.oneshot import OneShotOptions, completes, one_shot
from tidings.cli.terminal import DrawnLine, bar, styled, table
from tidings.errors import TidingsError

_REQUESTS: Final = 100
_DRAWN_SECONDS: Final = 0.2
_PARTS: Final = {"fastest": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "slowest": 1.0}


@one_shot("load")
@click.argument("tool", shell_complete=completes("tools"))
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE... | -]")
@click.option("--args", "document", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help=f"Number of calls (default {_REQUESTS}).")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Call for S seconds instead.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1, max=1000),
    default=1,
    metavar="C",
    help="Number of calls at the same time (default 1).",
)
def command(
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

    Prints the calls per second, percentiles of the response time, and the errors by kind. The calls are real: choose a
    tool that does no harm.
    """
    from tidings.cli.live_conversation import Loop, document_of

    if requests is not None and seconds is not None:
        raise click.UsageError("--requests and --seconds exclude each other.")
    given = document_of(pairs, document)
    load = Load(options, tool, concurrency, (requests or _REQUESTS) if seconds is None else None, seconds)
    interrupted = False
    with Loop() as loop:
        try:
            loop.run(load.run(pairs if given is None else (), given))
        except KeyboardInterrupt:
            interrupted = True  # The calls until then are reported.
    if not load.times and interrupted:
        raise KeyboardInterrupt
    if options.as_json:
        click.echo(dumped(load.figures()))
    else:
        load.show()
    sys.stdout.flush()
    if interrupted:
        sys.exit(INTERRUPTED)
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
        from tidings.cli.live_conversation import NO_LISTS, arguments_for, live_client, timeouts
        from tidings.client.config import Backoff, CacheLimits, ClientConfig

        config = ClientConfig(
            timeouts=timeouts(self.options),
            backoff=Backoff(tries=0),
            list_changed=NO_LISTS,
            cache=CacheLimits(entries=1),
            concurrency=self.concurrency,
            history=0,
        )
        async with live_client(self.options, config) as client:
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
        line = DrawnLine()
        try:
            while line.shows:
                await asyncio.sleep(_DRAWN_SECONDS)
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
