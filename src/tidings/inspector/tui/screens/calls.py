"""Tools and prompts: a list, a form for the selected item, and its results. Also used for resource templates.

The last results stay, newest first. Each can be viewed again, repeated, and cancelled while it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from tidings._kit.bounded_json import as_dict, shown
from tidings._kit.uri_templates import expand, matches
from tidings.inspector.forms.build import form, prompt_schema, template_schema
from tidings.inspector.forms.check import check, check_result
from tidings.inspector.server import InspectedServer
from tidings.inspector.tui.screens.screen import Pane
from tidings.inspector.tui.screens.tasks import outcome_page, progress_words, request_state
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, clock, one_line
from tidings.inspector.tui.widgets.forms import Complete, Form
from tidings.inspector.tui.widgets.lists import Draw, RowList, Table
from tidings.inspector.tui.widgets.text import TextPage, TextView, sentence_page
from tidings.inspector.view.items import RequestView
from tidings.inspector.view.view import ServerView


@dataclass
class Callee:
    """Something of a server that can be called: the schema of its arguments, and how to send it."""

    server: InspectedServer
    method: str
    verb: str  # The label of the button.
    name: str  # Of a resource template: the template.
    item: Mapping[str, Any]
    schema: Any
    complete: Complete | None = None
    badges: list[BarPart] = field(default_factory=list[BarPart])

    @property
    def key(self) -> tuple[str, str, str]:
        return self.server.name, self.method, self.name

    @property
    def description(self) -> str:
        texts = (self.item.get(key) for key in ("description", "title", "name"))
        return str(next(filter(None, texts), ""))

    def params(self, value: Any) -> dict[str, Any]:
        is_read = self.method == "resources/read"
        return {"uri": expand(self.name, value)} if is_read else {"name": self.name, "arguments": value}

    def is_its(self, request: RequestView) -> bool:
        if self.method == "resources/read":
            return request.method == self.method and matches(self.name, str(request.params.get("uri")))
        return request.method == self.method and request.params.get("name") == self.name


_HINTS: Final = (
    ("readOnlyHint", "reads only", "ok"),
    ("destructiveHint", "destructive", "bad"),
    ("idempotentHint", "repeatable", "soft"),
    ("openWorldHint", "open world", "soft"),
)
_TASK_SUPPORT: Final = {"required": "runs as a task", "optional": "task or plain"}


def tool(server: InspectedServer, item: dict[str, Any]) -> Callee:
    """Returns a tool. Its badges are hints of the server, not guarantees."""
    hints = as_dict(item.get("annotations"))
    badges = [(words, ink) for key, words, ink in _HINTS if hints.get(key) is True]
    if (support := as_dict(item.get("execution")).get("taskSupport")) in _TASK_SUPPORT:
        badges.append((_TASK_SUPPORT[str(support)], "soft"))
    callee = Callee(server, "tools/call", "Call", str(item.get("name")), item, item.get("inputSchema"))
    for words, ink in badges:
        callee.badges += [BarPart(f" {words} ", f"{ink} on hover"), BarPart(" ")]
    return callee


def prompt(server: InspectedServer, item: dict[str, Any]) -> Callee:
    """Returns a prompt."""
    name, schema = str(item.get("name")), prompt_schema(item.get("arguments"))
    return Callee(server, "prompts/get", "Get", name, item, schema, partial(server.complete, "prompt", name))


def template(server: InspectedServer, uri: str, item: Mapping[str, Any]) -> Callee:
    """Returns a resource template, which is read."""
    complete = partial(server.complete, "template", uri)
    return Callee(server, "resources/read", "Read", uri, item, template_schema(uri), complete)


class CallForm(Container):
    """A callable item with its form and its results."""

    def __init__(self, pane: Pane) -> None:
        super().__init__()
        self._pane = pane
        self.callee: Callee | None = None
        self.calls: Table[RequestView] = Table(lambda request: request.id, lambda request: str(request.params))
        self.history = RowList(self.calls, self._draw, empty="")
        self.form, self.reader = Form(), TextView()
        self._title, self._buttons, self._state = Bar("ground"), Bar("hover"), Bar("ground")
        self._about, self._problems = (Static("", classes=name, markup=False) for name in ("about", "problems"))
        self._kept: dict[object, Any] = {}
        self._complaints: list[str] = []
        self._shown: object = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="form"):
            yield from (self._title, self._about, self.form, self._problems, self._buttons)
        with Vertical(classes="result"):
            yield from (self._state, self.history, self.reader)

    def show(self, callee: Callee | None) -> None:
        if self.callee is not None:
            self._kept[self.callee.key] = self.form.keep()
        self.callee = callee
        self.calls.reset()
        self.history.restart()
        self._shown = None
        self._complain([])
        if callee is None:
            for bar in (self._title, self._buttons, self._state):
                bar.show([])
            self._about.update("")
            self.form.clear()
            self.reader.show(TextPage())
            return
        self._title.show([BarPart(one_line(callee.name), "b-ink"), BarPart("  "), *callee.badges])
        self._about.update(one_line(callee.description, 600))
        self.form.show(form(callee.schema), self._kept.get(callee.key), callee.complete)
        self._say_buttons(callee)
        self.take()

    def _say_buttons(self, callee: Callee) -> None:
        send = [BarPart(f" {callee.verb} ", "b-accent on chosen", "send"), BarPart(" ctrl+r", "faint", "send")]
        other = BarPart("Form" if self.form.is_json else "JSON", "ink", "json")
        self._buttons.show([*send, BarPart("   "), other, BarPart(" ctrl+j", "faint", "json")])

    def take(self) -> None:
        if (callee := self.callee) is None:
            return
        requests = reversed(self._pane.view.requests.values())
        self.calls.update([each for each in requests if not each.aside and callee.is_its(each)])
        # A call that was just made is the one to look at.
        self.history.take()
        self.history.display = len(self.calls) > 1
        self._show(self.history.chosen)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def _show(self, request: RequestView | None) -> None:
        if request is None:
            if self._shown != "hint" and self.callee is not None:
                self._shown = "hint"
                self._state.show([])
                words = f"The result appears here. ctrl+r {self.callee.verb.lower()}s it."
                about = self.callee.description if len(self.callee.description) > 140 else ""  # Cut beside the form.
                self.reader.show(sentence_page(f"{words}\n\n{about}"))
            return
        now = self._pane.inspector.now()
        words, ink = request_state(request, now)
        running = not request.over
        right = [BarPart("Cancel", "b-warn", "cancel"), BarPart(" ctrl+x", "faint", "cancel")] if running else []
        words = progress_words(request, now) if running else words
        self._state.show([BarPart(clock(request.created_at) + "  ", "faint"), BarPart(words, ink)], right)
        shown = (request.id, request.status, request.message, repr(request.task))
        if shown != self._shown:
            self._shown = shown
            done = self.callee if request.status == "completed" else None
            found = None if done is None else check_result(done.item, request.result)
            problems = None if found is None else [problem.message for problem in found]
            self.reader.show(outcome_page(request, problems), request.id)

    def _draw(self, request: RequestView) -> Drawn:
        arguments = shown(request.params.get("arguments") or request.params.get("uri") or {})
        left: Line = [(clock(request.created_at), "faint"), ("  " + one_line(arguments), "ink")]
        return [(left, [request_state(request, self._pane.inspector.now())])]

    def action_send(self) -> None:
        if (callee := self.callee) is None:
            return
        filled = self.form.filled()
        problems = [problem.message for problem in filled.problems or check(callee.schema, filled.value)]
        if problems and problems != self._complaints:  # Sent twice, it is sent as it is.
            self._complain(problems)
            return
        self._complain([])
        if any(problem.fault == "value" for problem in filled.problems):
            return
        self._pane.inspector.do(lambda: callee.server.request(callee.method, callee.params(filled.value)))
        self.history.choose_newest()

    def _complain(self, problems: list[str]) -> None:
        self._complaints = problems
        self._problems.set_class(bool(problems), "some")
        again = "\nctrl+r again sends it as it is: the server may judge otherwise." if problems else ""
        self._problems.update("\n".join(one_line(each, 300) for each in problems[:4]) + again)

    def action_json(self) -> None:
        if (problem := self.form.toggle()) is not None:
            self._complain([problem])
        if self.callee is not None:
            self._say_buttons(self.callee)

    def action_cancel(self) -> None:
        self._pane.inspector.cancel(self.history.chosen)


class CallerPane(Pane):
    """A tab with something to call. Its keys work in the list and in the form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "caller('send')", "Send", show=False, priority=True),
        Binding("ctrl+j", "caller('json')", "Form or JSON", show=False, priority=True),
        Binding("ctrl+x", "caller('cancel')", "Cancel", show=False, priority=True),
    ]

    def __init__(self, tab: str, model: Table[Any], draw: Draw, *, noun: str, empty: str) -> None:
        super().__init__(tab, model, draw, noun=noun, empty=empty)
        self.caller = CallForm(self)

    def restart(self) -> None:
        super().restart()
        self.caller.show(None)

    async def action_caller(self, what: str) -> None:
        await self.caller.run_action(what)


