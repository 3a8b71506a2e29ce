"""Tool calls that the server runs as tasks: `RemoteTask`, and `Tasks`, which follows them to their end.

A task outlives its connection, and with a state file this process, too. The client hears of it on a stream where the
server offers one, and asks at the server's own pace otherwise. A task ends for its caller when the server says so, no
longer knows it, or was out of reach for longer than it keeps the task: not with the limits of single requests.
"""

import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ErrorData, InputRequest, ListRootsRequest
from pydantic import TypeAdapter, ValidationError

from tidings import errors
from tidings._kit.backoff import Pauses, jittered
from tidings._kit.bounded_json import as_dict, as_float, as_int, as_text
from tidings.client.cache import ToolCall
from tidings.client.connection import Connection
from tidings.client.events import EventHub, TaskChanged
from tidings.client.failures import FAULT, answer_error, cleaned
from tidings.client.pending import Pending, PendingRequest
from tidings.client.queue import QueueEntry
from tidings.client.requests import OnProgress, Requests
from tidings.client.task_stream import TaskStream
from tidings.client.task_wire import TaskForm, TaskState, TaskStatus
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from tidings.client.calls import StartedCall
    from tidings.client.state_file import StateFile

_LEAST_POLL, _LONGEST_POLL, _USUAL_POLL = 0.1, 30.0, 2.0  # Seconds. The last is for servers that state none.
_CARRIED_POLL: Final = 30.0  # Seconds between looks at a task that a stream carries: the stream may be dead.
_RETRIES: Final = (0.5, 1.0, 2.0, 5.0, 15.0)
_MOST_REFUSALS: Final = 5  # Answers in a row that are errors without a name, before the task is given up.
_CANCEL_SECONDS: Final = 2.0  # For the server to hear that a task was cancelled.
_MOST_OUTDATED: Final = 2  # Statements in a row that count as older than the last one.
TASKS_KEPT: Final = "task"  # The kind of their rows in the state file.
_INPUT_REQUEST: Final[TypeAdapter[InputRequest]] = TypeAdapter(InputRequest)


class RemoteTask(Awaitable[ToolCall]):
    """A tool call that the server runs as a task. Its attributes show the last known state.

    Await it for what `call_tool` returns or raises. The client makes it: see `client.task` and `StartedCall.task`.
    """

    def __init__(self, owner: Any, task_id: str, form: TaskForm | None = None) -> None:
        self._owner: Tasks = owner  # No part of the public types.
        self.id: str = task_id
        self.form: TaskForm = form or TaskForm()
        self.tool: str | None = None
        """The tool that was called, if known."""
        self.arguments: Mapping[str, Any] | None = None
        self.call: StartedCall | None = None
        """The call that follows the task to its end, if there is one."""
        self.state: TaskState | None = None
        """The last state that the server reported to this process. None if there is none yet."""

    @property
    def status(self) -> TaskStatus | None:
        """The status. None if the server has not been asked yet."""
        return None if self.state is None else self.state.status

    @property
    def message(self) -> str | None:
        """The server's message about the status."""
        return None if self.state is None else self.state.message

    @property
    def over(self) -> bool:
        """True if the task has ended at the server."""
        return self.state is not None and self.state.over

    @property
    def created_at(self) -> datetime | None:
        return None if self.state is None else self.state.created_at

    @property
    def updated_at(self) -> datetime | None:
        return None if self.state is None else self.state.updated_at

    @property
    def ttl(self) -> float | None:
        """The seconds for which the server keeps the task, counted from its creation. None if there is no limit."""
        return None if self.state is None else self.state.ttl

    @property
    def poll_interval(self) -> float | None:
        """The interval, in seconds, at which the server asks to be polled."""
        return None if self.state is None else self.state.poll_interval

    @property
    def listening(self) -> bool:
        """True if the server currently announces changes to the task on a stream. Otherwise, the client polls."""
        return self._owner.stream.carries(self.id)

    @property
    def questions(self) -> list[PendingRequest]:
        """The questions of the task to the user of this process: oldest first, answered ones included."""
        return [] if self.call is None else self.call.questions

    async def refresh(self) -> "RemoteTask":
        """Asks the server once for the state of the task, and returns the task. The user is asked nothing.

        Raises:
            TaskLost: The server does not know the task.
            TidingsError: Anything else that went wrong.
        """
        owner = self._owner
        try:
            owner.absorb(self, await owner.look(self))
        except errors.TaskLost:
            owner.drop(self.id)
            raise
        owner.wake(self.id, look=False)
        return self

    def resume(self, on_progress: OnProgress | None = None) -> "StartedCall":
        """Follows the task to its end. Returns a call to await: the one that already follows the task, if any."""
        return self._owner.resume(self, on_progress)

    async def cancel(self) -> None:
        """Asks the server to cancel the task. The server may do so later, or never.

        Raises:
            TaskLost: The server does not know the task.
            TidingsError: Anything else that went wrong.
        """
        await self._owner.ask(self, "tasks/cancel")
        if not self._owner.wake(self.id):
            self._owner.drop(self.id)

    def __await__(self) -> Generator[Any, None, ToolCall]:
        return self.resume().__await__()

    def __repr__(self) -> str:
        return f"<RemoteTask {self.id} {self.status or 'not asked yet'}>"


