"""One connection to a server, from its handshake to its end, held by a task of its own.

The SDK's client must be entered and left in one task, and cancels that task when its transport fails. So nobody else
ever runs there: whoever sends a request does so from a task of their own, and learns of a lost connection as an error.
"""

# ruff: noqa: SLF001 - the two names of the SDK that are not public are pinned by a test
# pyright: reportPrivateUsage=false

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Literal, cast

import anyio
from mcp import Client, ClientSession
from mcp.client._memory import InMemoryTransport
from mcp.client._transport import TransportStreams
from mcp.client.session import ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp_types import Implementation, ListToolsResult, LoggingLevel, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tidings.client.config import ClientConfig
from tidings.client.failures import AWAY, answer_error, cleaned, connect_error, connect_refused, unreadable
from tidings.client.queue import QueueEntry
from tidings.client.quiet import quiet
from tidings.client.shapes import as_list
from tidings.client.stdio import RunningCommand, open_command
from tidings.client.tapped_memory import tap_dispatcher, tapped_streams
from tidings.client.tapping import Teller
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, Target
from tidings.client.transports import current_call, open_transport
from tidings.errors import (
    CommandFailed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    MessageTooLarge,
    SessionExpired,
    TidingsError,
    UnsupportedVersion,
)

logger = logging.getLogger(__name__)

CLIENT_INFO: Final = Implementation(name="tidings", version=version("tidings"))
AUTO: Final = "auto"
LEGACY: Final = "legacy"
_LAST_WORDS: Final = 0.5
"""How long a command that hung up may take to end by itself."""

_STREAM_AWAY: Final = 60.0
"""Seconds after which the old era's stream of notifications, once it ended, must be open again."""

CLOSE_SECONDS: Final = 2.0
"""How long a server may take to see the connection end in good order."""

