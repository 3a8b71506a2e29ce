"""`WakingExtension`: the tasks extension of one server, tools as tasks, and the tool `wait_for_change`.

Each request of the modern era says for itself whether its sender takes tasks. A `subscriptions/listen` may follow some:
a notification says what `tasks/get` would say at that moment, at first only of tasks that are over or wait for input.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import Field, TypeAdapter, ValidationError

from tidings._kit.text import size_text
from tidings.bus.shared import LARGEST_VALUE
from tidings.errors import LimitReached, TransportError
from tidings.server.adapters import Adapter
from tidings.server.config import Waking
from tidings.server.core import Core, rpc_errors, scope_of
from tidings.server.modern import TaskFrame, is_modern
from tidings.server.notify import CALLER, REVOKED, TASKS, ToolCaller
from tidings.server.policy import RequestContext, expiry_of, holder_of, origin_of
from tidings.server.waking.changes import Hints, Shows
from tidings.server.waking.looks import LOOK_KEY, Look, QuickLooks
from tidings.server.waking.running import LOOK_SECONDS, RunningTasks
from tidings.server.waking.store import Edit, Json, TaskRecord, TaskStore, UnknownTask
from tidings.server.waking.texts import ResourceReader
from tidings.server.waking.tool import TOOL, TOOL_NAME, Refused, refusal
from tidings.server.waking.waiting import Waits

logger = logging.getLogger(__name__)


EXTENSION: Final = "io.modelcontextprotocol/tasks"
_ANSWERS: Final[dict[str, TypeAdapter[Any]]] = {
    "elicitation/create": TypeAdapter(types.ElicitResult),
    "sampling/createMessage": TypeAdapter(types.CreateMessageResult | types.CreateMessageResultWithTools),
    "roots/list": TypeAdapter(types.ListRootsResult),
}


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


class WakingExtension:
    """Serves tasks, and the tool that waits. A tool of the server's own that has the same name takes its place."""

    def __init__(self, core: Core, adapter: Adapter, waking: Waking, ours: Sequence[Any], shows: Shows) -> None:
        self._core = core
        self._keep = waking.keep
        self._adapter = adapter
        self._server = server = adapter.lowlevel
        self.store = TaskStore(core)
        self._hints = Hints(shows) if waking.hints else None
        self.running = RunningTasks(core, self.store, waking, adapter)
        self._waits = Waits(core, self.store, waking, ResourceReader(server, core.policy, ours))
        # A server that has resources alone gets the one tool: hosts wait with tools.
        has_resources = server.get_request_handler("resources/read") is not None
        if has_resources and server.get_request_handler("tools/list") is None:
            server.add_request_handler("tools/list", types.PaginatedRequestParams, _no_tools)
        if has_resources and server.get_request_handler("tools/call") is None:
            server.add_request_handler("tools/call", types.CallToolRequestParams, _unknown_tool)
        self.looks = QuickLooks(self._is_unchanged, core.policy.limits.permission)
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    def start(self) -> None:
        if self._hints is not None:
            self._core.bus.subscribe(self._hints.heard)

    def noticed(self, uri: str | None) -> None:
        if uri is None or uri.startswith(REVOKED):
            self.looks.forget()
        if uri is None or uri.startswith(TASKS):
            self.store.noticed(None if uri is None else uri.removeprefix(TASKS))

    def begin_stop(self) -> None:
        self._waits.begin_stop()
        self.running.begin_stop()

    async def aclose(self) -> None:
        await self._waits.aclose()
        await self.running.aclose()

    async def serve(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answers the calls of tools that wait, and adds the extension and the tool to the answers of others."""
        serve = partial(self._serve, call_next=call_next)
        return await serve(ctx) if self._hints is None else await self._hints.serve(ctx, serve)

    async def _serve(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            name = (ctx.params or {}).get("name", "")
            if name == TOOL_NAME and self._has_tool:
                return await self._wait(ctx)
            mode = self.running.modes.get(name, False)
            if mode and declares_tasks(ctx):
                with rpc_errors(ctx):
                    return self._enveloped(ctx, await self.running.call(ctx, partial(self._call, call_next=call_next)))
            if mode == "required":
                raise _undeclared()
            return await self._call(ctx, call_next)
        result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict) and not result.get("nextCursor") and self._has_tool:
            tools: list[Json] = result.get("tools", [])
            if all(tool.get("name") != TOOL_NAME for tool in tools):
                return {**result, "tools": [*tools, TOOL]}
        if ctx.method == "server/discover" and isinstance(result, dict):
            capabilities: Json = result.get("capabilities") or {}
            extensions: Json = {**(capabilities.get("extensions") or {}), EXTENSION: {}}
            return {**result, "capabilities": {**capabilities, "extensions": extensions}}
        return result

    @property
    def _has_tool(self) -> bool:
        """It waits by a tool of this file: the server has tools, and none of its own has this name."""
        return self._server.get_request_handler("tools/call") is not None and not self._adapter.has_tool(TOOL_NAME)

    async def _call(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        caller = ToolCaller(origin_of(scope_of(ctx)))
        token = CALLER.set(caller)
        try:
            return await call_next(ctx)
        finally:
            CALLER.reset(token)
            caller.is_over = True
            if caller.changed:
                if self._hints is not None:
                    self._hints.wrote(ctx, caller.changed)
                await self._waits.wrote(ctx, caller)

    async def _wait(self, ctx: RequestContext) -> Json:
        arguments: Any = (ctx.params or {}).get("arguments")
        with rpc_errors(ctx):
            try:
                given = cast("Json", arguments) if isinstance(arguments, dict) else {}
                result = await self._waits.call(ctx, given, as_task=declares_tasks(ctx))
            except Refused as error:
                result = refusal(error)
        return self._enveloped(ctx, result)

    def _enveloped(self, ctx: RequestContext, result: Json) -> Json:
        """Returns a result as the SDK sends it in the era of its request."""
        if not is_modern(ctx.protocol_version):
            return {name: value for name, value in result.items() if name != "resultType"}
        stamp = {types.SERVER_INFO_META_KEY: self._server.server_info_stamp}
        return {**result, "_meta": {**stamp, **result.get("_meta", {})}}

    async def _get(self, ctx: RequestContext, params: TaskParams) -> Json:
        key, scope = await self._key(ctx, params), scope_of(ctx)
        with rpc_errors(ctx):
            record = await self.state_of(ctx, key)
        look: Look | None = (scope or {}).get(LOOK_KEY)
        if look is not None:
            look.key, look.record, look.expires = key, record, expiry_of(scope)
            look.signed_in = bool(holder_of(scope))
        return record.details(params.task_id)

    async def state_of(self, ctx: RequestContext, key: str) -> TaskRecord:
        """Returns a task as it is now, for the sender of this request. Raises `UnknownTask`."""
        record = await self.store.find(key)
        if record.is_final:
            return record
        if record.kind == "wait":
            return await self._waits.state(ctx, key, record)
        if record.asked:  # Another replica may have got an answer just now.
            record = await self.store.find(key, sure_for=0.0)
        return await self.running.checked(key, record)

    def _is_unchanged(self, key: str, record: TaskRecord) -> bool:
        """Returns whether `state_of` would find this record, which is not final, without asking anybody."""
        if self._core.stopping or record.asked or self.store.sure_view(key) is not record:
            return False
        return self._waits.is_idle(key) if record.kind == "wait" else self.running.runs(key)

    async def _update(self, ctx: RequestContext, params: UpdateTaskParams) -> Json:
        return await self._edit(ctx, params, partial(_answered, params.input_responses))

    async def _cancel(self, ctx: RequestContext, params: TaskParams) -> Json:
        over = partial(TaskRecord.cancelled, message="Cancelled by the client.")
        return await self._edit(ctx, params, lambda record: over(record).kept_for(self._keep))

    async def _edit(self, ctx: RequestContext, params: TaskParams, edit: Edit) -> Json:
        key = await self._key(ctx, params)
        with rpc_errors(ctx):
            await self.store.change(key, edit)
        return {}

    async def _key(self, ctx: RequestContext, params: TaskParams) -> str:
        """Returns the key of the task that a request is about, if its sender may ask for it."""
        if not is_modern(ctx.protocol_version):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if ctx.request is not None:
            named = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header does not name the task of this request.")
        if not declares_tasks(ctx):
            raise _undeclared()
        return await self.store.key_of(params.task_id, holder_of(scope_of(ctx)))

    # Streams that follow tasks: see `modern.TaskSource`

    async def known(self, ctx: RequestContext, ids: Sequence[str]) -> dict[str, str]:
        if not declares_tasks(ctx):
            raise _undeclared()
        most = self._core.policy.limits.subscriptions
        if len(ids) > most:
            raise LimitReached(
                f"{len(ids)} tasks for one stream; this server accepts at most {most}.",
                data={"limit": "subscriptions", "max": most, "scope": "stream"},
            )
        known: dict[str, str] = {}
        for task in dict.fromkeys(ids):
            with suppress(UnknownTask):
                key = await self.store.key_of(task, holder_of(scope_of(ctx)))
                await self.store.find(key)
                known[task] = key
        return known

    def follow(
        self, ctx: RequestContext, tasks: Mapping[str, str], deliver: Callable[[TaskFrame], None]
    ) -> Callable[[], None]:
        return _TaskFeed(self, ctx, tasks, deliver).close


async def _no_tools(_: RequestContext, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[])


async def _unknown_tool(_: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}. There is {TOOL_NAME}.")


def declares_tasks(ctx: RequestContext) -> bool:
    """Returns whether the sender of this request takes a task as its result."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return is_modern(ctx.protocol_version) and EXTENSION in (extensions or {})


def _answered(answers: Json, record: TaskRecord) -> TaskRecord:
    """Returns the record with these answers. Raises `MCPError` if one of them is not an answer to its question."""
    for key, answer in answers.items():
        if (request := record.asked.get(key)) is None:
            continue
        try:
            _ANSWERS[request["method"]].validate_python(answer, by_name=False)
        except ValidationError:
            text = f"The answer to {key!r} is not a result of {request['method']}."
            raise MCPError(types.INVALID_PARAMS, text) from None
    answered = record.answered(answers)
    if len(bytes(answered)) > LARGEST_VALUE:
        raise MCPError(types.INVALID_PARAMS, f"The answers to a task take at most {size_text(LARGEST_VALUE)}.")
    return answered


def _undeclared() -> MCPError:
    needed = types.ClientCapabilities(extensions={EXTENSION: {}})
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"This needs a client that declares the extension {EXTENSION!r} with each request, in the modern era.",
        data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


class _TaskFeed:
    """Delivers the changes of some tasks, which are keys by their ids, until `close` is called or all are over."""

    def __init__(
        self,
        owner: "WakingExtension",
        ctx: RequestContext,
        tasks: Mapping[str, str],
        deliver: Callable[[TaskFrame], None],
    ) -> None:
        self._owner = owner
        self._ctx = ctx
        self._deliver = deliver
        self._left = {key: task for task, key in tasks.items()}
        self._told: dict[str, tuple[str, float]] = {}
        self._due = set(self._left)
        self._news = asyncio.Event()
        self._news.set()
        for key in self._left:
            owner.store.watch(key, self._changed)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        self._worker.cancel()
        for key in tuple(self._left):
            self._leave(key)

    def _changed(self, key: str) -> None:
        self._due.add(key)
        self._news.set()

    async def _work(self) -> None:
        while self._left:
            with anyio.move_on_after(LOOK_SECONDS):  # Nobody says that the process of a task has died.
                await self._news.wait()
            self._news.clear()
            due, self._due = self._due or set(self._left), set[str]()
            for key in due.intersection(self._left):
                try:
                    await self._tell(key)
                except TransportError:
                    pass  # It is looked at again.
                except UnknownTask:
                    self._leave(key)
                except Exception:
                    logger.exception("The state of a task could not be sent.")

    async def _tell(self, key: str) -> None:
        record = await self._owner.state_of(self._ctx, key)
        before, now = self._told.get(key), (record.status, record.updated)
        self._told[key] = now
        if now != before and (before is not None or record.status != "working"):
            task = self._left[key]
            self._deliver(TaskFrame(task, record.details(task)))
        if record.is_final:
            self._leave(key)

    def _leave(self, key: str) -> None:
        del self._left[key]
        self._owner.store.unwatch(key, self._changed)
