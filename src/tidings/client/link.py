"""One connection to a server, from its handshake to its end, held by a task of its own.

The SDK's client must be entered and left in one task, and cancels that task when its transport fails. So nobody else
ever runs there: whoever sends a request does so from a task of their own, and learns of a lost connection as an error.

The SDK's client, made and mended for us: what is the same for every connection of a live client.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import anyio
from mcp import Client, ClientSession
from mcp.client._memory import InMemoryTransport
from mcp.client._transport import TransportStreams
from mcp.client.session import ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp_types import Implementation, ListToolsResult, LoggingLevel, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tidings._kit.bounded_json import as_list
from tidings._version import __version__
from tidings.client.config import ClientConfig
from tidings.client.failures import AWAY, answer_error, cleaned, connect_error, connect_refused, unreadable
from tidings.client.http_health import HttpHealth
from tidings.client.queue import QueueEntry
from tidings.client.schema import check_in_bounds, leave_unchecked
from tidings.client.sdk_logging import quiet
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, Target
from tidings.client.transports.http import current_call, open_transport
from tidings.client.transports.stdio import RunningCommand, open_command
from tidings.client.transports.tap import TapReporter
from tidings.client.transports.tapped import tap_dispatcher, tapped_streams
from tidings.errors import (
    CommandFailed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    MessageTooLarge,
    TidingsError,
    UnsupportedVersion,
)

CLIENT_INFO: Final = Implementation(name="tidings", version=__version__)
AUTO: Final = "auto"
LEGACY: Final = "legacy"


@dataclass(frozen=True, slots=True)
class Setup:
    """What every connection of one client is made with."""

    target: Target
    config: ClientConfig
    era: str = "auto"
    log_level: LoggingLevel | None = None
    sampling: SamplingFnT | None = None
    elicitation: ElicitationFnT | None = None
    roots: ListRootsFnT | None = None
    on_stderr: Callable[[str], None] = lambda _: None
    on_garbage: Callable[[str], None] = lambda _: None
    tap: TapReporter | None = None


def make_client(setup: Setup, server: Any) -> Client:
    """The SDK's client of `server`: a transport, or a server object."""
    return Client(
        server,
        # To insist on a version, the SDK would take the server's word for granted, and know nothing about it.
        mode=LEGACY if setup.era == LEGACY else AUTO,
        cache=None,
        client_info=CLIENT_INFO,
        log_level=setup.log_level,
        sampling_callback=setup.sampling,
        elicitation_callback=setup.elicitation,
        list_roots_callback=setup.roots,
    )


