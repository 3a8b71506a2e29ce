"""Tasks on the command line: `tidings task`, and the end of a `tidings call` whose tool runs as a task."""

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from tidings._kit.bounded_json import as_dict, as_dicts, as_float, as_text
from tidings._kit.text import duration, harmless, one_line
from tidings.cli.contents import dumped, show_blocks, show_result
from tidings.cli.conversation import converse
from tidings.cli.exits import SERVER, OneShotFailed, exit_code_of
from tidings.cli.oneshot import OneShot, OneShotOptions, one_shot
from tidings.cli.terminal import DrawnLine, option, styled, table
from tidings.errors import NotSupported, RequestFailed, RequestTimedOut, TaskLost

if TYPE_CHECKING:
    from tidings.cli.conversation import Client
    from tidings.cli.live_conversation import LiveConversation
    from tidings.client.calls import StartedCall
    from tidings.client.live import LiveClient
    from tidings.client.tasks import RemoteTask

_INVALID_PARAMS: Final = -32602
_SHORT: Final = 40  # Characters of a status that is drawn in one line with the rest.


class ProgressLine:
    """Shows the progress of a call, or of its task. A line on a terminal is cleared at the end."""

    def __init__(self, options: OneShotOptions, *, lines: bool) -> None:
        self._as_json = options.as_json
        self._line = None if lines else DrawnLine()
        self._task: RemoteTask | None = None
        self._said: object = None
        self._began = time.monotonic()

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        if self._task is not None:  # Its words are shown as those of the task.
            return
        if self._line is None and self._as_json:
            event = {"progress": progress, "total": total, "message": message}
            click.echo(json.dumps({key: value for key, value in event.items() if value is not None}))
            return
        share = f"{progress:g}" if not total else f"{progress:g}/{total:g} ({100 * progress / total:.0f} %)"
        self._say(one_line(f"{share} {message or ''}"))

    def show_task(self, task: "RemoteTask") -> None:
        self._task = task
        if self._line is not None:
            if task.message and task.message != self._said and len(task.message) > _SHORT and self._line.shows:
                self._line.clear()
                click.echo(harmless(task.message), err=True)  # As a whole: the drawn line would cut it.
                self._said = task.message
            self.draw_task()
            return
        said = (task.status, task.message)
        if said == self._said or task.status is None:
            return
        if self._as_json:
            click.echo(json.dumps({"task": task_facts(task)}))
        else:
            if self._said is None:
                self._say(f"task {task.id}")
            self._say(one_line(f"{_words(task.status)} {task.message or ''}"))
        self._said = said

    def draw_task(self) -> None:
        """Draws the status of the task, and for how long it runs."""
        if self._task is not None and self._line is not None and not self._task.over:
            status = _words(self._task.status or "working")
            passed = duration(time.monotonic() - self._began)
            words = "" if self._said == self._task.message else f"  {self._task.message or ''}"
            self._line.draw(one_line(f"{status} {passed}{words}  (Ctrl-C cancels the task)"))

    def _say(self, text: str) -> None:
        if self._line is None:
            click.echo(harmless(text), err=True)
        else:
            self._line.draw(text)

    def close(self) -> None:
        if self._line is not None:
            self._line.clear()


def _words(status: str) -> str:
    return status.replace("_", " ")


