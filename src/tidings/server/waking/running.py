"""Tools that run as tasks: the call goes on after it is answered, on the process that was called.

The record of the task is where the tool and its client meet: progress becomes its status message, questions wait in it
for `tasks/update`, on whichever replica, and the result, an error or a cancellation ends it. Questions before the work
begins belong to the call: the task is created when they are over. A process that runs tasks holds a lease: a task
whose process has lost it was broken off, and whoever asks for it next ends it as failed.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, Literal, cast

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext
from mcp.server.runner import aclose_shielded, modern_error_data
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import methods

from tidings._kit.python_seam import leave_tasks
from tidings._kit.tasks import Background
from tidings._kit.text import counted, duration, shortened, size_text
from tidings.bus import Records
from tidings.bus.shared import LARGEST_VALUE
from tidings.errors import LimitReached, TransportError
from tidings.server.adapters import Adapter
from tidings.server.budget import Place
from tidings.server.config import Waking
from tidings.server.core import Core, rpc_error, scope_of, weight_of
from tidings.server.policy import RequestContext, client_key, holder_of
from tidings.server.stop import CALLS, FLUSH, StopBudget
from tidings.server.waking.store import Json, TaskRecord, TaskStore, UnknownTask

logger = logging.getLogger(__name__)

TaskMode = bool | Literal["required"]
"""True for a tool that runs as a task for clients that can follow one; "required" refuses the others."""

LEASE_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 5.0  # Between two looks at the lease of another process, and between two renewals of one's own.

_RUN_BYTES: Final = 32_000  # The tasks of asyncio, the SDK's context, and the request.
_FIRST_ROUND: Final = 1.0  # Seconds in which a tool that may ask before its work does so.
_TOGETHER: Final = 0.02  # Seconds in which several questions become one write.
_RETRY_SECONDS: Final = 0.5
_LONGEST_NAME: Final = 100  # Characters of the key of a question.
_LONGEST_TIMER: Final = 86_400.0
_MUCH: Final = 0.5  # Of what a client may hold.
_SHORT_KEEP: Final = 600.0  # Seconds for which results are kept for a client that has so much.

_DIED: Final = (
    "The process that ran this task has ended, or lost its bus, before the task was over. It may have taken effect or "
    "not. Call the tool again if that does no harm."
)
_STOPPED: Final = (
    "The server was stopped before this task was over. It may have taken effect or not. Call the tool again if that "
    "does no harm."
)


class RunnerLease:
    """Shows other processes that this one is alive, as long as it runs tasks."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.name = ""  # Of this process; a new one after each stop.
        self._renewed = 0.0
        self._seen: dict[str, tuple[float, bool]] = {}

    async def renew(self) -> None:
        self.name = self.name or secrets.token_hex(8)
        now = time.monotonic()
        if now - self._renewed >= LOOK_SECONDS / 2:
            await self._records.put(_place(self.name), b"", seconds=LEASE_SECONDS)
            self._renewed = now

    async def is_held(self, name: str) -> bool:
        now = time.monotonic()
        looked, alive = self._seen.get(name, (0.0, True))
        if now - looked < LOOK_SECONDS and looked:
            return alive
        with suppress(TransportError):
            alive = await self._records.get(_place(name)) is not None
        if len(self._seen) > 1_000:
            self._seen.clear()
        self._seen[name] = (now, alive)
        return alive

    async def leave(self) -> None:
        name, self.name, self._renewed = self.name, "", 0.0
        if name:
            with suppress(TransportError):
                await self._records.delete(_place(name))


