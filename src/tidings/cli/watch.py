"""`tidings watch`: a resource's content, now and whenever it changes."""

import asyncio
import contextlib
import difflib
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from tidings.cli.contents import Content, bytes_of, described
from tidings.cli.exits import OneShotFailed, failed
from tidings.cli.logs import log_options, logger
from tidings.cli.oneshot import Asked, completes, one_shot
from tidings.cli.terminal import colours, harmless, styled
from tidings.errors import TidingsError


@one_shot("watch")
@click.argument("uris", nargs=-1, required=True, metavar="URI...", shell_complete=completes("resources"))
@click.option("--diff", is_flag=True, help="After the first content, print only what changed.")
@click.option("--exec", "program", metavar="CMD", help="Run this in a shell for each content: on its standard input.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many contents.")
@log_options
def command(asked: Asked, uris: tuple[str, ...], program: str | None, count: int | None, *, diff: bool) -> None:
    """Print a resource's content, and again whenever it changes.

    The server says when; one that cannot is asked every few seconds. A server that goes away is waited for. With
    --json, one line for each content. The program of --exec finds the URI in TIDINGS_URI.
    """
    from tidings.cli.live_conversation import Loop

    if diff and program is not None:
        raise OneShotFailed("Choose --diff or --exec: the program gets the content.")
    if words := [uri for uri in uris if not _SCHEME.match(uri)]:
        cure = "A command goes in quotes, with all its words: tidings watch 'tidings vault Notes' vault://recent"
        raise OneShotFailed(f"{words[0]!r} is no URI: it has no scheme. {cure}")
    watching = Watching(asked, uris, diff=diff, program=program, count=count)
    try:
        with Loop() as loop:
            loop.run(watching.run())
    except TidingsError as error:
        raise failed(error, is_command=asked.chosen.is_command) from error


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass
class Watching:
    """What to do with each content."""

    asked: Asked
    uris: Sequence[str]
    diff: bool
    program: str | None
    count: int | None

    def __post_init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._away = False

    async def run(self) -> None:
        """Watch until so many contents came, or for ever.

        Raises:
            TidingsError: There will be no more.
        """
        from tidings.cli.live_conversation import NO_LISTS, live_client, timeouts
        from tidings.client.config import Backoff, ClientConfig
        from tidings.client.events import RefreshFailed, StateChanged

        config = ClientConfig(
            timeouts=replace(timeouts(self.asked), ping_interval=10.0, ping=5.0),
            backoff=Backoff(delays=(0.5, 1.0, 2.0), tries=None),
            list_changed=NO_LISTS,
        )
        client = live_client(self.asked, config)
        client.on(StateChanged, self._tell_of_state)
        client.on(
            RefreshFailed,
            lambda event: logger.info("%s cannot be read at present: %s", event.uri, event.error.message),
        )
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(client.aclose)
            await _connected(client)
            if not client.supports_subscriptions:
                logger.info("The server offers no subscriptions: it is asked every few seconds.")
            left = self.count
            async with contextlib.aclosing(client.watch(self.uris)) as reads:
                async for read in reads:
                    await self._take(read.uri, read.result.model_dump(by_alias=True, mode="json", exclude_none=True))
                    if left is not None and (left := left - 1) == 0:
                        return

    def _tell_of_state(self, event: Any) -> None:
        if event.error is not None and not self._away and event.old == "connected":
            self._away = True
            logger.info("The server went away (%s) Waiting for it.", event.error.message)
        elif event.new == "connected" and self._away:
            self._away = False
            logger.info("The server is back.")

    async def _take(self, uri: str, result: dict[str, Any]) -> None:
        contents: list[Content] = result.get("contents") or []
        if self.program is not None:
            await _run(self.program, uri, b"".join(bytes_of(content) for content in contents))
            return
        text = "\n".join(_text_of(content) for content in contents)
        before = self._texts.get(uri)
        self._texts[uri] = text
        changes = None if before is None or not self.diff else _changes(before, text)
        if self.asked.as_json:
            what = {"contents": contents} if changes is None else {"diff": "\n".join(changes)}
            click.echo(json.dumps({"uri": uri, "at": round(time.time(), 3), **what}, ensure_ascii=False))
        else:
            self._print(uri, text, changes)
        sys.stdout.flush()

    def _print(self, uri: str, text: str, changes: list[str] | None) -> None:
        terminal = sys.stdout.isatty()
        if terminal or len(self.uris) > 1:
            clock = time.strftime("%H:%M:%S") if terminal else ""
            click.echo(styled(f"— {harmless(uri)} {clock}".rstrip(), "place"))
        if changes is not None:
            for line in changes:
                click.echo(_coloured(harmless(line)) if terminal else line)
            return
        text = harmless(text) if terminal else text
        click.echo(text, nl=not text.endswith("\n"))


async def _connected(client: Any) -> None:
    """Connect. What fails at the first try is an error: only a server that was there is waited for."""
    from tidings.client.events import StateChanged

    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def seen(event: StateChanged) -> None:
        if event.error is not None and not broken.done():
            broken.set_exception(event.error)

    forget = client.on(StateChanged, seen)
    connecting = asyncio.ensure_future(client.connect())
    try:
        await asyncio.wait((connecting, broken), return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
        await connecting
    finally:
        forget()
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        if not broken.done():
            broken.cancel()


def _text_of(content: Content) -> str:
    if isinstance(content.get("text"), str):
        return content["text"]
    return f"[{described(content.get('mimeType'), len(bytes_of(content)))}]"


def _changes(before: str, after: str) -> list[str]:
    """What is different, as a unified diff without its head."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]


def _coloured(line: str) -> str:
    style = {"+": "good", "-": "bad", "@": "place"}.get(line[:1])
    return styled(line, style) if style and colours(sys.stdout) else line


async def _run(program: str, uri: str, content: bytes) -> None:
    """Run a program with the content on its standard input, to its end: the next content waits."""
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
        logger.info("%s ended with %s for %s.", program, process.returncode, uri)