def complete(
    dispatcher: Dispatcher[Any], *, on_speaks: Callable[[list[Any]], None], is_modern: Callable[[], bool]
) -> None:
    """Have the server tell how far it is with any request: of the SDK's methods only `call_tool` could ask for it.
    And take an answer that does not say which kind of result it is for a complete one: the SDK would refuse it.

    Args:
        dispatcher: What sends.
        on_speaks: Told the versions that the server speaks, when it says so.
        is_modern: Whether hands were shaken, in the modern era.
    """
    send: Any = dispatcher.send_raw_request

    async def sent(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        options, call = cast("CallOptions", {**(opts or {})}), current_call.get()
        # Whoever runs within a call may send something else: how far that is says nothing of the call.
        if isinstance(call, QueueEntry) and call.method == method and call.on_progress is not None:
            options["on_progress"] = call.on_progress
        result: dict[str, Any] = await send(method, params, options)
        if method == "server/discover":
            on_speaks(as_list(result.get("supportedVersions")))
        if "resultType" in result or not is_modern():
            return result
        return {"resultType": "complete", **result}

    cast("Any", dispatcher).send_raw_request = sent


# ruff: noqa: SLF001 - the two names of the SDK that are not public are pinned by a test
# pyright: reportPrivateUsage=false


_LAST_WORDS: Final = 0.5
"""How long a command that hung up may take to end by itself."""

CLOSE_SECONDS: Final = 2.0
"""How long a server may take to see the connection end in good order."""

Hear = Callable[[str, Mapping[str, Any] | None], bool]
"""Takes each notification in the order of arrival. True if it is dealt with, and the SDK need not look at it."""


class Link:
    """A connection. Made closed; `open` it once, and `close` it. What became of it is in `error`."""

    def __init__(self, setup: Setup, hear: Hear, *, transport: Literal["http", "sse"] | None = None) -> None:
        self._setup = setup
        self._hear = hear
        self._transport: Literal["http", "sse"] | None = transport
        self._scope = anyio.CancelScope()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._clock: asyncio.Timeout | None = None
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._command: RunningCommand | None = None
        self._dispatcher: Dispatcher[Any] | None = None
        self._hung_up = False
        """The server was the one who ended it."""
        self._exit_code: int | None = None
        self._garbage = ""
        self._too_large: MessageTooLarge | None = None
        self._speaks: list[Any] = []
        self.error: TidingsError | None = None
        self.heard = 0
        """How many notifications came: a server that sends some is there."""
        self.ended = asyncio.Event()
        """Set when nothing of the connection is left."""
        self.http = HttpHealth(self, has_stream=not isinstance(setup.target, HttpTarget))
        """What is known of the HTTP exchanges, and of the old era's stream of notifications."""

    @property
    def client(self) -> Client:
        """The SDK's client. There once the link is open."""
        return self._ready.result()

    @property
    def session(self) -> ClientSession:
        """The SDK's session."""
        return self._ready.result().session

    @property
    def name(self) -> str:
        """The server, as people call it."""
        return self._setup.target.name

    @property
    def pid(self) -> int | None:
        """The number of the process, if the server is a command."""
        return None if self._command is None else self._command.pid

    @property
    def over(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._over.is_set() or self.ended.is_set()

    @property
    def is_open(self) -> bool:
        """Whether hands were shaken, whatever came then."""
        return self._ready.done()

    async def until_over(self) -> None:
        """Wait until it has ended, or is about to."""
        await self._over.wait()

    def absorb_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Let the SDK know these tools: it checks what they return, and leaves out those it may not call."""
        result = ListToolsResult(tools=list(tools))
        with quiet(self._setup.target.clean):
            return tuple(self.session._absorb_tool_listing(result, complete=True).tools)

    async def open(self, seconds: float) -> None:
        """Connect and shake hands.

        Raises:
            TidingsError: That failed, or took longer than `seconds`; nothing is left of it.
        """
        self._task = asyncio.create_task(self._live(), name=f"tidings link to {self.name}")
        try:
            async with asyncio.timeout(seconds) as self._clock:
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close(seconds=0)
            raise ConnectTimedOut(
                f"{self.name} did not answer within {seconds:.3g} s. Give it longer with Timeouts(connect=...), if it "
                f"is an MCP server.{self._last_words()}",
                server=self.name,
                elapsed=seconds,
            ) from None
        except BaseException:
            await self.close(seconds=0)
            raise

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """End it: in good order within `seconds`, abruptly after. Safe to call again."""
        if self._task is None:
            return
        self._over.set()
        if seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.ended.wait()
        self._scope.cancel()
        await self.ended.wait()

    def stop_clock(self, *, is_so: bool) -> None:
        """Nobody is hurried while they sign in: what is left to connect begins anew after."""
        if self._clock is not None and not self._ready.done():
            seconds = self._setup.config.timeouts.connect
            self._clock.reschedule(None if is_so else asyncio.get_running_loop().time() + seconds)

    def lose(self, error: TidingsError) -> None:
        """The connection is of no use any more. The first reason counts."""
        if not self.over:
            self.error = error
            self._over.set()
            self._scope.cancel()

    async def _live(self) -> None:
        try:
            # A server in this process has a log of its own, with its own faults in it: that is left alone.
            hush = nullcontext() if isinstance(self._setup.target, ServerTarget) else quiet(self._setup.target.clean)
            with self._scope, hush:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(await self._client(stack))
                    self._check_version(client)
                    (check_in_bounds if self._setup.config.check_output else leave_unchecked)(client)
                    self._ready.set_result(client)
                    await self._over.wait()
        except Exception as error:  # noqa: BLE001 - told by its name
            self._fail(error)
        finally:
            self._over.set()
            self.http.close()
            if self._hung_up and (self.error is None or self._command is not None):
                self.error = self._hanging_up()
            self.ended.set()
            if not self._ready.done():
                self._ready.set_exception(self.error or self._hanging_up())
                self._ready.exception()  # Looked at, so that nobody complains that it was not.

    def _check_version(self, client: Client) -> None:
        wanted, spoken = self._setup.era, client.protocol_version
        if self.http.status in AWAY and spoken not in MODERN_PROTOCOL_VERSIONS:
            # Nobody knows what else it speaks: the question did not get through to it.
            raise connect_refused(self.name, self.http.status)
        if wanted not in (AUTO, LEGACY, spoken):
            raise UnsupportedVersion(
                f"{self.name} speaks {spoken}, not {wanted}. Leave era out to take what it speaks.", server=self.name
            )

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            reason = cleaned(connect_error(error, self.name, self.http.status, self._speaks), self._setup.target.clean)
            was_open = self._ready.done()
            self.error = ConnectionLost(reason.message, server=self.name) if was_open else reason

    def _hanging_up(self) -> TidingsError:
        """That the server ended it, and how, if it is a command."""
        how = "closed the connection"
        if self._command is None and self._too_large is not None:
            how = f"sent more than can be taken, which ended the connection ({self._too_large.message})"
        if (code := self._exit_code) is not None:
            how = f"ended with exit code {code}" if code >= 0 else f"ended with signal {-code}"
        if self._ready.done():
            return ConnectionLost(f"{self.name} {how}.{self._last_words()}", server=self.name)
        kind = ConnectFailed if self._command is None else CommandFailed
        return kind(f"{self.name} {how} before it answered.{self._last_words()}", server=self.name)

    def _last_words(self) -> str:
        """What a command said that may explain what became of it, and what to do."""
        if self._command is None:
            return ""
        printed = f" It printed {self._garbage!r}: its standard output is for messages only." if self._garbage else ""
        said = f" It said:\n{self._command.stderr_tail}" if self._command.stderr_tail else ""
        return printed + (said or " Run the same command in a terminal to see what it says.")

    async def _client(self, stack: AsyncExitStack) -> Client:
        setup, target = self._setup, self._setup.target
        server: Any
        if isinstance(target, HttpTarget):
            server = open_transport(
                target,
                max_message=setup.config.max_message,
                watch=self.http,
                kind=self._transport,
                timeouts=setup.config.timeouts,
                tap=setup.tap,
            )
        elif isinstance(target, CommandTarget):
            server = self._command_streams(target)
        elif isinstance(target, ServerTarget):
            if target.lifespan is not None:
                await stack.enter_async_context(target.lifespan())
            server = target.server
            if setup.tap is not None and setup.era == LEGACY:
                server = tapped_streams(InMemoryTransport(server), setup.tap)
        else:
            server = target.transport
            if setup.tap is not None:
                server = tapped_streams(server, setup.tap)
        client = make_client(setup, server)
        connect = client._connect

        async def watched(*arguments: Any) -> Dispatcher[Any]:
            dispatcher = await connect(*arguments)
            if setup.tap is not None and isinstance(target, ServerTarget) and setup.era != LEGACY:
                tap_dispatcher(dispatcher, setup.tap)  # There it has no streams.
            complete(dispatcher, on_speaks=self._note_versions, is_modern=lambda: self._speaks_modern)
            return self._watch(dispatcher)

        client._connect = watched
        return client

    @asynccontextmanager
    async def _command_streams(self, target: CommandTarget) -> AsyncGenerator[TransportStreams]:
        async with open_command(
            target,
            max_message=self._setup.config.max_message,
            on_stderr=self._setup.on_stderr,
            on_garbage=self._note_garbage,
            tap=self._setup.tap,
        ) as self._command:
            yield self._command.streams

    def _note_garbage(self, text: str) -> None:
        self._garbage = self._garbage or text
        self._setup.on_garbage(text)

    def _note_versions(self, versions: list[Any]) -> None:
        self._speaks = versions

    @property
    def _speaks_modern(self) -> bool:
        return self._ready.done() and self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def _watch(self, dispatcher: Dispatcher[Any]) -> Dispatcher[Any]:
        """Let the SDK's dispatcher say when it ends, and pass every notification here first, in order of arrival."""
        run: Any = dispatcher.run

        async def watched(on_request: Any, on_notify: Any, intercept: Any = None, **options: Any) -> None:
            def hear(method: str, params: Mapping[str, Any] | None) -> bool:
                self.heard += 1
                return self._hear(method, params) or (intercept is not None and intercept(method, params))

            try:
                await run(on_request, on_notify, hear, **options)
                await self._note_end()
            finally:
                if self.http.broken is not None and self._ready.done() and not self._over.is_set():
                    how = f"broke the connection off ({type(self.http.broken).__name__})"
                    self.error = ConnectionLost(f"{self.name} {how}.", server=self.name)
                self._over.set()

        cast("Any", dispatcher).run = watched
        cast("Any", dispatcher).on_stream_exception = self._note_odd
        self._dispatcher = dispatcher
        return dispatcher

    async def _note_odd(self, error: Exception) -> None:
        """Something came that is no message, or too large for one."""
        if isinstance(error, MessageTooLarge):
            self._too_large = error
        elif self._command is None:  # Of a command it has been told.
            self._setup.on_garbage(unreadable(str(error)))

    async def _note_end(self) -> None:
        """The server hung up. If it is a command, see how it ended, before it is ended from here."""
        self._hung_up = not self._over.is_set()
        if self._hung_up and self._command is not None:
            with anyio.move_on_after(_LAST_WORDS, shield=True):
                await self._command.ended.wait()
            self._exit_code = self._command.returncode
        if self._hung_up and self._ready.done() and not self._over.is_set():
            self.error = self._hanging_up()

    def explain(self, error: Exception, method: str, status: int | None = None) -> TidingsError:
        """What an error answer of this server's means, with no secret in it."""
        reason = cleaned(answer_error(error, method=method, status=status), self._setup.target.clean)
        reason.server = self.name
        return reason

    def stamp_log_level(self, level: LoggingLevel) -> None:
        """Have each request ask for log messages of this level, as the modern era does."""
        session = self.session
        if (discovered := session.discover_result) is not None:
            session._log_level = level
            session.adopt(discovered)

    async def send_raw(self, method: str, params: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Send a request as it is, and return the answer as it is. For what the SDK's typed methods cannot say."""
        if self._dispatcher is None or self.over:
            raise ConnectionLost(f"{self.name} is not connected.", server=self.name)
        data: dict[str, Any] = {"method": method, "params": params}
        opts = cast("CallOptions", options)
        self.session._stamp(data, opts)
        return await self._dispatcher.send_raw_request(method, data["params"], opts)