def follow(
    conversation: "LiveConversation",
    start: "Callable[[LiveClient], StartedCall]",
    line: ProgressLine,
    *,
    detach: bool = False,
) -> "dict[str, Any] | RemoteTask":
    """Returns the result of a call or a task; with `detach`, the task, as soon as there is one. Ctrl-C cancels it."""
    from tidings.cli.live_conversation import plain

    begun: list[StartedCall] = []

    async def followed() -> "dict[str, Any] | RemoteTask":
        begun.append(call := start(conversation.client))
        with _shown(conversation.client, call, line):
            if detach and (task := await _task_of(conversation.client, call)) is not None:
                return task
            made = await call
        return {} if made.result is None else plain(made.result)

    try:
        return conversation.run(followed())
    except RequestTimedOut as error:
        if (task_id := as_text(as_dict(error.data).get("task_id"))) is None:
            raise
        text = f"The task had no news within --timeout, and goes on at the server. {_how_to_follow(task_id)}"
        raise OneShotFailed(text, exit_code=exit_code_of(error), who=SERVER, code=error.code, data=error.data) from None
    except KeyboardInterrupt:
        line.close()
        if begun and (task := begun[0].task) is not None:
            goes_on = any(each.id == task.id for each in conversation.client.tasks)
            text = (
                f"The task goes on at the server. {_how_to_follow(task.id)}" if goes_on else "The task was cancelled."
            )
            click.echo(f"\n{text}" if sys.stderr.isatty() else text, err=True)
        raise


@contextlib.contextmanager
def _shown(client: "LiveClient", call: "StartedCall", line: ProgressLine) -> Generator[None]:
    """Shows the progress of a call meanwhile."""
    import asyncio

    from tidings.client.events import PendingAdded, ProgressMade, TaskChanged

    async def tick() -> None:
        while True:
            await asyncio.sleep(1.0)
            if call.state != "asking":
                line.draw_task()

    def made(event: ProgressMade) -> None:
        if event.entry is call.entry:
            line.show(event.progress, event.total, event.message)

    def changed(event: TaskChanged) -> None:
        if event.task is call.task:
            line.show_task(event.task)

    with contextlib.ExitStack() as stack:
        stack.callback(client.on(ProgressMade, made))
        stack.callback(client.on(TaskChanged, changed))
        stack.callback(client.on(PendingAdded, lambda _: line.close()))  # The question begins a line of its own.
        stack.callback(asyncio.create_task(tick()).cancel)
        yield


async def _task_of(client: "LiveClient", call: "StartedCall") -> "RemoteTask | None":
    """Waits until a call has become a task. Returns None if it has ended without."""
    import asyncio

    from tidings.client.events import RequestChanged, TaskChanged

    news = asyncio.Event()
    with contextlib.ExitStack() as stack:
        for kind in (RequestChanged, TaskChanged):
            stack.callback(client.on(kind, lambda _: news.set()))
        while call.task is None and not call.entry.over:
            await news.wait()
            news.clear()
    return call.task


def _how_to_follow(task_id: str) -> str:
    """Names the command that follows a task, with the target of the running command."""
    target = click.get_current_context().params["target"]
    words = [target, task_id, "--wait"] if isinstance(target, str) else [task_id, "--wait", "--", *target]
    return f"Follow it with: {harmless(shlex.join(['tidings', 'task', *words]))}"


def task_facts(task: "RemoteTask") -> dict[str, Any]:
    """Returns a task as the protocol describes it."""

    def milliseconds(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * 1000)

    facts = {
        "taskId": task.id,
        "status": task.status,
        "statusMessage": task.message,
        "createdAt": None if task.created_at is None else task.created_at.isoformat(),
        "lastUpdatedAt": None if task.updated_at is None else task.updated_at.isoformat(),
        "ttlMs": milliseconds(task.ttl),
        "pollIntervalMs": milliseconds(task.poll_interval),
    }
    return {name: value for name, value in facts.items() if value is not None}


def show_detached(options: OneShotOptions, task: "RemoteTask") -> None:
    """Prints the id of a task that goes on."""
    if options.as_json:
        click.echo(dumped(task_facts(task)))
    else:
        click.echo(harmless(task.id) if sys.stdout.isatty() else task.id)
    if options.is_command:
        text = "The server ends now. Only a task that it keeps on disk goes on, when it is started again."
        click.echo(text, err=True)
    click.echo(_how_to_follow(task.id), err=True)


def no_tasks_by_id() -> OneShotFailed:
    """Returns the end of a command that needs the task of another connection, which the legacy era does not have."""
    return OneShotFailed(
        "This server speaks a protocol of the legacy era, in which a task belongs to the connection that began it. "
        "Let tidings call wait for it, without --detach.",
        exit_code=exit_code_of(NotSupported("")),
        who=SERVER,
        code=NotSupported.code,
    )


