"""Dialogs: one line of text, a confirmation, the keys; a request to edit, or to copy as JSON, Python or shell text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from tidings.client.masking import MASK
from tidings.inspector import snippets
from tidings.inspector.tui.theme import inspector_of
from tidings.inspector.tui.widgets.bars import Bar, BarPart, choice
from tidings.inspector.tui.widgets.text import PlainPage, TextView
from tidings.inspector.tui.words import one_line
from tidings.inspector.view.view import ServerView

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box in the middle of the screen: a title, the body, what is wrong, and a hint. Esc cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", show=False)]

    def __init__(self, heading: str | Widget, hint: str | Widget) -> None:
        super().__init__()
        self._heading = Static(heading) if isinstance(heading, str) else heading
        self._hint = Static(hint, classes="soft", markup=False) if isinstance(hint, str) else hint

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._heading
            yield from self.body()
            yield Static("", classes="wrong", markup=False)
            yield self._hint

    def body(self) -> ComposeResult:
        """Yields the widgets between the heading and the hint."""
        yield from ()

    def complain(self, what: object) -> None:
        wrong = self.query_one(".wrong", Static)
        wrong.update(one_line(what, 400))
        wrong.set_class(bool(str(what)), "some")


UNCHANGED: Final = "Esc leaves everything as it is."


class AskLine(Dialog[str | None]):
    """Asks for one line. `check` returns what is wrong with it, or an empty text."""

    def __init__(self, title: str, value: str = "", hint: str = "", check: Callable[[str], str] | None = None) -> None:
        super().__init__(Static(title, markup=False), hint or f"Enter does it. {UNCHANGED}")
        self._value, self._check = value, check

    def body(self) -> ComposeResult:
        yield Input(self._value, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        wrong = "It is empty." if not line else self._check(line) if self._check is not None else ""
        if wrong:
            self.complain(wrong)
        else:
            self.dismiss(line)


class Confirm(Dialog[bool | None]):
    """Asks for a confirmation."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,y", "dismiss(True)", "Yes", show=False)]

    def __init__(self, question: str, verb: str) -> None:
        super().__init__(Static(question + "\n", markup=False), f"Enter {verb}. {UNCHANGED}")


class Keys(Dialog[None]):
    """The list of keys. Any key closes it."""

    def __init__(self) -> None:
        super().__init__("", "")

    def compose(self) -> ComposeResult:
        with Vertical():
            sheet: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("keys.json").read_text("utf-8"))
            for title, keys in sheet.items():
                lines = [
                    f"[$t-accent]{key:<9}".replace("[ ]", r"\[ ]") + f"[/] [$t-ink]{words}[/]"
                    for key, words in keys.items()
                ]
                yield Static("\n".join([f"[b]{title}[/]", *lines]))

    def on_key(self) -> None:
        self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)


SHAPES: Final = {"python": "Python", "json": "JSON", "shell": "Shell"}
_KINDS: Final = {method: kind for kind, method in snippets.METHODS.items()}

Asked = tuple[str, dict[str, Any]]  # A method and its parameters.


def without_meta(params: Any) -> dict[str, Any]:
    """Returns the parameters without `_meta`, which the client adds to every request."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    return {key: value for key, value in given.items() if key != "_meta"}


class EditRequest(Dialog[Asked | None]):
    """A request to edit and send."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "send", "Send", priority=True, show=False)]

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self._method = method
        self._text = json.dumps(params, indent=2, ensure_ascii=False, default=str)
        masked = f" {MASK} stands for what was masked: give it anew." if MASK in self._text else ""
        super().__init__("[b]Edit the request, and send it[/]", f"\nctrl+r sends it. {UNCHANGED}{masked}")

    def body(self) -> ComposeResult:
        yield Input(self._method, compact=True)
        yield TextArea(self._text, classes="whole", compact=True, tab_behavior="focus")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_send(self) -> None:
        method = self.query_one(Input).value.strip()
        try:
            params = json.loads(self.query_one(TextArea).text.strip() or "{}")
        except (ValueError, RecursionError) as error:
            self.complain(f"This is not JSON: {error}")
            return
        if not method or not isinstance(params, dict):
            self.complain("Parameters are a JSON object." if method else "The method is empty.")
            return
        self.dismiss((method, cast("dict[str, Any]", params)))


class CopyAs(Dialog[None]):
    """A request as text to paste, in three formats."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(f"{number},{name[0]}", f"shape('{name}')", label, show=False)
          for number, (name, label) in enumerate(SHAPES.items(), 1)),
        Binding("y,enter,c", "copy", "Copy", priority=True, show=False),
    ]  # fmt: skip

    def __init__(self, view: ServerView, method: str, params: dict[str, Any]) -> None:
        self._bar = Bar("pane")
        super().__init__(self._bar, "1 2 3 choose, y copies, if your terminal permits it. Secrets are not in it.")
        self._make: dict[str, Callable[[], str]] = {
            "python": lambda: snippets.as_python(view, _KINDS.get(method, "request"), method, params),
            "json": lambda: snippets.as_json(method, params),
            "shell": lambda: snippets.as_shell(view, method, params),
        }
        self.shape = "python"
        self.reader = TextView()

    @property
    def text(self) -> str:
        return self._make[self.shape]()

    def body(self) -> ComposeResult:
        yield self.reader

    def on_mount(self) -> None:
        self.reader.focus()
        self.call_after_refresh(self.action_shape, self.shape)

    def action_shape(self, name: str) -> None:
        self.shape = name
        parts: list[BarPart] = []
        for number, (each, label) in enumerate(SHAPES.items(), 1):
            parts += [choice(f" {number} {label} ", f"screen.shape('{each}')", on=each == name), BarPart(" ")]
        self._bar.show(parts)
        self.reader.show(PlainPage(self.text), name)

    def action_copy(self) -> None:
        inspector_of(self.reader).copy_to_clipboard(self.text)
        inspector_of(self.reader).notify("Copied, if your terminal permits it.", timeout=2)
        self.dismiss(None)
