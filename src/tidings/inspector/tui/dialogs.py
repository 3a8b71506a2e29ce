"""What is asked for a moment: one line of text, yes or no; and the sheet of keys."""

from collections.abc import Callable
from typing import ClassVar, Final, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tidings.inspector.tui.words import one_line

T = TypeVar("T")

SHEET: Final = (
    (
        "Everywhere",
        (
            ("1 … 7", "the tabs"),
            ("[ ]", "the server before, after"),
            ("tab", "from list to detail and on"),
            ("ctrl+p", "find anything by its name"),
            ("a", "questions that wait for you"),
            ("n  i", "add a server; import servers"),
            ("E  X", "edit, remove the server"),
            ("C D R", "connect, disconnect, reconnect"),
            ("S", "sessions that are kept"),
            ("t  q", "dark or light; quit"),
        ),
    ),
    (
        "In a list",
        (
            ("j k ↑ ↓", "move"),
            ("g G", "first, last; g follows again"),
            ("space", "hold back what arrives"),
            ("/", "find; Esc shows all again"),
            ("Enter", "open"),
            ("Esc", "to the servers"),
        ),
    ),
    (
        "In a form",
        (
            ("ctrl+r", "call, read, answer, save"),
            ("ctrl+j", "as JSON and back"),
            ("ctrl+x", "cancel, refuse"),
            ("ctrl+n", "null"),
            ("Esc", "back to the list"),
        ),
    ),
    (
        "Resources",
        (
            ("s", "subscribe, unsubscribe"),
            ("r", "read"),
            ("w", "list or tree"),
            ("v", "changes, rendered, source"),
            (", .", "earlier, later version"),
        ),
    ),
    (
        "Requests and messages",
        (
            ("x", "cancel a request"),
            ("r  e", "send again; edit it first"),
            ("c", "copy as JSON, Python, curl"),
            ("o", "the client's own requests"),
            ("h", "HTTP exchanges"),
            ("p", "from a request to its answer"),
        ),
    ),
    (
        "Logs, and texts",
        (
            ("s", "logs, errors, notifications"),
            ("l L", "show, ask for another level"),
            ("h l ← →", "read a long line sideways"),
            ("y", "copy what is shown"),
        ),
    ),
)
"""Every key and what it does."""


class Dialog(ModalScreen[T], Generic[T]):
    """A box in the middle. Esc leaves everything as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", show=False)]
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 110; max-width: 95%; height: auto; max-height: 90%;
        background: $t-pane; border: round $t-line; padding: 1 2;
    }
    Dialog Input { height: 1; border: none; margin: 1 0; padding: 0 1; }
    Dialog .wrong { color: $t-bad; height: auto; display: none; }
    Dialog .wrong.some { display: block; }
    Dialog .soft { color: $t-soft; height: auto; }
    """

    def complain(self, what: object) -> None:
        """Say what is wrong with what was given."""
        wrong = self.query_one(".wrong", Static)
        wrong.update(one_line(what, 400))
        wrong.set_class(bool(str(what)), "some")


class AskLine(Dialog[str | None]):
    """Asks for one line.

    Args:
        check: What is wrong with it; empty if nothing is.
    """

    def __init__(self, title: str, value: str = "", hint: str = "", check: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self._title, self._value, self._hint, self._check = title, value, hint, check

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False)
            yield Input(self._value, compact=True)
            yield Static("", classes="wrong", markup=False)
            yield Static(self._hint or "Enter does it. Esc leaves everything as it is.", classes="soft", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        wrong = "It is empty." if not line else self._check(line) if self._check is not None else ""
        if wrong:
            self.complain(wrong)
        else:
            self.dismiss(line)


class Confirm(Dialog[bool | None]):
    """Asks whether something is meant."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,y", "dismiss(True)", "Yes", show=False)]

    def __init__(self, question: str, verb: str) -> None:
        super().__init__()
        self._question, self._verb = question, verb

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question + "\n", markup=False)
            yield Static(f"Enter {self._verb}. Esc leaves everything as it is.", classes="soft", markup=False)


class Keys(Dialog[None]):
    """The sheet of keys. Any key closes it."""

    DEFAULT_CSS = """
    Keys > Vertical { layout: grid; grid-size: 2; grid-gutter: 1 3; grid-rows: auto; overflow-y: auto; }
    .-narrow Keys > Vertical { grid-size: 1; }
    Keys Static { height: auto; }
    """

    def compose(self) -> ComposeResult:
        with Vertical():
            for title, keys in SHEET:
                lines = "\n".join(f"[$t-accent]{_escaped(f'{key:<9}')}[/] [$t-ink]{words}[/]" for key, words in keys)
                yield Static(f"[b]{title}[/]\n{lines}")

    def on_key(self) -> None:
        self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