@dataclass(eq=False, repr=False)
class Tasks:
    """The tasks of one client whose outcome it has not got yet. `clean` masks secrets in the server's words."""

    connection: Connection
    requests: Requests
    pending: Pending
    events: EventHub
    _: KW_ONLY
    clean: Callable[[str], str]
    resume: "Callable[[RemoteTask, OnProgress | None], StartedCall]"
    store: "StateFile | None" = None

    def __post_init__(self) -> None:
        self._known: dict[str, RemoteTask] = {}
        self._followers: dict[str, TaskFollower] = {}
        self._outdated: Counter[str] = Counter()  # For each task, the statements in a row that seemed to be older.
        self.stream = TaskStream(self.connection, self.requests.timeouts.request, heard=self._heard, look=self._carried)

    def restore(self, rows: Mapping[str, str]) -> None:
        """Takes over the tasks of earlier processes. Those that their server has forgotten by now are dropped."""
        for task_id, row in rows.items():
            try:
                saved = as_dict(json.loads(row))
            except (ValueError, RecursionError):
                saved = {}
            tool, ends = as_text(saved.get("tool")), as_float(saved.get("ends"))
            if not saved or (ends is not None and ends < time.time()):
                self.drop(task_id)
                continue
            task = self._known.setdefault(task_id, RemoteTask(self, task_id))
            task.tool, task.arguments = tool, as_dict(saved.get("arguments")) if tool else None

    def find(self, task_id: str) -> RemoteTask:
        """Returns a task by its id, whether it is known or not."""
        if not isinstance(task_id, str) or not task_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"The id of a task is a text, not {task_id!r}")
        return self._known.get(task_id) or RemoteTask(self, task_id)

    @property
    def known(self) -> list[RemoteTask]:
        return list(self._known.values())

    def new(self, state: TaskState, tool: str, arguments: Mapping[str, Any], form: TaskForm) -> RemoteTask:
        """Returns the task that a call has become."""
        task = RemoteTask(self, state.task_id, form)
        # One that is over already has its result only in the next answer.
        state = replace(state, status="working") if state.over else state
        task.tool, task.arguments, task.state = tool, arguments, state
        return task

    def _save(self, task: RemoteTask) -> None:
        if self.store is None or not task.form.outlives_session:
            return
        # The server may keep it for longer than it says now, but need not.
        ends = None if task.ttl is None else time.time() + task.ttl
        row = {"tool": task.tool, "arguments": task.arguments, "ends": ends}
        self.store.note_kept(TASKS_KEPT, task.id, json.dumps(row, default=str))

    def drop(self, task_id: str) -> None:
        self._known.pop(task_id, None)
        if self.store is not None:
            self.store.note_kept(TASKS_KEPT, task_id, None)

    async def finish(self, task: RemoteTask, entry: QueueEntry, seconds: float | None) -> CallToolResult:
        """Follows a task to its end, in place of the call `entry`, within `seconds` without news. Returns its result.

        If this side cancels the call, the server is asked to cancel the task. If it only gives up waiting, the task
        goes on, and can be resumed.
        """
        entry.seconds, entry.until = seconds or math.inf, math.inf
        deadline = math.inf if entry.holds else anyio.current_time() + entry.seconds
        entry.scope = anyio.CancelScope(deadline=deadline)
        if entry.cancel_reason is not None:
            entry.scope.cancel()
        follower = self._followers[task.id] = TaskFollower(self, task, entry)
        refused: Exception | None = None
        try:
            with entry.scope:
                is_new, self._known[task.id] = task.id not in self._known, task
                if is_new and self.store is not None:
                    self._save(task)
                    await self.store.flush()
                self.requests.queue.become_task(entry, task)
                self.events.emit(TaskChanged(task))
                refused = await follower.run()
            if not entry.scope.cancelled_caught and refused is None:
                return await self._outcome(task)
        except asyncio.CancelledError:
            await self._cancel_at_server(task)
            raise
        except (errors.TaskFailed, errors.TaskCancelled, errors.TaskLost):
            self.drop(task.id)
            raise
        finally:
            if self._followers.get(task.id) is follower:
                del self._followers[task.id]
        if refused is not None or isinstance(entry.cancel_reason, errors.RequestCancelled):
            await self._cancel_at_server(task)
        if refused is not None:  # This ends a plain call, too.
            raise cleaned(answer_error(refused, method=entry.method), self.clean) from None
        raise entry.cancel_reason or errors.RequestTimedOut(
            f"The task {task.id} had no news for {entry.seconds:g} s. It goes on at the server: await client.task(id) "
            "to follow it again, or cancel it. Give it longer with timeout=...",
            data={"task_id": task.id},
        )

    async def _outcome(self, task: RemoteTask) -> CallToolResult:
        state = task.state
        assert state is not None and state.over  # noqa: PT018, S101 - the follower has ended
        data: dict[str, Any] = {"task_id": task.id}
        if state.status == "cancelled":
            words = f": {state.message}" if state.message else "."
            raise cleaned(errors.TaskCancelled(f"The task {task.id} was cancelled{words}", data=data), self.clean)
        if state.status == "failed":
            error = as_dict(state.error)
            words = as_text(error.get("message")) or state.message or "the server gives no reason."
            data |= {"rpc_code": as_int(error.get("code")), "rpc_data": error.get("data")}
            raise cleaned(errors.TaskFailed(f"The task {task.id} failed: {words}", data=data), self.clean)
        self.drop(task.id)
        try:
            result = CallToolResult.model_validate(state.result, by_name=False)
        except ValidationError as invalid:  # It may quote a secret.
            raise cleaned(answer_error(invalid, method="tasks/get"), self.clean) from None
        # Checked as that of a plain call. Without a connection, it is let through.
        if (link := self.connection.link) is not None and task.tool is not None and not result.is_error:
            with contextlib.suppress(MCPError, ValidationError):
                try:
                    await link.session.validate_tool_result(task.tool, result)
                except RuntimeError as misfit:
                    raise link.explain(misfit, "tools/call") from misfit
        return result

    async def ask(
        self, task: RemoteTask, method: str, *, routine: bool = False, behalf: QueueEntry | None = None, **params: Any
    ) -> dict[str, Any]:
        """Sends a request about a task, and again if the connection was lost meanwhile."""
        given = {"taskId": task.id, **params}
        entry = self.requests.queue.add(method, given, aside=True, routine=routine)
        entry.on_behalf_of = behalf
        try:
            return await self.requests.run(entry, lambda link, _: link.send_raw(method, {**given}), safe=True)
        except errors.RequestFailed as error:
            if as_dict(error.data).get("rpc_code") == INVALID_PARAMS:
                raise self.lost(task, error.message) from error
            raise

    def lost(self, task: RemoteTask, why: str) -> TidingsError:
        text = (
            f"The outcome of the task {task.id} is unknown: {why.rstrip('.')}. Check what it did before you repeat it."
        )
        return errors.TaskLost(text, server=self.connection.name, data={"task_id": task.id})

    async def look(self, task: RemoteTask) -> TaskState:
        entry = None if task.call is None else task.call.entry
        state = await task.form.look(partial(self.ask, task, behalf=entry), lambda: self.wake(task.id))
        if state.task_id != task.id:
            text = f"Asked about the task {task.id}, the server told of {state.task_id!r}. {FAULT}"
            raise cleaned(errors.MalformedMessage(text, method="tasks/get", server=self.connection.name), self.clean)
        return state

    async def _cancel_at_server(self, task: RemoteTask) -> None:
        """Asks the server to cancel a task that nobody awaits any more. If it is out of reach, the task is kept."""
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True), contextlib.suppress(TidingsError):
            await self.ask(task, "tasks/cancel")
            self.drop(task.id)

    def absorb(self, task: RemoteTask, state: TaskState) -> None:
        """Takes the server's statement about a task, unless a newer one is known.

        The end of a task is always the newest. If several statements in a row seem to be older, the server's clock was
        set back.
        """
        before = task.state
        if before is not None and before.over:
            return
        old, new = before and before.updated_at, state.updated_at
        seems_older = old is not None and new is not None and new < old and not state.over
        if seems_older and self._outdated[task.id] < _MOST_OUTDATED:
            self._outdated[task.id] += 1
            return
        task.state = state
        del self._outdated[task.id]
        if task.id in self._known and (before is None or before.ttl != state.ttl):
            self._save(task)
        if before is None or (before.status, before.message, before.ttl) != (state.status, state.message, state.ttl):
            self.events.emit(TaskChanged(task))

    def _heard(self, state: TaskState) -> None:
        if (follower := self._followers.get(state.task_id)) is not None:
            if not state.lacks_outcome:
                self.absorb(follower.task, state)
            follower.in_contact()
            follower.wake(look=state.lacks_outcome)

    def _carried(self, task_id: str) -> None:
        if self.wake(task_id):
            self.events.emit(TaskChanged(self._followers[task_id].task))

    def wake(self, task_id: str, *, look: bool = True) -> bool:
        """Ends the pause of whoever follows a task. Returns False if nobody does."""
        if (follower := self._followers.get(task_id)) is not None:
            follower.wake(look=look)
        return follower is not None


