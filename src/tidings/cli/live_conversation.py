"""The live client for one-shot commands: one request after the other, without the caller having to be asynchronous.

Ctrl-C and SIGTERM (and so SIGHUP: see `ending`) cancel what runs; then the connection is closed, and a command ended.

The arguments of a tool, as they were typed: KEY=VALUE by its schema, or one JSON object.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import click

from tidings.cli.conversation import KINDS, ListedItems
from tidings.cli.exits import OneShotFailed, Terminated
from tidings.cli.oneshot import Asked
from tidings.cli.terminal import harmless, is_terminal, styled
from tidings.client.config import Backoff, ClientConfig, ListChanged, Timeouts
from tidings.client.events import GarbageReceived, StderrReceived
from tidings.client.live import LiveClient, connect
from tidings.client.targets import target_of
from tidings.client.transports.tap import Exchange, Message
from tidings.errors import RequestTimedOut

T = TypeVar("T")

NO_LISTS = ListChanged(tools=False, resources=False, prompts=False)
OnProgress = Callable[[float, float | None, str | None], None]


def timeouts(asked: Asked) -> Timeouts:
    """How long things may take."""
    if (seconds := asked.timeout) is None:
        return Timeouts()
    return Timeouts(connect=seconds, request=seconds, total=5 * seconds, ping=seconds)


def live_client(asked: Asked, config: ClientConfig, *, keep: Callable[[Message], None] | None = None) -> LiveClient:
    """The live client for a command.

    Raises:
        Failed: The script of answers, or a root, is none.
        BadTarget: The target is none.
    """
    from tidings.cli.asking import responder

    tap = _Tap(verbose=asked.verbose, keep=keep) if asked.verbose or keep is not None else None
    try:
        client = connect(
            target_of(asked.chosen.entry),
            era=asked.era,
            config=config,
            answer=responder(asked),
            roots=list(asked.roots) or None,
            tap=tap,
        )
    except ValueError as error:
        raise OneShotFailed(str(error)) from None
    if asked.verbose:
        client.on(StderrReceived, lambda event: _say(f"stderr {harmless(event.line)}", "dim"))
    return client


class _Tap:
    """The wire log on standard error; and whoever wants to keep a message."""

    def __init__(self, *, verbose: bool, keep: Callable[[Message], None] | None) -> None:
        self._verbose = verbose
        self._keep = keep

    def message(self, message: Message) -> None:
        if self._keep is not None:
            self._keep(message)
        if self._verbose:
            text = json.dumps(message.body, ensure_ascii=False)
            cut = f" … (of {message.size:,} bytes)" if message.cut else ""
            _say(f"{'←' if message.incoming else '→'} {harmless(text)}{cut}", "place" if message.incoming else "name")

    def exchange(self, exchange: Exchange) -> None:
        if self._verbose and exchange.ended is not None:
            told = exchange.error or f"HTTP {exchange.status}"
            took = (exchange.ended - exchange.began) * 1000
            _say(f"  {exchange.method} {exchange.url}: {told} ({took:.0f} ms)", "dim")


def _say(text: str, style: str) -> None:
    click.echo(styled(text, style, sys.stderr) if is_terminal(sys.stderr) else text, err=True)


class Loop:
    """An event loop for a command: what runs on it ends in good order when the process is asked to end."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._asked_to_end = False
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        loop = self._runner.get_loop()
        if sys.platform != "win32":
            with contextlib.suppress(RuntimeError, ValueError):  # Not in the main thread.
                loop.add_signal_handler(signal.SIGTERM, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def _end(self) -> None:
        self._asked_to_end = True
        if self._task is not None:
            self._task.cancel()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`."""

        async def running() -> T:
            self._task = asyncio.current_task()
            return await work

        try:
            return self._runner.run(running())
        except asyncio.CancelledError:
            if self._asked_to_end:
                raise Terminated from None
            raise
        finally:
            self._task = None


class LiveTalk:
    """A conversation by the live client: see `talking.Talk`."""

    def __init__(self, asked: Asked) -> None:
        config = ClientConfig(timeouts=timeouts(asked), backoff=Backoff(tries=0), list_changed=NO_LISTS)
        self._loop = Loop()
        self._calls: set[Any] = set()
        self._answer: Any = None
        self._garbage = ""
        self._client = live_client(asked, config, keep=self._keep)
        self._client.on(GarbageReceived, self._note_garbage)
        self.took = 0.0

    def _keep(self, message: Message) -> None:
        number, method = message.body.get("id"), message.body.get("method")
        if not message.incoming and method == "tools/call":
            self._calls.add(number)
        elif message.incoming and method is None and number in self._calls:
            self._answer = message.body.get("result", message.body)

    def _note_garbage(self, event: GarbageReceived) -> None:
        self._garbage = self._garbage or event.text[:200]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. What never came may have come as something that is no message: that is said then."""
        try:
            return self._loop.run(work)
        except RequestTimedOut as error:
            if self._garbage:
                error.message += f" It sent what is no message: {self._garbage!r}."
            raise

    @property
    def answer(self) -> Any:
        """What came over the wire for a tool call: to be looked at if it could not be understood."""
        return self._answer

    def __enter__(self) -> Self:
        self._loop.__enter__()
        began = time.monotonic()
        try:
            self._loop.run(self._client.connect())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.took = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with contextlib.suppress(KeyboardInterrupt, Terminated, asyncio.CancelledError):
                self._loop.run(self._client.aclose())
        finally:
            self._loop.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def transport(self) -> str:
        return self._client.transport

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version or ""

    @property
    def server_info(self) -> dict[str, Any] | None:
        return None if self._client.server_info is None else _plain(self._client.server_info)

    @property
    def capabilities(self) -> dict[str, Any]:
        return {} if self._client.capabilities is None else _plain(self._client.capabilities)

    @property
    def instructions(self) -> str | None:
        return self._client.instructions

    def ping(self) -> float:
        return self._loop.run(self._client.ping())

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._run(self._request(method, params))

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        # These may be answered with a question, which only they know how to go on from.
        if method == "resources/read":
            return _plain((await self._client.read_resource(params["uri"])).result)
        if method == "prompts/get":
            return _plain((await self._client.get_prompt(params["name"], params.get("arguments"))).result)
        return await self._client.request(method, params, safe=True)

    def tools(self) -> ListedItems:
        """The server's tools; from now on, the client knows what each returns."""
        return self._run(tools_of(self._client))

    def call(self, tool: str, arguments: dict[str, Any], on_progress: OnProgress | None) -> dict[str, Any]:
        """Call a tool. Never twice, whatever happens."""
        return self._run(self._call(tool, arguments, on_progress))

    async def _call(self, tool: str, arguments: dict[str, Any], on_progress: OnProgress | None) -> dict[str, Any]:
        call = await self._client.call_tool(tool, arguments, on_progress=on_progress)
        return {} if call.result is None else _plain(call.result)


async def tools_of(client: LiveClient) -> ListedItems:
    """The server's tools, as the client's mirror has them."""
    kind = KINDS["tools"]
    tools = [_plain(tool) for tool in await client.list_tools()]
    aside = [{"list": kind.key, "item": each.item, "reason": each.reason} for each in client.malformed]
    return ListedItems(kind, tools, aside)


def _plain(model: Any) -> dict[str, Any]:
    """A value of the SDK's as it is on the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def document_of(pairs: tuple[str, ...], document: str | None) -> dict[str, Any] | None:
    """The arguments, if they were given as one JSON object."""
    if pairs == ("-",):
        if sys.stdin.isatty():
            click.echo("The arguments as a JSON object, then Ctrl-D:", err=True)
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
        raise OneShotFailed(
            f'The arguments must be a JSON object, as in \'{{"city": "Oslo"}}\', not {type(given).__name__}.'
        )
    return cast("dict[str, Any]", given)


def arguments_for(
    tool: str, schema: Any, pairs: tuple[str, ...], given: dict[str, Any] | None, *, checked: bool = True
) -> dict[str, Any]:
    """The arguments, as the schema wants them.

    Raises:
        Failed: They break it: at which place, and what was expected.
    """
    from tidings.inspector.forms import check, parse_pairs

    if given is None:
        filled = parse_pairs(schema, pairs)
        if filled.problems:
            raise _broken(tool, [problem.message for problem in filled.problems])
        given = filled.value or {}
    if checked:
        problems = [problem for problem in check(schema, given) if problem.fault == "value"]
        if problems:
            raise _broken(tool, [problem.message for problem in problems])
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise OneShotFailed(
            "The arguments have bytes in them that are no text: write them in UTF-8.", code="bad-arguments"
        ) from None
    return given or {}


def _broken(tool: str, problems: list[str]) -> OneShotFailed:
    more = "" if len(problems) <= 5 else f"\n  … and {len(problems) - 5} more"
    listing = "".join(f"\n  {problem}" for problem in problems[:5])
    return OneShotFailed(
        f"These are no arguments for {tool!r}:{listing}{more}\n"
        f"`tidings list TARGET tools {tool}` shows its schema; --no-check sends them as they are.",
        code="bad-arguments",
        data={"problems": problems},
    )
