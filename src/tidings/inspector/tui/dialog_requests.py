"""A request as a text: edited and sent again, or copied as JSON, as Python, or for a shell."""

import json
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static, TextArea

from tidings.client.masking import MASK
from tidings.inspector import snippets
from tidings.inspector.tui.bars import Bar, Part
from tidings.inspector.tui.desk import desk_of
from tidings.inspector.tui.dialogs import Dialog
from tidings.inspector.tui.pages import TextPage
from tidings.inspector.tui.reader import Reader
from tidings.inspector.views import ServerView

SHAPES: Final = {"python": "Python", "json": "JSON", "shell": "Shell"}
_KINDS: Final = {method: kind for kind, method in snippets.METHODS.items()}

Asked = tuple[str, dict[str, Any]]
"""A method and its parameters."""


def without_meta(params: Any) -> dict[str, Any]:
    """The parameters as somebody would give them: what every request carries, the client adds by itself."""
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    return {key: value for key, value in given.items() if key != "_meta"}


class EditRequest(Dialog[Asked | None]):
    """Any request, to be changed and sent."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "send", "Send", priority=True, show=False)]
    DEFAULT_CSS = """
    EditRequest TextArea { height: 50vh; border: none; padding: 0 1; }
    """

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        super().__init__()
        self._method = method
        self._text = json.dumps(params, indent=2, ensure_ascii=False, default=str)

    def compose(self) -> ComposeResult:
        masked = f" {MASK} stands for what was masked: give it anew." if MASK in self._text else ""
        with Vertical():
            yield Static("[b]Edit the request, and send it[/]")
            yield Input(self._method, compact=True)
            yield TextArea(self._text, classes="whole", compact=True, tab_behavior="focus")
            yield Static("", classes="wrong", markup=False)
            yield Static(f"\nctrl+r sends it. Esc leaves everything as it is.{masked}", classes="soft", markup=False)

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_send(self) -> None:
        """Send it, if it is JSON."""
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
    """A request as something to paste, in three shapes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(f"{number},{name[0]}", f"shape('{name}')", label, show=False)
          for number, (name, label) in enumerate(SHAPES.items(), 1)),
        Binding("y,enter,c", "copy", "Copy", priority=True, show=False),
    ]  # fmt: skip
    DEFAULT_CSS = """
    CopyAs Reader { height: 50vh; margin: 1 0; }
    """

    def __init__(self, view: ServerView, method: str, params: dict[str, Any]) -> None:
        super().__init__()
        make: dict[str, Callable[[], str]] = {
            "python": lambda: snippets.as_python(view, _KINDS.get(method, "request"), method, params),
            "json": lambda: snippets.as_json(method, params),
            "shell": lambda: snippets.as_shell(view, method, params),
        }
        self._make = make
        self.shape = "python"
        self.reader = Reader()
        self._bar = Bar("pane")

    @property
    def text(self) -> str:
        """What would be copied."""
        return self._make[self.shape]()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._bar
            yield self.reader
            yield Static("1 2 3 choose, y copies, if your terminal permits it. Secrets are not in it.", classes="soft")

    def on_mount(self) -> None:
        self.reader.focus()
        self.call_after_refresh(self.action_shape, self.shape)

    def action_shape(self, name: str) -> None:
        """Show another shape."""
        self.shape = name
        parts: list[Part] = []
        for number, (each, label) in enumerate(SHAPES.items(), 1):
            on = each == name
            action = f"screen.shape('{each}')"
            parts += [Part(f" {number} {label} ", "b-accent on chosen" if on else "soft", action), Part(" ")]
        self._bar.show(parts)
        self.reader.show(TextPage(self.text), name)

    def action_copy(self) -> None:
        """Put it on the clipboard, and go back."""
        desk_of(self.reader).copy_to_clipboard(self.text)
        desk_of(self.reader).notify("Copied, if your terminal permits it.", timeout=2)
        self.dismiss(None)
