"""Tasks and other requests: their state, progress, result or error, and who is at fault."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from textual.binding import Binding, BindingType

from tidings._kit.bounded_json import as_dict, is_cut, shown
from tidings._kit.text import rough_duration
from tidings.inspector.tui.screens.screen import EntrySource, Pane, SourcesPane
from tidings.inspector.tui.widgets.bars import Drawn, Line, clock, one_line, size, took
from tidings.inspector.tui.widgets.lists import Table
from tidings.inspector.tui.widgets.text import (
    JoinedPage,
    Part,
    PlainPage,
    TextPage,
    block_page,
    contents_page,
    cut_page,
    json_page,
)
from tidings.inspector.view.items import ErrorView, RequestView, TaskView
from tidings.inspector.view.view import ServerView


def request_state(request: RequestView, now: float) -> tuple[str, str]:
    """Returns the state of a request, and its color."""
    if request.state == "completed":
        return took(request.took) or "done", "bad" if request.is_error else "faint"
    running = progress_words(request, now), "warn" if request.state == "input_required" else "accent"
    return _ENDS.get(request.state, running)


def progress_words(request: RequestView, now: float) -> str:
    """Returns the progress of a request, with numbers."""
    seconds = None if request.started_at is None else max(0.0, now - request.started_at)
    if request.task is not None:
        since = "" if seconds is None else rough_duration(seconds)
        state = "asks you" if request.state == "input_required" else _STATES.get(request.state, request.state)
        return f"{state} {since}".strip()
    if request.progress is None:
        return f"running {took(seconds)}".strip()
    share = f"{min(100.0, 100 * request.progress / request.total):.0f} %" if request.total else f"{request.progress:g}"
    return f"{share} in {took(seconds)}"


def error_page(error: ErrorView) -> TextPage:
    """Shows an error: what went wrong, who is at fault, what to do, and what was sent."""
    whose = {"you": "What was asked for", "this program": "Tidings"}
    fault = f"{whose.get(error.who, error.who.capitalize())} is at fault"
    parts: list[Part] = [[("✕ ", "bad"), (fault, "b-bad"), (f"   {one_line(error.code)}", "faint")], []]
    parts.append(PlainPage(error.message))
    if error.cure:
        parts += [[], [("What to do", "b-ink")], PlainPage(error.cure)]
    if error.help:
        parts += [[], [(one_line(error.help), "faint")]]
    if error.payload is not None:
        parts += [[], [("What was sent", "b-ink")], json_page(error.payload)]
    return JoinedPage(*parts)


def result_page(result: Any, problems: list[str] | None = None) -> TextPage:
    """Shows a result by its kind: a tool's result, contents of a resource, a prompt's messages."""
    if is_cut(result):
        return cut_page(result)
    answer = as_dict(result)
    if isinstance(answer.get("contents"), list):
        return contents_page(answer["contents"])
    if isinstance(answer.get("messages"), list):
        return JoinedPage(*(part for message in answer["messages"] for part in message_parts(message)))
    if not isinstance(answer.get("content"), list):
        return json_page(result)
    parts: list[Part] = []
    if answer.get("isError") is True:
        parts += [[("✕ ", "bad"), ("The tool says that it failed", "b-bad")], []]
    parts += [block_page(block) for block in answer["content"]]
    if "structuredContent" in answer:
        title: Line = [("Structured output", "b-ink")]
        if problems:
            title += [("  ✕ breaks its schema: ", "bad"), (one_line("; ".join(problems), 400), "bad")]
        elif problems is not None:
            title.append(("  ✓ fits its schema", "ok"))
        parts += [[], title, json_page(answer["structuredContent"])]
    return JoinedPage(*parts or [[("The tool answered, with nothing.", "soft")]])


def message_parts(message: Any) -> list[Part]:
    """Shows a message of a prompt or of a conversation."""
    if not isinstance(message, Mapping):
        return [json_page(message)]
    said = cast("Mapping[str, Any]", message)
    content = said.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
    return [[(one_line(said.get("role") or "?"), "b-accent")], *map(block_page, blocks), []]


_ENDS: Final = {
    "error": ("failed", "bad"),
    "cancelled": ("cancelled", "warn"),
    "pending": ("waiting", "soft"),
    "left": ("not followed", "warn"),
}
_STATES: Final = {"input_required": "input required", "left": "not followed", "error": "failed"}
_MARKS: Final = {"working": ("●", "accent"), "input_required": ("◆", "warn"), "left": ("○", "warn")}


def task_page(request: RequestView, task: TaskView) -> TextPage:
    """Shows the task that a call has become: its status, the server's words, how long it is kept, and its id."""
    state = request.state
    mark, ink = _MARKS.get(state, ("○", "soft"))
    lines: list[Line] = [[(f"{mark} ", ink), (one_line(_STATES.get(state, state)), f"b-{ink}")]]
    if task.message:
        lines[0].append((f"   {one_line(task.message)}", "ink"))
    if task.pending:
        kept = "without limit" if task.ends is None else f"until {clock(task.ends)}"
        interval = "" if task.poll_interval is None else f" every {took(task.poll_interval)}"
        way = "by notification" if task.listening else f"polled{interval}"
        lines.append([(f"  kept {kept}" + ("" if state == "left" else f", {way}"), "soft")])
    lines.append([("  task ", "soft"), (one_line(task.id), "ink")])
    help_ = {"left": "It goes on at the server. In Tasks, f follows it again.", "input_required": "a answers it."}
    if state in help_:
        lines += [[], [(help_[state], "soft")]]
    return TextPage(*lines)


