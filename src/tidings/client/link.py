"""One connection to a server, from its handshake to its end, in a task of its own.

The SDK's client must be entered and left in one task, and cancels that task when its transport fails. So no other code
runs there: requests are sent from the callers' own tasks, and a lost connection reaches them as an error.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

import anyio
import mcp_types as types
from mcp import Client, ClientSession
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tidings import errors
from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.tasks import Wakeup, retrieve
from tidings._version import __version__
from tidings.client import sdk_seam
from tidings.client.config import QUESTION_TASKS, ClientConfig
from tidings.client.events import EventHub, GarbageReceived, StderrReceived
from tidings.client.failures import AWAY, answer_error, cleaned, connect_error, connect_refused, unreadable, with_wait
from tidings.client.http_health import HttpHealth
from tidings.client.pending import Pending
from tidings.client.question_tasks import QuestionTasks
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.sdk_seam import InMemoryTransport, quiet
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, Target
from tidings.client.task_wire import TasksDeclared
from tidings.client.transports.http import current_call, open_transport
from tidings.client.transports.stdio import RunningCommand
from tidings.client.transports.tap import TapReporter, tapped_streams
from tidings.errors import TidingsError

_SILENCE: Final = 10.0  # Seconds without an answer about versions, after which the legacy era is tried besides.
_LATE: Final = 1.0  # Seconds for that answer, once the server has answered in the legacy era.
_EXIT_SECONDS: Final = 0.5  # Seconds for a command that closed its output to end by itself.

Era = Literal["modern", "legacy"]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's statements about itself in the handshake."""

    protocol_version: str
    info: types.Implementation | None
    capabilities: types.ServerCapabilities
    instructions: str | None

    @property
    def era(self) -> Era:
        return "modern" if self.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    @property
    def identity(self) -> str:
        """A text that is equal for the same server: its name, the version of the protocol and its capabilities."""
        capabilities = self.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps([self.info and self.info.name, self.protocol_version, capabilities], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of every connection of one client."""

    target: Target
    config: ClientConfig
    era: str = "auto"
    log_level: types.LoggingLevel | None = None
    client_info: types.Implementation | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])  # Besides those that follow from the rest.
    tap: TapReporter | None = None


@dataclass(frozen=True, slots=True)
class LinkHooks:
    """The parts of a client that its connections use. `hear` returns True if the SDK need not see a notification."""

    hear: Callable[[str, Mapping[str, Any] | None], bool]
    queue: RequestQueue
    wakeup: Wakeup
    pending: Pending
    events: EventHub


class Link:
    """A connection. `open` it once, and `close` it. `error` says how it ended."""

    def __init__(self, setup: Setup, hooks: LinkHooks, *, transport: Literal["http", "sse"] | None = None) -> None:
        self._setup, self._hooks = setup, hooks
        self.name = setup.target.name
        self.config = setup.config
        self._transport: Literal["http", "sse"] | None = transport
        self._scope = anyio.CancelScope()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._clock: asyncio.Timeout | None = None
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._command: RunningCommand | None = None
        self._dispatcher: Dispatcher[Any] | None = None
        self._ended_by_server = False
        self._exit_code: int | None = None
        self._garbage = ""
        self._too_large: errors.MessageTooLarge | None = None
        self._probe: asyncio.Future[dict[str, Any]] | None = None
        self.error: TidingsError | None = None
        self.heard = 0  # The number of notifications so far: a server that sends some is alive.
        self.ended = asyncio.Event()  # Set when nothing of the connection is left.
        # The state of the connection as far as HTTP answers show it.
        has_stream = not isinstance(setup.target, HttpTarget)
        self.http = HttpHealth(self, has_stream=has_stream, is_busy=hooks.queue.is_busy, heard_again=hooks.wakeup)

    @property
    def client(self) -> Client:
        return self._ready.result()

    @property
    def session(self) -> ClientSession:
        return self.client.session

    @property
    def facts(self) -> ServerFacts:
        client = self.client
        return ServerFacts(client.protocol_version, client.server_info, client.server_capabilities, client.instructions)

    @property
    def pid(self) -> int | None:
        return None if self._command is None or self._command.program is None else self._command.program.pid

    @property
    def over(self) -> bool:
        return self._over.is_set() or self.ended.is_set()

    @property
    def is_open(self) -> bool:
        """True if the handshake was completed, even if the connection has ended since."""
        return self._ready.done()

    async def until_over(self) -> None:
        await self._over.wait()

    async def open(self, seconds: float) -> None:
        """Connects and shakes hands. If that fails or takes too long, nothing is left of it."""
        self._task = asyncio.create_task(self._live(), name=f"tidings link to {self.name}")
        try:
            async with asyncio.timeout(seconds) as self._clock:
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close(seconds=0)
            cure = f"Give it longer with Timeouts(connect=...), if it is an MCP server.{self._command_output()}"
            text = f"{self.name} did not answer within {seconds:.3g} s. {cure}"
            raise errors.ConnectTimedOut(text, server=self.name, elapsed=seconds) from None
        except BaseException:
            await self.close(seconds=0)
            raise

    async def close(self, seconds: float = 2.0) -> None:
        """Ends it: in good order within `seconds`, abruptly after. May be called again."""
        if self._task is None:
            return
        self._over.set()
        if seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.ended.wait()
        self._scope.cancel()
        await self.ended.wait()

    def stop_clock(self, *, is_so: bool) -> None:
        """Stops the time limit of `open` while somebody signs in, or starts it anew."""
        if self._clock is not None and not self._ready.done():
            seconds = self._setup.config.timeouts.connect
            self._clock.reschedule(None if is_so else asyncio.get_running_loop().time() + seconds)

    def lose(self, error: TidingsError) -> None:
        """Ends the connection because of `error`. The first reason counts."""
        if not self.over:
            self.error = with_wait(error, self.http.retry_after)
            self._over.set()
            self._scope.cancel()

    def check_server(self, discovered: Mapping[str, Any]) -> None:
        """Ends the connection if an answer to `server/discover` is not from the server of the handshake."""
        facts, info, can = self.facts, None, None
        with suppress(ValidationError):
            info = types.Implementation.model_validate(as_dict(discovered.get("_meta")).get(types.SERVER_INFO_META_KEY))
        with suppress(ValidationError):
            can = types.ServerCapabilities.model_validate(discovered.get("capabilities"))
        speaks = facts.protocol_version in as_list(discovered.get("supportedVersions"))
        if not speaks or can is None or replace(facts, info=info, capabilities=can).identity != facts.identity:
            self.lose_to_another()

    def gone(self) -> TidingsError:
        """Returns the reason for the end of the connection."""
        return self.error or errors.ConnectionLost(f"{self.name} went away.", server=self.name)

    def lose_to_another(self) -> None:
        self.lose(errors.ConnectionLost(f"Another server answers in place of {self.name}.", server=self.name))

    async def _live(self) -> None:
        current_call.set(None)  # A request that happens to open the connection is not the cause of what arrives on it.
        try:
            # A server in this process writes to the same loggers, and its own faults must stay visible.
            in_process = isinstance(self._setup.target, ServerTarget)
            with self._scope, nullcontext() if in_process else quiet(self._setup.target.clean):
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(await self._client(stack))
                    self._check_version(client.protocol_version)
                    cast("Any", client.session).validate_tool_result = self._check_result
                    self._ready.set_result(client)
                    await self._over.wait()
        except Exception as error:  # noqa: BLE001 - becomes a named error
            if self.error is None:
                reason = connect_error(error, self.name, self.http.status, self._server_versions)
                reason = with_wait(cleaned(reason, self._setup.target.clean), self.http.retry_after)
                self.error = errors.ConnectionLost(reason.message, server=self.name) if self._ready.done() else reason
        finally:
            self._over.set()
            self.http.close()
            if self._probe is not None:
                self._probe.cancel()
            if self._ended_by_server and (self.error is None or self._command is not None):
                self.error = self._server_ended()
            self.ended.set()
            if not self._ready.done():
                self._ready.set_exception(self.error or self._server_ended())
                self._ready.exception()  # Retrieved, so that asyncio does not complain that it was not.

    async def _client(self, stack: AsyncExitStack) -> Client:
        setup, pending = self._setup, self._hooks.pending
        client = Client(
            await self._server(stack),
            # With a version here, the SDK would not ask the server, and would know nothing about it.
            mode="legacy" if setup.era == "legacy" else "auto",
            cache=None,
            client_info=setup.client_info or types.Implementation(name="tidings", version=__version__),
            log_level=setup.log_level,
            sampling_callback=pending.ask if pending.asks else None,
            elicitation_callback=pending.ask if pending.asks else None,
            list_roots_callback=pending.ask if pending.asks or pending.has_roots else None,
            extensions=[TasksDeclared()] if setup.config.tasks else None,
        )
        sdk_seam.wrap_connect(client, lambda dispatcher: self._watched(self._extended(dispatcher)))
        legacy = {"tasks": types.ClientTasksCapability.model_validate(QUESTION_TASKS)} if pending.asks else {}
        if setup.capabilities or legacy:
            sdk_seam.add_capabilities(client, setup.capabilities, legacy)
        return client

    async def _server(self, stack: AsyncExitStack) -> Any:
        setup, target = self._setup, self._setup.target
        if isinstance(target, HttpTarget):
            return open_transport(target, setup.config, watch=self.http, kind=self._transport, tap=setup.tap)
        if isinstance(target, CommandTarget):
            most, emit = setup.config.max_message, self._hooks.events.emit
            self._command = RunningCommand(
                target, most, lambda line: emit(StderrReceived(line)), self._note_garbage, setup.tap
            )
            return self._command.run()
        if target.lifespan is not None:
            await stack.enter_async_context(target.lifespan())
        if setup.tap is None:
            return target.server  # This way has no streams, and no messages.
        return tapped_streams(InMemoryTransport(target.server), setup.tap)

    def _note_garbage(self, text: str) -> None:
        self._garbage = self._garbage or text
        self._hooks.events.emit(GarbageReceived(text))

    def _check_version(self, spoken: str) -> None:
        if self._setup.era not in ("auto", "legacy", spoken):
            text = f"{self.name} speaks {spoken}, not {self._setup.era}. Leave era out to use what it speaks."
            raise errors.UnsupportedVersion(text, server=self.name)

    async def _check_result(self, name: str, result: types.CallToolResult) -> None:
        """Checks a tool's result against the schema that the server announced, in a thread if it takes long."""
        if not self._setup.config.check_output:
            return
        session = self.session
        schemas = sdk_seam.output_schemas(session)
        if name not in schemas:
            await session.list_tools()
            schemas = sdk_seam.output_schemas(session)
        if (schema := schemas.get(name)) is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema, but returned no structured content")
        from tidings.client.schema import complaint  # noqa: PLC0415 - takes a tenth of a second

        wrong = complaint(schema, result.structured_content, quick=True)  # Sooner than a thread is asked to.
        if wrong is None:
            wrong = await asyncio.to_thread(complaint, schema, result.structured_content)
        if wrong:
            raise RuntimeError(f"Tool {name}: {wrong}")

    def _extended(self, dispatcher: Dispatcher[Any]) -> Dispatcher[Any]:
        """Asks for progress with every request: of the SDK's methods, only `call_tool` can."""
        send: Any = dispatcher.send_raw_request

        async def extended(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
            options, call = cast("CallOptions", {**(opts or {})}), current_call.get()
            # Another request may be sent within a call. Its progress says nothing about the call.
            if call is not None and call.method == method and call.on_progress is not None:
                options["on_progress"] = call.on_progress
            if method == "server/discover" and not self._ready.done():
                options.pop("timeout", None)
                # The SDK asks again if the answer came while it shook hands.
                return self._discovered or await self._discover(send(method, params, options))
            if method == "initialize":
                return await self._initialize(send(method, params, options))
            result: dict[str, Any] = await send(method, params, options)
            # An answer that does not state its kind counts as a complete one: the SDK would refuse it.
            if "resultType" in result or not self._ready.done():
                return result
            is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
            return {"resultType": "complete", **result} if is_modern else result

        cast("Any", dispatcher).send_raw_request = extended
        return dispatcher

    async def _discover(self, answer: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Asks the server for its versions. If it is silent, the SDK shakes hands as in the legacy era besides."""
        self._probe = asyncio.ensure_future(answer)
        self._probe.add_done_callback(retrieve)
        # An answer that arrives together with the end of the wait counts.
        await asyncio.wait((self._probe,), timeout=_SILENCE if self._setup.era == "auto" else None)
        if not self._probe.done():
            raise MCPError(types.REQUEST_TIMEOUT, f"{self.name} does not answer")
        try:
            return self._probe.result()
        except MCPError:
            if self.http.status in (429, *AWAY):  # The question did not reach it, so it may speak newer versions.
                raise connect_refused(self.name, self.http.status) from None
            raise

    @property
    def _discovered(self) -> dict[str, Any]:
        """The server's answer about its versions, once there is one."""
        probe = self._probe
        is_answered = probe is not None and probe.done() and not probe.cancelled() and probe.exception() is None
        return probe.result() if probe is not None and is_answered else {}

    @property
    def _server_versions(self) -> list[Any]:
        return as_list(self._discovered.get("supportedVersions"))

    async def _initialize(self, answer: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Shakes hands as in the legacy era, unless the server states a newer version: silence is no evidence."""
        if (probe := self._probe) is None or probe.done():
            return await answer
        handshake = asyncio.ensure_future(answer)
        try:
            await asyncio.wait((probe, handshake), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((probe,), timeout=_LATE)
            if shared := [version for version in MODERN_PROTOCOL_VERSIONS if version in self._server_versions]:
                # This makes the SDK ask again in the modern era.
                versions = {"supported": shared, "requested": HANDSHAKE_PROTOCOL_VERSIONS[-1]}
                raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, f"{self.name} speaks the modern era", versions)
            return await handshake
        finally:
            handshake.cancel()

    def _watched(self, dispatcher: Dispatcher[Any]) -> Dispatcher[Any]:
        """Notices the end of the dispatcher, and gets every notification before the SDK, in order of arrival."""
        run: Any = dispatcher.run

        async def watched(on_request: Any, on_notify: Any, intercept: Any = None, **options: Any) -> None:
            def hear(method: str, params: Mapping[str, Any] | None) -> bool:
                self.heard += 1
                return self._hooks.hear(method, params) or (intercept is not None and intercept(method, params))

            questions = QuestionTasks(on_request)
            try:
                await run(questions, on_notify, hear, **options)
                self._ended_by_server = not self._over.is_set()
                if self._ended_by_server and self._command is not None:
                    with anyio.move_on_after(_EXIT_SECONDS, shield=True):  # Before it is ended from here.
                        await self._command.ended.wait()
                    self._exit_code = self._command.program and self._command.program.returncode
                if self._ended_by_server and self._ready.done() and not self._over.is_set():
                    self.error = self._server_ended()
            finally:
                questions.close()
                if self.http.broken is not None and self._ready.done() and not self._over.is_set():
                    how = f"broke the connection off ({type(self.http.broken).__name__})"
                    self.error = errors.ConnectionLost(f"{self.name} {how}.", server=self.name)
                self._over.set()

        cast("Any", dispatcher).run = watched
        cast("Any", dispatcher).on_stream_exception = self._note_stream_error
        self._dispatcher = dispatcher
        return dispatcher

    async def _note_stream_error(self, error: Exception) -> None:
        if isinstance(error, errors.MessageTooLarge):
            self._too_large = error
        elif self._command is None:  # Otherwise `_note_garbage` has it.
            self._hooks.events.emit(GarbageReceived(self._setup.target.clean(unreadable(str(error)))))

    def _server_ended(self) -> TidingsError:
        how = "closed the connection"
        if self._command is None and self._too_large is not None:
            how = f"sent a message above the limit, which ended the connection ({self._too_large.message})"
        if (code := self._exit_code) is not None:
            how = f"ended with exit code {code}" if code >= 0 else f"ended with signal {-code}"
        if self._ready.done():
            return errors.ConnectionLost(f"{self.name} {how}.{self._command_output()}", server=self.name)
        kind = errors.ConnectFailed if self._command is None else errors.CommandFailed
        return kind(f"{self.name} {how} before it answered.{self._command_output()}", server=self.name)

    def _command_output(self) -> str:
        """Returns a command's output that may explain how it ended, and what to do."""
        if self._command is None:
            return ""
        printed = f" It printed {self._garbage!r}: its standard output is for messages only." if self._garbage else ""
        said = f" It said:\n{self._command.stderr_tail}" if self._command.stderr_tail else ""
        return printed + (said or " Run the same command in a terminal to see its output.")

    def absorb_tools(self, tools: Sequence[types.Tool]) -> tuple[types.Tool, ...]:
        """Gives the tools to the SDK, which checks their results. Returns those that it may call."""
        with quiet(self._setup.target.clean):
            return sdk_seam.absorb_tools(self.session, tools)

    def explain(self, error: Exception, method: str, status: int | None = None) -> TidingsError:
        """Returns the named error for an error answer of this server, without secrets."""
        reason = cleaned(answer_error(error, method=method, status=status), self._setup.target.clean)
        reason.server = self.name
        return with_wait(reason, self.http.retry_after if status in (429, 503) else None)

    async def send_raw(
        self,
        method: str,
        params: dict[str, Any],
        *,
        capabilities: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Sends a request, and returns the answer, as they are. In the modern era, it may state other capabilities."""
        if self._dispatcher is None or self.over:
            raise errors.ConnectionLost(f"{self.name} is not connected.", server=self.name)
        data: dict[str, Any] = {"method": method, "params": params}
        opts = cast("CallOptions", options)
        sdk_seam.stamp(self.session, data, opts)
        meta = as_dict(data["params"].get("_meta"))
        if capabilities is not None and types.CLIENT_CAPABILITIES_META_KEY in meta:
            data["params"]["_meta"] = {**meta, types.CLIENT_CAPABILITIES_META_KEY: dict(capabilities)}
        return await self._dispatcher.send_raw_request(method, data["params"], opts)

    async def send_aside(self, method: str, params: dict[str, Any], request_id: str) -> dict[str, Any]:
        """Sends a request of the client's own, whose answer may be a stream. Raises a `TidingsError`."""
        call = QueueEntry(request_id, method, {}, aside=True)  # Gets the HTTP status.
        token = current_call.set(call)
        try:
            return await self.send_raw(method, params, request_id=request_id)
        except MCPError as error:
            raise self.explain(error, method, call.http_status) from None
        finally:
            current_call.reset(token)

    async def notify_raw(self, method: str, params: dict[str, Any]) -> None:
        if self._dispatcher is None or self.over:
            raise errors.ConnectionLost(f"{self.name} is not connected.", server=self.name)
        await self._dispatcher.notify(method, params)