class TaskFollower:
    """Follows one task until it is over, and asks its questions."""

    def __init__(self, tasks: Tasks, task: RemoteTask, entry: QueueEntry) -> None:
        self._tasks, self.task, self._entry = tasks, task, entry
        self._news = asyncio.Event()
        self._is_stale = True
        self._contact = asyncio.get_running_loop().time()
        self._pauses = Pauses(_RETRIES, below=0.5)
        self._messages = 0
        self._reported: str | None = None
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._refused: Exception | None = None

    def wake(self, *, look: bool) -> None:
        """Ends its pause. With `look`, the server is asked for the state."""
        self._is_stale = self._is_stale or look
        self._news.set()

    def in_contact(self) -> None:
        self._contact = asyncio.get_running_loop().time()
        self._pauses.reset()

    async def run(self) -> Exception | None:
        """Returns None when the task is over, or why a question got no answer. Raises if its end is unknown."""
        if self.task.form.outlives_session:
            self._tasks.stream.want(self.task.id)
        try:
            while True:
                await self._report()
                if self.task.over:
                    return None
                self._ask_questions()
                if self._refused is not None:
                    return self._refused
                if self._is_stale:
                    await self._look()
                else:
                    interval = min(max(self.task.poll_interval or _USUAL_POLL, _LEAST_POLL), _LONGEST_POLL)
                    pause = jittered(_CARRIED_POLL if self.task.listening else interval, above=0.1)
                    self._is_stale = not await self._hears_within(pause)
        finally:
            self._tasks.stream.unwant(self.task.id)
            self.task.form.close()
            for asking in self._asked.values():
                asking.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def _hears_within(self, seconds: float) -> bool:
        """Waits for news. Returns False if there are none, or if they say to look."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        finally:
            self._news.clear()
        return not self._is_stale

    async def _look(self) -> None:
        self._is_stale = False
        try:
            state = await self._tasks.look(self.task)
        except TidingsError as error:
            await self._hears_within(self._pause_after(error))
            self._is_stale = True
        else:
            self.in_contact()
            self._tasks.absorb(self.task, state)

    def _pause_after(self, error: TidingsError) -> float:
        """Returns the seconds after which to look again, or raises the error if that would be in vain."""
        pause = self._pauses.next() + (error.retry_after or 0)
        is_vague = isinstance(error, errors.RequestFailed) and self._pauses.failures < _MOST_REFUSALS
        if not error.retryable and not is_vague:
            raise error
        out_of_reach = asyncio.get_running_loop().time() - self._contact
        if self.task.ttl is not None and out_of_reach > self.task.ttl:
            why = f"the server was out of reach for {out_of_reach:.0f} s, and keeps it for {self.task.ttl:g} s"
            raise self._tasks.lost(self.task, f"{why} ({error.message})") from error
        return pause

    async def _report(self) -> None:
        message = self.task.message
        if message and message != self._reported and self._entry.on_progress is not None:
            self._reported = message
            self._messages += 1
            await self._entry.on_progress(self._messages, None, message)

    def _ask_questions(self) -> None:
        asked: Mapping[str, Any] = {} if self.task.state is None else self.task.state.asked
        for key, asking in self._asked.items():
            if key not in asked:  # It was answered elsewhere, or is no longer of interest.
                asking.cancel()
        for key, request in asked.items():
            if key not in self._asked:
                self._asked[key] = asyncio.create_task(self._ask(key, request), name=f"tidings question {key}")

    async def _ask(self, key: str, given: Any) -> None:
        try:
            try:
                request = _INPUT_REQUEST.validate_python(given, by_name=False)
            except ValidationError:
                kind = as_text(as_dict(given).get("method"))
                text = f"The task {self.task.id} asks something that the protocol does not know ({kind})."
                raise errors.MalformedMessage(f"{text} {FAULT}") from None
            pending = self._tasks.pending
            if not pending.asks and not (pending.has_roots and isinstance(request, ListRootsRequest)):
                text = f"The task {self.task.id} asks for {request.method}, and this client answers nothing."
                raise errors.NotSupported(f"{text} Pass answer=... to connect.", method=request.method)
            answer = await pending.answer(request, self._entry)
            if isinstance(answer, ErrorData):
                raise MCPError.from_error_data(answer)
            await self._send(key, answer.model_dump(by_alias=True, mode="json", exclude_none=True))
        except (MCPError, TidingsError) as error:
            self._refused = self._refused or error
        self.wake(look=True)

    async def _send(self, key: str, answer: dict[str, Any]) -> None:
        """Sends an answer until it has arrived. Sent twice, the second is ignored."""
        pauses = Pauses(_RETRIES, below=0.5)
        while True:
            try:
                await self._tasks.ask(self.task, "tasks/update", behalf=self._entry, inputResponses={key: answer})
            except TidingsError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(pauses.next() + (error.retry_after or 0))
            else:
                return