def outcome_page(request: RequestView, problems: list[str] | None = None) -> TextPage:
    """Shows the outcome of a request so far."""
    task = request.task
    if task is None:
        return _outcome(request, problems)
    if not request.over:
        return task_page(request, task)
    outcome = _outcome(request, problems)
    if task.pending:
        return JoinedPage(task_page(request, task), [], outcome)
    return JoinedPage(outcome, [], [("task ", "faint"), (one_line(task.id), "faint")])


def _outcome(request: RequestView, problems: list[str] | None) -> TextPage:
    if request.status == "cancelled":
        words: Line = [("Cancelled. ", "b-warn"), ("What it had done by then, the server knows.", "soft")]
        why: list[Part] = [] if request.error is None else [[], PlainPage(request.error.message, "soft")]
        return JoinedPage(words, *why)
    if request.error is not None:
        return error_page(request.error)
    if request.status == "completed":
        return result_page(request.result, problems)
    state = "Running. " if request.status == "in_progress" else "Waiting for its turn. "
    return TextPage([(state, "b-accent"), (one_line(request.message or ""), "soft")])


def failed_read(view: ServerView, uri: str) -> ErrorView | None:
    """Returns the error of the last read of a resource, if nothing was read since."""
    versions = view.contents.get(uri)
    last = None if versions is None else versions.last
    newest = 0.0 if last is None else last.confirmed or last.at
    for request in reversed(view.requests.values()):
        if request.method == "resources/read" and request.params.get("uri") == uri and not request.aside:
            return request.error if request.error is not None and (request.completed_at or 0.0) > newest else None
    return None


class TasksPane(SourcesPane):
    """Everything that takes long at one server, newest first: requests that run, and calls that became tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", "Cancel", show=False),
        Binding("f", "follow", "Follow the task again", show=False),
    ]

    def __init__(self, tab: str) -> None:
        super().__init__(tab, {"requests": RequestSource(self)})

    def entries(self) -> list[RequestView]:
        requests = reversed(self.view.requests.values())
        return [each for each in requests if each.task is not None or not (each.over or each.aside)]

    def action_follow(self) -> None:
        request = self.rows.chosen
        if request is not None and request.task is not None and request.state == "left":
            task, params = request.task, request.params
            self.inspector.do(lambda: self.server.follow_task(task.id, params.get("name"), params.get("arguments")))
            self.rows.choose_newest()

    def action_cancel(self) -> None:
        self.inspector.cancel(self.rows.chosen)


class RequestSource(EntrySource):
    """Requests: time, method, subject, state."""

    noun = "task"
    empty = "Nothing runs. Calls that take long appear here while they run, and tasks stay here; x cancels what runs."

    def __init__(self, pane: Pane) -> None:
        self._pane = pane

    def model(self) -> Table[RequestView]:
        return Table(lambda request: request.id, self.text)

    def text(self, entry: RequestView) -> str:
        return f"{entry.method} {self._subject(entry)} {entry.state} {entry.task.id if entry.task else ''}"

    def _subject(self, request: RequestView) -> str:
        """Returns the tool and its arguments, the resource, or the prompt."""
        subject = request.params.get("name") or request.params.get("uri") or ""
        arguments = request.params.get("arguments")
        return f"{subject} {shown(arguments)}" if arguments else str(subject)

    def draw(self, entry: RequestView) -> Drawn:
        subject = one_line(self._subject(entry))
        method = "" if entry.task is not None or (self.narrow and subject) else " " + one_line(entry.method)
        left: Line = [(self.clock(entry.created_at), "faint"), (method, "soft"), ("  " + subject, "ink")]
        if entry.task is not None and entry.task.message:
            left.append(("  " + one_line(entry.task.message), "soft"))
        return [(left, [request_state(entry, self._pane.inspector.now())])]

    def page(self, entry: RequestView) -> TextPage:
        asked_at = f"   asked at {clock(entry.created_at, millis=True)}"
        facts: Line = [(one_line(entry.method), "b-ink"), (asked_at, "soft")]
        facts += [(f", took {took(entry.took)}", "soft")] if entry.took is not None else []
        facts += [(f", {size(entry.result_size)}", "soft")] if entry.result_size else []
        facts += [(f", {entry.attempts} attempts", "warn")] if entry.attempts > 1 else []
        asked: list[Part] = [[], [("Asked", "b-ink")], json_page(entry.params)] if entry.params else []
        outcome: list[Part] = [[], outcome_page(entry)]
        if entry.task is not None and entry.task.pending:  # What it does now is what one looks for.
            return JoinedPage(facts, *outcome, *asked)
        return JoinedPage(facts, *asked, *outcome)

    def state(self, entry: RequestView) -> object:
        return (entry.status, entry.progress, entry.message, repr(entry.task))