class RunningTasks:
    """The tools that can run as tasks, and those that do so on this process."""

    def __init__(self, core: Core, store: TaskStore, waking: Waking, adapter: Adapter) -> None:
        self._core = core
        self.store = store
        self.waking = waking
        self._adapter = adapter
        self._lease = RunnerLease(core.records)
        self._runs: dict[str, TaskRun] = {}
        self._counts: Counter[str] = Counter()
        self._kept: dict[Place, asyncio.TimerHandle] = {}  # For results that can still be fetched.
        self._renewing: asyncio.Task[None] | None = None
        self.modes: dict[str, TaskMode] = {}

    async def call(self, ctx: RequestContext, call_next: CallNext) -> Json:
        """Returns a new task, or the questions of the tool if it has some before its work. Raises `LimitReached`."""
        params = cast("Json", ctx.params)
        methods.validate_client_request(ctx.method, ctx.protocol_version, params)
        name: str = params["name"]
        client = client_key(scope_of(ctx))
        running, most = self._counts[client], self.waking.running_per_client
        if running >= most:
            raise LimitReached(
                f"{counted(running, 'task')} of this client run, and it may have {most}. Wait for one, or cancel it.",
                data={"limit": "running_per_client", "max": most, "scope": "client"},
            )
        place = self._core.admit(client)
        place.keep("run", _RUN_BYTES + weight_of(ctx))
        key, task_id = self.store.new_id(name, holder_of(scope_of(ctx)))
        run = self._runs[key] = TaskRun(ctx, call_next, self, key, place)
        self._counts[client] += 1
        run.task.add_done_callback(partial(self._over, run, name))
        try:
            if self._adapter.may_ask(name) and (asked := await run.first_round(_FIRST_ROUND)) is not None:
                return asked
            run.is_task = True
            await self._lease.renew()
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.get_running_loop().create_task(self._renew())
            now, waking = time.time(), self.waking
            ends = now + waking.longest_task + waking.keep
            record = TaskRecord(kind="call", created=now, ends=ends, poll=waking.poll, runner=self._lease.name)
            await self.store.create(key, record)
            run.created()
        except BaseException:
            run.cancel()
            raise
        return {"resultType": "task", **record.summary(task_id)}

    def _over(self, run: "TaskRun", name: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("The task of the tool %s could not be served.", name, exc_info=error)
        self._runs.pop(run.key, None)
        run.place.keep("run", 0)
        if run.is_stored and not self._core.stopping:
            seconds = min(self.keep_seconds(run.client), _LONGEST_TIMER)
            self._kept[run.place] = task.get_loop().call_later(seconds, self._forget, run.place)
        else:
            run.place.release()
        self._counts[run.client] -= 1
        if not self._counts[run.client]:
            del self._counts[run.client]

    def keep_seconds(self, client: str) -> float:
        """Returns for how long a result that comes now is kept. A client that has many has to fetch new ones sooner."""
        keep = self.waking.keep
        return keep if self._core.budget.fill(client) < _MUCH else min(keep, _SHORT_KEEP)

    def _forget(self, place: Place) -> None:
        self._kept.pop(place).cancel()
        place.release()

    async def _renew(self) -> None:
        while self._runs:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(TransportError):
                await self._lease.renew()

    def runs(self, key: str) -> bool:
        return key in self._runs

    async def checked(self, key: str, record: TaskRecord) -> TaskRecord:
        """Returns the task. It has failed if its process has ended."""
        if record.is_final or key in self._runs:
            return record
        if record.runner != self._lease.name and await self._lease.is_held(record.runner):
            return record
        return await self.store.change(key, partial(_broken_off, _DIED, self.waking.keep))

    def begin_stop(self) -> None:
        """Lets the event loop end without the tools that run: see `RunningCalls.begin_stop`."""
        leave_tasks(self._tasks())

    async def end(self, budget: StopBudget) -> None:
        """Waits for the tools that run, and ends the tasks of those that take too long as failed."""
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=budget.left(CALLS))
        if not self._runs:
            return
        logger.warning("The stop breaks off %s.", counted(len(self._runs), "task"))
        writing = [asyncio.ensure_future(run.fail(_STOPPED)) for run in self._runs.values()]
        tasks = self._tasks()
        _, late = await asyncio.wait([*writing, *tasks], timeout=budget.left(FLUSH))
        for each in late.intersection(writing):
            each.cancel()  # The lease ends with this process, and that ends the task.
        self._core.broken_off.add(late.intersection(tasks))

    def break_off(self) -> None:
        """Breaks off what still runs, because there is no time for `end`."""
        self._core.broken_off.add(self._tasks())

    async def aclose(self) -> None:
        for place in tuple(self._kept):
            self._forget(place)
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self._lease.leave()

    def _tasks(self) -> list["asyncio.Task[None]"]:
        return [run.task for run in self._runs.values() if not run.task.done()]