@one_shot("task", cls=OneShot)
@click.argument("task_id", metavar="ID")
@option("--wait", "Follow the task to its end, answer its questions, and print its result.")
@option("--cancel", "Ask the server to cancel the task.")
@option("-o --output=FILE", "With --wait: save binary content to this file or folder.")
@option("--progress", "With --wait: print each status to standard error, or as JSON Lines with --json.")
def command(
    options: OneShotOptions, task_id: str, *, wait: bool, cancel: bool, output: str | None, progress: bool
) -> None:
    """Show, follow or cancel a tool call that runs as a task.

    ID is the id that tidings call --detach printed, or that of a task that another client started.
    """
    if wait and cancel:
        raise click.UsageError("--wait and --cancel exclude each other.")
    if not wait:
        converse(options, lambda client: _look(options, client, task_id, cancel=cancel))
        return
    from tidings.cli.live_conversation import LiveConversation

    line = ProgressLine(options, lines=progress)
    with LiveConversation(options) as conversation, contextlib.closing(line):
        if conversation.server.era == "legacy":
            raise no_tasks_by_id()
        result = follow(conversation, lambda client: client.task(task_id).resume(), line)
    show_result(as_dict(result), output, as_json=options.as_json, events=progress)


def _look(options: OneShotOptions, client: "Client", task_id: str, *, cancel: bool) -> None:
    if client.server.era == "legacy":
        raise no_tasks_by_id()
    if cancel:
        _ask(client, "tasks/cancel", task_id)
    try:
        task = _ask(client, "tasks/get", task_id)
    except TaskLost:
        if not cancel:
            raise
        task = {"taskId": task_id, "status": "cancelled"}  # The server forgot it at once.
    if options.as_json:
        click.echo(dumped(task))
        return
    status = as_text(task.get("status")) or "?"
    rows = [("status", _words(status)), ("words", as_text(task.get("statusMessage")) or ""), *_times(task)]
    for key, asked in as_dict(task.get("inputRequests")).items():
        question = as_dict(asked)
        rows.append(("asks", f"{as_dict(question.get('params')).get('message') or question.get('method') or key}"))
    rows.append(("error", as_text(as_dict(task.get("error")).get("message")) or ""))
    shown = [(name, one_line(harmless(value))) for name, value in rows if value]
    table(shown, ("dim", ""), sys.stdout)
    if cancel and status == "working":
        click.echo("The server was asked to cancel it, and has not done so yet.", err=True)
    if blocks := as_dicts(as_dict(task.get("result")).get("content")):
        click.echo(styled("result", "dim"))
        show_blocks(blocks)


def _times(task: dict[str, Any]) -> list[tuple[str, str]]:
    now, rows = time.time(), list[tuple[str, str]]()
    created, ttl = _time(task.get("createdAt")), as_float(task.get("ttlMs"))
    for name, at in (("began", created), ("changed", _time(task.get("lastUpdatedAt")))):
        if at is not None:
            rows.append((name, f"{duration(max(now - at, 0.0))} ago"))
    if ttl is None and created is not None:
        rows.append(("kept", "without limit"))
    elif ttl is not None and created is not None:
        left = created + ttl / 1000 - now
        rows.append(("kept", f"for {duration(left)} more" if left > 0 else "no longer than now"))
    return rows


def _time(value: object) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(as_text(value) or "").timestamp()
    return None


def _ask(client: "Client", method: str, task_id: str) -> dict[str, Any]:
    try:
        return client.request(method, {"taskId": task_id})
    except RequestFailed as error:
        if as_dict(error.data).get("rpc_code") != _INVALID_PARAMS:
            raise
        cause = error.message.rstrip(".")
        text = f"The server does not know this task: {cause}. Check the id, and that the credentials are the same."
        raise TaskLost(text, method=method, data={"task_id": task_id}) from None