Hear = Callable[[str, Mapping[str, Any] | None], bool]
"""Takes each notification in the order of arrival. True if it is dealt with, and the SDK need not look at it."""


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
    teller: Teller | None = None


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
        self._broken: Exception | None = None
        self._too_large: MessageTooLarge | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._speaks: list[Any] = []
        self._signing_in = 0
        self._status: int | None = None
        self.first_status: int | None = None
        """What the web server said to the first request, if there is one."""
        self.error: TidingsError | None = None
        self.ended = asyncio.Event()
        """Set when nothing of the connection is left."""
        self.stream_opened = asyncio.Event()
        """Set when the old era's stream of notifications is open; over a pipe, at once."""
        self.deaf = False
        """The server offers no stream of notifications."""
        self.stream_ended = False
        """The old era's stream of notifications has ended, and is yet to be opened again."""
        self.on_stream_again: Callable[[], None] = lambda: None
        """Called when the old era's stream of notifications was opened anew: what was sent meanwhile is lost."""

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
    def somebody_signs_in(self) -> bool:
        """Whether somebody may be signing in: messages wait for that, and their silence means nothing."""
        return self._signing_in > 0

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
                    self._ready.set_result(client)
                    await self._over.wait()
        except Exception as error:  # noqa: BLE001 - told by its name
            self._fail(error)
        finally:
            self._over.set()
            self._stop_waiting()
            if self._hung_up and (self.error is None or self._command is not None):
                self.error = self._hanging_up()
            self.ended.set()
            if not self._ready.done():
                self._ready.set_exception(self.error or self._hanging_up())
                self._ready.exception()  # Looked at, so that nobody complains that it was not.

    def _check_version(self, client: Client) -> None:
        wanted, spoken = self._setup.era, client.protocol_version
        if self._status in AWAY and spoken not in MODERN_PROTOCOL_VERSIONS:
            # Nobody knows what else it speaks: the question did not get through to it.
            raise connect_refused(self.name, self._status)
        if wanted not in (AUTO, LEGACY, spoken):
            raise UnsupportedVersion(
                f"{self.name} speaks {spoken}, not {wanted}. Leave era out to take what it speaks.", server=self.name
            )

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            reason = cleaned(connect_error(error, self.name, self._status, self._speaks), self._setup.target.clean)
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
                watch=self,
                kind=self._transport,
                sign_in=setup.config.timeouts.answer,
                teller=setup.teller,
            )
        elif isinstance(target, CommandTarget):
            self.stream_opened.set()
            server = self._command_streams(target)
        elif isinstance(target, ServerTarget):
            self.stream_opened.set()
            if target.lifespan is not None:
                await stack.enter_async_context(target.lifespan())
            server = target.server
            if setup.teller is not None and setup.era == LEGACY:
                server = tapped_streams(InMemoryTransport(server), setup.teller)
        else:
            self.stream_opened.set()
            server = target.transport
            if setup.teller is not None:
                server = tapped_streams(server, setup.teller)
        client = Client(
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
        connect = client._connect

        async def watched(*arguments: Any) -> Dispatcher[Any]:
            dispatcher = await connect(*arguments)
            if setup.teller is not None and isinstance(target, ServerTarget) and setup.era != LEGACY:
                tap_dispatcher(dispatcher, setup.teller)  # There it has no streams.
            return self._watch(self._complete(dispatcher))

        client._connect = watched
        return client

    @asynccontextmanager
    async def _command_streams(self, target: CommandTarget) -> AsyncGenerator[TransportStreams]:
        async with open_command(
            target,
            max_message=self._setup.config.max_message,
            on_stderr=self._setup.on_stderr,
            on_garbage=self._note_garbage,
            teller=self._setup.teller,
        ) as self._command:
            yield self._command.streams

    def _note_garbage(self, text: str) -> None:
        self._garbage = self._garbage or text
        self._setup.on_garbage(text)

    def _complete(self, dispatcher: Dispatcher[Any]) -> Dispatcher[Any]:
        """Have the server tell how far it is with any request: of the SDK's methods only `call_tool` could ask for it.
        And take an answer that does not say which kind of result it is for a complete one: the SDK would refuse it.
        """
        send: Any = dispatcher.send_raw_request

        async def sent(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
            options, call = cast("CallOptions", {**(opts or {})}), current_call.get()
            # Whoever runs within a call may send something else: how far that is says nothing of the call.
            if isinstance(call, QueueEntry) and call.method == method and call.on_progress is not None:
                options["on_progress"] = call.on_progress
            result: dict[str, Any] = await send(method, params, options)
            if method == "server/discover":
                self._speaks = as_list(result.get("supportedVersions"))
            if "resultType" in result or not self._ready.done():
                return result
            modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
            return {"resultType": "complete", **result} if modern else result

        cast("Any", dispatcher).send_raw_request = sent
        return dispatcher

    def _watch(self, dispatcher: Dispatcher[Any]) -> Dispatcher[Any]:
        """Let the SDK's dispatcher say when it ends, and pass every notification here first, in order of arrival."""
        run: Any = dispatcher.run

        async def watched(on_request: Any, on_notify: Any, intercept: Any = None, **options: Any) -> None:
            def hear(method: str, params: Mapping[str, Any] | None) -> bool:
                return self._hear(method, params) or (intercept is not None and intercept(method, params))

            try:
                await run(on_request, on_notify, hear, **options)
                await self._note_end()
            finally:
                if self._broken is not None and self._ready.done() and not self._over.is_set():
                    how = f"broke the connection off ({type(self._broken).__name__})"
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

    def responded(self, call: object, method: str, status: int, *, has_session: bool) -> None:
        """The web server answered a request."""
        if self._status not in (401, 403, 429, *AWAY):  # Once so, what is said to the next attempt explains nothing.
            self._status = status
        if self.first_status is None:
            self.first_status = status
        if isinstance(call, QueueEntry):
            call.http_status = status
        if method == "POST" and not has_session and self._ready.done() and not self.stream_opened.is_set():
            self.deaf = True  # In the old era, who has no session has no stream.
            self.stream_opened.set()
        elif method == "GET" and status >= 300 and not self.stream_opened.is_set():
            # It should be 405. But who has just opened a session and says 404 has no stream either. What may pass
            # (429, 5xx) the SDK tries once more.
            if status < 500 and status != 429:
                self.deaf = True
                self.stream_opened.set()
        elif status == 404 and has_session:
            if isinstance(call, QueueEntry):
                call.may_have_arrived = False
            self.lose(SessionExpired(f"{self.name} no longer knows this session.", server=self.name))
        elif method == "GET" and status >= 400:
            self.lose(ConnectionLost(f"{self.name} offers no stream any more (HTTP {status}).", server=self.name))

    def failed(self, call: object, method: str, error: Exception, *, sent: bool) -> None:
        """A request got no answer from the web server. `sent` is false if it surely never arrived there."""
        if isinstance(call, QueueEntry) and not sent:
            call.may_have_arrived = False
        self._broken = error
        if method == "GET" and (self.stream_opened.is_set() or not sent):  # Else the SDK tries once more.
            self.lose(ConnectionLost(f"{self.name} is away: {type(error).__name__}", server=self.name))

    def signing_in(self, call: object, *, busy: bool) -> None:
        """Somebody may be asked to sign in: no clock runs meanwhile."""
        self._signing_in += 1 if busy else -1
        if isinstance(call, QueueEntry):
            call.hold() if busy else call.release()
        if self._clock is not None and not self._ready.done():
            seconds = self._setup.config.timeouts.connect
            self._clock.reschedule(None if self._signing_in else asyncio.get_running_loop().time() + seconds)

    def held_back(self, call: object, *, is_so: bool) -> None:
        """A request waits for an `auth` object, or does so no more."""
        if isinstance(call, QueueEntry):
            call.held_back = is_so

    def stream_open(self, call: object, method: str) -> None:
        """A stream of events was opened."""
        if method != "GET":
            return
        self.stream_ended = False
        self._stop_waiting()
        if self.stream_opened.is_set():
            self.on_stream_again()
        self.stream_opened.set()

    def stream_over(self, call: object, method: str) -> None:
        """A stream of events came to its end."""
        if method == "GET" and not self.over:
            self.stream_ended = True
            self._stop_waiting()
            self._waiting = asyncio.get_running_loop().call_later(_STREAM_AWAY, self._is_deaf)

    def _is_deaf(self) -> None:
        """The SDK has given up to open the old era's stream again, and tells nobody."""
        self.lose(ConnectionLost(f"{self.name} ended its stream of notifications for good.", server=self.name))

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
