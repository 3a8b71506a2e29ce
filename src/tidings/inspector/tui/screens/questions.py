"""Questions of servers to the user, in a panel beside everything else. Only the server that asked waits for it.

Sampling is answered with a text, an elicitation with its form (or declined, or dismissed), roots with one folder
per line.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from tidings._kit.bounded_json import as_dict, as_dicts
from tidings._kit.text import counted
from tidings.inspector.forms import Field, form
from tidings.inspector.tui.screens.tasks import message_pages
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Line, wrap
from tidings.inspector.tui.widgets.forms import Form
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.tui.widgets.text import JoinedPage, TextPage, TextView, json_page
from tidings.inspector.tui.words import one_line, took
from tidings.inspector.view.items import QuestionView, RequestView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

Asked = tuple[str, QuestionView]  # The server's name, and its question.


class Questions(Vertical):
    """The questions of all servers, oldest first, and the answer to the selected one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "answer", "Answer", show=False, priority=True),
        Binding("ctrl+x", "refuse", "Refuse", show=False, priority=True),
        Binding("ctrl+o", "refuse(True)", "Dismiss", show=False, priority=True),
        Binding("escape", "close", "Close", show=False),
    ]

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[Asked] = Table(lambda asked: (asked[0], asked[1].id), lambda asked: asked[1].message)
        self.list = RowList(self.table, self._draw, empty="Nobody asks anything of you.")
        self.form = Form()
        self._head = Bar("hover")
        self._reader = TextView(classes="asked")
        self._buttons = Bar("hover")
        self._shown: object = None

    @property
    def _inspector(self) -> "InspectorApp":
        return inspector_of(self)

    def compose(self) -> ComposeResult:
        yield self._head
        with Horizontal():
            yield self.list
            yield self._reader
            with Vertical(classes="answering"):
                yield self.form
                yield self._buttons

    def toggle(self) -> None:
        self.set_class(not self.has_class("open"), "open")
        if self.has_class("open"):
            self.take()
            self.list.focus()
        else:
            self._inspector.pane.rows.focus()

    def action_close(self) -> None:
        """Closes the panel; questions go on waiting."""
        if self.has_class("open"):
            self.toggle()

    def take(self) -> None:
        if not self.has_class("open"):
            return
        waiting = [
            (name, question)
            for name, server in self._inspector.session.servers.items()
            for question in server.view.questions.values()
        ]
        self.set_class(len(waiting) > 1, "several")
        self.table.update(sorted(waiting, key=lambda asked: asked[1].seq))
        self.list.take()
        words = counted(len(waiting), "question") + (" waits" if len(waiting) == 1 else " wait") + " for you"
        self._head.show(
            [BarPart(words if waiting else "Nobody asks anything of you", "warn" if waiting else "soft")],
            [BarPart("Close", "faint", "close"), BarPart(" Esc", "faint", "close")],
        )
        self._show(self.list.chosen)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._show(event.item)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.form.enter()

    def _show(self, asked: Asked | None) -> None:
        shown = (asked[0], asked[1].id) if asked is not None else None
        if shown == self._shown:
            return
        self._shown = shown
        if asked is None:
            self.form.clear()
            self._buttons.show([])
            self._reader.show(TextPage())
            return
        question = asked[1]
        asker = self._inspector.session.servers[asked[0]].view.requests.get(question.request or "")
        self._reader.show(question_page(question, asker), shown)
        self.form.show(answer_form(question))
        answer = "Answer" if question.kind in ("sampling", "roots") else "Accept"
        dismiss = question.kind == "elicitation"
        self._buttons.show(button_parts(answer, "ctrl+", dismiss), [], (button_parts(answer, "^", dismiss), []))

    def action_answer(self) -> None:
        asked = self.list.chosen
        if asked is None:
            return
        name, question = asked
        filled = self.form.filled()
        if filled.problems:
            self._inspector.notify(one_line(filled.problems[0].message), severity="warning", markup=False)
            return
        value = answer_of(question, filled.value)
        self._inspector.do(lambda: self._inspector.session.servers[name].answer(question.id, value))
        self._after()

    def action_refuse(self, dismiss: bool = False) -> None:
        """Declines or dismisses an elicitation; other questions get an error."""
        if (asked := self.list.chosen) is not None:
            name, question = asked
            server = self._inspector.session.servers[name]
            how = "refuse" if question.kind != "elicitation" else "dismiss" if dismiss else "decline"
            self._inspector.do(lambda: server.refuse(question.id, how))
            self._after()

    def _after(self) -> None:
        self.list.focus()
        self._inspector.touch()

    def _draw(self, asked: Asked) -> list[tuple[Line, Line]]:
        name, question = asked
        server, words = " " + one_line(name), "  " + one_line(question.message)
        left: Line = [(one_line(question.kind), "warn"), (server, "soft"), (words, "ink")]
        if question.deadline is None:
            return [(left, [])]
        return [(left, [(took(max(0.0, question.deadline - self._inspector.now())) + " left", "faint")])]


def button_parts(answer: str, control: str, dismiss: bool) -> list[BarPart]:
    """Returns the buttons of a question with their keys."""
    parts = [BarPart(f" {answer} ", "b-accent on chosen", "answer"), BarPart(f" {control}r   ", "faint")]
    parts += [BarPart("Refuse", "warn", "refuse"), BarPart(f" {control}x", "faint")]
    if dismiss:
        parts += [BarPart("   Dismiss", "soft", "refuse(True)"), BarPart(f" {control}o", "faint")]
    return parts


def question_page(question: QuestionView, asker: RequestView | None = None) -> TextPage:
    """Shows a whole question, and the request that led to it, if that is known."""
    params = as_dict(question.params)
    cause: list[Line] = [] if asker is None else [[("Asked by ", "soft"), (one_line(asker.title), "accent")], []]
    lines: list[Line] = [*cause, *([(line, "ink")] for line in wrap(one_line(question.message, 4000), 60))]
    if question.kind == "roots":
        return TextPage(*cause, [("The server asks which folders it may work in.", "ink")])
    if question.kind == "elicitation":
        if params.get("url"):
            lines += [[], [("It wants you to open ", "soft"), (one_line(params["url"], 2000), "accent")]]
        return TextPage(*lines)
    pages = [TextPage(*cause)] if cause else []
    if params.get("systemPrompt"):
        pages.append(TextPage([("system  ", "b-accent"), (one_line(params["systemPrompt"], 1000), "ink")], []))
    for said in as_dicts(params.get("messages")):
        pages += message_pages(said)
    facts = {key: params[key] for key in ("maxTokens", "temperature", "modelPreferences", "tools") if key in params}
    if facts:
        pages += [TextPage([]), json_page(facts)]
    return JoinedPage(pages) if pages else TextPage(*lines)


def answer_form(question: QuestionView) -> Field:
    """Returns the form for an answer."""
    params = as_dict(question.params)
    match question.kind:
        case "elicitation" if isinstance(params.get("requestedSchema"), dict):
            return form(params["requestedSchema"])
        case "elicitation":
            return Field("object", required=True)
        case "roots":
            folders = Field("multiline", name="folders", description="one a line; none: leave it empty")
            return Field("object", required=True, fields=(folders,))
        case _:
            text = Field("multiline", name="answer", required=True, description="what the model would say")
            return Field("object", required=True, fields=(text,))


def answer_of(question: QuestionView, value: Any) -> Any:
    """Returns the filled form as the client takes it."""
    match question.kind:
        case "sampling":
            return value.get("answer") or ""
        case "roots":
            return [line.strip() for line in str(value.get("folders") or "").splitlines() if line.strip()]
        case _:
            return value or {}
