"""`Relay`: passes a request to its server, and what the server asks or reports meanwhile to the one who sent it.

Requests and results pass as they are, without being checked, but for the envelope of each era. A server may ask the
user something while it works. How the question travels depends on the eras of both sides:

| server | client | the question |
|---|---|---|
| legacy | legacy | is asked on the client's own connection |
| legacy | modern | is the answer to the request, which waits here until the client repeats it with the answers |
| modern | modern | is the server's answer to the request, and passes as it is |
| modern | legacy | is asked on the client's connection, and the request is repeated here with the answers |
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tidings._kit.bounded_json import as_dict, as_text
from tidings._kit.tasks import retrieve
from tidings.bridge.settings import Json
from tidings.bridge.upstream import Upstream
from tidings.client.calls import StartedCall
from tidings.client.events import LogReceived, NotificationReceived
from tidings.client.pending import METHODS, PassedAnswer, PendingRequest, refusal
from tidings.client.queue import QueueEntry
from tidings.errors import MessageTooLarge, NotAuthorized, TidingsError
from tidings.server.adapters import connection_of
from tidings.server.policy import RequestContext
from tidings.server.waking.extension import EXTENSION, declares_tasks

_STATE: Final = "tidings-bridge."  # The request state of a question of a legacy server begins with this.
_ROUNDS: Final = 10  # Of questions that one request to a modern server may lead to.
_MOST_SUSPENDED: Final = 1_000
_KEPT_SECONDS: Final = 300.0
_ENVELOPE: Final = "io.modelcontextprotocol/"  # Keys of `_meta` that belong to one connection.
_RESOURCE_NOT_FOUND: Final = -32002  # In the legacy era.
_REQUESTS: Final[TypeAdapter[types.InputRequest]] = TypeAdapter(types.InputRequest)
_RESULTS: Final[dict[str, Any]] = {
    "sampling/createMessage": types.CreateMessageResultWithTools | types.CreateMessageResult,
    "elicitation/create": PassedAnswer,
    "roots/list": types.ListRootsResult,
}


@dataclass(eq=False)
class RelayedCall:
    """A request that a server works on, and the client that it is for. A client that repeats it has a new `ctx`."""

    upstream: Upstream
    ctx: RequestContext
    entry: QueueEntry | None = None
    work: "asyncio.Task[Json] | None" = None

    def __post_init__(self) -> None:
        self.questions: dict[str, tuple[Json, asyncio.Future[Any]]] = {}
        self.asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self) -> None:
        """Lets the client know that there are questions."""
        if not self.asked.done():
            self.asked.set_result(None)

    def open_questions(self) -> Json:
        return {key: request for key, (request, answer) in self.questions.items() if not answer.done()}


class Relay:
    """The requests under way of one bridge."""

    def __init__(self, principal: Callable[[RequestContext], str | None]) -> None:
        self._principal = principal
        self._running: dict[QueueEntry, RelayedCall] = {}
        self._suspended: dict[str, RelayedCall] = {}
        self._sessions: dict[Connection, RequestContext] = {}  # Of the legacy era, the latest last.

    def heard_from(self, ctx: RequestContext) -> None:
        """Notes the connection of a client of the legacy era, on which it can be asked and notified."""
        if is_modern(ctx):
            return
        connection = connection_of(ctx)
        if self._sessions.pop(connection, None) is None:
            connection.exit_stack.callback(self._sessions.pop, connection, None)
        self._sessions[connection] = ctx

    async def forward(self, ctx: RequestContext, upstream: Upstream, params: Mapping[str, Any], *, safe: bool) -> Json:
        """Returns the server's result of a request, or its questions."""
        state = as_text(params.get("requestState"))
        if state is not None and state.startswith(_STATE):
            return await self._resume(ctx, state, as_dict(params.get("inputResponses")))
        meta = as_dict(params.get("_meta")).items()  # Without what belongs to the client's own connection.
        kept = {key: value for key, value in meta if not key.startswith(_ENVELOPE) and key != "progressToken"}
        sent = {**params, "_meta": kept}
        await upstream.until_tried()
        if upstream.client.era is None and upstream.trouble:  # Once it was there, a call waits for it to come back.
            about = {"server": upstream.spec.name, "retryable": True}
            raise MCPError(types.INTERNAL_ERROR, f"{upstream.spec.name} cannot be used: {upstream.trouble}", about)
        call = RelayedCall(upstream, ctx)
        work = self._work(call, ctx.method, sent, safe=safe)
        if not is_modern(ctx) or upstream.client.era == "modern":
            return await work  # It is never suspended: every question has another way to the client.
        call.work = asyncio.create_task(work)
        return await self._until_asked(call)

    async def _work(self, call: RelayedCall, method: str, params: Json, *, safe: bool) -> Json:
        upstream = call.upstream

        def started(entry: QueueEntry) -> None:
            call.entry = entry
            self._running[entry] = call

        for _ in range(_ROUNDS):
            try:
                result = await upstream.client.request(
                    method,
                    params,
                    safe=safe,
                    on_progress=partial(_report, call),
                    started=started,
                    capabilities=None if upstream.client.era == "legacy" else _capabilities(call.ctx),
                )
            except TidingsError as error:
                raise self._explained(call, method, error) from None
            finally:
                if call.entry is not None:
                    self._running.pop(call.entry, None)
            if result.get("resultType") == "task" and not declares_tasks(call.ctx):
                task = upstream.client.task(str(result.get("taskId")))
                result = await self._followed(call, task.resume(partial(_report, call)))
            if result.get("resultType") != "input_required" or is_modern(call.ctx):
                return upstream.naming.result_out(result)
            answers = await self._answers_to(call.ctx, as_dict(result.get("inputRequests")))
            params = {**params, "inputResponses": answers}
            if (state := result.get("requestState")) is not None:
                params["requestState"] = state
        raise MCPError(types.INTERNAL_ERROR, f"{upstream.spec.name} asked for input more than {_ROUNDS} times.")

    async def _followed(self, call: RelayedCall, started: StartedCall) -> Json:
        """Returns the result of a call that the server runs as a task, for a client that does not take one."""
        self._running[started.entry] = call
        try:
            made = await started
        except TidingsError as error:
            raise self._explained(call, "tools/call", error) from None
        finally:
            self._running.pop(started.entry, None)
        return {} if made.result is None else made.result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def call_as_task(self, ctx: RequestContext, upstream: Upstream, name: str) -> Json:
        """Calls a tool that a legacy server runs as a task only, and returns its result."""
        call = RelayedCall(upstream, ctx)

        async def work() -> Json:
            started = upstream.client.start_call(
                name, as_dict((ctx.params or {}).get("arguments")), on_progress=partial(_report, call)
            )
            return upstream.naming.result_out(await self._followed(call, started))

        call.work = asyncio.create_task(work())
        return await self._until_asked(call)

    def _explained(self, call: RelayedCall, method: str, error: TidingsError) -> MCPError:
        data = as_dict(error.data)
        code, details = data.get("rpc_code"), data.get("rpc_data")
        if not isinstance(code, int) or isinstance(error, NotAuthorized | MessageTooLarge):
            about = {"server": call.upstream.spec.name, "code": error.code, "retryable": error.retryable}
            cure = f" {call.upstream.cure}" if isinstance(error, NotAuthorized) else ""
            return MCPError(types.INTERNAL_ERROR, f"{call.upstream.spec.name}: {error.message}{cure}", about)
        if method == "resources/read" and error.code == "resource-not-found":
            uri = (call.ctx.params or {}).get("uri")
            code, details = types.INVALID_PARAMS if is_modern(call.ctx) else _RESOURCE_NOT_FOUND, {"uri": uri}
        return MCPError(code, as_text(data.get("rpc_message")) or error.message, details)

    async def _until_asked(self, call: RelayedCall) -> Json:
        """Waits until a request has its result, or asks a client of the modern era something."""
        work = cast("asyncio.Task[Json]", call.work)
        try:
            await asyncio.wait((work, call.asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if work.done():
            return work.result()
        call.asked = asyncio.get_running_loop().create_future()
        state = _STATE + secrets.token_urlsafe(16)
        while len(self._suspended) >= _MOST_SUSPENDED:
            oldest = self._suspended.pop(next(iter(self._suspended)))
            if oldest.work is not None:
                oldest.work.cancel()
        self._suspended[state] = call
        work.add_done_callback(partial(self._ended, state))
        return {"resultType": "input_required", "inputRequests": call.open_questions(), "requestState": state}

    async def _resume(self, ctx: RequestContext, state: str, answers: Json) -> Json:
        call = self._suspended.get(state)
        if call is None or self._principal(ctx) != call.upstream.authorization:
            text = "This question has expired, or another process of the bridge asked it: call again."
            raise MCPError(types.INVALID_PARAMS, text)
        asked = {key: request["method"] for key, request in call.open_questions().items() if key in answers}
        try:
            given = {
                key: TypeAdapter(_RESULTS[method]).validate_python(answers[key], by_name=False)
                for key, method in asked.items()
            }
        except ValidationError:
            text = f"An answer is not a result of {' or '.join(asked.values())}: call again with one."
            raise MCPError(types.INVALID_PARAMS, text) from None
        del self._suspended[state]
        call.ctx = ctx
        for key, answer in given.items():
            call.questions[key][1].set_result(answer)
        if call.open_questions():
            call.ask()
        return await self._until_asked(call)

    def _ended(self, state: str, work: "asyncio.Task[Json]") -> None:
        """Keeps the outcome of a request that ended although its client was asked something, until that repeats it."""
        retrieve(work)
        work.get_loop().call_later(_KEPT_SECONDS, self._suspended.pop, state, None)

    async def aclose(self) -> None:
        works = [call.work for call in (*self._running.values(), *self._suspended.values()) if call.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def logged(self, upstream: Upstream, event: LogReceived) -> None:
        """Passes a log message on: to those whose requests run, else to all clients of the legacy era."""
        level: Any = event.level
        params = types.LoggingMessageNotificationParams(level=level, data=event.data, logger=event.logger)
        message = types.LoggingMessageNotification(params=params)
        running = [call.ctx for call in self._running.values() if call.upstream is upstream]
        for ctx in running or self._clients_of(upstream):
            if not is_modern(ctx) or (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY):
                send_aside(ctx.session.send_notification(message, ctx.request_id if running else None))

    def _clients_of(self, upstream: Upstream) -> list[RequestContext]:
        """Returns the connections of the legacy era for which this session is kept."""
        return [ctx for ctx in self._sessions.values() if self._principal(ctx) == upstream.authorization]

    def notified(self, upstream: Upstream, event: NotificationReceived) -> None:
        """Passes a notification on that the bridge does not know."""
        for ctx in self._clients_of(upstream):
            send_aside(connection_of(ctx).outbound.notify(event.method, event.params))

    async def answer(self, upstream: Upstream, question: PendingRequest) -> Any:
        """Answers a question of a server: by asking the client whose request led to it."""
        ctx = None
        if (call := self._cause(upstream, question)) is not None:
            ctx = call.ctx
        elif question.kind == "roots" and len(clients := self._clients_of(upstream)) == 1:
            ctx = clients[0]
        if ctx is None or not can_answer(ctx, METHODS[question.kind]):
            why = "The client of the bridge cannot answer" if ctx else "The bridge cannot tell whose call led to this"
            return [] if question.kind == "roots" else refusal(f"{why} {question.kind}.")
        asked = question.request
        given = {} if asked is None else asked.model_dump(by_alias=True, mode="json", exclude_none=True)
        request = {"method": METHODS[question.kind], "params": given}
        if not is_modern(ctx):
            try:
                return await _ask(ctx, _REQUESTS.validate_python(request))
            except MCPError as error:
                return error.error
        if call is None or call.work is None:
            return [] if question.kind == "roots" else refusal("The server has changed meanwhile: call again.")
        key = f"{question.kind}-{len(call.questions) + 1}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call.questions[key] = (request, answer)
        call.ask()
        return await answer

    def _cause(self, upstream: Upstream, question: PendingRequest) -> RelayedCall | None:
        """Returns the request that led to a question. If that is not certain, one of the only client that waits."""
        if question.call is not None:
            return self._running.get(question.call)
        calls = [call for call in self._running.values() if call.upstream is upstream]
        is_certain = len({_client_of(call.ctx) for call in calls}) == 1
        # Rather one that runs: a client may never repeat the one in which it was asked.
        return min(reversed(calls), key=lambda call: bool(call.open_questions())) if is_certain else None

    async def _answers_to(self, ctx: RequestContext, requests: Json) -> Json:
        """Asks a client of the legacy era what a server of the modern era wants to know."""
        answers: Json = {}
        for key, raw in requests.items():
            try:
                request = _REQUESTS.validate_python(raw)
            except ValidationError:
                text = f"The server asked something unknown: {as_dict(raw).get('method')}."
                raise MCPError(types.INTERNAL_ERROR, text) from None
            if not can_answer(ctx, request.method):
                text = f"The server asks for {request.method}, which this client has not."
                raise MCPError(types.INVALID_REQUEST, text)
            answers[key] = (await _ask(ctx, request)).model_dump(by_alias=True, mode="json", exclude_none=True)
        return answers


def _report(call: RelayedCall, progress: float, total: float | None, message: str | None) -> None:
    send_aside(call.ctx.session.report_progress(progress, total, message))


def send_aside(sending: Coroutine[Any, Any, None]) -> None:
    """Sends a notification that a client may do without. One that is gone does not matter."""
    asyncio.ensure_future(sending).add_done_callback(retrieve)


def is_modern(ctx: RequestContext) -> bool:
    """Returns whether a request was sent by a client of the modern era."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _capabilities(ctx: RequestContext) -> Json:
    """Returns what the client of a request can do. For one of the legacy era, the bridge follows tasks."""
    stated = ctx.session.client_capabilities
    known: Json = {} if stated is None else stated.model_dump(by_alias=True, mode="json", exclude_none=True)
    return known if is_modern(ctx) else {**known, "extensions": {**as_dict(known.get("extensions")), EXTENSION: {}}}


def _client_of(ctx: RequestContext) -> object:
    """Returns what tells clients apart. In the modern era each HTTP request without a token may be of another one."""
    if ctx.request is None:
        return connection_of(ctx).outbound
    token = ctx.request.headers.get("authorization") if is_modern(ctx) else None
    return token or connection_of(ctx)


def can_answer(ctx: RequestContext, method: str) -> bool:
    """Returns whether a client declares that it answers such questions."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and getattr(capabilities, method.partition("/")[0], None) is not None


async def _ask(ctx: RequestContext, request: types.InputRequest) -> Any:
    """Asks a client of the legacy era on its connection, beside the answer to its request if there is one."""
    related = None if ctx.request_id is None else ServerMessageMetadata(related_request_id=ctx.request_id)
    send: Callable[..., Awaitable[Any]] = ctx.session.send_request
    result_type: Any = _RESULTS[request.method]
    if request.method == "sampling/createMessage":
        result_type = types.CreateMessageResultWithTools if request.params.tools else types.CreateMessageResult
    return await send(request, result_type, metadata=related)
