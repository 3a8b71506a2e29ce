"""Questions of servers to the user, in a panel beside everything else. Only the server that asked waits for it.

Sampling is answered with a text, an elicitation with its form (or declined, or dismissed), roots with one folder
per line.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_dicts
from tidings._kit.text import counted
from tidings.inspector.forms.build import form
from tidings.inspector.forms.model import Field
from tidings.inspector.tui.screens.tasks import message_parts
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, Drawn, Line, Parts, one_line, took
from tidings.inspector.tui.widgets.forms import Form
from tidings.inspector.tui.widgets.lists import RowList, Table
from tidings.inspector.tui.widgets.text import JoinedPage, Part, TextPage, TextView, json_page
from tidings.inspector.view.items import QuestionView, RequestView

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

Asked = tuple[str, QuestionView]  # The server's name, and its question.


class Questions(Vertical):
    """The questions of all servers, oldest first, and the answer to the selected one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "answer", "Answer", show=False, priority=True),
        Binding("ctrl+x", "refuse", "Decline", show=False, priority=True),
        Binding("ctrl+o", "refuse(True)", "Dismiss", show=False, priority=True),
        Binding("escape", "close", "Close", show=False),
    ]

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.table: Table[Asked] = Table(lambda asked: (asked[0], asked[1].id), lambda asked: asked[1].message)
        self.list = RowList(self.table, self._draw, empty="Nobody asks anything of you.")
        self.form = Form(lambda: self.list.focus() if self.list.display else self.action_close())
        self._reader = TextView(classes="asked")
        self._head, self._buttons = Bar("hover"), Bar("hover")
        self._shown: object = None

    @property
    def _inspector(self) -> "InspectorApp":
        return inspector_of(self)

    def compose(self) -> ComposeResult:
        yield self._head
        with Horizontal():
            yield from (self.list, self._reader)
            with Vertical(classes="answering"):
                yield from (self.form, self._buttons)

    def toggle(self) -> None:
        self.set_class(not self.has_class("open"), "open")
        if self.has_class("open"):
            self.take()
            self.call_after_refresh(self._enter)
        else:
            self._inspector.pane.rows.focus()

    def _enter(self) -> None:
        """Gives the focus to the list; where it is hidden, to the answer."""
        field = next((each for each in self.form.query("*") if each.focusable), self._reader)
        (self.list if self.list.display else field).focus()

    def action_close(self) -> None:
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
        if not self.list.display:
            self.call_after_refresh(self.action_close if asked is None else self._enter)
        if asked is None:
            self.form.clear()
            self._buttons.show([])
            self._reader.show(TextPage())
            return
        question = asked[1]
        asker = self._inspector.session.servers[asked[0]].view.requests.get(question.request or "")
        self._reader.show(question_page(question, asker), shown)
        self.form.show(answer_form(question))
        asks = question.kind == "elicitation"
        ways: list[Parts] = []
        for control in ("ctrl+", "^"):
            parts = [BarPart(f" {'Accept' if asks else 'Answer'} ", "b-accent on chosen", "answer")]
            parts += [BarPart(f" {control}r   ", "faint"), BarPart("Decline", "warn", "refuse")]
            parts += [BarPart(f" {control}x", "faint")]
            parts += [BarPart("   Dismiss", "soft", "refuse(True)"), BarPart(f" {control}o", "faint")] if asks else []
            ways.append((parts, []))
        self._buttons.show(*ways[0], ways[1])

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
        server = self._inspector.session.servers[name]
        self._inspector.do(lambda: (server.answer(question.id, value), self._after()))

    def action_refuse(self, dismiss: bool = False) -> None:
        """Declines or dismisses an elicitation; other questions get an error."""
        if (asked := self.list.chosen) is not None:
            name, question = asked
            server = self._inspector.session.servers[name]
            how = "refuse" if question.kind != "elicitation" else "dismiss" if dismiss else "decline"
            self._inspector.do(lambda: (server.refuse(question.id, how), self._after()))

    def _after(self) -> None:
        self.list.focus()
        self._inspector.touch()

    def _draw(self, asked: Asked) -> Drawn:
        name, question = asked
        server, words = " " + one_line(name), "  " + one_line(question.message)
        left: Line = [(one_line(question.kind), "warn"), (server, "soft"), (words, "ink")]
        if question.deadline is None:
            return [(left, [])]
        return [(left, [(took(max(0.0, question.deadline - self._inspector.now())) + " left", "faint")])]


def question_page(question: QuestionView, asker: RequestView | None = None) -> TextPage:
    """Shows a whole question, and the request that led to it, if that is known."""
    params = as_dict(question.params)
    parts: list[Part] = [] if asker is None else [[("Asked by ", "soft"), (one_line(asker.title), "accent")], []]
    messages = as_dicts(params.get("messages")) if question.kind == "sampling" else []
    facts = {key: params[key] for key in ("maxTokens", "temperature", "modelPreferences", "tools") if key in params}
    if question.kind == "roots":
        parts.append([("The server asks which folders it may work in.", "ink")])
    elif not messages:
        parts.append([(one_line(question.message, 4000), "ink")])
    if question.kind == "elicitation" and params.get("url"):
        parts += [[], [("It wants you to open ", "soft"), (one_line(params["url"], 2000), "accent")]]
    if question.kind == "sampling":
        if params.get("systemPrompt"):
            parts += [[("system  ", "b-accent"), (one_line(params["systemPrompt"], 1000), "ink")], []]
        parts += [part for said in messages for part in message_parts(said)]
        parts += [[], json_page(facts)] if facts else []
    return JoinedPage(*parts)


_ANSWER: Final = Field("multiline", name="answer", required=True, description="what the model would say")
_FOLDERS: Final = Field("multiline", name="folders", description="one a line; none: leave it empty")


def answer_form(question: QuestionView) -> Field:
    """Returns the form for an answer."""
    if question.kind == "elicitation":
        schema = as_dict_or_none(as_dict(question.params).get("requestedSchema"))
        return Field("object", required=True) if schema is None else form(schema)
    return Field("object", required=True, fields=(_FOLDERS if question.kind == "roots" else _ANSWER,))


def answer_of(question: QuestionView, value: Any) -> Any:
    """Returns the filled form as the client takes it."""
    match question.kind:
        case "sampling":
            return value.get("answer") or ""
        case "roots":
            return [line.strip() for line in str(value.get("folders") or "").splitlines() if line.strip()]
        case _:
            return value or {}