class ListedPane(CallerPane):
    """A tab for the tools or the prompts of a server."""

    def __init__(self, tab: str) -> None:
        table: Table[dict[str, Any]] = Table(lambda item: item.get("name"), item_text)
        empty = f"This server has no {tab}, or they are not loaded yet."
        empty += " When its list changes, it is loaded again by itself." if tab == "tools" else ""
        super().__init__(tab, table, draw_item, noun=tab.removesuffix("s"), empty=empty)
        self._list, self._callee = tab, tool if tab == "tools" else prompt
        self._loaded: object = None
        self._item: dict[str, Any] | None = None

    def detail(self) -> ComposeResult:
        yield self.caller

    def restart(self) -> None:
        self._loaded = self._item = None
        super().restart()

    def update_list(self) -> None:
        items: dict[str, dict[str, Any]] = getattr(self.view, self._list)
        loaded = (self.view.name, self.view.loaded_at.get(self._list), len(items))
        if loaded != self._loaded:
            self._loaded = loaded
            self.rows.model.update(list(items.values()))
        self.column.extra = fault_parts(self.view, self._list)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.caller.form.enter()

    def show_item(self, item: dict[str, Any] | None) -> None:
        if item != self._item:
            self._item = item
            self.caller.show(self._callee(self.server, item) if item is not None else None)
        self.caller.take()


def item_text(item: dict[str, Any]) -> str:
    """Returns the text for a filter."""
    return f"{item.get('name')} {item.get('title') or ''} {item.get('description') or ''}"


def draw_item(item: dict[str, Any]) -> Drawn:
    """Draws a row: the name and the description."""
    description = item.get("title") or item.get("description") or ""
    is_task = as_dict(item.get("execution")).get("taskSupport") == "required"
    right: Line = [("task", "soft")] if is_task else []
    return [([(one_line(item.get("name")), "ink"), ("  " + one_line(description), "faint")], right)]


def fault_parts(view: ServerView, name: str) -> list[BarPart]:
    """Returns the problems of a list: it could not be loaded, or has invalid items."""
    if (error := view.list_errors.get(name)) is not None:
        return [BarPart(f"not loaded: {one_line(error.message, 80)}", "bad")]
    bad, twice = len(view.malformed.get(name) or ()), len(view.duplicates.get(name) or ())
    words = [f"{bad} malformed"] * bool(bad) + [f"{twice} twice"] * bool(twice)
    return [BarPart(", ".join(words), "bad")] if words else []
