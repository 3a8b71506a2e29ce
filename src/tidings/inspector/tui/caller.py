"""Form left, result right: for a tool, a prompt, and a resource template.

The last results stay, newest first; each can be looked at again, repeated, and cancelled while it runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from tidings.inspector.schemas import Field, Filled
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.forms import Form
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.pages import Words
from tidings.inspector.tui.pane import Pane
from tidings.inspector.tui.reader import Reader
from tidings.inspector.tui.results import outcome_page, progress_words, request_state
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.words import clock, compact, one_line
from tidings.inspector.view_items import RequestView

HISTORY = 5
"""So many of the last results are listed at once; the others are scrolled to."""


@dataclass(frozen=True)
class Callee:
    """What can be called: how it is shown, what it wants, and how to send it."""

    key: str
    name: str
    verb: str
    """What the button says."""
    form: Field
    send: Callable[[Any], str]
    """Sends it with these arguments, and gives the request's id."""
    asked: Callable[[Any], tuple[str, dict[str, Any]]]
    """The method and the parameters that this comes to."""
    is_its: Callable[[RequestView], bool]
    """Whether a request is one of its."""
    description: str = ""
    badges: list[Part] = field(default_factory=list[Part])
    check: Callable[[Any], list[str]] | None = None
    """What is wrong with arguments, as sentences."""
    check_result: Callable[[Any], list[str] | None] | None = None
    """What is wrong with a result; None if nothing was promised."""
    complete: Any = None
    """Suggests values of a field: `await complete(name, so_far, others) -> list[str]`."""


