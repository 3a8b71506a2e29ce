"""The live client for one-shot commands, without `async` for the caller. Signals cancel what runs, and close it."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import click

from tidings._kit.text import harmless
from tidings.cli.exits import OneShotFailed
from tidings.cli.oneshot import OneShotOptions, ServerSummary
from tidings.cli.terminal import styled
from tidings.client.config import Backoff, ClientConfig, ListChanged, Timeouts
from tidings.client.events import GarbageReceived, StderrReceived
from tidings.client.live import LiveClient
from tidings.client.targets import target_of
from tidings.client.transports.tap import Exchange, Message
from tidings.client.wiring import connect
from tidings.errors import RequestTimedOut

T = TypeVar("T")

ONCE: Final = Backoff(tries=0, lost_tries=0)


def timeouts(options: OneShotOptions) -> Timeouts:
    """Returns the time limits that `--timeout` means."""
    if (seconds := options.timeout) is None:
        return Timeouts()
    return Timeouts(connect=seconds, request=seconds, total=5 * seconds, ping=seconds)


def live_client(
    options: OneShotOptions,
    *,
    on_message: Callable[[Message], None] | None = None,
    state: str | None = None,
    **config: Any,
) -> LiveClient:
    """Makes the live client of a command. Only a server that was there once is waited for, unless `config` differs."""
    from tidings.cli.asking import responder

    defaults: dict[str, Any] = {
        "timeouts": timeouts(options),
        "backoff": Backoff(tries=0),
        "list_changed": ListChanged(tools=False, resources=False, prompts=False),
    }
    watched = options.verbose or on_message is not None
    try:
        client = connect(
            target_of(options.entry),
            era=options.era,
            config=ClientConfig(**(defaults | config)),
            state=state,
            answer=responder(options),
            roots=list(options.roots) or None,
            tap=_Tap(verbose=options.verbose, on_message=on_message) if watched else None,
        )
    except ValueError as error:
        raise OneShotFailed(str(error)) from None
    if options.verbose:
        client.on(StderrReceived, lambda event: _print(f"stderr {harmless(event.line)}", "dim"))
    return client


@dataclass(kw_only=True)
class _Tap:
    """Prints messages and HTTP exchanges to standard error, and hands messages on."""

    verbose: bool
    on_message: Callable[[Message], None] | None

    def message(self, message: Message) -> None:
        if self.on_message is not None:
            self.on_message(message)
        if self.verbose:
            text = json.dumps(message.body, ensure_ascii=False)
            cut = f" … (of {message.size:,} bytes)" if message.cut else ""
            _print(f"{'←' if message.incoming else '→'} {harmless(text)}{cut}", "place" if message.incoming else "name")

    def exchange(self, exchange: Exchange) -> None:
        if self.verbose and exchange.ended is not None:
            outcome = exchange.error or f"HTTP {exchange.status}"
            took = (exchange.ended - exchange.began) * 1000
            _print(f"  {exchange.method} {exchange.url}: {outcome} ({took:.0f} ms)", "dim")


def _print(text: str, style: str) -> None:
    click.echo(styled(text, style, sys.stderr), err=True)


class LiveConversation:
    """One connection by the live client, with one request after the other. Entering it connects."""

    server: ServerSummary

    def __init__(self, options: OneShotOptions) -> None:
        self._runner = asyncio.Runner()
        self._calls: set[Any] = set()
        self._garbage: list[str] = []
        self.client = live_client(options, backoff=ONCE, on_message=self._keep_answer)
        self.client.on(GarbageReceived, lambda event: self._garbage or self._garbage.append(event.text[:200]))
        self.raw_answer: Any = None  # The answer to a tool call as it came over the wire

    def _keep_answer(self, message: Message) -> None:
        number, method = message.body.get("id"), message.body.get("method")
        if not message.incoming and method == "tools/call":
            self._calls.add(number)
        elif message.incoming and method is None and number in self._calls:
            self.raw_answer = message.body.get("result", message.body)

    def __enter__(self) -> Self:
        began = time.monotonic()
        try:
            self._runner.run(self.client.connect())
        except BaseException:
            self.__exit__()
            raise
        client = self.client
        self.server = ServerSummary(
            name=client.name,
            transport=client.transport,
            protocol_version=client.protocol_version or "",
            era=client.era or "",
            server_info=None if client.server_info is None else plain(client.server_info),
            capabilities={} if client.capabilities is None else plain(client.capabilities),
            instructions=client.instructions,
            seconds=time.monotonic() - began,
        )
        client.pending.server = client.server_info.name if client.server_info else client.name
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
                self._runner.run(self.client.aclose())
        finally:
            self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`. A timeout quotes output that was not a message: it may have been the answer."""
        try:
            return self._runner.run(work)
        except RequestTimedOut as error:
            if self._garbage:
                error.message += f" It sent an invalid message: {self._garbage[0]!r}."
            raise

    def ping(self) -> float:
        return self._runner.run(self.client.ping())

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        # In the modern era these two may be answered with a question, which only their own methods handle.
        if method == "resources/read":
            return plain(self.run(self.client.read_resource(params["uri"])).result)
        if method == "prompts/get":
            return plain(self.run(self.client.get_prompt(params["name"], params.get("arguments"))).result)
        return self.run(self.client.request(method, params, safe=True))


def plain(model: Any) -> dict[str, Any]:
    """Returns an SDK model as the JSON that is on the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