class TaskRun:
    """One call of a tool that runs as a task. It is the tool's channel to the client: `DispatchContext` of the SDK."""

    def __init__(self, ctx: RequestContext, call_next: CallNext, tasks: RunningTasks, key: str, place: Place) -> None:
        session = ctx.session
        info = session.client_params.client_info if session.client_params is not None else None
        self._connection = Connection.from_envelope(
            ctx.protocol_version, info, session.client_capabilities, outbound=self
        )
        self._ctx = replace(
            ctx, session=ServerSession(self, self._connection), close_sse_stream=None, close_standalone_sse_stream=None
        )
        self._call_next = call_next
        self._tasks = tasks
        self._store = tasks.store
        self.key = key
        self.client = client_key(scope_of(ctx))
        self.place = place
        self._scope = anyio.CancelScope()
        self._started = asyncio.Event()  # It asks or reports, or is over: from here on it cannot ask before its work.
        self._stored = asyncio.Event()
        self._outcome: Callable[[TaskRecord], TaskRecord] | None = None
        self._asked_first: Json | None = None
        self._numbers = count(1)
        self._open: Json = {}  # The questions without an answer, by key.
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._message: str | None = None
        self._news, self._asks = asyncio.Event(), asyncio.Event()
        self._helpers = Background()
        self._timer: asyncio.TimerHandle | None = None
        self.is_task = self.is_stored = False
        # Of the channel.
        headers = None if ctx.request is None else ctx.request.headers
        self.transport = TransportContext(kind="task", can_send_request=True, headers=headers)
        self.can_send_request = True
        self.request_id = ctx.request_id
        self.message_metadata: MessageMetadata = None
        self.cancel_requested = anyio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def first_round(self, seconds: float) -> Json | None:
        """Returns the result that requires input, if the tool returns one before it begins its work."""
        with anyio.move_on_after(seconds):
            await self._started.wait()
        return self._asked_first

    def created(self) -> None:
        longest = self._tasks.waking.longest_task
        text = f"The tool took longer than {duration(longest)}, and was broken off."
        self._timer = asyncio.get_running_loop().call_later(longest, lambda: self._helpers.start(self.fail(text)))
        self._store.watch(self.key, self._changed)
        self._helpers.start(self._report())
        self.is_stored = True
        self._stored.set()

    def cancel(self) -> None:
        """Breaks the tool off. One in a thread goes on, and is not waited for."""
        self.cancel_requested.set()
        self._scope.cancel()
        self._stored.set()

    async def fail(self, text: str) -> None:
        """Ends the task as failed, and breaks the tool off."""
        try:
            with suppress(UnknownTask, TransportError):
                await self._store.change(self.key, partial(_broken_off, text, self._tasks.waking.keep))
        finally:
            self.cancel()

    async def _run(self) -> None:
        try:
            with self._scope:
                self._outcome = await self._call()
            self._started.set()
            if self._outcome is not None:
                await self._stored.wait()
                await self._finish(self._outcome)
        finally:
            self._store.unwatch(self.key, self._changed)
            if self._timer is not None:
                self._timer.cancel()
            self._helpers.cancel()
            await aclose_shielded(self._connection)

    async def _call(self) -> Callable[[TaskRecord], TaskRecord] | None:
        """Returns the end of the task; None if the tool has asked something before it began to work."""
        ctx = self._ctx
        try:
            while True:
                result = cast("Json", await self._call_next(ctx))
                if result.get("resultType") != "input_required":
                    return lambda record: record.completed(result)
                if not self.is_task:
                    self._asked_first = result
                    return None
                answers = await self._ask(result.get("inputRequests") or {})
                again = {"inputResponses": answers, "requestState": result.get("requestState")}
                params = {**(ctx.params or {}), **{name: each for name, each in again.items() if each is not None}}
                ctx = replace(ctx, params=params)
        except asyncio.CancelledError:
            if self._scope.cancel_called or self.task.cancelling():
                raise
            error = types.ErrorData(code=types.INTERNAL_ERROR, message="The tool has cancelled itself.")
        except Exception as failure:  # noqa: BLE001 - the SDK logs it, and tells the client no more than it may know
            error = modern_error_data(failure)
        return lambda record: record.failed(error.model_dump(mode="json", exclude_none=True))

    async def _finish(self, outcome: Callable[[TaskRecord], TaskRecord]) -> None:

        def end(record: TaskRecord) -> TaskRecord:
            over = outcome(record)
            try:
                self._hold(len(bytes(over)))
            except LimitReached as error:
                refused = rpc_error(error).error
                over = record.failed(refused.model_dump(mode="json", exclude_none=True))
            return over.kept_for(self._tasks.keep_seconds(self.client))

        with suppress(UnknownTask):
            while True:
                try:
                    await self._store.change(self.key, end)
                    break
                except TransportError:
                    await asyncio.sleep(_RETRY_SECONDS)

    def _hold(self, size: int) -> None:
        """Holds this much for the record of the task. Raises `LimitReached`."""
        if size > LARGEST_VALUE:
            raise LimitReached(
                f"The result takes {size_text(size)}, and a task keeps at most {size_text(LARGEST_VALUE)}. Let the "
                "tool return less, for example a link to a resource.",
                data={"limit": "result", "max": LARGEST_VALUE, "scope": "task"},
            )
        self.place.keep("result", size)

    def _changed(self, _: str) -> None:
        self._helpers.start(self._look())

    async def _look(self) -> None:
        """Takes the answers from the record, and ends the tool if the task is over."""
        while True:
            try:
                record = await self._store.find(self.key)
            except TransportError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except UnknownTask:
                self.cancel()
                return
            for key, answer in record.answers.items():
                if (waiting := self._answers.get(key)) is not None and not waiting.done():
                    waiting.set_result(answer)
            if record.is_final and self._outcome is None:
                self.cancel()
            return

    async def _report(self) -> None:
        """Writes progress and questions into the record, not too often."""
        while True:
            await self._news.wait()
            await asyncio.sleep(_TOGETHER)
            self._news.clear()
            self._asks.clear()
            try:
                await self._store.change(self.key, self._with_news)
            except UnknownTask:
                return
            except TransportError:
                self._news.set()
            except ValueError as error:  # It is too large.
                for waiting in self._answers.values():
                    if not waiting.done():
                        waiting.set_exception(MCPError(types.INTERNAL_ERROR, f"This cannot be asked. {error}"))
            with anyio.move_on_after(self._tasks.waking.poll):  # Progress may be reported a thousand times a second.
                await self._asks.wait()

    def _with_news(self, record: TaskRecord) -> TaskRecord:
        if self._message is not None and self._message != record.message:
            record = record.saying(self._message)
        if {*self._open} != {*record.asked, *record.answers}:
            record = record.asking(self._open)
        return record

    async def _ask(self, requests: Mapping[str, Json]) -> Json:
        """Returns the answers of the client to `requests`, by the same keys."""
        self._started.set()
        for request in requests.values():
            _check_answerable(request, self._connection.client_capabilities or types.ClientCapabilities())
        loop = asyncio.get_running_loop()
        names = {key: f"{shortened(key, _LONGEST_NAME)}-{next(self._numbers)}" for key in requests}
        for key, name in names.items():
            self._open[name] = requests[key]
            self._answers[name] = loop.create_future()
        self._news.set()
        self._asks.set()
        try:
            return {key: await self._answers[name] for key, name in names.items()}
        finally:
            for name in names.values():
                del self._open[name], self._answers[name]
            self._news.set()  # What is not answered is no longer asked.
            self._asks.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        """Asks the client, as the SDK does for `ctx.elicit` and the like."""
        request: Json = {"method": method} if params is None else {"method": method, "params": dict(params)}
        name = method.partition("/")[0]
        try:
            async with asyncio.timeout((opts or {}).get("timeout")):
                return (await self._ask({name: request}))[name]
        except TimeoutError:
            raise MCPError(types.REQUEST_TIMEOUT, f"{method} was not answered in time.") from None

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Drops a notification: a task has none but its status."""
        if method == "notifications/progress" and params is not None:
            await self.progress(params["progress"], params.get("total"), params.get("message"))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._started.set()
        self._message = message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
        self._news.set()


def _check_answerable(request: Json, able: types.ClientCapabilities) -> None:
    """Raises `MCPError` if a client has not declared that it answers such requests."""
    params: Json = request.get("params") or {}
    forms = able.elicitation is not None and (able.elicitation.form is not None or able.elicitation.url is None)
    urls = able.elicitation is not None and able.elicitation.url is not None
    match request.get("method"), params.get("mode", "form"):
        case "elicitation/create", "url":
            answers, needed = urls, {"elicitation": {"url": Json()}}
        case "elicitation/create", _:
            answers, needed = forms, {"elicitation": {"form": Json()}}
        case "sampling/createMessage", _:
            answers, needed = able.sampling is not None, {"sampling": Json()}
        case "roots/list", _:
            answers, needed = able.roots is not None, {"roots": Json()}
        case method, _:
            raise MCPError(types.METHOD_NOT_FOUND, f"A task cannot ask {method!r}.")
    if not answers:
        text = f"The client of this task has not declared that it answers {request['method']}."
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, text, {"requiredCapabilities": needed})


def _broken_off(text: str, keep: float, record: TaskRecord) -> TaskRecord:
    return record.failed({"code": types.INTERNAL_ERROR, "message": text}).kept_for(keep)


def _place(name: str) -> str:
    return f"runner/{name}"