class Caller(Container):
    """One thing that can be called, its form and its results."""

    DEFAULT_CSS = """
    Caller { layout: horizontal; height: 1fr; width: 5fr; }
    Caller .form { width: 1fr; border-right: vkey $t-line; }
    Caller .result { width: 1fr; }
    Caller .about { height: auto; max-height: 6; padding: 0 1; color: $t-soft; }
    Caller .problems { height: auto; max-height: 5; padding: 0 1; color: $t-bad; display: none; }
    Caller .problems.some { display: block; }
    Caller RowList { height: auto; max-height: 5; border-bottom: hkey $t-line; }
    """

    def __init__(self, pane: Pane, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._pane = pane
        self.callee: Callee | None = None
        self.calls: Table[RequestView] = Table(lambda request: request.id, lambda request: str(request.params))
        self.history = RowList(self.calls, self._draw, empty="")
        self.form = Form()
        self.reader = Reader()
        self._title = Bar("ground")
        self._buttons = Bar("hover")
        self._state = Bar("ground")
        self._about = Static("", classes="about", markup=False)
        self._problems = Static("", classes="problems", markup=False)
        self._kept: dict[str, Any] = {}
        self._complaints: list[str] = []
        self._shown: object = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="form"):
            yield self._title
            yield self._about
            yield self.form
            yield self._problems
            yield self._buttons
        with Vertical(classes="result"):
            yield self._state
            yield self.history
            yield self.reader

    def show(self, callee: Callee | None) -> None:
        """Show this one. What was typed into its form before is still there."""
        if self.callee is not None:
            self._kept[self.callee.key] = self.form.keep()
        self.callee = callee
        self.calls.reset()
        self.history.restart()
        self._shown = None
        self._complain([])
        if callee is None:
            self._title.show([])
            self._about.update("")
            self._buttons.show([])
            self.form.clear()
            self._state.show([])
            self.reader.show(Words())
            return
        self._title.show([Part(one_line(callee.name), "b-ink"), Part("  "), *callee.badges])
        self._about.update(one_line(callee.description, 600))
        self.form.show(callee.form, self._kept.get(callee.key), callee.complete)
        self._say_buttons()
        self.take()

    def _say_buttons(self) -> None:
        verb = self.callee.verb if self.callee is not None else "Send"
        self._buttons.show(
            [
                Part(f" {verb} ", "b-accent on chosen", "send"),
                Part(" ctrl+r", "faint", "send"),
                Part("   "),
                Part("Form" if self.form.is_json else "JSON", "ink", "json"),
                Part(" ctrl+j", "faint", "json"),
            ]
        )

    def take(self) -> None:
        """Read what is new of its requests."""
        callee = self.callee
        if callee is None:
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
            if self._shown != "hint":
                self._shown = "hint"
                self._state.show([])
                verb = self.callee.verb.lower() if self.callee is not None else "send"
                self.reader.say(f"The result appears here. ctrl+r {verb}s it.")
            return
        now = self._pane.desk.now()
        words, ink = request_state(request, now)
        running = not request.over
        right = [Part("Cancel", "b-warn", "cancel"), Part(" ctrl+x", "faint", "cancel")] if running else []
        words = progress_words(request, now) if running else words
        self._state.show([Part(clock(request.created_at) + "  ", "faint"), Part(words, ink)], right)
        shown = (request.id, request.status, request.message)
        if shown != self._shown:
            self._shown = shown
            check = self.callee.check_result if self.callee is not None else None
            problems = check(request.result) if check is not None and request.status == "completed" else None
            self.reader.show(outcome_page(request, problems), request.id)

    def _draw(self, request: RequestView, inks: Inks) -> list[tuple[Line, Line]]:
        words, ink = request_state(request, self._pane.desk.now())
        arguments = compact(request.params.get("arguments") or request.params.get("uri") or {})
        left: Line = [(clock(request.created_at), inks["faint"]), ("  " + one_line(arguments), inks["ink"])]
        return [(left, [(words, inks[ink])])]

    # What one can do

    def action_send(self) -> None:
        """Send it, if what was filled in is what it wants; say what is not."""
        callee = self.callee
        if callee is None:
            return
        filled: Filled = self.form.filled()
        problems = [problem.message for problem in filled.problems]
        if not problems and callee.check is not None:
            problems = callee.check(filled.value)
        if problems and not self._insisted(problems):
            self._complain(problems)
            return
        self._complain([])
        if any(problem.fault == "value" for problem in filled.problems):
            return
        self._pane.desk.ask(lambda: callee.send(filled.value))
        self.history.choose_newest()

    def _insisted(self, problems: list[str]) -> bool:
        """Whether the same was sent before and complained about: a second time means that it is meant."""
        return self._complaints == problems

    def _complain(self, problems: list[str]) -> None:
        self._complaints = list(problems)
        self._problems.set_class(bool(problems), "some")
        again = "\nctrl+r again sends it as it is: the server may judge otherwise." if problems else ""
        self._problems.update("\n".join(one_line(each, 300) for each in problems[:4]) + again)

    def action_json(self) -> None:
        """From the form to JSON and back."""
        if (problem := self.form.toggle()) is not None:
            self._complain([problem])
        self._say_buttons()

    def action_cancel(self) -> None:
        """Cancel the call that is looked at."""
        request = self.history.chosen
        if request is not None and not request.over:
            self._pane.desk.cancel(request.id)


class CallerPane(Pane):
    """A tab with something to call. Its keys work from the list as well as from the form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "send", "Send", show=False, priority=True),
        Binding("ctrl+j", "json", "Form or JSON", show=False, priority=True),
        Binding("ctrl+x", "cancel", "Cancel", show=False, priority=True),
        Binding("c", "copy_as", "Copy as", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.caller = Caller(self)

    def action_send(self) -> None:
        """Send what the form says."""
        self.caller.action_send()

    def action_json(self) -> None:
        """From the form to JSON and back."""
        self.caller.action_json()

    def action_cancel(self) -> None:
        """Cancel the call that is looked at."""
        self.caller.action_cancel()

    def action_copy_as(self) -> None:
        """What the form says, as something to paste."""
        callee = self.caller.callee
        if callee is not None:
            self.desk.copy_as(*callee.asked(self.caller.form.filled().value or {}))
