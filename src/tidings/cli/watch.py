"""`tidings watch`."""

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from tidings._kit.diff import unified
from tidings._kit.suggest import closest, question
from tidings._kit.text import clock, harmless
from tidings.cli.contents import Content, bytes_of, described
from tidings.cli.exits import YOURS, OneShotFailed, end_with_reader, failed, in_the_shell
from tidings.cli.logs import log_options, logger
from tidings.cli.oneshot import OneShotOptions, one_shot
from tidings.cli.terminal import option, styled
from tidings.errors import ResourceNotFound, TidingsError

if TYPE_CHECKING:
    from tidings.client import LiveClient


@one_shot("watch")
@click.argument("uris", nargs=-1, required=True, metavar="URI...")
@option("--diff", "After the first content, print only the changes.")
@option("program --exec=CMD", "Run this shell command each time, with the content on standard input. Print nothing.")
@option("--count=N", "Exit after printing, or running CMD, N times.", click.IntRange(min=1))
@log_options
def command(
    options: OneShotOptions, uris: tuple[str, ...], program: str | None, count: int | None, *, diff: bool
) -> None:
    """Print a resource, and print it again after each change.

    A server without subscriptions is polled every few seconds. If the connection is lost, the command waits until the
    server is back. With --json, it prints one line each time. With --exec, the shell command gets the URI in the
    environment variable TIDINGS_URI.
    """
    if diff and program is not None:
        raise OneShotFailed("--diff and --exec exclude each other: the command of --exec gets the whole content.")
    if words := [uri for uri in uris if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri)]:
        cure = "Put a command in quotes with all its words, for example: tidings watch 'tidings vault Notes' vault://recent"
        raise OneShotFailed(f"{words[0]!r} is not a URI: it has no scheme. {cure}")
    end_with_reader(printing=program is None)
    asyncio.run(_Watch(options, uris, diff=diff, program=program).run(count))


@dataclass(eq=False, repr=False)
class _Watch:
    options: OneShotOptions
    uris: tuple[str, ...]
    _: KW_ONLY
    diff: bool
    program: str | None

    def __post_init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._read: set[str] = set()
        self._refusals: list[str] = []
        self._away = False

    async def run(self, count: int | None) -> None:
        from tidings.cli.live_conversation import live_client, plain, timeouts
        from tidings.client.events import RefreshFailed, StateChanged, SubscriptionFailed

        client = live_client(self.options, timeouts=replace(timeouts(self.options), ping_interval=10.0, ping=5.0))
        client.on(StateChanged, self._log_state)
        client.on(RefreshFailed, self._log_failure)
        client.on(SubscriptionFailed, self._note_refusal)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(client.aclose)
            await client.connect()
            if not client.supports_subscriptions:
                logger.info("The server has no subscriptions: polling it every few seconds.")
            async with contextlib.aclosing(client.watch(self.uris)) as reads:
                try:
                    async for read in reads:
                        self._read.add(read.uri)
                        while self._refusals:
                            logger.info("%s", self._refusals.pop(0))
                        await self._take(read.uri, plain(read.result).get("contents") or [])
                        if count is not None and (count := count - 1) == 0:
                            return
                except ResourceNotFound as error:
                    raise await self._not_found(client, error) from error

    async def _not_found(self, client: "LiveClient", error: ResourceNotFound) -> OneShotFailed:
        """Returns the end of a watch of a resource that is not there, with similar ones that are."""
        known = list[str]()
        with contextlib.suppress(TidingsError):
            known = [str(each.uri) for each in await client.list_resources()]
        close = [each for uri in self.uris if uri not in self._read for each in closest(uri, known)]
        end = replace(failed(error), exit_code=YOURS)
        if "Did you mean" not in end.message:
            end.message = f"{end.message.rstrip('.')}.{question(close)}"
        return end

    def _log_failure(self, event: Any) -> None:
        if event.uri in self._read:  # Otherwise it ends the command.
            logger.info("Cannot read %s now: %s", event.uri, event.error.message)

    def _note_refusal(self, event: Any) -> None:
        if event.error.code != "not-supported":  # Said once, of the whole server.
            cause = in_the_shell(event.error.message).removesuffix(" Use `watch`, which polls.")
            self._refusals.append(f"The server refuses a subscription: {cause} It is polled every few seconds.")

    def _log_state(self, event: Any) -> None:
        if event.error is not None and not self._away and event.old == "connected":
            self._away = True
            logger.info("The connection was lost: %s Waiting for the server.", event.error.message)
        elif event.error is not None and event.next_retry is not None:
            seconds = event.next_retry.timestamp() - time.time()
            logger.info("The server is still away: %s Trying again in %.0f s.", event.error.message, seconds)
        elif event.new == "connected" and self._away:
            self._away = False
            logger.info("The server is back.")

    async def _take(self, uri: str, contents: list[Content]) -> None:
        if self.program is not None:
            await run_program(self.program, uri, b"".join(bytes_of(content) for content in contents))
            return
        text = "\n".join(_text_of(content) for content in contents)
        before = self._texts.get(uri)
        self._texts[uri] = text
        changes = None
        if before is not None and self.diff:
            changes = list(unified(before.splitlines(), text.splitlines(), context=2))
        if self.options.as_json:
            what = {"contents": contents} if changes is None else {"diff": "\n".join(changes)}
            click.echo(json.dumps({"uri": uri, "at": round(time.time(), 3), **what}, ensure_ascii=False))
        else:
            self._print(uri, text, changes)

    def _print(self, uri: str, text: str, changes: list[str] | None) -> None:
        terminal = sys.stdout.isatty()
        if terminal or len(self.uris) > 1:
            now = clock(time.time()) if terminal else ""
            click.echo(styled(f"— {harmless(uri)} {now}".rstrip(), "place"))
        if changes is not None:
            for line in changes:
                style = {"+": "good", "-": "bad", "@": "place"}.get(line[:1], "")
                click.echo(styled(harmless(line), style) if terminal else line)
            return
        text = harmless(text) if terminal else text
        click.echo(text, nl=not text.endswith("\n"))


def _text_of(content: Content) -> str:
    if isinstance(content.get("text"), str):
        return content["text"]
    return f"[{described(content.get('mimeType'), len(bytes_of(content)))}]"


async def run_program(program: str, uri: str, content: bytes) -> int:
    """Runs a shell command to its end, with the content on its standard input, and returns its exit code."""
    process = await asyncio.create_subprocess_shell(
        program, stdin=asyncio.subprocess.PIPE, env={**os.environ, "TIDINGS_URI": uri}
    )
    try:
        await process.communicate(content)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    if process.returncode:
        logger.info("%s ended with exit code %s for %s.", program, process.returncode, uri)
    return process.returncode or 0
