"""`tidings load`: call a tool many times."""

import asyncio
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import click

from tidings.cli.contents import dumped
from tidings.cli.conversation import unknown
from tidings.cli.exits import BAD_ANSWER, INTERRUPTED, exit_code_of, failed
from tidings.cli.live_conversation import arguments_for, document_of
from tidings.cli.oneshot import Asked, completes, one_shot
from tidings.cli.terminal import DrawnLine, bar, styled, table
from tidings.errors import TidingsError


@one_shot("load")
@click.argument("tool", shell_complete=completes("tools"))
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE... | -]")
@click.option("--args", "document", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help="So many calls (100).")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="For so long instead.")
@click.option(
    "--concurrency", type=click.IntRange(min=1, max=1000), default=1, metavar="C", help="So many at a time (1)."
)
def command(
    asked: Asked,
    *,
    tool: str,
    pairs: tuple[str, ...],
    document: str | None,
    requests: int | None,
    seconds: float | None,
    concurrency: int,
) -> None:
    """Call a tool many times, and say how quickly it answers.

    Calls a second, how long most calls took, and the errors by kind. The tool is really called: choose one that does no
    harm.
    """
    from tidings.cli.live_conversation import Loop

    if requests is not None and seconds is not None:
        raise click.UsageError("Choose --requests or --seconds.")
    given = document_of(pairs, document)
    load = Load(asked, tool, concurrency, requests if seconds is None else None, seconds)
    if load.most is None and seconds is None:
        load.most = 100
    interrupted = False
    try:
        with Loop() as loop:
            try:
                loop.run(load.run(pairs if given is None else (), given))
            except KeyboardInterrupt:
                interrupted = True  # What was measured until then is worth something.
    except TidingsError as error:
        raise failed(error, is_command=asked.chosen.is_command) from error
    if not load.times and interrupted:
        raise KeyboardInterrupt
    if asked.as_json:
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
    """Calls of one tool, and what they took."""

    asked: Asked
    tool: str
    concurrency: int
    most: int | None
    seconds: float | None
    times: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])
    exit_codes: dict[str, int] = field(default_factory=dict[str, int])
    took: float = 0.0

    async def run(self, pairs: tuple[str, ...], given: dict[str, Any] | None) -> None:
        """Connect, and call the tool until it is enough."""
        from tidings.cli.live_conversation import NO_LISTS, live_client, timeouts, tools_of
        from tidings.client.config import Backoff, CacheLimits, ClientConfig

        config = ClientConfig(
            timeouts=timeouts(self.asked),
            backoff=Backoff(tries=0),
            list_changed=NO_LISTS,
            cache=CacheLimits(entries=1),
            concurrency=self.concurrency,
            history=0,
        )
        client = live_client(self.asked, config)
        async with client:
            tools = await tools_of(client)
            found = tools.find(self.tool)
            if found is None:
                raise unknown(tools, self.tool)
            arguments = arguments_for(self.tool, found["inputSchema"], pairs, given)
            began = time.perf_counter()
            showing = asyncio.create_task(self._show_progress(began, self.most))
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(self.concurrency):
                        tasks.create_task(self._call(client, arguments, began))
            finally:
                self.took = time.perf_counter() - began
                showing.cancel()

    async def _show_progress(self, began: float, most: int | None) -> None:
        """Draw how far it is, on a terminal; what it draws is gone when this is cancelled."""
        line = DrawnLine()
        try:
            while line.shows:
                await asyncio.sleep(_DRAWN_SECONDS)
                passed, calls = time.perf_counter() - began, len(self.times)
                part = calls / most if most else passed / (self.seconds or passed)
                line.draw(f"{bar(part)} {calls:,} call{'' if calls == 1 else 's'} in {passed:.0f} s")
        finally:
            line.clear()

    async def _call(self, client: Any, arguments: dict[str, Any], began: float) -> None:
        while self._goes_on(began):
            at = time.perf_counter()
            try:
                call = await client.call_tool(self.tool, arguments)
            except TidingsError as error:
                self._failed(error.code, exit_code_of(error))
            else:
                if call.result is not None and call.result.is_error:
                    self._failed("tool-failed", BAD_ANSWER)
            self.times.append(time.perf_counter() - at)
            if not client.connected:
                return

    def _goes_on(self, began: float) -> bool:
        if self.most is None:
            return time.perf_counter() - began < (self.seconds or 0)
        self.most -= 1
        return self.most >= 0

    def _failed(self, kind: str, exit_code: int) -> None:
        self.errors[kind] += 1
        self.exit_codes[kind] = exit_code

    def figures(self) -> dict[str, Any]:
        """What was measured, for programs. Times are in milliseconds."""
        times = sorted(self.times)
        return {
            "tool": self.tool,
            "calls": len(times),
            "seconds": round(self.took, 3),
            "concurrency": self.concurrency,
            "perSecond": round(len(times) / self.took, 1) if self.took else 0.0,
            "ms": {name: round(_part(times, part) * 1000, 3) for name, part in _PARTS.items()} if times else {},
            "errors": dict(self.errors),
        }

    def show(self) -> None:
        """What was measured, for people."""
        figures = self.figures()
        click.echo(
            f"{figures['calls']:,} calls of {self.tool} in {figures['seconds']:.1f} s, {self.concurrency} at a time: "
            + styled(f"{figures['perSecond']:,.0f} a second", "name")
        )
        table([(name, f"{ms:,.2f} ms") for name, ms in figures["ms"].items()], ("dim", ""), sys.stdout, indent="  ")
        for kind, number in self.errors.most_common():
            click.echo(styled(f"  {number:,} ended with {kind}", "bad"))


_DRAWN_SECONDS = 0.2
_PARTS = {"fastest": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "slowest": 1.0}


def _part(times: list[float], part: float) -> float:
    """The time within which this part of the calls was done, and no shorter one is: the nearest rank."""
    return times[max(0, math.ceil(round(part * len(times), 6)) - 1)]
